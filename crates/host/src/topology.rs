//! Which pCPUs share what: threads of a core, a cache, a socket, a node.

use crate::cpu_set::CpuSet;
use crate::ids::Pcpu;

/// Which pCPUs share what. The sets of a level have each pCPU once.
///
/// Linux balances load within a last-level cache, then within a node, then over nodes. Xen goes by sockets, and credit also by nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Hardware threads of each core, at most two.
    pub cores: Vec<CpuSet>,
    /// pCPUs of each last-level cache.
    pub caches: Vec<CpuSet>,
    /// Those of each socket.
    pub sockets: Vec<CpuSet>,
    /// Those of each NUMA node.
    pub nodes: Vec<CpuSet>,
}

impl Topology {
    /// One socket, in which each pCPU is a core.
    pub fn flat(pcpus: u16) -> Self {
        let all = vec![CpuSet::first_n(pcpus)];
        let cores = (0..pcpus).map(|p| CpuSet::only(Pcpu(p))).collect();
        Topology { cores, caches: all.clone(), sockets: all.clone(), nodes: all }
    }

    /// Sockets of as many pCPUs each, numbered one after the other, every one with a cache and a node of its own; a core has so many
    /// threads, which are numbered side by side.
    ///
    /// # Errors
    /// If the pCPUs cannot be divided like that.
    pub fn even(pcpus: u16, sockets: u16, threads_per_core: u16) -> Result<Self, TopologyError> {
        if sockets == 0 || !pcpus.is_multiple_of(sockets) {
            return Err(TopologyError::Sockets { sockets, pcpus });
        }
        let (pcpus_each, threads) = (pcpus / sockets, threads_per_core);
        if !(1..=THREADS_MAX).contains(&threads) || !pcpus_each.is_multiple_of(threads) {
            return Err(TopologyError::Threads { threads, pcpus: pcpus_each });
        }
        let of = |each: u16| -> Vec<CpuSet> {
            let set = |i: u16| (i * each..(i + 1) * each).map(Pcpu).collect();
            (0..pcpus / each.max(1)).map(set).collect()
        };
        let sockets = of(pcpus_each);
        Ok(Topology {
            cores: of(threads),
            caches: sockets.clone(),
            sockets: sockets.clone(),
            nodes: sockets,
        })
    }

    /// Refuses what is no topology of so many pCPUs.
    pub(crate) fn check(&self, pcpus: u16) -> Result<(), TopologyError> {
        let all = CpuSet::first_n(pcpus);
        let bad = |message| Err(TopologyError::Sets(message));
        let levels = self.levels();
        for (name, sets) in levels.into_iter().rev() {
            let mut seen = CpuSet::EMPTY;
            for &set in sets {
                if let Some(p) = set.minus(all).first() {
                    return bad(format!("{name}: pCPU {} of {pcpus}: the first one is 0", p.0));
                }
                if let Some(p) = set.and(seen).first() {
                    return bad(format!("{name}: pCPU {} is in two of them", p.0));
                }
                seen = seen.or(set);
            }
            if let Some(p) = all.minus(seen).first() {
                return bad(format!("{name}: pCPU {} is in none of them", p.0));
            }
        }
        if let Some(core) = self.cores.iter().find(|core| core.len() > u32::from(THREADS_MAX)) {
            let threads = core.len();
            return bad(format!("cores: {core:?} has {threads} threads: at most {THREADS_MAX}"));
        }
        let [cores, caches, sockets, nodes] = levels;
        for (inner, outer) in [(cores, caches), (caches, sockets), (caches, nodes)] {
            let whole = |set: &&CpuSet| outer.1.iter().any(|outer| set.minus(*outer).is_empty());
            if let Some(set) = inner.1.iter().find(|set| !whole(set)) {
                return bad(format!("{}: {set:?} is in more than one of the {}", inner.0, outer.0));
            }
        }
        Ok(())
    }

    /// Each level with its name.
    fn levels(&self) -> [(&'static str, &[CpuSet]); 4] {
        [
            ("cores", &self.cores),
            ("caches", &self.caches),
            ("sockets", &self.sockets),
            ("nodes", &self.nodes),
        ]
    }
}

/// What is no topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Sockets that do not divide the pCPUs.
    #[error("{sockets} sockets for {pcpus} pCPUs: each socket holds the same number of pCPUs")]
    Sockets {
        /// Sockets asked for.
        sockets: u16,
        /// pCPUs asked for.
        pcpus: u16,
    },
    /// Hardware threads that do not make cores of all pCPUs.
    #[error(
        "{threads} threads per core and {pcpus} pCPUs per socket: a core has 1 thread, or 2 of the same socket"
    )]
    Threads {
        /// Threads per core asked for.
        threads: u16,
        /// pCPUs per socket.
        pcpus: u16,
    },
    /// Sets that do not have each pCPU once, or do not fit into each other: which, and why.
    #[error("{0}")]
    Sets(String),
}

/// Threads of a core at most.
const THREADS_MAX: u16 = 2;

