//! How many slots new threads of each VM may take by themselves, between one look and the next.

use std::collections::{BTreeSet, HashMap};

use super::kernel::Programs;
use super::share::max_min;
use super::vm_key::VmKey;
use lowtail_kernel::error::Error;

/// So many slots a VM wants at least, whatever it had before.
const LEAST: usize = 16;
/// The number that is no VM's, which may take none.
const NOBODY: u32 = 0;

/// What the kernel's side has counted of a VM.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Its number there.
    vm: u32,
    taken: u32,
    refused: u32,
    /// Threads that have begun between the last two looks.
    begun: usize,
    /// Refused, and not told yet.
    untold: u64,
}

/// All VMs that have a number on the kernel's side.
#[derive(Debug, Default)]
pub(crate) struct Beginners {
    vms: HashMap<VmKey, Counts>,
    free: BTreeSet<u32>,
    highest: u32,
}

impl Beginners {
    /// Gives numbers to VMs that have come, and takes those of VMs that have gone.
    pub(crate) fn follow(&mut self, programs: &Programs, keys: &[VmKey]) -> Result<(), Error> {
        let here: BTreeSet<&VmKey> = keys.iter().collect();
        let free = &mut self.free;
        self.vms.retain(|key, counts| {
            let stays = here.contains(key);
            if !stays {
                free.insert(counts.vm);
            }
            stays
        });
        for key in keys {
            if self.vms.contains_key(key) {
                continue;
            }
            let vm = self.free.pop_first().unwrap_or(self.highest + 1);
            // More VMs than slots: what is not in the map is not counted.
            let Some((taken, refused)) = programs.allow(vm, 0)? else { continue };
            self.highest = self.highest.max(vm);
            let counts = Counts { vm, taken, refused, begun: 0, untold: 0 };
            self.vms.insert(*key, counts);
        }
        Ok(())
    }

    /// The number of a VM on the kernel's side.
    pub(crate) fn number(&self, key: VmKey) -> u32 {
        self.vms.get(&key).map_or(NOBODY, |counts| counts.vm)
    }

    /// Divides that many slots: max-min fair, as far as it is known from the last interval who wants how many, and what
    /// is left in equal parts.
    pub(crate) fn allow(&mut self, programs: &Programs, slots: usize) -> Result<(), Error> {
        let mut all: Vec<(&VmKey, &mut Counts)> = self.vms.iter_mut().collect();
        all.sort_by_key(|(key, _)| **key);
        let wants: Vec<usize> = all.iter().map(|(_, counts)| LEAST + 2 * counts.begun).collect();
        let shares = max_min(slots, &wants);
        let left = slots - shares.iter().sum::<usize>();
        let each = left / all.len().max(1);
        for ((_, counts), share) in all.into_iter().zip(shares) {
            let Some((taken, refused)) = programs.allow(counts.vm, (share + each) as u32)? else {
                continue;
            };
            let new = refused.wrapping_sub(counts.refused);
            counts.begun = (taken.wrapping_sub(counts.taken)).saturating_add(new) as usize;
            counts.untold += u64::from(new);
            (counts.taken, counts.refused) = (taken, refused);
        }
        Ok(())
    }

    /// New threads of a VM that have found no slot, since this was last asked.
    pub(crate) fn refused(&mut self, key: VmKey) -> u64 {
        self.vms.get_mut(&key).map_or(0, |counts| std::mem::take(&mut counts.untold))
    }
}
