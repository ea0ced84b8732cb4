//! Slots that are nobody's: those that are kept for VMs that come, and those that new threads may take by themselves.

use std::collections::HashSet;

use super::kernel::Programs;
use lowtail_kernel::error::Error;

/// Threads that there can be room for: with the reserve, slots have numbers of 16 bits in `slot_of_tid`, less one.
pub const THREADS_MAX: u32 = 57_344;

/// Threads that there is room for, unless more are asked for.
pub const THREADS_USUAL: u32 = 4096;

/// Slots beyond those that there is room for: slots whose threads are looked at no longer wait here until they can be
/// given to others, and those who come need not wait for that.
pub(crate) const fn reserve(threads: u32) -> u32 {
    let part = threads / 8;
    if part < 64 { 64 } else { part }
}

/// The slots that are free.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Ours to give.
    free: Vec<u32>,
    /// Where the kernel's side finds them for threads that begin.
    lent: HashSet<u32>,
    /// So many stay ours.
    floor: usize,
}

impl Pool {
    /// All slots.
    pub(crate) fn new(threads: u32) -> Self {
        let reserve = reserve(threads);
        // The first number is given first.
        let free = (0..threads + reserve).rev().collect();
        Pool { free, lent: HashSet::new(), floor: reserve as usize / 2 }
    }

    /// A slot, if there is one.
    pub(crate) fn take(&mut self, programs: &Programs) -> Result<Option<u32>, Error> {
        if let Some(free) = self.free.pop() {
            return Ok(Some(free));
        }
        let back = programs.take_back()?;
        if let Some(back) = back {
            self.lent.remove(&back);
        }
        Ok(back)
    }

    /// A slot that is nobody's again.
    pub(crate) fn give(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The kernel's side has taken this one, if it had it.
    pub(crate) fn taken(&mut self, slot: u32) {
        self.lent.remove(&slot);
    }

    /// Lets the kernel's side have what is not kept; says how many it has now.
    pub(crate) fn lend(&mut self, programs: &Programs) -> Result<usize, Error> {
        while self.free.len() > self.floor {
            // What was kept longest, as it is the last one to be given.
            let slot = self.free.swap_remove(0);
            programs.lend(slot)?;
            self.lent.insert(slot);
        }
        Ok(self.lent.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_number_of_16_bits() {
        // The table has the slot's number plus one; 0 is nobody's.
        assert!(THREADS_MAX + reserve(THREADS_MAX) <= u32::from(u16::MAX));
        assert_eq!(Pool::new(100).free.len(), 164);
    }
}
