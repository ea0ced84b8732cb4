//! Small first for the threads of VMs, as a scheduler of the kernel's class sched_ext: `bpf/vcpu.bpf.c`.
//!
//! [`Scheduler::load`] puts it into the kernel, where it has nobody at first. [`Scheduler::add`] tells it of a VM and moves the
//! VM's threads there; other threads stay where they are. It lives as long as the value does: when that is dropped, each thread has
//! the policy back that it had, and when the process is killed, the kernel's own scheduler has all threads at once.
//! [`Scheduler::state`] says whether it is still there, and if not, why.

mod kernel;
mod options;
mod placed;
mod state;
mod vm;

use std::path::Path;

use lowtail_kernel::sched_ext;
pub use lowtail_kernel::sched_ext::NEEDS;
pub use options::Options;
pub(crate) use placed::has_class;
pub use state::{State, Stats};
pub use vm::{Cap, Thread, Vm, VmId};

use kernel::{Order, Programs};
use lowtail_kernel::error::Error;
use placed::Placed;

/// Where the kernel tells of the class.
const SCHED_EXT: &str = "/sys/kernel/sched_ext";
/// The scheduler in the kernel.
#[derive(Debug)]
pub struct Scheduler {
    programs: Programs,
    /// By [`VmId`]; the first is that of threads of which nobody has told.
    vms: Vec<Option<Placed>>,
}

impl Scheduler {
    /// Puts the scheduler into the kernel.
    ///
    /// # Errors
    /// [`Error::Scheduler`] if this kernel has no such class (`CONFIG_SCHED_CLASS_EXT`) or not all that is needed of it (Linux 6.17), if
    /// somebody else's scheduler is loaded, or if an option is out of its range; [`Error::Bpf`] if the kernel refuses the programs.
    pub fn load(options: &Options) -> Result<Self, Error> {
        options.check()?;
        available()?;
        let programs = Programs::load(options)?;
        let vms = std::iter::once(Some(Placed::default()))
            .chain(std::iter::repeat_with(|| None))
            .take(options.vms as usize)
            .collect();
        Ok(Scheduler { programs, vms })
    }

    /// Tells of a VM and moves its threads into the scheduler. Threads that have ended meanwhile are left out.
    ///
    /// # Errors
    /// If there is no room for another VM, if its group is not there, or if the kernel does not let a thread be moved; the
    /// VM is not there then, and its threads are as they were.
    pub fn add(&mut self, machine: &Vm) -> Result<VmId, Error> {
        let free =
            self.vms.iter().position(Option::is_none).ok_or_else(|| {
                Error::Scheduler(format!("room for {} VMs only", self.vms.len() - 1))
            })?;
        let vm = VmId(free as u32);
        let placed = Placed::new(machine, self.programs.stats(vm)?)?;
        self.order(vm, &placed.order(true))?;
        self.vms[free] = Some(placed);
        match self.add_threads(vm, &machine.threads) {
            Ok(()) => Ok(vm),
            Err(error) => {
                self.remove(vm)?;
                Err(error)
            }
        }
    }

    /// Moves more threads of a VM into the scheduler. One that is there is left as it is.
    ///
    /// # Errors
    /// If the kernel does not let one be moved; those before it have been.
    pub fn add_threads(&mut self, vm: VmId, threads: &[Thread]) -> Result<(), Error> {
        for thread in threads {
            let placed = self.placed(vm)?;
            if placed.has(thread.tid) {
                continue;
            }
            let come =
                if placed.is_expected(thread.tid) { placed::has_come(thread.tid) } else { None };
            let before = match come {
                Some(before) => Some(before),
                None => placed::enter(&self.programs, vm, thread)?,
            };
            if let Some(before) = before {
                self.placed(vm)?.entered(thread.tid, before);
            }
        }
        Ok(())
    }

    /// Tells of threads of a VM that somebody is about to give the class, after which [`Scheduler::add_threads`] takes them: they are of
    /// that VM, with its weight and its limit, from their first moment in the scheduler.
    ///
    /// # Errors
    /// If the kernel has no memory for what is told.
    pub fn expect_threads(&mut self, vm: VmId, threads: &[Thread]) -> Result<(), Error> {
        for thread in threads {
            let placed = self.placed(vm)?;
            let is_known = placed.has(thread.tid) || placed.is_expected(thread.tid);
            if !is_known && placed::expect(&self.programs, vm, thread)? {
                self.placed(vm)?.expect(thread.tid);
            }
        }
        Ok(())
    }

