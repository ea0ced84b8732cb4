//! Who filled the uplinks and taps of a recorded host, and whose bytes were ahead of whose packets.

use std::collections::BTreeMap;

use lowtail_out::seconds;
use serde::Serialize;

/// What uplinks sent over a recording, and whose bytes left while packets of VMs waited there.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UplinkQueues {
    /// The time over which it was counted, in microseconds.
    #[serde(rename = "span_seconds", serialize_with = "seconds::us")]
    pub span_us: f64,
    /// The uplinks, by name.
    pub uplinks: Vec<UplinkBytes>,
    /// The VMs whose packets waited for an uplink, by name.
    pub vms: Vec<QueueBlame>,
    /// The VMs to which packets waited in their taps, by name.
    pub receivers: Vec<QueueBlame>,
}

/// An uplink.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UplinkBytes {
    /// Its name.
    pub name: String,
    /// What it sent.
    pub transmitted_bytes: u64,
    /// The same in bits per second.
    pub bits_per_second: f64,
    /// Whose that was, most first.
    pub senders: Vec<SenderBytes>,
}

/// What was ahead of a VM's packets: of a sample of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueBlame {
    /// The VM.
    pub vm: String,
    /// Packets that were followed.
    pub sampled_packets: u64,
    /// How long they waited, together, in microseconds.
    #[serde(rename = "sampled_delay_seconds", serialize_with = "seconds::us")]
    pub sampled_delay_us: f64,
    /// Bytes that left meanwhile.
    pub bytes_ahead: u64,
    /// Whose those were, most first.
    pub senders: Vec<SenderBytes>,
}

/// Bytes of one sender.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SenderBytes {
    /// Who.
    pub sender: Sender,
    /// How many.
    pub bytes: u64,
}

/// Who sends through an uplink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// A VM.
    Vm(String),
    /// A control group of the host's processes.
    Group(String),
    /// Others, whose packets the host forwards: the interface by which they come in.
    Interface(String),
    /// The host's kernel.
    Host,
    /// All who are not known.
    Others,
}

impl Sender {
    /// In a word; names are as their owners have chosen them.
    pub fn word(&self) -> String {
        match self {
            Sender::Vm(name) => name.clone(),
            // Whoever makes one may call it as a VM is called.
            Sender::Group(path) => {
                format!("cgroup {}", path.rsplit('/').next().unwrap_or_default())
            }
            Sender::Interface(name) => format!("from {name}"),
            Sender::Host => "host".to_owned(),
            Sender::Others => "others".to_owned(),
        }
    }
}

/// What a recording says of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueInterval {
    /// When it began.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Bytes that each uplink sent, by sender.
    pub sent: Vec<(String, Vec<(Sender, u64)>)>,
    /// What was ahead of packets of VMs at uplinks.
    pub ahead: Vec<AheadInterval>,
    /// What was ahead of packets to VMs in their taps.
    pub ahead_at_taps: Vec<AheadInterval>,
}

/// What was ahead of a VM's packets in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AheadInterval {
    /// The VM.
    pub vm: String,
    /// Packets that were followed, and how long they waited, together.
    pub packets: u64,
    /// In nanoseconds.
    pub delay_ns: u64,
    /// Bytes that left meanwhile, by sender.
    pub bytes: Vec<(Sender, u64)>,
}

/// All bytes, and whose they are, most first.
pub(crate) fn rank(all: BTreeMap<Sender, u64>) -> (u64, Vec<SenderBytes>) {
    let mut senders: Vec<SenderBytes> =
        all.into_iter().map(|(sender, bytes)| SenderBytes { sender, bytes }).collect();
    senders.sort_by_key(|of| std::cmp::Reverse(of.bytes));
    (senders.iter().fold(0u64, |sum, of| sum.saturating_add(of.bytes)), senders)
}
