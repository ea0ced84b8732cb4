//! The traffic of VMs that come and go, by interval.

use std::collections::BTreeMap;
use std::path;

use super::network::{Interface, Path, PathLost, PathOptions};
use super::queue_blame::QueueBlames;
use super::senders;
use super::vm_key::VmKey;
use super::{Lost, Network, Uplink};
use lowtail_discover::{Tap, Vm};
use lowtail_kernel::Roots;
use lowtail_kernel::error::Error;

/// VMs with interfaces that are followed at most; 7 kB of the kernel's memory each, and 16 to 20 kB more for each VM that there is.
const SLOTS: u32 = 1024;

/// Which VM has which slot of the kernel's, and what it had counted at the last look.
#[derive(Debug)]
pub(crate) struct Traffic {
    path: Path,
    slots: BTreeMap<VmKey, u32>,
    last: BTreeMap<VmKey, Network>,
    lost: PathLost,
    blames: QueueBlames,
    /// VMs that found no slot.
    without: usize,
}

impl Traffic {
    /// Counts from now on. With no uplinks named all are found.
    pub(crate) fn start(uplinks: Vec<Interface>, roots: Roots) -> Result<Self, Error> {
        senders::check()?;
        let path = Path::start(&PathOptions { slots: SLOTS, uplinks, ..PathOptions::default() })?;
        Ok(Traffic {
            path,
            slots: BTreeMap::new(),
            last: BTreeMap::new(),
            lost: PathLost::default(),
            blames: QueueBlames::new(roots),
            without: 0,
        })
    }

    /// These are the VMs now. What those that are gone have counted can be read no more.
    pub(crate) fn follow(&mut self, vms: &BTreeMap<VmKey, Vm>) -> Result<(), Error> {
        let has = |vm: &VmKey| vms.get(vm).is_some_and(|vm| !vm.taps.is_empty());
        self.slots.retain(|vm, _| has(vm));
        self.last.retain(|vm, _| has(vm));
        self.without = 0;
        let mut all = Vec::new();
        for (&key, vm) in vms.iter().filter(|(_, vm)| !vm.taps.is_empty()) {
            let free = || (0..SLOTS).find(|slot| !self.blames.is_owned(*slot));
            let Some(slot) = self.slots.get(&key).copied().or_else(free) else {
                self.without += 1;
                continue;
            };
            self.slots.insert(key, slot);
            self.blames.own(slot, vm);
            // An interface may go at any moment.
            all.push((slot, vm.taps.iter().filter_map(|tap| interface(tap).ok()).collect()));
        }
        self.blames.look_at_interfaces();
        self.path.track(&all)
    }

    /// What has come since the last look, of each VM and of each uplink.
    pub(crate) fn read(
        &mut self,
        vms: &BTreeMap<VmKey, Vm>,
    ) -> Result<(BTreeMap<VmKey, Network>, Vec<Uplink>), Error> {
        let mut counted = self.path.read()?;
        let (mut blames, uplinks) = self.blames.read(&self.path, &self.slots, vms)?;
        let (nothing, mut new) = (Network::default(), BTreeMap::new());
        for (&key, slot) in &self.slots {
            let (Some(now), Some(vm)) = (counted.remove(slot), vms.get(&key)) else { continue };
            let mut since = now.since(self.last.get(&key).unwrap_or(&nothing));
            since.taps.clone_from(&vm.taps);
            let since = blames.remove(&key).unwrap_or_default().of(since);
            self.last.insert(key, self.blames.total(key).of(now));
            new.insert(key, since);
        }
        Ok((new, uplinks))
    }

    /// What has come since the start, up to the last look.
    pub(crate) fn totals(&self) -> &BTreeMap<VmKey, Network> {
        &self.last
    }

    /// Adds what was not followed since the last look.
    pub(crate) fn lost_since(&mut self, lost: &mut Lost) -> Result<(), Error> {
        let now = self.path.lost()?;
        let then = std::mem::replace(&mut self.lost, now);
        lost.packets += (now.packets - then.packets) + (now.drops - then.drops);
        lost.blame += now.blame - then.blame;
        Ok(())
    }

    /// What cannot be seen, and why.
    pub(crate) fn coverage_gaps(&self) -> Vec<String> {
        let mut words: Vec<String> =
            self.path.coverage_gaps().map(str::to_string).into_iter().collect();
        if self.without > 0 {
            let without = self.without;
            words.push(format!("traffic of {without} VMs: {SLOTS} can be followed"));
        }
        words
    }
}

/// Where a tap is.
fn interface(tap: &Tap) -> Result<Interface, Error> {
    match tap.netns {
        // Inodes of namespaces have 32 bits (`struct ns_common`).
        Some(netns) => Ok(Interface { netns: netns as u32, ifindex: tap.ifindex }),
        None => Interface::at(path::Path::new("/proc/self/ns/net"), tap.ifindex),
    }
}