    /// Gives these threads of a VM back to the policy that they had.
    ///
    /// # Errors
    /// If the kernel refuses that for a thread which still runs.
    pub fn remove_threads(&mut self, vm: VmId, tids: &[u32]) -> Result<(), Error> {
        for &tid in tids {
            self.placed(vm)?.leave(tid)?;
        }
        Ok(())
    }

    /// Gives a VM's threads back to the policies that they had, and forgets it.
    ///
    /// # Errors
    /// If the kernel refuses that for a thread which still runs; the VM stays then, with the threads that are left.
    pub fn remove(&mut self, vm: VmId) -> Result<(), Error> {
        let placed = self.placed(vm)?;
        for tid in placed.tids() {
            placed.leave(tid)?;
        }
        let order = placed.order(false);
        self.order(vm, &order)?;
        self.vms[vm.0 as usize] = None;
        Ok(())
    }

    /// A VM's weight, 1 to 65535 with 256 the usual one; `None` is that of its control group.
    ///
    /// # Errors
    /// If there is no such VM.
    pub fn set_weight(&mut self, vm: VmId, weight: Option<u16>) -> Result<(), Error> {
        let placed = self.placed(vm)?;
        placed.weight = weight;
        let order = placed.order(true);
        self.order(vm, &order)
    }

    /// A VM's limit beside that of its control group; the stricter one holds.
    ///
    /// # Errors
    /// If there is no such VM.
    pub fn set_cap(&mut self, vm: VmId, cap: Option<Cap>) -> Result<(), Error> {
        let placed = self.placed(vm)?;
        placed.cap = cap;
        let order = placed.order(true);
        self.order(vm, &order)
    }

    /// What has come of a VM so far, since it was added.
    ///
    /// # Errors
    /// If there is no such VM, or its figures cannot be read.
    pub fn stats(&self, vm: VmId) -> Result<Stats, Error> {
        let placed = self.vms.get(vm.0 as usize).and_then(Option::as_ref);
        let placed = placed.ok_or_else(|| no_vm(vm))?;
        Ok(self.programs.stats(vm)?.since(&placed.before))
    }

    /// Whether the scheduler is still there.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn state(&self) -> Result<State, Error> {
        self.programs.state()
    }

    fn placed(&mut self, vm: VmId) -> Result<&mut Placed, Error> {
        let placed = self.vms.get_mut(vm.0 as usize).and_then(Option::as_mut);
        placed.ok_or_else(|| no_vm(vm))
    }

    fn order(&self, vm: VmId, order: &Order) -> Result<(), Error> {
        self.programs.order(vm, order)
    }
}

impl Drop for Scheduler {
    /// Threads that are left get their policies back.
    fn drop(&mut self) {
        for placed in self.vms.iter_mut().flatten() {
            for tid in placed.tids() {
                // The kernel's own scheduler has it in any case.
                let _ = placed.leave(tid);
            }
        }
    }
}

fn no_vm(vm: VmId) -> Error {
    Error::Scheduler(format!("there is no VM {}", vm.0))
}

/// Whether this kernel can have a scheduler of ours, and has no other one.
///
/// # Errors
/// Why not.
pub fn available() -> Result<(), Error> {
    let text = |name: &str| std::fs::read_to_string(Path::new(SCHED_EXT).join(name));
    let Ok(state) = text("state") else {
        let (first, last) = sched_ext::KERNELS;
        return Err(Error::Scheduler(format!(
            "this kernel has no sched_ext (there is no {SCHED_EXT}): it takes Linux {first} to {last} with \
             CONFIG_SCHED_CLASS_EXT"
        )));
    };
    let lacking = sched_ext::lacking(Path::new("/sys"));
    if !lacking.is_empty() {
        return Err(Error::Scheduler(sched_ext::sentence(&lacking)));
    }
    if state.trim() == "disabled" {
        return Ok(());
    }
    let name = text("root/ops").unwrap_or_default();
    // Whoever has loaded it has chosen the name.
    let name: String = name.trim().chars().filter(|c| c.is_ascii_graphic()).collect();
    Err(Error::Scheduler(format!(
        "`{name}` is loaded already ({SCHED_EXT}/state is {}); there can be one at a time",
        state.trim()
    )))
}
