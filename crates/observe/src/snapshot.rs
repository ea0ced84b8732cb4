//! What was observed of all VMs in one interval.

use lowtail_out::seconds;
use serde::{Serialize, Serializer};

use super::Histogram;
use lowtail_discover::{Kind, Origin, Role, Tap};
use lowtail_kernel::Name;
use lowtail_trace::Reason;

/// All VMs, over one interval.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// When the interval ended, in milliseconds since 1970 (UTC; JSON: seconds). For people: spans come from a clock that nobody sets.
    #[serde(rename = "timestamp_seconds", serialize_with = "unix_seconds")]
    pub unix_ms: u64,
    /// How long the interval was, in milliseconds (JSON: seconds), by a clock that nobody sets.
    #[serde(rename = "interval_seconds", serialize_with = "seconds::ms")]
    pub interval_ms: f64,
    /// The VMs, in order of name and process.
    pub vms: Vec<VmSnapshot>,
    /// The uplinks by which packets of VMs have left, in order of name.
    pub uplinks: Vec<Uplink>,
    /// What the kernel's side could not keep.
    pub lost: Lost,
    /// What cannot be seen on this host, and why: a word to people.
    pub coverage_gaps: Vec<String>,
    /// Processes could not be read, or a VM that the user names is not there, for a reason that `coverage_gaps` has: there may
    /// be other VMs, and more threads of these.
    pub incomplete: bool,
}

impl Snapshot {
    /// What a sender has sent through the uplink where it has sent most, in bits per second: what leaves by a bond or a VLAN leaves by
    /// the interface below as well.
    pub fn bits_per_second(&self, sender: &Sender) -> f64 {
        let all = self.uplinks.iter().flat_map(|uplink| &uplink.senders);
        let bytes = all.filter(|sent| sent.sender == *sender).map(|sent| sent.bytes).max();
        rate(bytes.unwrap_or(0), self.interval_ms)
    }
}

impl Uplink {
    /// What all have sent, in bits per second.
    pub fn bits_per_second(&self, interval_ms: f64) -> f64 {
        rate(self.transmitted_bytes, interval_ms)
    }
}

impl Network {
    /// What the VM gave to uplinks' queues, in bits per second.
    pub fn bits_per_second(&self, interval_ms: f64) -> f64 {
        rate(self.transmitted_bytes, interval_ms)
    }

    /// What its back end took from its taps that is of this sender, in bits per second.
    pub fn received_bits_per_second_of(&self, sender: &Sender, interval_ms: f64) -> f64 {
        let bytes = self.received_senders.iter().find(|sent| sent.sender == *sender);
        rate(bytes.map_or(0, |sent| sent.bytes), interval_ms)
    }
}

/// Bits per second.
fn rate(bytes: u64, interval_ms: f64) -> f64 {
    8e3 * bytes as f64 / interval_ms.max(1.0)
}

/// A VM, over one interval.
#[derive(Clone, Debug, Serialize)]
pub struct VmSnapshot {
    /// Its name.
    pub name: Name,
    /// Who runs it.
    pub kind: Kind,
    /// How it is known that it is a VM, and who has named it.
    #[serde(flatten)]
    pub origin: Origin,
    /// Its process; with `started_ticks` unique. Of a Xen's domain its number.
    pub pid: u32,
    /// When that process started, in clock ticks since boot. Of a Xen's domain 0.
    pub started_ticks: u64,
    /// It ended within the interval; figures are up to then.
    pub ended: bool,
    /// Its threads.
    pub threads: Vec<ThreadSnapshot>,
    /// Limits of run time that have held it up.
    pub throttled: Vec<Throttled>,
    /// Its traffic, if it has interfaces.
    pub network: Option<Network>,
    /// Threads of its that are in no figure.
    pub unseen_threads: Unseen,
}

impl VmSnapshot {
    /// Its vCPUs that are in the figures.
    pub fn vcpus(&self) -> impl Iterator<Item = &ThreadSnapshot> {
        self.threads.iter().filter(|thread| matches!(thread.role, Role::Vcpu(_)))
    }

    /// The part of the time that its vCPUs wanted a CPU in which they had none, 0 to 1; `None` if they wanted none. Of waits
    /// that go beyond the interval it is the part within.
    pub fn ready_ratio(&self) -> Option<f64> {
        let ready_ns: u64 = self.vcpus().map(ThreadSnapshot::ready_ns).sum();
        let wanted_ns = ready_ns + self.vcpus().map(|thread| thread.run_time_ns).sum::<u64>();
        (wanted_ns > 0).then(|| ready_ns as f64 / wanted_ns as f64)
    }

    /// Whether it is not known of all its vCPUs how they are: some did not fit, or nobody can tell which threads they are. Of
    /// a group or process that the user has declared, nobody says that it has vCPUs.
    pub fn is_in_the_dark(&self) -> bool {
        let nameless = self.kind != Kind::Declared && !self.ended && self.vcpus().next().is_none();
        self.unseen_threads.vcpus > 0 || nameless
    }
}

/// Threads for which there was no room. What they do is known as of the last look for VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// vCPUs.
    pub vcpus: u64,
    /// Threads that serve its devices: emulator, I/O threads, vhost.
    pub backend: u64,
    /// All others.
    pub workers: u64,
    /// Threads that found no room when they began, and may be seen later, since the last interval.
    pub started: u64,
}

