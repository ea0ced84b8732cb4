//! Who filled the uplinks of a recorded host, and whose bytes were ahead of whose packets.

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
    /// The VMs whose packets waited, by name.
    pub vms: Vec<QueueBlame>,
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
            Sender::Group(path) => path.rsplit('/').next().unwrap_or_default().to_owned(),
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
    /// What was ahead of packets of VMs.
    pub ahead: Vec<AheadInterval>,
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

/// Sums of intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueSums {
    span_ns: u64,
    sent: BTreeMap<String, BTreeMap<Sender, u64>>,
    ahead: BTreeMap<String, Ahead>,
}

#[derive(Clone, Debug, Default)]
struct Ahead {
    packets: u64,
    delay_ns: u64,
    bytes: BTreeMap<Sender, u64>,
}

impl QueueSums {
    pub(crate) fn add(&mut self, interval: &QueueInterval) {
        let span_ns = interval.to_ns.saturating_sub(interval.from_ns);
        self.span_ns = self.span_ns.saturating_add(span_ns);
        for (uplink, senders) in &interval.sent {
            let all = self.sent.entry(uplink.clone()).or_default();
            senders.iter().for_each(|(sender, bytes)| add(all, sender, *bytes));
        }
        for of in &interval.ahead {
            let all = self.ahead.entry(of.vm.clone()).or_default();
            all.packets = all.packets.saturating_add(of.packets);
            all.delay_ns = all.delay_ns.saturating_add(of.delay_ns);
            of.bytes.iter().for_each(|(sender, bytes)| add(&mut all.bytes, sender, *bytes));
        }
    }

    /// All of it; `None` if nothing was counted.
    pub(crate) fn all(&self) -> Option<UplinkQueues> {
        if self.span_ns == 0 {
            return None;
        }
        let uplinks = self.sent.iter().map(|(name, senders)| {
            let (transmitted_bytes, senders) = rank(senders);
            let bits_per_second = 8e9 * transmitted_bytes as f64 / self.span_ns as f64;
            UplinkBytes { name: name.clone(), transmitted_bytes, bits_per_second, senders }
        });
        let vms = self.ahead.iter().map(|(vm, ahead)| {
            let (bytes_ahead, senders) = rank(&ahead.bytes);
            QueueBlame {
                vm: vm.clone(),
                sampled_packets: ahead.packets,
                sampled_delay_us: ahead.delay_ns as f64 / 1e3,
                bytes_ahead,
                senders,
            }
        });
        Some(UplinkQueues {
            span_us: self.span_ns as f64 / 1e3,
            uplinks: uplinks.collect(),
            vms: vms.collect(),
        })
    }
}

fn add(all: &mut BTreeMap<Sender, u64>, sender: &Sender, bytes: u64) {
    let of = all.entry(sender.clone()).or_default();
    *of = of.saturating_add(bytes);
}

/// All bytes, and whose they are, most first.
fn rank(all: &BTreeMap<Sender, u64>) -> (u64, Vec<SenderBytes>) {
    let mut senders: Vec<SenderBytes> =
        all.iter().map(|(sender, &bytes)| SenderBytes { sender: sender.clone(), bytes }).collect();
    senders.sort_by_key(|of| std::cmp::Reverse(of.bytes));
    (senders.iter().fold(0u64, |sum, of| sum.saturating_add(of.bytes)), senders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up() {
        let vm = || Sender::Vm("b".to_owned());
        let interval = |from_ns, bytes| QueueInterval {
            from_ns,
            to_ns: from_ns + 500_000_000,
            sent: vec![("eth0".to_owned(), vec![(vm(), bytes), (Sender::Host, 10)])],
            ahead: vec![AheadInterval {
                vm: "a".to_owned(),
                packets: 2,
                delay_ns: 4_000,
                bytes: vec![(vm(), bytes)],
            }],
        };
        let mut sums = QueueSums::default();
        assert_eq!(sums.all(), None);
        sums.add(&interval(0, 100));
        sums.add(&interval(500_000_000, 300));
        let all = sums.all().unwrap();
        assert_eq!((all.span_us, all.uplinks[0].transmitted_bytes), (1e6, 420));
        assert_eq!(all.uplinks[0].bits_per_second, 8.0 * 420.0);
        assert_eq!(all.uplinks[0].senders[0], SenderBytes { sender: vm(), bytes: 400 });
        assert_eq!((all.vms[0].sampled_packets, all.vms[0].bytes_ahead), (4, 400));
    }
}
