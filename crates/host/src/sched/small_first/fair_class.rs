//! Who is of the host's fair class, and who of them waits.

use std::collections::VecDeque;

use crate::host_state::HostState;
use crate::ids::{Dom, Pcpu, Vcpu};

/// The threads of the fair class.
#[derive(Debug, Default)]
pub(super) struct FairClass {
    /// By [`Dom::index`]: whether a domain is one of them.
    doms: Vec<bool>,
    /// Those that can run and do not, the first come first.
    waiting: VecDeque<Vcpu>,
}

impl FairClass {
    /// The ones of `host`, none of which wants to run yet.
    pub(super) fn new(host: &HostState) -> Self {
        let doms = host.doms.iter().map(|dom| dom.fair_class).collect();
        FairClass { doms, waiting: VecDeque::new() }
    }

    /// Whether a domain is one of them.
    pub(super) fn has(&self, dom: Dom) -> bool {
        self.doms[dom.index()]
    }

    /// Whether `v` waits.
    pub(super) fn waits(&self, v: Vcpu) -> bool {
        self.waiting.contains(&v)
    }

    /// `v` waits behind all others.
    pub(super) fn push(&mut self, v: Vcpu) {
        self.waiting.push_back(v);
    }

    /// The first one that may run on `p`, which waits no longer.
    pub(super) fn take(&mut self, host: &HostState, p: Pcpu) -> Option<Vcpu> {
        let may = |v: &Vcpu| host.vcpus[v.index()].hard().has(p);
        let at = self.waiting.iter().position(may)?;
        self.waiting.remove(at)
    }
}
