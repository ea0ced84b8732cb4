//! Parameters of a driver domain.

use lowtail_config_text::{DurationText, KeyError, field};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::guest::kernel::Softirqs;
use crate::io::lock::GrantLock;

/// Who does the work of the back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// One pair of tasklets for all interfaces (netback until 2010).
    Tasklet,
    /// Several pairs, each with its interfaces (2009 and 2010).
    Tasklets,
    /// A thread of the kernel on each vCPU (`netback_kthread`, 2010).
    Threads,
    /// For each queue of each interface a poll (what guests send) and a thread (what they
    /// receive), since Linux 3.11.
    Napi,
    /// A thread on each vCPU that serves small interfaces first and large ones by bytes, in
    /// small portions, and polls the NICs by the same rule.
    SmallFirst,
}

/// To which vCPUs of the driver domain events are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Interrupts {
    /// All to the first one: what happens if nobody cares.
    Fixed,
    /// In turn: pinned by hand, or balanced.
    #[default]
    Spread,
    /// Where there is least load, looked at every ten seconds (`irqbalance`).
    Balanced,
}

/// Parameters of a `driver-domain`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverConfig {
    /// Who does the work of the back end.
    pub backend: Backend,
    /// Pairs of tasklets with `tasklets`; one for each vCPU if absent.
    #[schemars(range(min = 1, max = 1024))]
    pub groups: Option<u16>,
    /// To which vCPUs events are bound.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// What excludes grant operations from one another.
    #[serde(default)]
    pub grant_lock: GrantLock,
    /// Whether only who listens is notified; else everybody, each time.
    #[serde(default = "yes")]
    pub suppress: bool,
    /// Packets that wait for an interface without buffers; beyond they are lost.
    #[serde(default = "thirty_two")]
    #[schemars(range(min = 1, max = 65535))]
    pub queue_packets: u16,
    /// When its kernel runs softirqs.
    #[serde(default)]
    pub softirqs: Softirqs,
    /// Processes.
    #[serde(default)]
    pub processes: Vec<Process>,
}

fn yes() -> bool {
    true
}

fn thirty_two() -> u16 {
    32
}

/// A process of a driver domain: sleeps and works in turn, or computes for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// How long it sleeps; without it, it computes for ever. From waking to running is measured.
    #[serde(default, deserialize_with = "field::optional_duration")]
    #[schemars(with = "Option<DurationText>")]
    pub sleep: Option<Duration>,
    /// Work after each sleep, 100 us if absent.
    #[serde(default, deserialize_with = "field::optional_duration")]
    #[schemars(with = "Option<DurationText>")]
    pub work: Option<Duration>,
}

impl DriverConfig {
    /// `backend` without locks, drops late, interrupts spread, no processes.
    pub fn new(backend: Backend) -> Self {
        DriverConfig {
            backend,
            groups: None,
            interrupts: Interrupts::default(),
            grant_lock: GrantLock::default(),
            suppress: yes(),
            queue_packets: thirty_two(),
            softirqs: Softirqs::default(),
            processes: Vec::new(),
        }
    }

    /// Refuses parameters that contradict each other, or with which nothing works.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        if self.groups.is_some() && self.backend != Backend::Tasklets {
            return Err(KeyError::new("groups", "only `tasklets` come in groups"));
        }
        if self.groups == Some(0) || self.groups > Some(1024) {
            return Err(KeyError::new("groups", "1 to 1024 groups"));
        }
        if self.queue_packets == 0 {
            return Err(KeyError::new("queue_packets", "a queue for no packets: at least 1"));
        }
        for (i, process) in self.processes.iter().enumerate() {
            process.check().map_err(|bad| bad.under(&["processes", &i.to_string()]))?;
        }
        Ok(())
    }

    /// Whether it has processes that sleep, whose delays are measured.
    pub fn measures(&self) -> bool {
        self.processes.iter().any(|process| process.sleep.is_some())
    }
}

impl Process {
    /// Computes for ever.
    pub const LOOP: Process = Process { sleep: None, work: None };

    /// Sleeps for `sleep`, wakes, does `work`, over and over.
    pub fn sleeper(sleep: Duration, work: Duration) -> Self {
        Process { sleep: Some(sleep), work: Some(work) }
    }

    /// What it does at a time.
    pub(super) fn work(&self) -> Duration {
        match (self.sleep, self.work) {
            (None, _) => Duration::MAX,
            (Some(_), work) => work.unwrap_or(Duration::from_us(100)),
        }
    }

    fn check(&self) -> Result<(), KeyError> {
        match (self.sleep, self.work) {
            (None, Some(_)) => Err(KeyError::new(
                "work",
                "work after what? give `sleep`, or neither to compute for ever",
            )),
            (Some(sleep), _)
                if sleep < Duration::from_us(10) || self.work() < Duration::from_ns(100) =>
            {
                Err(KeyError::new("sleep", "sleep at least 10us, work at least 100ns"))
            }
            _ => Ok(()),
        }
    }
}
