//! A binary heap whose members can be changed and taken out.

use crate::ids::Vcpu;

/// Where a vCPU is that is in no heap.
const NOWHERE: u32 = u32::MAX;

/// The vCPUs of a heap by their keys, the least first. Where each one is stands in a table that several heaps share if no vCPU is in
/// two of them.
#[derive(Debug)]
pub(super) struct Heap<K> {
    entries: Vec<(K, Vcpu)>,
}

/// The place of each vCPU in its heap.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<u32>);

impl Places {
    pub(super) fn new(vcpus: usize) -> Self {
        Places(vec![NOWHERE; vcpus])
    }

    pub(super) fn has(&self, v: Vcpu) -> bool {
        self.0[v.index()] != NOWHERE
    }
}

impl<K: Ord + Copy> Heap<K> {
    /// An empty one, with room for so many.
    pub(super) fn new(room: usize) -> Self {
        Heap { entries: Vec::with_capacity(room) }
    }

    /// The least of them.
    pub(super) fn first(&self) -> Option<(K, Vcpu)> {
        self.entries.first().copied()
    }

    /// All, in no order.
    pub(super) fn all(&self) -> &[(K, Vcpu)] {
        &self.entries
    }

    /// The key of `v`, which is in this heap.
    pub(super) fn key(&self, places: &Places, v: Vcpu) -> K {
        self.entries[places.0[v.index()] as usize].0
    }

    pub(super) fn push(&mut self, places: &mut Places, key: K, v: Vcpu) {
        debug_assert!(!places.has(v), "{v:?} is in a heap");
        self.entries.push((key, v));
        self.rise(places, self.entries.len() - 1);
    }

    /// Takes `v` out, which is in this heap.
    pub(super) fn remove(&mut self, places: &mut Places, v: Vcpu) {
        let i = std::mem::replace(&mut places.0[v.index()], NOWHERE) as usize;
        self.entries.swap_remove(i);
        if i < self.entries.len() {
            self.settle(places, i);
        }
    }

    /// `v`, which is in this heap, has another key.
    pub(super) fn change(&mut self, places: &mut Places, key: K, v: Vcpu) {
        let i = places.0[v.index()] as usize;
        self.entries[i].0 = key;
        self.settle(places, i);
    }

    fn settle(&mut self, places: &mut Places, i: usize) {
        let i = self.rise(places, i);
        self.sink(places, i);
    }

    /// Moves who is at `i` up to where it belongs.
    fn rise(&mut self, places: &mut Places, mut i: usize) -> usize {
        let entry = self.entries[i];
        while i > 0 {
            let above = (i - 1) / 2;
            if self.entries[above].0 <= entry.0 {
                break;
            }
            self.put(places, i, self.entries[above]);
            i = above;
        }
        self.put(places, i, entry);
        i
    }

    fn sink(&mut self, places: &mut Places, mut i: usize) {
        let entry = self.entries[i];
        loop {
            let mut below = 2 * i + 1;
            if below >= self.entries.len() {
                break;
            }
            if self.entries.get(below + 1).is_some_and(|other| other.0 < self.entries[below].0) {
                below += 1;
            }
            if entry.0 <= self.entries[below].0 {
                break;
            }
            self.put(places, i, self.entries[below]);
            i = below;
        }
        self.put(places, i, entry);
    }

    fn put(&mut self, places: &mut Places, i: usize, entry: (K, Vcpu)) {
        places.0[entry.1.index()] = i as u32;
        self.entries[i] = entry;
    }

    /// What is wrong with it, if something is.
    pub(super) fn check(&self, places: &Places) -> Result<(), String> {
        for (i, (key, v)) in self.entries.iter().enumerate() {
            if places.0[v.index()] as usize != i {
                return Err(format!("{v:?} is at {i} and not at {}", places.0[v.index()]));
            }
            if i > 0 && self.entries[(i - 1) / 2].0 > *key {
                return Err(format!("{v:?} at {i} goes before who is above it"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a map of the standard library, whatever is done with it.
        #[test]
        fn the_least_is_first(steps in prop::collection::vec((0u16..20, 0u32..50, any::<bool>()), 0..200)) {
            let (mut heap, mut places, mut map) = (Heap::new(20), Places::new(20), BTreeMap::new());
            for (v, key, remove) in steps {
                // No two are alike.
                let key = (key, v);
                match (map.contains_key(&v), remove) {
                    (true, true) => {
                        heap.remove(&mut places, Vcpu(v));
                        map.remove(&v);
                    }
                    (true, false) => {
                        heap.change(&mut places, key, Vcpu(v));
                        map.insert(v, key);
                    }
                    (false, _) => {
                        heap.push(&mut places, key, Vcpu(v));
                        map.insert(v, key);
                    }
                }
                prop_assert_eq!(heap.check(&places), Ok(()));
                prop_assert_eq!(heap.first().map(|(key, _)| key), map.values().min().copied());
                prop_assert_eq!(heap.all().len(), map.len());
            }
        }
    }
}
