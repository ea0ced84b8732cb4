//! Schedulers as scenario files write them.

use lowtail_config_text::small_first_keys;
use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version, Runqueue};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::{SmallFirstConfig, WeightPer};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, hint};
use crate::value::DurationText;

/// Who decides which vCPU runs. Absent parameters have the defaults of the version.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind", rename_all = "kebab-case")]
pub enum SchedulerFile {
    /// Xen's credit scheduler.
    Credit(CreditFile),
    /// Xen's credit2 scheduler.
    Credit2(Credit2File),
    /// The fair class of Linux up to 6.5, with control groups.
    Cfs(CfsFile),
    /// The fair class of Linux since 6.6, with control groups.
    Eevdf(EevdfFile),
    /// One vCPU per pCPU, as a control.
    Null(NullFile),
    /// lowtail's own rule.
    SmallFirst(SmallFirstFile),
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
    pub timeslice: Option<DurationText>,
    /// `sched_ratelimit_us`: 0us (off) or 100us to 500ms.
    pub ratelimit: Option<DurationText>,
    /// `vcpu_migration_delay`.
    pub migration_delay: Option<DurationText>,
    /// Whether a boosted vCPU may preempt another boosted one. Not in Xen.
    pub boost_preempts_boost: Option<bool>,
    /// Whether a vCPU that wakes is boosted; default true.
    pub boost: Option<bool>,
    /// Whether the queue is ordered by remaining credits within a priority; not in Xen.
    pub sort_by_credit: Option<bool>,
    /// Whether who is preempted is kicked away although no pCPU is idle for it, and boosted when
    /// it is back: a mistake of Xen before 4.7 (f02a5760c7); default false.
    pub kick_away_boosts: Option<bool>,
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
    pub ratelimit: Option<DurationText>,
    /// `credit2_runqueue`.
    pub runqueue: Option<RunqueueFile>,
    /// `sched_credit2_migrate_resist`.
    pub migrate_resist: Option<DurationText>,
    /// `credit2_cap_period_ms`.
    pub cap_period: Option<DurationText>,
}

/// Whose CFS.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub enum CfsVersionFile {
    /// Linux 2.6.39 with the patches of 2011 for bandwidth limits.
    #[serde(rename = "2.6.39")]
    Linux2639,
    /// Linux 4.18.
    #[serde(rename = "4.18")]
    Linux418,
    /// Linux 5.4.
    #[serde(rename = "5.4")]
    Linux54,
}

/// Whose EEVDF.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub enum EevdfVersionFile {
    /// Linux 6.6.
    #[serde(rename = "6.6")]
    Linux66,
    /// Linux 6.12.
    #[serde(rename = "6.12")]
    Linux612,
}

/// Parameters of `cfs`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CfsFile {
    /// Whose rules.
    pub version: CfsVersionFile,
    /// Ticks per second, `CONFIG_HZ`; default 250, of 2.6.39 1000.
    #[schemars(range(min = 100, max = 1000))]
    pub hz: Option<u32>,
    /// `sched_latency_ns` before it is scaled by the number of pCPUs, as the next two.
    pub latency: Option<DurationText>,
    /// `sched_min_granularity_ns`.
    pub min_granularity: Option<DurationText>,
    /// `sched_wakeup_granularity_ns`.
    pub wakeup_granularity: Option<DurationText>,
    /// `sched_cfs_bandwidth_slice_us`: run time that a pCPU fetches at a time.
    pub bandwidth_slice: Option<DurationText>,
    /// Whether run time that was fetched and not used is lost with the period; default true up
    /// to 4.18.
    pub expire_slices: Option<bool>,
    /// Whether a pCPU that throttling leaves idle looks for work at once; default false for
    /// 2.6.39.
    pub balance_on_throttle: Option<bool>,
    /// Whether ticks of busy pCPUs bring work to idle ones; default false for 2.6.39.
    pub balance_idle: Option<bool>,
    /// Whether the periods of all groups begin and end together; default true.
    pub periods_in_step: Option<bool>,
}

/// Parameters of `eevdf`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EevdfFile {
    /// Whose rules.
    pub version: EevdfVersionFile,
    /// Ticks per second, `CONFIG_HZ`; default 250.
    #[schemars(range(min = 100, max = 1000))]
    pub hz: Option<u32>,
    /// `base_slice_ns` before it is scaled by the number of pCPUs.
    pub base_slice: Option<DurationText>,
    /// `sched_cfs_bandwidth_slice_us`: run time that a pCPU fetches at a time.
    pub bandwidth_slice: Option<DurationText>,
    /// `RUN_TO_PARITY`: whether who runs is left alone for its slice or while it is owed
    /// something; default true.
    pub run_to_parity: Option<bool>,
    /// `DELAY_DEQUEUE`: whether who sleeps in debt stays in the queue until it is paid; default
    /// true for 6.12.
    pub delay_dequeue: Option<bool>,
    /// `PREEMPT_SHORT`: whether a shorter slice interrupts; default true for 6.12.
    pub preempt_short: Option<bool>,
    /// Whether run time that was fetched and not used is lost with the period; default false.
    pub expire_slices: Option<bool>,
    /// Whether a pCPU that throttling leaves idle looks for work at once; default true.
    pub balance_on_throttle: Option<bool>,
    /// Whether ticks of busy pCPUs bring work to idle ones; default true.
    pub balance_idle: Option<bool>,
    /// Whether the periods of all groups begin and end together, as before 6.3; default false.
    pub periods_in_step: Option<bool>,
}

