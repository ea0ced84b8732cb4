//! The machines of a scenario in the kernel's own small-first: [`vcpu`](lowtail_control::vcpu).

use lowtail_host::sched::small_first::{SmallFirstConfig, WeightPer};
use lowtail_host::{Config, VmConfig};
use nix::unistd::Pid;

use crate::plan::Worker;
use lowtail_control::vcpu::{Cap, Options, Scheduler, State, Thread, Vm};
use lowtail_kernel::error::Error;

/// Puts the scheduler into the kernel and moves all threads of a scenario there: `tids[i]` is that of `workers[i]`.
///
/// # Errors
/// If this kernel has no sched_ext, or refuses the programs or a thread; if the scenario has control groups.
pub(crate) fn schedule(
    config: &Config,
    small_first: &SmallFirstConfig,
    workers: &[Worker],
    tids: &[Pid],
) -> Result<Scheduler, Error> {
    if !config.cgroups.is_empty() {
        let why = "small-first on a kernel has weights and caps of VMs; leave out `layout`, `cputune` and groups";
        return Err(Error::Scenario(why.into()));
    }
    let options = Options { params: small_first.params, ..Options::default() };
    let mut scheduler = Scheduler::load(&options)?;
    for (index, vm) in config.vms.iter().enumerate() {
        let of = workers.iter().zip(tids).filter(|(worker, _)| worker.vm == index);
        let threads =
            of.map(|(_, tid)| Thread { tid: tid.as_raw() as u32, ..Thread::default() }).collect();
        scheduler.add(&machine(vm, small_first.weight_per, threads))?;
    }
    Ok(scheduler)
}

/// What the scheduler is told of `vm`: what the simulated one reads in the scenario.
fn machine(vm: &VmConfig, weight_per: WeightPer, threads: Vec<Thread>) -> Vm {
    let times = match weight_per {
        WeightPer::Vm => 1,
        WeightPer::Vcpu => vm.vcpus,
    };
    let basis_points = u32::from(vm.cap_percent) * 100;
    Vm {
        vcpus: vm.vcpus.into(),
        weight: Some(vm.weight.saturating_mul(times)),
        cap: (basis_points > 0).then_some(Cap { basis_points, burst_ns: 0 }),
        group: None,
        threads,
    }
}

/// Whether the scheduler has kept its threads until now.
///
/// # Errors
/// If the kernel has ended it: what was measured is the kernel's own scheduler, from some moment on.
pub(crate) fn check(scheduler: &Scheduler) -> Result<(), Error> {
    match scheduler.state()? {
        State::Enabled => Ok(()),
        State::Ended { reason, message } => {
            Err(Error::Scheduler(format!("the kernel has ended it: {reason} {message}")))
        }
    }
}
