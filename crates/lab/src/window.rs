//! The largest share that VMs have of the processors for a while: what `cpus_used_in_window` says.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};
use lowtail_host::Host;

use crate::case::spec::{Case, VmRef};

/// From one position of the window to the next.
pub(crate) const STEP: Duration = Duration::from_ms(1);
/// Steps of a window: it is 100 ms long.
const STEPS: usize = 100;

/// Slides a window along a run, for each kind of VMs of a case.
#[derive(Debug)]
pub(crate) struct Windows<'c> {
    kinds: Vec<Sliding<'c>>,
}

#[derive(Debug)]
struct Sliding<'c> {
    vms: &'c [VmRef],
    /// Processor time used by the end of each of the last steps.
    used: VecDeque<Duration>,
    /// The most in any whole window.
    most: Option<Duration>,
}

/// Processor time of all vCPUs of `vms` up to now.
fn used(host: &Host, vms: &[VmRef]) -> Duration {
    let vcpus = vms.iter().flat_map(|vm| &host.state().doms[vm.dom.index()].vcpus);
    vcpus.fold(Duration::ZERO, |sum, &v| sum + host.vcpu_time(v).0)
}

impl<'c> Windows<'c> {
    /// For a run from time zero.
    pub(crate) fn new(case: &'c Case) -> Self {
        let sliding =
            |vms: &'c [VmRef]| Sliding { vms, used: VecDeque::from([Duration::ZERO]), most: None };
        Windows { kinds: case.kinds.iter().map(|kind| sliding(&kind.vms)).collect() }
    }

    /// The end of a step.
    pub(crate) fn look(&mut self, host: &Host) {
        for kind in &mut self.kinds {
            kind.used.push_back(used(host, kind.vms));
            if kind.used.len() > STEPS
                && let (Some(first), Some(&last)) = (kind.used.pop_front(), kind.used.back())
            {
                kind.most = kind.most.max(Some(last - first));
            }
        }
    }

    /// The largest share of each kind, in pCPUs. A run shorter than a window counts as one.
    pub(crate) fn shares(&self, host: &Host) -> Vec<f64> {
        let whole_s = host.now().since(Time::ZERO).as_s_f64();
        let share = |kind: &Sliding<'_>| match kind.most {
            Some(most) => most.as_s_f64() / (STEP * STEPS as u64).as_s_f64(),
            None if whole_s > 0.0 => used(host, kind.vms).as_s_f64() / whole_s,
            None => 0.0,
        };
        self.kinds.iter().map(share).collect()
    }
}