/// Which of `sets` each pCPU is in, by its number.
pub(crate) fn set_of_each(sets: &[CpuSet], pcpus: CpuSet) -> Vec<u16> {
    let mut of = vec![0; pcpus.len() as usize];
    for (number, set) in sets.iter().enumerate() {
        set.iter().for_each(|p| of[p.index()] = number as u16);
    }
    of
}

/// The other pCPU of each core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// Each pCPU is a core.
    None,
    /// Cores are 0 and 1, 2 and 3, and so on.
    Adjacent,
    /// By the number of a pCPU.
    Of(Vec<Option<Pcpu>>),
}

impl Siblings {
    /// Those of `topology`.
    pub(crate) fn new(topology: &Topology, pcpus: CpuSet) -> Self {
        if topology.cores.iter().all(|core| core.len() == 1) {
            return Siblings::None;
        }
        let mut of = vec![None; pcpus.len() as usize];
        for core in &topology.cores {
            core.iter().for_each(|p| of[p.index()] = core.minus(CpuSet::only(p)).first());
        }
        let adjacent = pcpus.iter().all(|p| of[p.index()] == Some(Pcpu(p.0 ^ 1)));
        if adjacent { Siblings::Adjacent } else { Siblings::Of(of) }
    }

    /// The other pCPU of the core of `p`, if it has one.
    pub(crate) fn of(&self, p: Pcpu) -> Option<Pcpu> {
        match self {
            Siblings::None => None,
            Siblings::Adjacent => Some(Pcpu(p.0 ^ 1)),
            Siblings::Of(of) => of[p.index()],
        }
    }

    /// Those of `set` whose whole core is in it.
    pub(crate) fn cores(&self, set: CpuSet) -> CpuSet {
        match self {
            Siblings::None => set,
            Siblings::Adjacent => set.and(set.neighbours()),
            Siblings::Of(of) => {
                let whole = |p: &Pcpu| of[p.index()].is_none_or(|other| set.has(other));
                set.iter().filter(whole).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pcpus: &[u16]) -> CpuSet {
        pcpus.iter().map(|&p| Pcpu(p)).collect()
    }

    /// Two sockets of two cores, whose second threads are numbered behind all first ones, as firmware usually does.
    fn split() -> Topology {
        let sockets = vec![set(&[0, 1, 4, 5]), set(&[2, 3, 6, 7])];
        Topology {
            cores: vec![set(&[0, 4]), set(&[1, 5]), set(&[2, 6]), set(&[3, 7])],
            caches: sockets.clone(),
            sockets: sockets.clone(),
            nodes: sockets,
        }
    }

    #[test]
    fn siblings_are_adjacent_or_anywhere() {
        let all = CpuSet::first_n(8);
        let adjacent = Topology::even(8, 2, 2).expect("even");
        for (topology, other) in
            [(adjacent, [1, 0, 3, 2, 5, 4, 7, 6]), (split(), [4, 5, 6, 7, 0, 1, 2, 3])]
        {
            topology.check(8).expect("a topology");
            let siblings = Siblings::new(&topology, all);
            for (p, other) in other.into_iter().enumerate() {
                assert_eq!(siblings.of(Pcpu(p as u16)), Some(Pcpu(other)), "{topology:?}");
            }
            // Without 0 its sibling is no whole core.
            let rest = all.minus(CpuSet::only(Pcpu(0)));
            assert_eq!(siblings.cores(rest), rest.minus(CpuSet::only(Pcpu(other[0]))));
        }
        assert_eq!(Siblings::new(&Topology::flat(8), all), Siblings::None);
        let one_alone = Topology { cores: vec![set(&[0, 1]), set(&[2])], ..Topology::flat(3) };
        let siblings = Siblings::new(&one_alone, CpuSet::first_n(3));
        assert_eq!(siblings.cores(set(&[1, 2])), set(&[2]));
    }

    #[test]
    fn what_is_no_topology_is_refused() {
        let says = |change: fn(&mut Topology)| {
            let mut topology = split();
            change(&mut topology);
            topology.check(8).expect_err("no topology").to_string()
        };
        for (said, wanted) in [
            (says(|t| t.nodes = vec![set(&[0, 1, 2, 3])]), "nodes: pCPU 4 is in none of them"),
            (says(|t| t.caches.push(set(&[3]))), "caches: pCPU 3 is in two of them"),
            (says(|t| t.sockets.push(set(&[9]))), "sockets: pCPU 9 of 8: the first one is 0"),
            (
                says(|t| t.cores = vec![set(&[0, 4, 1]), set(&[5]), set(&[2, 6]), set(&[3, 7])]),
                "cores: {0-1,4} has 3 threads: at most 2",
            ),
            (
                says(|t| t.nodes = vec![set(&[0, 1]), set(&[4, 5]), set(&[2, 3, 6, 7])]),
                "caches: {0-1,4-5} is in more than one of the nodes",
            ),
            (
                says(|t| t.cores = vec![set(&[0, 2]), set(&[4, 6]), set(&[1, 5]), set(&[3, 7])]),
                "cores: {0,2} is in more than one of the caches",
            ),
        ] {
            assert!(said.ends_with(wanted), "{said}: {wanted}");
        }
    }
}
