//! Schedulers as scenario files write them.

use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version, Runqueue};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::Span;

/// Who decides which vCPU runs. Absent parameters have the defaults of the version.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind", rename_all = "kebab-case")]
pub enum SchedulerFile {
    /// Xen's credit scheduler.
    Credit(CreditFile),
    /// Xen's credit2 scheduler.
    Credit2(Credit2File),
    /// One vCPU per pCPU, as a control.
    Null(NullFile),
}

/// Has no parameters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NullFile {}

/// Whose credit scheduler.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub enum CreditVersionFile {
    /// As of late 2007, Xen 3.2.
    #[serde(rename = "2007")]
    Xen2007,
    /// Xen 4.8.
    #[serde(rename = "4.8")]
    Xen48,
    /// Xen as of 2026.
    #[serde(rename = "today")]
    Today,
}

/// Parameters of `credit`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreditFile {
    /// Whose rules.
    pub version: CreditVersionFile,
    /// `sched_credit_tslice_ms`: 1ms to 1s.
    pub timeslice: Option<Span>,
    /// `sched_ratelimit_us`: 0us (off) or 100us to 500ms.
    pub ratelimit: Option<Span>,
    /// `vcpu_migration_delay`.
    pub migration_delay: Option<Span>,
    /// Whether a boosted vCPU may preempt another boosted one. Not in Xen.
    pub boost_preempts_boost: Option<bool>,
}

/// Whose credit2 scheduler.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub enum Credit2VersionFile {
    /// Xen 4.8.1.
    #[serde(rename = "4.8.1")]
    Xen481,
    /// Xen 4.10 to 4.20.
    #[serde(rename = "4.10")]
    Xen410,
    /// Xen 4.21.
    #[serde(rename = "4.21")]
    Xen421,
}

/// Which pCPUs share a run queue.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunqueueFile {
    /// Each core by itself.
    Core,
    /// Each socket.
    Socket,
    /// All.
    All,
}

/// Parameters of `credit2`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credit2File {
    /// Whose rules.
    pub version: Credit2VersionFile,
    /// `sched_ratelimit_us`: 0us (off) or 100us to 500ms.
    pub ratelimit: Option<Span>,
    /// `credit2_runqueue`.
    pub runqueue: Option<RunqueueFile>,
    /// `sched_credit2_migrate_resist`.
    pub migrate_resist: Option<Span>,
    /// `credit2_cap_period_ms`.
    pub cap_period: Option<Span>,
}

/// Puts the value of the file, if it has one, in place of the default.
fn put(value: &mut Duration, file: Option<Span>) {
    *value = file.map_or(*value, |span| span.0);
}

impl SchedulerFile {
    /// Its name in files.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            SchedulerFile::Credit(_) => "credit",
            SchedulerFile::Credit2(_) => "credit2",
            SchedulerFile::Null(_) => "null",
        }
    }

    /// The scheduler's configuration; the host checks its numbers.
    pub(crate) fn build(&self) -> SchedulerConfig {
        match self {
            SchedulerFile::Null(_) => SchedulerConfig::Null,
            SchedulerFile::Credit(file) => SchedulerConfig::Credit(file.build()),
            SchedulerFile::Credit2(file) => SchedulerConfig::Credit2(file.build()),
        }
    }
}

impl CreditFile {
    fn build(&self) -> CreditConfig {
        let mut config = CreditConfig::new(match self.version {
            CreditVersionFile::Xen2007 => CreditVersion::Xen2007,
            CreditVersionFile::Xen48 => CreditVersion::Xen48,
            CreditVersionFile::Today => CreditVersion::Today,
        });
        put(&mut config.timeslice, self.timeslice);
        put(&mut config.ratelimit, self.ratelimit);
        put(&mut config.migration_delay, self.migration_delay);
        config.boost_preempts_boost =
            self.boost_preempts_boost.unwrap_or(config.boost_preempts_boost);
        config
    }
}

impl Credit2File {
    fn build(&self) -> Credit2Config {
        let mut config = Credit2Config::new(match self.version {
            Credit2VersionFile::Xen481 => Credit2Version::Xen481,
            Credit2VersionFile::Xen410 => Credit2Version::Xen410,
            Credit2VersionFile::Xen421 => Credit2Version::Xen421,
        });
        put(&mut config.ratelimit, self.ratelimit);
        put(&mut config.migrate_resist, self.migrate_resist);
        put(&mut config.cap_period, self.cap_period);
        if let Some(runqueue) = self.runqueue {
            config.runqueue = match runqueue {
                RunqueueFile::Core => Runqueue::Core,
                RunqueueFile::Socket => Runqueue::Socket,
                RunqueueFile::All => Runqueue::All,
            };
        }
        config
    }
}

/// One line about a scheduler, for reports.
pub fn describe(scheduler: &SchedulerConfig) -> String {
    match scheduler {
        SchedulerConfig::Null => "null".to_string(),
        SchedulerConfig::Credit(config) => {
            let version = match config.version {
                CreditVersion::Xen2007 => "2007",
                CreditVersion::Xen48 => "4.8",
                CreditVersion::Today => "today",
            };
            let boost = if config.boost_preempts_boost { ", boost preempts boost" } else { "" };
            format!(
                "credit {version}, time slice {}, rate limit {}{boost}",
                config.timeslice, config.ratelimit
            )
        }
        SchedulerConfig::Credit2(config) => {
            let version = match config.version {
                Credit2Version::Xen481 => "4.8.1",
                Credit2Version::Xen410 => "4.10 to 4.20",
                Credit2Version::Xen421 => "4.21",
            };
            let runqueue = match config.runqueue {
                Runqueue::Core => "core",
                Runqueue::Socket => "socket",
                Runqueue::All => "host",
            };
            let limit = config.ratelimit;
            format!("credit2 {version}, rate limit {limit}, one run queue per {runqueue}")
        }
    }
}
