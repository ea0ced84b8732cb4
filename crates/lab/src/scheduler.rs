//! Schedulers as scenario files write them.

use lowtail_config_text::small_first_keys;
use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::sched::credit::{CreditKeys, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Keys, Credit2Version, RunqueueScope};
use lowtail_host::sched::fair::{CfsKeys, EevdfKeys, FairConfig, FairVersion};
use lowtail_host::sched::small_first::{SmallFirstConfig, WeightPer};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, hint};

/// Who decides which vCPU runs. Absent parameters have the defaults of the version.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind", rename_all = "kebab-case")]
pub enum SchedulerFile {
    /// Xen's credit scheduler.
    Credit(CreditKeys),
    /// Xen's credit2 scheduler.
    Credit2(Credit2Keys),
    /// The fair class of Linux up to 6.5, with control groups.
    Cfs(CfsKeys),
    /// The fair class of Linux since 6.6, with control groups.
    Eevdf(EevdfKeys),
    /// One vCPU per pCPU, as a control.
    Null(NullFile),
    /// lowtail's own rule.
    SmallFirst(SmallFirstFile),
}

/// Has no parameters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NullFile {}

small_first_keys! {
    cpu: "pCPU";
    /// Parameters of `small-first`; `policy/vcpu.h` says what each means and why its default is what
    /// it is.
    #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct SmallFirstFile {
        /// What a VM's weight is for.
        #[serde(default)]
        pub weight_per: WeightPer,
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
    ("eevdf-6.18", r#"kind = "eevdf", version = "6.18""#),
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

    /// Names of its parameters in files.
    pub(crate) fn keys(&self) -> &'static [&'static str] {
        match self {
            SchedulerFile::Credit(_) => CreditKeys::NAMES,
            SchedulerFile::Credit2(_) => Credit2Keys::NAMES,
            SchedulerFile::Cfs(_) => CfsKeys::NAMES,
            SchedulerFile::Eevdf(_) => EevdfKeys::NAMES,
            SchedulerFile::Null(_) => &[],
            SchedulerFile::SmallFirst(_) => SmallFirstFile::NAMES,
        }
    }

    /// The scheduler's configuration; the host checks its numbers.
    pub(crate) fn build(&self) -> SchedulerConfig {
        match self {
            SchedulerFile::Null(_) => SchedulerConfig::Null,
            SchedulerFile::SmallFirst(file) => SchedulerConfig::SmallFirst(file.build()),
            SchedulerFile::Credit(file) => SchedulerConfig::Credit(file.config()),
            SchedulerFile::Credit2(file) => SchedulerConfig::Credit2(file.config()),
            SchedulerFile::Cfs(file) => SchedulerConfig::Fair(file.config()),
            SchedulerFile::Eevdf(file) => SchedulerConfig::Fair(file.config()),
        }
    }
}

impl SmallFirstFile {
    fn build(&self) -> SmallFirstConfig {
        SmallFirstConfig { params: self.params(), weight_per: self.weight_per }
    }
}

/// One line about Linux' fair class: its version and tunables, and what is not as there.
fn describe_fair(config: &FairConfig) -> String {
    let usual = FairConfig::new(config.version);
    let version = match config.version {
        FairVersion::Linux2639 => "CFS of Linux 2.6.39",
        FairVersion::Linux418 => "CFS of Linux 4.18",
        FairVersion::Linux54 => "CFS of Linux 5.4",
        FairVersion::Linux61 => "CFS of Linux 6.1",
        FairVersion::Linux66 => "EEVDF of Linux 6.6",
        FairVersion::Linux612 => "EEVDF of Linux 6.12",
        FairVersion::Linux618 => "EEVDF of Linux 6.18",
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
                CreditVersion::Mended => "mended",
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
                Credit2Version::Mended => "mended",
            };
            let runqueue = match config.runqueue {
                RunqueueScope::Core => "core",
                RunqueueScope::Socket => "socket",
                RunqueueScope::All => "host",
            };
            let limit = config.ratelimit;
            format!("credit2 {version}, rate limit {limit}, one run queue per {runqueue}")
        }
    }
}