impl Unseen {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        *self != Unseen::default()
    }

    /// All that there were at the last look.
    pub fn all(&self) -> u64 {
        self.vcpus + self.backend + self.workers
    }
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
    /// Run time in the interval, in nanoseconds (JSON: seconds).
    #[serde(rename = "run_time_seconds", serialize_with = "seconds::ns")]
    pub run_time_ns: u64,
    /// Time of the interval in which it was woken and did not run yet, in nanoseconds. Of a wait that goes beyond the
    /// interval it is the part within: run time and both kinds of waiting are never more than the interval.
    #[serde(rename = "ready_after_wakeup_seconds", serialize_with = "seconds::ns")]
    pub ready_after_wakeup_ns: u64,
    /// Time of the interval in which it was preempted and did not run again yet.
    #[serde(rename = "ready_after_preemption_seconds", serialize_with = "seconds::ns")]
    pub ready_after_preemption_ns: u64,
    /// Delays from being woken to running. Waits that end in the interval count, with all their length: their sum is no part of
    /// the interval.
    pub wakeup_latency: Histogram,
    /// The same from being preemption latencyning again.
    pub preemption_latency: Histogram,
    /// For how long it has been waiting when the interval ended; 0 if it is not.
    #[serde(rename = "current_wait_seconds", serialize_with = "seconds::ns")]
    pub current_wait_ns: u64,
    /// Who ran on the CPU that it waited for, by time of the interval that it waited for them, most first: together its
    /// waiting time, but for what passed while it was read.
    pub blame: Vec<Blame>,
}

impl ThreadSnapshot {
    /// Time of the interval in which it wanted a CPU and had none, in nanoseconds.
    pub fn ready_ns(&self) -> u64 {
        self.ready_after_wakeup_ns + self.ready_after_preemption_ns
    }
}

/// For whom a thread has waited.
#[derive(Clone, Debug, Serialize)]
pub struct Blame {
    /// Who ran.
    pub runner: Runner,
    /// For how long the thread was ready while they ran, in nanoseconds (JSON: seconds).
    #[serde(rename = "ready_seconds", serialize_with = "seconds::ns")]
    pub ready_ns: u64,
    /// Why they ran and the thread did not, where the hypervisor's own records say so (Xen).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Who ran instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runner {
    /// A VM: its name, its process.
    Vm(Name, u32),
    /// A process of the host's that is no VM: its name, its number.
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
    /// Which part of the VM: all of it, or a thread's group (`vcpu0`, `emulator`).
    pub group: Name,
    /// Periods in the interval in which it wanted to run.
    pub periods: u64,
    /// Those in which it ran out.
    pub throttled_periods: u64,
    /// For how long it was held up, in all its CPUs together, in nanoseconds.
    #[serde(rename = "throttled_seconds", serialize_with = "seconds::ns")]
    pub throttled_ns: u64,
}

/// A VM's traffic.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Network {
    /// Its interfaces.
    pub taps: Vec<Tap>,
    /// Packets that it sent, as the uplinks' queues saw them (a segment of many frames is one).
    pub transmitted_packets: u64,
    /// Bytes of those.
    pub transmitted_bytes: u64,
    /// Time from being given to an uplink's queue to being given to its driver.
    pub queueing_delay: Histogram,
    /// Packets of its that the host dropped, by why.
    pub drops: Vec<Drop>,
    /// The round trip beyond the uplink, from leaving it to the answer's arrival.
    pub round_trip: Histogram,
    /// Whose bytes left while its packets waited for an uplink.
    pub queue_blame: QueueBlame,
    /// Packets that its back end has taken from its taps. Only taps of the kernel's `tun` driver are counted.
    pub received_packets: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Those of each sender, most first. Their sum is `received_bytes`.
    pub received_senders: Vec<Sent>,
    /// Time from being given to a tap to being taken by the back end: vhost, QEMU, or whoever runs the VM.
    pub receive_queueing_delay: Histogram,
    /// Whose bytes were taken while packets to it waited in its tap.
    pub receive_queue_blame: QueueBlame,
}

/// Whose bytes left a queue while packets of a VM waited there: one packet at a time is followed, and one in each millisecond
/// at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueBlame {
    /// Packets that were followed.
    pub sampled_packets: u64,
    /// How long they waited, together, in nanoseconds (JSON: seconds).
    #[serde(rename = "sampled_delay_seconds", serialize_with = "seconds::ns")]
    pub sampled_delay_ns: u64,
    /// Bytes that left meanwhile, of all senders.
    pub bytes_ahead: u64,
    /// Those of each, most first. Their sum is `bytes_ahead`.
    pub senders: Vec<Sent>,
}

/// What one has sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Who.
    pub sender: Sender,
    /// How many bytes, as the uplink's driver was given them, or as they were taken from the tap.
    pub bytes: u64,
}

/// Who sends through an uplink, or to a VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// A VM: its name, its process.
    Vm(Name, u32),
    /// Processes of the host's: the control group in which their sockets were made.
    Group(Name),
    /// Others, whose packets this host forwards: the interface by which they come in.
    Interface(Name),
    /// The host's kernel, or processes in the topmost control group.
    Host,
    /// All whose names are not known, or that did not fit.
    Others,
}

/// An uplink, over one interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uplink {
    /// The interface's name; its number and its namespace, where it is not in ours.
    pub name: Name,
    /// Bytes that its driver was given.
    pub transmitted_bytes: u64,
    /// Those of each sender, most first. Their sum is `transmitted_bytes`.
    pub senders: Vec<Sent>,
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
    /// Threads of VMs that did not fit.
    pub threads: u64,
}

fn unix_seconds<S: Serializer>(unix_ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*unix_ms as f64 / 1e3)
}
