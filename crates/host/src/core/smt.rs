//! Simultaneous multithreading: two pCPUs that are threads of one core. While both run somebody, each works at a part of its speed
//! alone. What each has is CPU time all the same; the work done in it is less.

use lowtail_engine::Duration;

use super::Core;
use super::state::Progress;
use crate::ids::{Pcpu, Vcpu};

/// How long so much work takes at a speed in percent, so that all of it is done then.
pub(super) fn takes(work: Duration, percent: u64) -> Duration {
    let ps = (u128::from(work.as_ps()) * 100).div_ceil(u128::from(percent));
    Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

impl Core {
    /// What `progress`, which has executed for so long since it began or its sibling changed, has done.
    pub(super) fn done_in(&self, span: Duration, progress: &Progress) -> Duration {
        if progress.shares_core { span.mul_div(self.sibling_percent, 100) } else { span }
    }

    /// Whether the other pCPU of the core on which `v` runs has somebody.
    pub(super) fn shares_core(&self, v: Vcpu) -> bool {
        let sibling = self.host.sibling_of(self.host.vcpus[v.index()].processor);
        sibling.is_some_and(|p| self.host.current[p.index()].is_some())
    }

    /// `p` has somebody from now on, or has nobody: who executes on the other pCPU of its core is slower, or faster.
    pub(super) fn sibling_changes(&mut self, p: Pcpu) {
        let sibling = self.host.sibling_of(p);
        let Some(v) = sibling.and_then(|p| self.host.current[p.index()]) else { return };
        if self.progress[v.index()].executing.is_some() {
            self.suspend(v);
            // Also if its step ends at this very instant: through an event, as `p` is in the middle of something.
            self.execute(v);
        }
    }
}
