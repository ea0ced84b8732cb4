//! Who fills the queues of uplinks and taps: names for those whose bytes have left, by interval.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::network::{Interface, Path, SENDERS, Way};
use super::senders::{Ahead, Numbered};
use super::vm_key::VmKey;
use super::{Network, QueueBlame, Sender, Sent, Uplink};
use lowtail_discover::Vm;
use lowtail_kernel::cgroup::paths_of;
use lowtail_kernel::clock::Instant;
use lowtail_kernel::error::Error;
use lowtail_kernel::tc::Link;
use lowtail_kernel::{Name, Roots};

/// Looks without a byte after which a group or an interface gives its number back; ...
const QUIET_LOOKS: u32 = 60;
/// ... and where others have found none.
const QUIET_LOOKS_FULL: u32 = 1;
/// Control groups are looked for no more often: a host has thousands.
const WALK_NS: u64 = 1_000_000_000;
/// Names that are remembered.
const NAMES_MAX: usize = 4096;

/// What was counted at the last look, and the names of senders.
#[derive(Debug, Default)]
pub(crate) struct QueueBlames {
    roots: Roots,
    served: BTreeMap<Interface, Vec<u64>>,
    ahead: BTreeMap<(Way, u32), Ahead>,
    /// Whose the slots are, or were until the last look.
    owners: BTreeMap<u32, Sender>,
    /// For how many looks those that have a number were not seen.
    quiet: BTreeMap<(u32, Numbered), u32>,
    groups: BTreeMap<u64, Option<PathBuf>>,
    walked: Option<Instant>,
    interfaces: BTreeMap<Interface, Name>,
    /// What has come since the start.
    totals: BTreeMap<VmKey, Blames>,
}

/// Of a VM's packets: of those that it sends, and of those that it gets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blames {
    pub(crate) sent: QueueBlame,
    pub(crate) received: QueueBlame,
    /// What it got, by whose it was.
    pub(crate) received_senders: Vec<Sent>,
}

impl Blames {
    /// With what the kernel has counted of the packets.
    pub(crate) fn of(self, network: Network) -> Network {
        Network {
            queue_blame: self.sent,
            receive_queue_blame: self.received,
            received_bytes: self.received_senders.iter().map(|sent| sent.bytes).sum(),
            received_senders: self.received_senders,
            ..network
        }
    }
}

impl QueueBlames {
    pub(crate) fn new(roots: Roots) -> Self {
        QueueBlames { roots, ..Self::default() }
    }

    /// A slot is a VM's from now on.
    pub(crate) fn own(&mut self, slot: u32, vm: &Vm) {
        self.owners.insert(slot, Sender::Vm(vm.name.clone(), vm.pid));
    }

    /// Whether a slot is somebody's, or was since the last look: what it has sent is still to be told.
    pub(crate) fn is_owned(&self, slot: u32) -> bool {
        self.owners.contains_key(&slot)
    }

    /// What has come since the last look: of each VM, and of each uplink.
    pub(crate) fn read(
        &mut self,
        path: &Path,
        slots: &BTreeMap<VmKey, u32>,
        vms: &BTreeMap<VmKey, Vm>,
    ) -> Result<(BTreeMap<VmKey, Blames>, Vec<Uplink>), Error> {
        // Who gets a number in between has a name, and no bytes yet.
        let served = path.served()?;
        let ways = slots.values().flat_map(|slot| Way::BOTH.map(|way| (way, *slot)));
        let aheads: BTreeMap<(Way, u32), Ahead> = ways
            .map(|(way, slot)| Ok(((way, slot), path.ahead(way, slot)?)))
            .collect::<Result<_, Error>>()?;
        let taps = path.taps();
        let mut got: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let senders = path.senders()?;
        let names = self.names(&senders, vms);
        let mut uplinks = Vec::new();
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        for (uplink, now) in &served {
            let none = vec![0; SENDERS];
            let new = difference(now, self.served.get(uplink).unwrap_or(&none));
            seen.extend((0..).zip(&new).filter(|(_, bytes)| **bytes > 0).map(|(number, _)| number));
            if let Some(slot) = taps.get(uplink) {
                let all = got.entry(*slot).or_insert_with(|| vec![0; SENDERS]);
                all.iter_mut().zip(&new).for_each(|(sum, bytes)| *sum += bytes);
                continue;
            }
            let senders = sent(&new, &names);
            let transmitted_bytes = senders.iter().map(|sent| sent.bytes).sum();
            if transmitted_bytes > 0 {
                uplinks.push(Uplink { name: self.interface(*uplink), transmitted_bytes, senders });
            }
        }
        uplinks.sort_by(|a, b| a.name.cmp(&b.name));
        self.served = served;
        self.forget_uplinks(path, &taps)?;
        let mut blames = BTreeMap::new();
        for (vm, slot) in slots {
            let mut of = |way| {
                let now = aheads.get(&(way, *slot)).cloned().unwrap_or_default();
                let before = self.ahead.insert((way, *slot), now.clone()).unwrap_or_default();
                now.since(before, &names)
            };
            let received_senders = got.remove(slot).map(|got| sent(&got, &names));
            let blame = Blames {
                sent: of(Way::Sent),
                received: of(Way::Received),
                received_senders: received_senders.unwrap_or_default(),
            };
            let total = self.totals.entry(*vm).or_default();
            total.sent.add(&blame.sent);
            total.received.add(&blame.received);
            add(&mut total.received_senders, &blame.received_senders);
            blames.insert(*vm, blame);
        }
        let theirs: BTreeSet<u32> = slots.values().copied().collect();
        self.owners.retain(|slot, _| theirs.contains(slot));
        self.ahead.retain(|(_, slot), _| theirs.contains(slot));
        self.totals.retain(|vm, _| slots.contains_key(vm));
        self.give_back(path, &senders, &seen)?;
        Ok((blames, uplinks))
    }

