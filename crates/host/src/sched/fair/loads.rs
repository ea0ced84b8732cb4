//! What balancing looks at, pCPU by pCPU, close together, with its sums for caches and nodes: whoever looks for the busiest of many
//! pCPUs does not go through all that is known of each.

use crate::cpu_set::CpuSet;
use crate::host_state::HostState;
use crate::ids::Pcpu;
use crate::topology::set_of_each;

/// Load and threads of a pCPU, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Weight of what is queued.
    pub(super) load: u64,
    /// Threads that could run, and who runs.
    pub(super) runnable: u32,
}

/// What pCPUs share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    /// A last-level cache.
    Cache,
    /// A NUMA node.
    Node,
}

/// Loads of all caches, or of all nodes.
#[derive(Debug, Default)]
struct Sums {
    loads: Vec<Load>,
    /// Which of them each pCPU is in.
    of: Vec<u16>,
}

impl Sums {
    fn new(sets: &[CpuSet], pcpus: CpuSet) -> Self {
        Sums { loads: vec![Load::default(); sets.len()], of: set_of_each(sets, pcpus) }
    }
}

/// Those of all pCPUs.
#[derive(Debug, Default)]
pub(super) struct Loads {
    pcpus: Vec<Load>,
    caches: Sums,
    nodes: Sums,
    /// pCPUs on which nothing runs, and nothing waits.
    idle: CpuSet,
}

impl Loads {
    /// Those of a host on which nothing runs.
    pub(super) fn new(host: &HostState) -> Self {
        Loads {
            pcpus: vec![Load::default(); host.current.len()],
            caches: Sums::new(&host.topology.caches, host.pcpus),
            nodes: Sums::new(&host.topology.nodes, host.pcpus),
            idle: host.pcpus,
        }
    }

    /// pCPU `p` has `new` now, and something to do, or nothing.
    pub(super) fn set(&mut self, p: usize, new: Load, busy: bool) {
        let old = std::mem::replace(&mut self.pcpus[p], new);
        for sums in [&mut self.caches, &mut self.nodes] {
            let sum = &mut sums.loads[usize::from(sums.of[p])];
            sum.load = sum.load - old.load + new.load;
            sum.runnable = sum.runnable - old.runnable + new.runnable;
        }
        if busy {
            self.idle.remove(Pcpu(p as u16));
        } else {
            self.idle.insert(Pcpu(p as u16));
        }
    }

    pub(super) fn of(&self, p: usize) -> Load {
        self.pcpus[p]
    }

    /// Of cache or node number `set`.
    pub(super) fn of_set(&self, shared: Shared, set: usize) -> Load {
        self.sums(shared).loads[set]
    }

    /// The number of `p`'s cache or node.
    pub(super) fn set_of(&self, shared: Shared, p: usize) -> usize {
        usize::from(self.sums(shared).of[p])
    }

    fn sums(&self, shared: Shared) -> &Sums {
        match shared {
            Shared::Cache => &self.caches,
            Shared::Node => &self.nodes,
        }
    }

    /// Whether nothing runs on `p`, and nothing waits there.
    pub(super) fn idles(&self, p: usize) -> bool {
        self.idle.has(Pcpu(p as u16))
    }

    /// All of these.
    pub(super) fn idle(&self) -> CpuSet {
        self.idle
    }
}
