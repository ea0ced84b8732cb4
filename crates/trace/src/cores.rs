//! Which pCPUs share a core (SMT), and for how long vCPUs have run there beside each other: each is slower meanwhile, which is no waiting.

use std::collections::BTreeMap;

use crate::tables::ByPcpu;

/// Where a CPU of a Linux host is: each part goes by the lowest number of a CPU in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    /// The CPU.
    pub cpu: u16,
    /// Its core, whose threads are CPUs.
    pub core: u16,
    /// The CPUs with which it shares the last level of caches.
    pub cache: u16,
    /// Its NUMA node, by the node's own number.
    pub node: u16,
}

/// Pairs of vCPUs that have run on one core at once, at most: a damaged file could have many.
const PAIRS_MAX: usize = 1 << 20;

/// Cores, and who runs there.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// The other pCPUs of each one's core, of those that have others.
    siblings: ByPcpu<Vec<u16>>,
    /// Who runs on a pCPU, since when; idle ones are nobody.
    runs: ByPcpu<Option<(usize, u64)>>,
    /// For how many ticks the first ran while the second one ran beside it.
    pairs: BTreeMap<(usize, usize), u64>,
}

impl Cores {
    /// As the trace says.
    pub(crate) fn new(places: &[CpuPlace]) -> Self {
        let mut cores = Cores::default();
        for place in places {
            let beside = |other: &&CpuPlace| other.core == place.core && other.cpu != place.cpu;
            let others: Vec<u16> = places.iter().filter(beside).map(|other| other.cpu).collect();
            if !others.is_empty() {
                cores.siblings.get_or_insert_with(place.cpu, || others);
            }
        }
        cores
    }

    /// A vCPU begins to run, or the idle one, which is nobody.
    pub(crate) fn begins(&mut self, pcpu: u16, vcpu: Option<usize>, at: u64) {
        if self.siblings.get(pcpu).is_some() {
            *self.runs.get_or_insert_with(pcpu, || None) = vcpu.map(|vcpu| (vcpu, at));
        }
    }

    /// A vCPU that has run since `start` ends. Whoever of a core ends first says for how long both ran.
    pub(crate) fn ends(&mut self, pcpu: u16, vcpu: usize, start: u64, end: u64) {
        let Some(siblings) = self.siblings.get(pcpu) else { return };
        for &sibling in siblings {
            let Some(&Some((other, since))) = self.runs.get(sibling) else { continue };
            let ticks = end.saturating_sub(start.max(since));
            for pair in [(vcpu, other), (other, vcpu)] {
                if ticks > 0 && (self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair)) {
                    *self.pairs.entry(pair).or_default() += ticks;
                }
            }
        }
        *self.runs.get_or_insert_with(pcpu, || None) = None;
    }

    /// With whom a vCPU has shared its core, and for how long: the longest first.
    pub(crate) fn beside(&self, vcpu: usize) -> Vec<(usize, u64)> {
        let pairs = self.pairs.range((vcpu, 0)..=(vcpu, usize::MAX));
        let mut beside: Vec<_> = pairs.map(|(&(_, other), &ticks)| (other, ticks)).collect();
        beside.sort_by_key(|&(other, ticks)| (std::cmp::Reverse(ticks), other));
        beside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cpu: u16, core: u16) -> CpuPlace {
        CpuPlace { cpu, core, cache: 0, node: 0 }
    }

    #[test]
    fn who_ran_beside_whom() {
        let mut cores = Cores::new(&[place(0, 0), place(1, 1), place(2, 0)]);
        // 7 runs from 10 to 50 on CPU 0; beside it 8 from 0 to 20, then 9 from 25 to 60. CPU 1 has a core of its own.
        cores.begins(2, Some(8), 0);
        cores.begins(1, Some(5), 0);
        cores.begins(0, Some(7), 10);
        cores.ends(2, 8, 0, 20);
        cores.begins(2, Some(9), 25);
        cores.ends(0, 7, 10, 50);
        cores.ends(2, 9, 25, 60);
        cores.ends(1, 5, 0, 60);
        assert_eq!(cores.beside(7), [(9, 25), (8, 10)]);
        assert_eq!((cores.beside(8), cores.beside(9)), (vec![(7, 10)], vec![(7, 25)]));
        assert_eq!(cores.beside(5), []);
        // CPU 0 is idle, though nothing says when 7 ended.
        cores.begins(0, Some(7), 70);
        cores.begins(0, None, 80);
        cores.ends(2, 9, 75, 100);
        assert_eq!(cores.beside(9), [(7, 25)]);
    }
}
