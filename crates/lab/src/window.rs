//! The largest share that VMs have of the processors for a while: what `window_share` says.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};
use lowtail_host::Host;

use crate::case::{Case, VmRef};

/// From one position of the window to the next.
pub(crate) const STEP: Duration = Duration::from_ms(1);
/// Steps of a window: it is 100 ms long.
const STEPS: usize = 100;

/// Slides a window along a run, for each group of VMs of a case.
#[derive(Debug)]
pub(crate) struct Windows<'c> {
    groups: Vec<Sliding<'c>>,
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
fn used(machine: &Host, vms: &[VmRef]) -> Duration {
    let vcpus = vms.iter().flat_map(|vm| &machine.facts().doms[vm.dom.index()].vcpus);
    vcpus.fold(Duration::ZERO, |sum, &v| sum + machine.vcpu_time(v).0)
}

impl<'c> Windows<'c> {
    /// For a run from time zero.
    pub(crate) fn new(case: &'c Case) -> Self {
        let sliding =
            |vms: &'c [VmRef]| Sliding { vms, used: VecDeque::from([Duration::ZERO]), most: None };
        Windows { groups: case.groups.iter().map(|group| sliding(&group.vms)).collect() }
    }

    /// The end of a step.
    pub(crate) fn look(&mut self, machine: &Host) {
        for group in &mut self.groups {
            group.used.push_back(used(machine, group.vms));
            if group.used.len() > STEPS
                && let (Some(first), Some(&last)) = (group.used.pop_front(), group.used.back())
            {
                group.most = group.most.max(Some(last - first));
            }
        }
    }

    /// The largest share of each group, in pCPUs. A run shorter than a window counts as one.
    pub(crate) fn shares(&self, machine: &Host) -> Vec<f64> {
        let whole_s = machine.now().since(Time::ZERO).as_s_f64();
        let share = |group: &Sliding<'_>| match group.most {
            Some(most) => most.as_s_f64() / (STEP * STEPS as u64).as_s_f64(),
            None if whole_s > 0.0 => used(machine, group.vms).as_s_f64() / whole_s,
            None => 0.0,
        };
        self.groups.iter().map(share).collect()
    }
}
