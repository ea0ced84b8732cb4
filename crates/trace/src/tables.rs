//! Two tables that are looked into for every record.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Something for each pCPU, by its number (up to [`crate::reader::PCPU_MAX`]).
#[derive(Debug)]
pub(crate) struct ByPcpu<T> {
    /// Place in `items`, counted from 1; 0 for none.
    places: Vec<u16>,
    items: Vec<(u16, T)>,
}

impl<T> Default for ByPcpu<T> {
    fn default() -> Self {
        ByPcpu { places: Vec::new(), items: Vec::new() }
    }
}

impl<T> ByPcpu<T> {
    /// How many pCPUs have something.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    fn place(&self, pcpu: u16) -> Option<usize> {
        usize::from(*self.places.get(usize::from(pcpu))?).checked_sub(1)
    }

    pub(crate) fn get(&self, pcpu: u16) -> Option<&T> {
        Some(&self.items.get(self.place(pcpu)?)?.1)
    }

    pub(crate) fn get_mut(&mut self, pcpu: u16) -> Option<&mut T> {
        let place = self.place(pcpu)?;
        Some(&mut self.items.get_mut(place)?.1)
    }

    pub(crate) fn get_or_insert_with(&mut self, pcpu: u16, make: impl FnOnce() -> T) -> &mut T {
        let place = self.place(pcpu).unwrap_or_else(|| {
            let at = usize::from(pcpu);
            if self.places.len() <= at {
                self.places.resize(at + 1, 0);
            }
            self.items.push((pcpu, make()));
            // pCPU numbers are below 4096, so that there are no more items than that.
            self.places[at] = self.items.len() as u16;
            self.items.len() - 1
        });
        &mut self.items[place].1
    }

    /// All of them, by number.
    pub(crate) fn sorted(&self) -> Vec<(u16, &T)> {
        let mut all: Vec<(u16, &T)> = self.items.iter().map(|(pcpu, item)| (*pcpu, item)).collect();
        all.sort_by_key(|&(pcpu, _)| pcpu);
        all
    }
}

/// A map from one 32-bit number. Its order must decide nothing.
pub(crate) type NumberMap<V> = HashMap<u32, V, BuildHasherDefault<NumberHasher>>;

/// Mixes one number. The maps are small and bounded, so that even an input made to collide costs
/// no more than a bounded search.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The finisher of SplitMix64.
        let z = self.0 ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = z ^ z >> 27;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_pcpu() {
        let mut map = ByPcpu::default();
        *map.get_or_insert_with(7, || 1) += 1;
        *map.get_or_insert_with(7, || 1) += 1;
        map.get_or_insert_with(2, || 9);
        assert_eq!((map.len(), map.get(7), map.get(3)), (2, Some(&3), None));
        assert_eq!(map.sorted(), [(2, &9), (7, &3)]);
        assert!(map.get_mut(100).is_none());
    }
}