/// What a VM's weight is for.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WeightPerFile {
    /// The VM as a whole, as libvirt's shares.
    #[default]
    Vm,
    /// Each of its vCPUs, as under Xen's schedulers.
    Vcpu,
}

small_first_keys! {
    cpu: "pCPU";
    /// Parameters of `small-first`; `policy/vcpu.h` says what each means and why its default is what
    /// it is.
    #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct SmallFirstFile {
        /// What a VM's weight is for.
        #[serde(default)]
        pub weight_per: WeightPerFile,
    }
}

/// Schedulers of hypervisors by name, and how scenario files write them: what can be attacked.
pub(crate) const HYPERVISORS: &[(&str, &str)] = &[
    ("credit-2007", r#"kind = "credit", version = "2007""#),
    ("credit-4.8", r#"kind = "credit", version = "4.8""#),
    ("credit-today", r#"kind = "credit", version = "today""#),
    ("credit2-4.8.1", r#"kind = "credit2", version = "4.8.1""#),
    ("credit2-4.10", r#"kind = "credit2", version = "4.10""#),
    ("credit2-4.21", r#"kind = "credit2", version = "4.21""#),
    ("small-first", r#"kind = "small-first""#),
];

/// The same for Linux'.
const LINUX: &[(&str, &str)] = &[
    ("cfs-2.6.39", r#"kind = "cfs", version = "2.6.39""#),
    ("cfs-4.18", r#"kind = "cfs", version = "4.18""#),
    ("cfs-5.4", r#"kind = "cfs", version = "5.4""#),
    ("eevdf-6.6", r#"kind = "eevdf", version = "6.6""#),
    ("eevdf-6.12", r#"kind = "eevdf", version = "6.12""#),
];

/// Those of `among` that are called `wanted`, or are of that kind.
///
/// # Errors
/// If there is none.
pub(crate) fn named(
    wanted: &str,
    among: &[(&'static str, &'static str)],
) -> Result<Vec<(&'static str, &'static str)>, Error> {
    let fits = |name: &str| {
        let rest = name.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let chosen: Vec<_> = among.iter().filter(|(name, _)| fits(name)).copied().collect();
    if chosen.is_empty() {
        let hint = hint(wanted, among.iter().map(|(name, _)| *name));
        return Err(Error::NoSuchScheduler { name: wanted.to_string(), hint });
    }
    Ok(chosen)
}

/// The scheduler called `name`, or the newest of that kind, as a scenario writes it.
///
/// # Errors
/// If there is none.
pub(crate) fn newest(name: &str) -> Result<&'static str, Error> {
    let all = [LINUX, HYPERVISORS].concat();
    Ok(named(name, &all)?.last().map_or("", |(_, toml)| *toml))
}

/// Puts the value of the file, if it has one, in place of the default.
fn put(value: &mut Duration, file: Option<DurationText>) {
    *value = file.map_or(*value, |span| span.0);
}

impl SchedulerFile {
    /// Its name in files.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            SchedulerFile::Credit(_) => "credit",
            SchedulerFile::Credit2(_) => "credit2",
            SchedulerFile::Cfs(_) => "cfs",
            SchedulerFile::Eevdf(_) => "eevdf",
            SchedulerFile::Null(_) => "null",
            SchedulerFile::SmallFirst(_) => "small-first",
        }
    }

    /// The scheduler's configuration; the host checks its numbers.
    pub(crate) fn build(&self) -> SchedulerConfig {
        match self {
            SchedulerFile::Null(_) => SchedulerConfig::Null,
            SchedulerFile::SmallFirst(file) => SchedulerConfig::SmallFirst(file.build()),
            SchedulerFile::Credit(file) => SchedulerConfig::Credit(file.build()),
            SchedulerFile::Credit2(file) => SchedulerConfig::Credit2(file.build()),
            SchedulerFile::Cfs(file) => SchedulerConfig::Fair(file.build()),
            SchedulerFile::Eevdf(file) => SchedulerConfig::Fair(file.build()),
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
        config.boost = self.boost.unwrap_or(config.boost);
        config.sort_by_credit = self.sort_by_credit.unwrap_or(config.sort_by_credit);
        config.kick_away_boosts = self.kick_away_boosts.unwrap_or(config.kick_away_boosts);
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

impl CfsFile {
    fn build(&self) -> FairConfig {
        let mut config = FairConfig::new(match self.version {
            CfsVersionFile::Linux2639 => FairVersion::Linux2639,
            CfsVersionFile::Linux418 => FairVersion::Linux418,
            CfsVersionFile::Linux54 => FairVersion::Linux54,
        });
        config.hz = self.hz.unwrap_or(config.hz);
        put(&mut config.latency, self.latency);
        put(&mut config.min_granularity, self.min_granularity);
        put(&mut config.wakeup_granularity, self.wakeup_granularity);
        put(&mut config.bandwidth_slice, self.bandwidth_slice);
        config.expire_slices = self.expire_slices.unwrap_or(config.expire_slices);
        config.balance_on_throttle = self.balance_on_throttle.unwrap_or(config.balance_on_throttle);
        config.balance_idle = self.balance_idle.unwrap_or(config.balance_idle);
        config.periods_in_step = self.periods_in_step.unwrap_or(config.periods_in_step);
        config
    }
}

impl EevdfFile {
    fn build(&self) -> FairConfig {
        let mut config = FairConfig::new(match self.version {
            EevdfVersionFile::Linux66 => FairVersion::Linux66,
            EevdfVersionFile::Linux612 => FairVersion::Linux612,
        });
        config.hz = self.hz.unwrap_or(config.hz);
        put(&mut config.base_slice, self.base_slice);
        put(&mut config.bandwidth_slice, self.bandwidth_slice);
        config.run_to_parity = self.run_to_parity.unwrap_or(config.run_to_parity);
        config.delay_dequeue = self.delay_dequeue.unwrap_or(config.delay_dequeue);
        config.preempt_short = self.preempt_short.unwrap_or(config.preempt_short);
        config.expire_slices = self.expire_slices.unwrap_or(config.expire_slices);
        config.balance_on_throttle = self.balance_on_throttle.unwrap_or(config.balance_on_throttle);
        config.balance_idle = self.balance_idle.unwrap_or(config.balance_idle);
        config.periods_in_step = self.periods_in_step.unwrap_or(config.periods_in_step);
        config
    }
}

impl SmallFirstFile {
    fn build(&self) -> SmallFirstConfig {
        let weight_per = match self.weight_per {
            WeightPerFile::Vm => WeightPer::Vm,
            WeightPerFile::Vcpu => WeightPer::Vcpu,
        };
        SmallFirstConfig { params: self.params(), weight_per }
    }
}

/// One line about Linux' fair class: its version and tunables, and what is not as there.
fn describe_fair(config: &FairConfig) -> String {
    let usual = FairConfig::new(config.version);
    let version = match config.version {
        FairVersion::Linux2639 => "CFS of Linux 2.6.39",
        FairVersion::Linux418 => "CFS of Linux 4.18",
        FairVersion::Linux54 => "CFS of Linux 5.4",
        FairVersion::Linux66 => "EEVDF of Linux 6.6",
        FairVersion::Linux612 => "EEVDF of Linux 6.12",
    };
    let turn = match config.version.is_eevdf() {
        true => format!("base slice {}", config.base_slice),
        false => format!("latency {}", config.latency),
    };
    let mut line = format!("{version}, HZ {}, {turn}, before scaling", config.hz);
    if config.bandwidth_slice != usual.bandwidth_slice {
        line += &format!(", bandwidth slice {}", config.bandwidth_slice);
    }
    for (what, is, was) in [
        ("run to parity", config.run_to_parity, usual.run_to_parity),
        ("delayed dequeue", config.delay_dequeue, usual.delay_dequeue),
        ("short slices interrupt", config.preempt_short, usual.preempt_short),
        ("slices expire", config.expire_slices, usual.expire_slices),
        ("balancing on throttling", config.balance_on_throttle, usual.balance_on_throttle),
        ("balancing for idle pCPUs", config.balance_idle, usual.balance_idle),
        ("periods in step", config.periods_in_step, usual.periods_in_step),
    ] {
        if is != was {
            line += &format!(", {what}: {}", if is { "yes" } else { "no" });
        }
    }
    line
}

/// One line about a scheduler, for reports.
pub fn describe(scheduler: &SchedulerConfig) -> String {
    match scheduler {
        SchedulerConfig::Null => "null".to_string(),
        SchedulerConfig::Fair(config) => describe_fair(config),
        SchedulerConfig::SmallFirst(config) => {
            let ns = |ns: u32| Duration::from_ns(u64::from(ns));
            let weight = match config.weight_per {
                WeightPer::Vm => "",
                WeightPer::Vcpu => ", weight per vCPU",
            };
            format!(
                "small-first, burst {}, slice {}, a preemption per {}{weight}",
                ns(config.params.burst_ns),
                ns(config.params.slice_ns),
                ns(config.params.preempt_ns)
            )
        }
        SchedulerConfig::Credit(config) => {
            let version = match config.version {
                CreditVersion::Xen2007 => "2007",
                CreditVersion::Xen48 => "4.8",
                CreditVersion::Today => "today",
            };
            let boost = match (config.boost, config.boost_preempts_boost) {
                (false, _) => ", no boost",
                (true, true) => ", boost preempts boost",
                (true, false) => "",
            };
            let sorted = if config.sort_by_credit { ", sorted by credit" } else { "" };
            let kicked = if config.kick_away_boosts { ", who is kicked is boosted" } else { "" };
            format!(
                "credit {version}, time slice {}, rate limit {}{boost}{sorted}{kicked}",
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
