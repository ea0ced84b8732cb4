//! What balancing looks at, pCPU by pCPU, close together, with its sums for sockets: whoever looks for the busiest of many pCPUs does not
//! go through all that is known of each.

use crate::cpu_set::CpuSet;
use crate::host_state::HostState;
use crate::ids::Pcpu;

/// Load and threads of a pCPU, or of all in a socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Weight of what is queued.
    pub(super) load: u64,
    /// Threads that could run, and who runs.
    pub(super) runnable: u32,
}

/// Those of all pCPUs.
#[derive(Debug, Default)]
pub(super) struct Loads {
    pcpus: Vec<Load>,
    sockets: Vec<Load>,
    /// The socket of each pCPU.
    socket_of: Vec<u16>,
    /// pCPUs on which nothing runs, and nothing waits.
    idle: CpuSet,
}

impl Loads {
    /// Those of a host on which nothing runs.
    pub(super) fn new(host: &HostState) -> Self {
        let socket_of = |p: Pcpu| host.sockets.iter().position(|s| s.has(p)).unwrap_or(0) as u16;
        Loads {
            pcpus: vec![Load::default(); host.current.len()],
            sockets: vec![Load::default(); host.sockets.len().max(1)],
            socket_of: host.pcpus.iter().map(socket_of).collect(),
            idle: host.pcpus,
        }
    }

    /// pCPU `p` has `new` now, and something to do, or nothing.
    pub(super) fn set(&mut self, p: usize, new: Load, busy: bool) {
        let old = std::mem::replace(&mut self.pcpus[p], new);
        let sum = &mut self.sockets[usize::from(self.socket_of[p])];
        sum.load = sum.load - old.load + new.load;
        sum.runnable = sum.runnable - old.runnable + new.runnable;
        if busy {
            self.idle.remove(Pcpu(p as u16));
        } else {
            self.idle.insert(Pcpu(p as u16));
        }
    }

    pub(super) fn of(&self, p: usize) -> Load {
        self.pcpus[p]
    }

    pub(super) fn of_socket(&self, socket: usize) -> Load {
        self.sockets[socket]
    }

    /// The number of `p`'s socket.
    pub(super) fn socket(&self, p: usize) -> usize {
        usize::from(self.socket_of[p])
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
