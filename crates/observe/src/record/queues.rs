//! Who fills the queues of uplinks and taps while a schedule is recorded.

use std::collections::{BTreeMap, VecDeque};

use lowtail_discover::Vm;
use lowtail_kernel::{Error, Roots};
use lowtail_trace::{AheadInterval, QueueInterval, Sender as TraceSender};

use crate::traffic::Traffic;
use crate::vm_key::VmKey;
use crate::{Network, QueueBlame, Sender, Sent};

/// From one look to the next: as long as a queue takes to matter, and short enough to tell bursts apart.
pub(super) const INTERVAL_NS: u64 = 200_000_000;
/// Intervals that are remembered for a wait that is too long: two minutes; ...
const REMEMBERED_MAX: usize = 600;
/// ... and pairs of who waits and who sends in them, some 100 bytes each.
const PAIRS_MAX: usize = 200_000;
/// Senders that are told for one VM; the others are put together.
const SENDERS_MAX: usize = 32;

/// Looks at the uplinks, interval by interval.
#[derive(Debug)]
pub(super) struct Queues {
    /// Why there is none is told.
    traffic: Result<Traffic, String>,
    looked_ns: u64,
    remembered: VecDeque<QueueInterval>,
    pairs: usize,
}

impl Queues {
    pub(super) fn start(wanted: bool, roots: &Roots, now_ns: u64) -> Self {
        let traffic = match wanted {
            true => Traffic::start(Vec::new(), roots.clone()).map_err(|error| error.to_string()),
            false => Err(String::new()),
        };
        Queues { traffic, looked_ns: now_ns, remembered: VecDeque::new(), pairs: 0 }
    }

    /// Why uplinks are not in the recording, if that is not what was asked for.
    pub(super) fn trouble(&self) -> Option<String> {
        let why = self.traffic.as_ref().err().filter(|why| !why.is_empty());
        why.map(|why| format!("who fills the uplinks is not recorded: {why}"))
    }

    /// These are the VMs now.
    pub(super) fn follow(&mut self, vms: &BTreeMap<VmKey, Vm>) -> Result<(), Error> {
        self.traffic.as_mut().map_or(Ok(()), |traffic| traffic.follow(vms))
    }

    /// What has come since the last look, if that is `least_ns` ago.
    pub(super) fn look(
        &mut self,
        vms: &BTreeMap<VmKey, Vm>,
        now_ns: u64,
        least_ns: u64,
    ) -> Result<Option<QueueInterval>, Error> {
        let Ok(traffic) = &mut self.traffic else { return Ok(None) };
        if now_ns.saturating_sub(self.looked_ns) < least_ns {
            return Ok(None);
        }
        let (networks, uplinks) = traffic.read(vms)?;
        let from_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        let sent = uplinks.iter().map(|uplink| {
            (uplink.name.as_given().to_owned(), uplink.senders.iter().map(bytes).collect())
        });
        let ahead = |blame: fn(&Network) -> &QueueBlame| {
            let of = |(vm, network)| ahead(vms.get(vm)?, blame(network));
            networks.iter().filter_map(of).collect()
        };
        Ok(Some(QueueInterval {
            from_ns,
            to_ns: now_ns,
            sent: sent.collect(),
            ahead: ahead(|network| &network.queue_blame),
            ahead_at_taps: ahead(|network| &network.receive_queue_blame),
        }))
    }

    /// Forgets what has come before.
    pub(super) fn begin(&mut self, vms: &BTreeMap<VmKey, Vm>, now_ns: u64) -> Result<(), Error> {
        self.look(vms, now_ns, 0).map(|_| ())
    }

    /// As [`Queues::look`]; what has come is remembered.
    pub(super) fn remember(&mut self, vms: &BTreeMap<VmKey, Vm>, now_ns: u64) -> Result<(), Error> {
        let new = self.look(vms, now_ns, INTERVAL_NS)?;
        self.pairs += new.as_ref().map_or(0, pairs);
        self.remembered.extend(new);
        while self.remembered.len() > REMEMBERED_MAX || self.pairs > PAIRS_MAX {
            let Some(old) = self.remembered.pop_front() else { break };
            self.pairs -= pairs(&old);
        }
        Ok(())
    }

    /// What was remembered from a time on.
    pub(super) fn since(&self, at_ns: u64) -> impl Iterator<Item = &QueueInterval> {
        self.remembered.iter().filter(move |interval| interval.to_ns > at_ns)
    }
}

/// What was ahead of a VM's packets; `None` if none was followed.
fn ahead(vm: &Vm, blame: &QueueBlame) -> Option<AheadInterval> {
    (blame.sampled_packets > 0).then(|| AheadInterval {
        vm: vm.name.as_given().to_owned(),
        packets: blame.sampled_packets,
        delay_ns: blame.sampled_delay_ns,
        bytes: told(&blame.senders),
    })
}

/// How many pairs of who waits and who sends there are.
fn pairs(interval: &QueueInterval) -> usize {
    let sent = interval.sent.iter().map(|(_, senders)| senders.len());
    let all = interval.ahead.iter().chain(&interval.ahead_at_taps);
    let ahead = all.map(|of| of.bytes.len());
    sent.chain(ahead).sum()
}

/// Those who have sent most, and the others together.
fn told(senders: &[Sent]) -> Vec<(TraceSender, u64)> {
    let (first, rest) = senders.split_at(senders.len().min(SENDERS_MAX));
    let mut told: Vec<(TraceSender, u64)> = first.iter().map(bytes).collect();
    if !rest.is_empty() {
        told.push((TraceSender::Others, rest.iter().map(|sent| sent.bytes).sum()));
    }
    told
}

fn bytes(sent: &Sent) -> (TraceSender, u64) {
    let name = |name: &lowtail_kernel::Name| name.as_given().to_owned();
    let sender = match &sent.sender {
        Sender::Vm(vm, _) => TraceSender::Vm(name(vm)),
        Sender::Group(group) => TraceSender::Group(name(group)),
        Sender::Interface(interface) => TraceSender::Interface(name(interface)),
        Sender::Host => TraceSender::Host,
        Sender::Others => TraceSender::Others,
    };
    (sender, sent.bytes)
}