    /// What has come since the start, up to the last look.
    pub(crate) fn total(&self, vm: VmKey) -> Blames {
        self.totals.get(&vm).cloned().unwrap_or_default()
    }

    /// Takes numbers back from those who were not seen for long: there are few.
    fn give_back(
        &mut self,
        path: &Path,
        senders: &BTreeMap<u32, Numbered>,
        seen: &BTreeSet<u32>,
    ) -> Result<(), Error> {
        let named = |whose: &Numbered| matches!(whose, Numbered::Group(_) | Numbered::Interface(_));
        let most = if path.is_full()? { QUIET_LOOKS_FULL } else { QUIET_LOOKS };
        let mut quiet = BTreeMap::new();
        for (&number, &whose) in senders.iter().filter(|(_, whose)| named(whose)) {
            let looks = self.quiet.get(&(number, whose)).map_or(0, |looks| looks + 1);
            let looks = if seen.contains(&number) { 0 } else { looks };
            if looks >= most {
                path.forget_sender(number, whose)?;
            } else {
                quiet.insert((number, whose), looks);
            }
        }
        self.quiet = quiet;
        Ok(())
    }

    /// Interfaces that are gone are no uplinks any more, and make room for others. Those of other namespaces nobody knows.
    fn forget_uplinks(
        &mut self,
        path: &Path,
        taps: &BTreeMap<Interface, u32>,
    ) -> Result<(), Error> {
        if self.gone(taps).is_empty() {
            return Ok(());
        }
        // One may have come since the last look.
        self.look_at_interfaces();
        for uplink in self.gone(taps) {
            path.forget_uplink(uplink)?;
            self.served.remove(&uplink);
        }
        Ok(())
    }

    /// Uplinks that are among no interfaces of this namespace.
    fn gone(&self, taps: &BTreeMap<Interface, u32>) -> Vec<Interface> {
        let here = self.interfaces.keys().next().map(|interface| interface.netns);
        let is_gone = |uplink: &&Interface| {
            let is_here = Some(uplink.netns) == here;
            is_here && !taps.contains_key(uplink) && !self.interfaces.contains_key(uplink)
        };
        self.served.keys().filter(is_gone).copied().collect()
    }

    /// Who has which number.
    fn names(
        &mut self,
        senders: &BTreeMap<u32, Numbered>,
        vms: &BTreeMap<VmKey, Vm>,
    ) -> Vec<Sender> {
        let group = |whose: &Numbered| match whose {
            Numbered::Group(number) => Some(*number),
            _ => None,
        };
        let groups: BTreeSet<u64> = senders.values().filter_map(group).collect();
        let new: BTreeSet<u64> =
            groups.iter().copied().filter(|number| !self.groups.contains_key(number)).collect();
        let now = Instant::now();
        let is_time = self.walked.is_none_or(|then| now.since(then).as_ns() >= WALK_NS);
        if !new.is_empty() && is_time {
            self.walked = Some(now);
            if self.groups.len() + new.len() > NAMES_MAX {
                self.groups.retain(|number, _| groups.contains(number));
            }
            let mut found = paths_of(&self.roots, &new);
            self.groups.extend(new.into_iter().map(|number| (number, found.remove(&number))));
        }
        let name = |number: u32| match senders.get(&number).copied() {
            Some(Numbered::Slot(slot)) => self.owners.get(&slot).cloned().unwrap_or(Sender::Others),
            Some(Numbered::Host) => Sender::Host,
            Some(Numbered::Group(number)) => self.group(number, vms),
            Some(Numbered::Interface(interface)) => Sender::Interface(self.interface(interface)),
            Some(Numbered::OtherVms | Numbered::Others) | None => Sender::Others,
        };
        (0..SENDERS as u32).map(name).collect()
    }

