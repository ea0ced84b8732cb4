//! What was observed of all machines in one interval.

use serde::Serialize;

use super::Histogram;
use crate::discover::{Kind, Name, Origin, Role, Tap};

/// All machines, over one interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// When the interval ended, in milliseconds since 1970 (UTC). For people: spans are taken from a clock that nobody sets.
    pub unix_ms: u64,
    /// How long the interval was, in milliseconds, by a clock that nobody sets.
    pub interval_ms: f64,
    /// The machines, in order of name and process.
    pub vms: Vec<VmSnapshot>,
    /// What the kernel's side could not keep.
    pub lost: Lost,
    /// What cannot be seen on this host, and why: a word to people.
    pub blind: Vec<String>,
}

/// A machine, over one interval.
#[derive(Clone, Debug, Serialize)]
pub struct VmSnapshot {
    /// Its name.
    pub name: Name,
    /// Who runs it.
    pub kind: Kind,
    /// How it is known that it is a machine, and who has named it.
    #[serde(flatten)]
    pub origin: Origin,
    /// Its process; with `started_ticks` unique.
    pub pid: u32,
    /// When that process started, in clock ticks since boot.
    pub started_ticks: u64,
    /// It ended within the interval; figures are up to then.
    pub ended: bool,
    /// Its threads.
    pub threads: Vec<ThreadSnapshot>,
    /// Limits of run time that have held it up.
    pub throttled: Vec<Throttled>,
    /// Its traffic, if it has interfaces.
    pub network: Option<Network>,
}

/// A thread, over one interval.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadSnapshot {
    /// Its number.
    pub tid: u32,
    /// What it does.
    #[serde(flatten)]
    pub role: Role,
    /// Its name for itself.
    pub comm: Name,
    /// Run time in the interval.
    pub cpu_ns: u64,
    /// From being woken to running. Waits that end in the interval count, with all their length.
    pub wake_to_run: Histogram,
    /// From being preempted to running again.
    pub preempted_to_run: Histogram,
    /// For how long it has been waiting when the interval ended; 0 if it is not.
    pub waiting_ns: u64,
    /// Who ran on the CPU that it waited for, by time that it waited for them, most first.
    pub blame: Vec<Blame>,
}

/// For whom a thread has waited.
#[derive(Clone, Debug, Serialize)]
pub struct Blame {
    /// Who ran.
    pub who: Who,
    /// For how long the thread waited while they ran.
    pub waited_ns: u64,
}

/// Who ran instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// A machine: its name, its process.
    Vm(Name, u32),
    /// A process of the host's that is no machine: its name, its number.
    Process(Name, u32),
    /// A thread of the kernel's.
    Kernel(Name),
    /// Nobody: the CPU was idle, and the thread on its way to it.
    Idle,
    /// Nobody that was let: the thread's own group was out of run time (its quota).
    Quota,
    /// All whose names are no longer known, or that did not fit.
    Others,
}

/// A control group that was held up by its quota.
#[derive(Clone, Debug, Serialize)]
pub struct Throttled {
    /// Which part of the machine: all of it, or a thread's group (`vcpu0`, `emulator`).
    pub group: Name,
    /// Periods in the interval in which it wanted to run.
    pub periods: u64,
    /// Those in which it ran out.
    pub throttled_periods: u64,
    /// For how long it was held up, in all its CPUs together.
    pub throttled_ns: u64,
}

/// A machine's traffic.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Network {
    /// Its interfaces.
    pub taps: Vec<Tap>,
    /// Packets that it sent, as the uplinks' queues saw them (a segment of many frames is one).
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Time from being given to an uplink's queue to being given to its driver.
    pub queue: Histogram,
    /// Packets of its that the host dropped, by why.
    pub drops: Vec<Drop>,
    /// The round trip beyond the uplink, from leaving it to the answer's arrival.
    pub beyond: Histogram,
}

/// Packets that were dropped for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drop {
    /// The kernel's name for it, such as `QDISC_DROP`, or its number.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// What the programs in the kernel had no room for. With all at 0 the figures are complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Waits whose beginning or end the kernel did not tell, or was not kept.
    pub waits: u64,
    /// Waits that are in the histograms, but not in the blame.
    pub blame: u64,
    /// Packets whose way was not followed.
    pub packets: u64,
    /// Threads of machines that did not fit.
    pub threads: u64,
}
