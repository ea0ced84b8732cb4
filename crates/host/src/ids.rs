//! Names of physical CPUs, virtual CPUs, domains and control groups, and sets of physical CPUs.

use std::fmt;

/// A physical CPU (pCPU), numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pcpu(pub u16);

/// A virtual CPU (vCPU), numbered from zero through all domains of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vcpu(pub u16);

/// A domain: one VM, numbered from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dom(pub u16);

/// A control group of a Linux host, numbered from zero in the order of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cgroup(pub u16);

impl Cgroup {
    /// As an index into per-group tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Pcpu {
    /// As an index into per-pCPU tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Vcpu {
    /// As an index into per-vCPU tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Dom {
    /// As an index into per-domain tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of physical CPUs, of which a host has at most 128.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuSet(u128);

impl CpuSet {
    /// As many physical CPUs as a set, and so a host, can have.
    pub const MAX_PCPUS: u16 = 128;
    /// The empty set.
    pub const EMPTY: CpuSet = CpuSet(0);

    /// The pCPUs `0..n`. More than 128 are as many as 128.
    pub fn first_n(n: u16) -> Self {
        if n >= Self::MAX_PCPUS { CpuSet(u128::MAX) } else { CpuSet((1 << n) - 1) }
    }
    /// Just `p`.
    pub fn only(p: Pcpu) -> Self {
        CpuSet(1 << p.0)
    }
    /// Whether `p` is in the set.
    pub fn has(self, p: Pcpu) -> bool {
        self.0 >> p.0 & 1 != 0
    }
    /// Puts `p` in.
    pub fn insert(&mut self, p: Pcpu) {
        self.0 |= 1 << p.0;
    }
    /// Takes `p` out.
    pub fn remove(&mut self, p: Pcpu) {
        self.0 &= !(1 << p.0);
    }
    /// What both sets have.
    pub fn and(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 & other.0)
    }
    /// What this set has and `other` has not.
    pub fn minus(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 & !other.0)
    }
    /// What either set has.
    pub fn or(self, other: CpuSet) -> CpuSet {
        CpuSet(self.0 | other.0)
    }
    /// Whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// How many pCPUs are in it.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }
    /// The lowest-numbered member.
    pub fn first(self) -> Option<Pcpu> {
        (self.0 != 0).then(|| Pcpu(self.0.trailing_zeros() as u16))
    }
    /// The next member after `p`, going round: Xen's `cpumask_cycle`.
    pub fn next_after(self, p: Pcpu) -> Option<Pcpu> {
        let above = if p.0 >= 127 { 0 } else { self.0 >> (p.0 + 1) << (p.0 + 1) };
        CpuSet(above).first().or_else(|| self.first())
    }
    /// `p` itself if it is a member, else the next one: Xen's `cpumask_test_or_cycle`.
    pub fn this_or_next(self, p: Pcpu) -> Option<Pcpu> {
        if self.has(p) { Some(p) } else { self.next_after(p) }
    }
    /// The members, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Pcpu> {
        let mut left = self;
        std::iter::from_fn(move || {
            let p = left.first()?;
            left.remove(p);
            Some(p)
        })
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
        let mut left = *self;
        let mut separator = "";
        while let Some(start) = left.first() {
            let run = (!(self.0 >> start.0)).trailing_zeros() as u16;
            let end = start.0 + run - 1;
            write!(f, "{separator}{}", start.0)?;
            if end > start.0 {
                write!(f, "-{end}")?;
            }
            left = left.minus(CpuSet::first_n(end + 1));
            separator = ",";
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_do_what_sets_do() {
        let set: CpuSet = [0, 1, 2, 3, 8, 127].into_iter().map(Pcpu).collect();
        assert_eq!(format!("{set:?}"), "{0-3,8,127}");
        assert_eq!((set.len(), set.first()), (6, Some(Pcpu(0))));
        assert_eq!(set.next_after(Pcpu(3)), Some(Pcpu(8)));
        assert_eq!(set.next_after(Pcpu(127)), Some(Pcpu(0)));
        assert_eq!(set.this_or_next(Pcpu(8)), Some(Pcpu(8)));
        assert_eq!(CpuSet::EMPTY.next_after(Pcpu(0)), None);
        assert_eq!(set.minus(CpuSet::first_n(8)).and(CpuSet::first_n(128)).len(), 2);
        assert_eq!(set.or(CpuSet::only(Pcpu(9))).iter().count(), 7);
    }
}
