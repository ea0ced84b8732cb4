//! Sets of physical CPUs.

use std::fmt;

use crate::ids::Pcpu;

/// Bits of a word.
const BITS: usize = u64::BITS as usize;
/// Words of a set.
const WORDS: usize = CpuSet::MAX_PCPUS as usize / BITS;

/// A set of physical CPUs, of which a host has at most 1,024.
///
/// All of it is in place, so that no operation allocates; those on whole sets are loops without branches, which compilers turn into a few
/// vector instructions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuSet([u64; WORDS]);

impl CpuSet {
    /// As many physical CPUs as a set, and so a host, can have.
    pub const MAX_PCPUS: u16 = 1024;
    /// The empty set.
    pub const EMPTY: CpuSet = CpuSet([0; WORDS]);

    /// The pCPUs `0..n`. More than 1,024 are as many as 1,024.
    pub fn first_n(n: u16) -> Self {
        let mut set = CpuSet::EMPTY;
        for (i, word) in set.0.iter_mut().enumerate() {
            let n = usize::from(n).saturating_sub(i * BITS);
            *word = if n >= BITS { u64::MAX } else { (1 << n) - 1 };
        }
        set
    }
    /// Just `p`.
    pub fn only(p: Pcpu) -> Self {
        let mut set = CpuSet::EMPTY;
        set.insert(p);
        set
    }
    /// Whether `p` is in the set.
    pub fn has(&self, p: Pcpu) -> bool {
        self.0[p.index() / BITS] >> (p.index() % BITS) & 1 != 0
    }
    /// Puts `p` in.
    pub fn insert(&mut self, p: Pcpu) {
        self.0[p.index() / BITS] |= 1 << (p.index() % BITS);
    }
    /// Takes `p` out.
    pub fn remove(&mut self, p: Pcpu) {
        self.0[p.index() / BITS] &= !(1 << (p.index() % BITS));
    }
    /// What both sets have.
    pub fn and(&self, other: CpuSet) -> CpuSet {
        self.with(other, |a, b| a & b)
    }
    /// What this set has and `other` has not.
    pub fn minus(&self, other: CpuSet) -> CpuSet {
        self.with(other, |a, b| a & !b)
    }
    /// What either set has.
    pub fn or(&self, other: CpuSet) -> CpuSet {
        self.with(other, |a, b| a | b)
    }
    /// Each member's neighbour in its pair: 1 for 0, 0 for 1, 3 for 2.
    pub fn neighbours(&self) -> CpuSet {
        const EVEN: u64 = u64::MAX / 3;
        CpuSet(self.0.map(|word| (word & EVEN) << 1 | word >> 1 & EVEN))
    }
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().fold(0, |all, word| all | word) == 0
    }
    /// How many pCPUs are in it.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
    /// The lowest-numbered member.
    pub fn first(&self) -> Option<Pcpu> {
        self.from(0)
    }
    /// The next member after `p`, going round: Xen's `cpumask_cycle`.
    pub fn next_after(&self, p: Pcpu) -> Option<Pcpu> {
        self.from(p.index() + 1).or_else(|| self.first())
    }
    /// `p` itself if it is a member, else the next one: Xen's `cpumask_test_or_cycle`.
    pub fn this_or_next(&self, p: Pcpu) -> Option<Pcpu> {
        if self.has(p) { Some(p) } else { self.next_after(p) }
    }
    /// The members, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Pcpu> + use<> {
        let (set, mut word, mut left) = (*self, 0, self.0[0]);
        std::iter::from_fn(move || {
            while left == 0 {
                word += 1;
                left = *set.0.get(word)?;
            }
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            Some(Pcpu((word * BITS + bit) as u16))
        })
    }

    /// The lowest-numbered member from pCPU `start` on.
    fn from(&self, start: usize) -> Option<Pcpu> {
        let mut word = start / BITS;
        let mut left = self.0.get(word)? >> (start % BITS) << (start % BITS);
        while left == 0 {
            word += 1;
            left = *self.0.get(word)?;
        }
        Some(Pcpu((word * BITS) as u16 + left.trailing_zeros() as u16))
    }

    fn with(&self, other: CpuSet, what: impl Fn(u64, u64) -> u64) -> CpuSet {
        CpuSet(std::array::from_fn(|i| what(self.0[i], other.0[i])))
    }
}

impl FromIterator<Pcpu> for CpuSet {
    fn from_iter<I: IntoIterator<Item = Pcpu>>(iter: I) -> Self {
        let mut set = CpuSet::EMPTY;
        iter.into_iter().for_each(|p| set.insert(p));
        set
    }
}

/// As a list of ranges: `{0-3,8}`.
impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut members = self.iter().peekable();
        let mut separator = "";
        while let Some(Pcpu(start)) = members.next() {
            let mut end = start;
            while let Some(Pcpu(next)) = members.next_if(|next| next.0 == end + 1) {
                end = next;
            }
            write!(f, "{separator}{start}")?;
            if end > start {
                write!(f, "-{end}")?;
            }
            separator = ",";
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_do_what_sets_do() {
        let set: CpuSet = [0, 1, 2, 3, 8, 127, 1023].into_iter().map(Pcpu).collect();
        assert_eq!(format!("{set:?}"), "{0-3,8,127,1023}");
        assert_eq!((set.len(), set.first()), (7, Some(Pcpu(0))));
        assert_eq!(set.next_after(Pcpu(3)), Some(Pcpu(8)));
        assert_eq!(set.next_after(Pcpu(127)), Some(Pcpu(1023)));
        assert_eq!(set.next_after(Pcpu(1023)), Some(Pcpu(0)));
        assert_eq!(set.this_or_next(Pcpu(8)), Some(Pcpu(8)));
        assert_eq!(CpuSet::EMPTY.next_after(Pcpu(0)), None);
        assert_eq!(set.minus(CpuSet::first_n(8)).and(CpuSet::first_n(128)).len(), 2);
        assert_eq!(set.or(CpuSet::only(Pcpu(9))).iter().count(), 8);
        assert_eq!(CpuSet::first_n(u16::MAX).len(), 1024);
        assert_eq!(CpuSet::first_n(64).next_after(Pcpu(62)), Some(Pcpu(63)));
    }

    proptest! {
        /// The same as the standard library's sets of numbers, whatever is in them.
        #[test]
        fn as_a_set_of_numbers(
            a in prop::collection::btree_set(0u16..1024, 0..40),
            b in prop::collection::btree_set(0u16..1024, 0..40),
            n in 0u16..1100,
            p in 0u16..1024,
        ) {
            let set = |of: &BTreeSet<u16>| of.iter().copied().map(Pcpu).collect::<CpuSet>();
            let numbers = |of: CpuSet| of.iter().map(|p| p.0).collect::<BTreeSet<u16>>();
            let (ours, theirs) = (set(&a), set(&b));
            prop_assert_eq!(numbers(ours), a.clone());
            prop_assert_eq!(numbers(ours.and(theirs)), &a & &b);
            prop_assert_eq!(numbers(ours.or(theirs)), &a | &b);
            prop_assert_eq!(numbers(ours.minus(theirs)), &a - &b);
            prop_assert_eq!(numbers(CpuSet::first_n(n)), (0..n.min(1024)).collect());
            prop_assert_eq!(ours.len() as usize, a.len());
            prop_assert_eq!((ours.is_empty(), ours.has(Pcpu(p))), (a.is_empty(), a.contains(&p)));
            let next = a.range(p + 1..).next().or_else(|| a.first()).copied();
            prop_assert_eq!(ours.next_after(Pcpu(p)).map(|p| p.0), next);
        }
    }
}