    /// A control group: one of a VM's, such as that of a QEMU which has no interface and opens sockets itself, or
    /// one of the host's.
    fn group(&self, number: u64, vms: &BTreeMap<VmKey, Vm>) -> Sender {
        let Some(Some(path)) = self.groups.get(&number) else {
            return Sender::Group(Name::new(format!("control group {number}")));
        };
        let is_its = |vm: &&Vm| vm.cgroup.as_ref().is_some_and(|group| path.starts_with(group));
        match vms.values().find(is_its) {
            Some(vm) => Sender::Vm(vm.name.clone(), vm.pid),
            None => Sender::Group(Name::new(path.to_string_lossy())),
        }
    }

    /// The name of an interface; of one in another namespace its number, and that of the namespace.
    fn interface(&self, interface: Interface) -> Name {
        let known = self.interfaces.get(&interface).cloned();
        known.unwrap_or_else(|| {
            let Interface { netns, ifindex } = interface;
            Name::new(format!("interface {ifindex} in namespace {netns}"))
        })
    }

    /// Interfaces come and go, and their names may change at any time.
    pub(crate) fn look_at_interfaces(&mut self) {
        let here = Interface::of_process(std::process::id(), 0);
        let (Ok(here), Ok(links)) = (here, Link::all()) else { return };
        let named = links
            .into_iter()
            .map(|link| (Interface { ifindex: link.ifindex, ..here }, Name::new(link.name)));
        self.interfaces = named.collect();
    }
}

impl Ahead {
    /// What has come since.
    fn since(&self, before: Ahead, names: &[Sender]) -> QueueBlame {
        // A slot that was given anew begins at 0.
        let before = if before.packets > self.packets { Ahead::default() } else { before };
        let senders = sent(&difference(&self.bytes, &before.bytes), names);
        QueueBlame {
            sampled_packets: self.packets - before.packets,
            sampled_delay_ns: self.delay_ns.saturating_sub(before.delay_ns),
            bytes_ahead: senders.iter().map(|sent| sent.bytes).sum(),
            senders,
        }
    }
}

impl QueueBlame {
    /// Adds another interval.
    fn add(&mut self, more: &QueueBlame) {
        self.sampled_packets += more.sampled_packets;
        self.sampled_delay_ns += more.sampled_delay_ns;
        self.bytes_ahead += more.bytes_ahead;
        add(&mut self.senders, &more.senders);
    }
}

/// Adds another interval.
fn add(senders: &mut Vec<Sent>, more: &[Sent]) {
    let both = senders.drain(..).chain(more.iter().cloned());
    *senders = rank(both.map(|sent| (sent.sender, sent.bytes)));
}

fn difference(now: &[u64], before: &[u64]) -> Vec<u64> {
    now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
}

/// Bytes by the number of their sender, by name.
fn sent(bytes: &[u64], names: &[Sender]) -> Vec<Sent> {
    let some = names.iter().zip(bytes).filter(|(_, bytes)| **bytes > 0);
    rank(some.map(|(name, bytes)| (name.clone(), *bytes)))
}

/// Most first; of equal ones the names decide.
fn rank(all: impl Iterator<Item = (Sender, u64)>) -> Vec<Sent> {
    let mut by_sender: BTreeMap<Sender, u64> = BTreeMap::new();
    for (sender, bytes) in all {
        *by_sender.entry(sender).or_default() += bytes;
    }
    let mut ranked: Vec<Sent> =
        by_sender.into_iter().map(|(sender, bytes)| Sent { sender, bytes }).collect();
    ranked.sort_by_key(|sent| std::cmp::Reverse(sent.bytes));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> Sender {
        Sender::Group(Name::new(name))
    }

    #[test]
    fn bytes_of_one_who_has_two_numbers_are_put_together_and_none_is_lost() {
        let vm = Sender::Vm(Name::new("web"), 7);
        let names = [vm.clone(), group("backup"), vm.clone(), Sender::Host];
        let all = sent(&[100, 150, 80, 0], &names);
        let told = [Sent { sender: vm, bytes: 180 }, Sent { sender: group("backup"), bytes: 150 }];
        assert_eq!(all, told);
    }

    #[test]
    fn totals_are_sums_of_intervals() {
        let mut total = QueueBlame::default();
        for bytes in [10, 30] {
            let senders = vec![Sent { sender: group("a"), bytes }];
            total.add(&QueueBlame {
                sampled_packets: 1,
                sampled_delay_ns: 5,
                bytes_ahead: bytes,
                senders,
            });
        }
        assert_eq!((total.sampled_packets, total.sampled_delay_ns, total.bytes_ahead), (2, 10, 40));
        assert_eq!(total.senders, [Sent { sender: group("a"), bytes: 40 }]);
    }
}
