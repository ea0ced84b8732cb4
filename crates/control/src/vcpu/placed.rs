//! VMs and their threads that the scheduler has, on this side.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Pid;

use super::kernel::{Member, Order, Programs};
use super::state::Stats;
use super::vm::{Cap, Thread, Vm, VmId};
use lowtail_kernel::error::Error;
use lowtail_kernel::syscall::{pidfd_open, sched_getattr, sched_setattr};

/// The policy of the class: include/uapi/linux/sched.h.
const SCHED_EXT: u32 = 7;

/// A VM that was told of.
#[derive(Debug, Default)]
pub(super) struct Placed {
    vcpus: u32,
    pub(super) weight: Option<u16>,
    pub(super) cap: Option<Cap>,
    group: u64,
    /// What its number had counted before.
    pub(super) before: Stats,
    /// Its threads, with what they had before.
    threads: BTreeMap<u32, libc::sched_attr>,
    /// Threads that are its as soon as they have the class.
    expected: BTreeSet<u32>,
}

impl Placed {
    pub(super) fn new(vm: &Vm, before: Stats) -> Result<Self, Error> {
        Ok(Placed {
            vcpus: vm.vcpus.max(1),
            weight: vm.weight,
            cap: vm.cap,
            group: vm.group.as_deref().map(group_id).transpose()?.unwrap_or(0),
            before,
            threads: BTreeMap::new(),
            expected: BTreeSet::new(),
        })
    }

    pub(super) fn order(&self, used: bool) -> Order {
        Order {
            group: self.group,
            used: used.into(),
            weight: self.weight.map_or(0, |weight| u32::from(weight.max(1))),
            cap_rate: self.cap.map_or(0, Cap::rate),
            cap_burst_ns: self.cap.map_or(0, |cap| cap.burst_ns),
            vcpus: self.vcpus,
            pad: 0,
        }
    }

    pub(super) fn has(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    pub(super) fn tids(&self) -> Vec<u32> {
        self.threads.keys().copied().collect()
    }

    pub(super) fn entered(&mut self, tid: u32, before: libc::sched_attr) {
        self.expected.remove(&tid);
        self.threads.insert(tid, before);
    }

    /// The scheduler was told whose thread `tid` is, which does not have the class yet.
    pub(super) fn is_expected(&self, tid: u32) -> bool {
        self.expected.contains(&tid)
    }

    pub(super) fn expect(&mut self, tid: u32) {
        self.expected.insert(tid);
    }

    /// Thread `tid` has the policy again that it had, unless somebody has given it another one meanwhile.
    pub(super) fn leave(&mut self, tid: u32) -> Result<(), Error> {
        let Some(before) = self.threads.get(&tid) else { return Ok(()) };
        let pid = Pid::from_raw(tid as i32);
        let left = sched_getattr(pid).and_then(|attr| match attr.sched_policy {
            SCHED_EXT => sched_setattr(pid, before),
            _ => Ok(()),
        });
        match left {
            Err(error) if !gone(&error) => {
                Err(failed(tid, "give it back the policy that it had", error))
            }
            _ => {
                self.threads.remove(&tid);
                Ok(())
            }
        }
    }
}

/// What the scheduler is told of a thread.
fn member(vm: VmId, thread: &Thread) -> Result<Member, Error> {
    let group = thread.group.as_deref().map(group_id).transpose()?.unwrap_or(0);
    let cap = thread.cap.unwrap_or_default();
    let cap_rate = thread.cap.map_or(0, Cap::rate);
    Ok(Member { group, vm: vm.0, cap_rate, cap_burst_ns: cap.burst_ns, slot: 0 })
}

/// Tells the scheduler whose a thread is that does not have the class yet, so that it is of that VM from its first moment there. Returns
/// whether that was done: not if the thread has the class, or has ended.
pub(super) fn expect(programs: &Programs, vm: VmId, thread: &Thread) -> Result<bool, Error> {
    let (tid, pid) = (thread.tid, Pid::from_raw(thread.tid as i32));
    let member = member(vm, thread)?;
    let told = pidfd_open(pid).and_then(|fd| match sched_getattr(pid)?.sched_policy {
        SCHED_EXT => Ok(false),
        _ => programs.enlist(&fd, &member).map(|()| true),
    });
    match told {
        Err(error) if gone(&error) => Ok(false),
        told => told.map_err(|error| failed(tid, "tell the scheduler of it", error)),
    }
}

/// Moves a thread into the scheduler, as one of `vm`. Gives what it had before; `None` if it has ended.
pub(super) fn enter(
    programs: &Programs,
    vm: VmId,
    thread: &Thread,
) -> Result<Option<libc::sched_attr>, Error> {
    let tid = thread.tid;
    let pid = Pid::from_raw(tid as i32);
    let member = member(vm, thread)?;
    let moved = || -> Result<libc::sched_attr, (&'static str, io::Error)> {
        let fd = pidfd_open(pid).map_err(|error| ("look for it", error))?;
        let mut before = sched_getattr(pid).map_err(|error| ("read its policy", error))?;
        let was_here = (before.sched_policy == SCHED_EXT).then_some(before);
        if was_here.is_some() {
            // A scheduler that was here before has left it so; it takes the policy anew to be of this VM.
            before.sched_policy = libc::SCHED_OTHER as u32;
            sched_setattr(pid, &before).map_err(|error| ("set its policy", error))?;
        }
        if let Err(error) = programs.enlist(&fd, &member) {
            // The kernel may have no memory for it. It has the class again that it had, as one of nobody's.
            if let Some(was) = &was_here {
                let _ = sched_setattr(pid, was);
            }
            return Err(("tell the scheduler of it", error));
        }
        let attr = libc::sched_attr {
            sched_policy: SCHED_EXT,
            sched_flags: 0,
            sched_priority: 0,
            // A slice of its own stays, for whoever has the thread after us.
            sched_runtime: if is_fair(before.sched_policy) { before.sched_runtime } else { 0 },
            ..before
        };
        sched_setattr(pid, &attr).map_err(|error| ("move it into the scheduler", error))?;
        Ok(before)
    };
    match moved() {
        Ok(before) => Ok(Some(before)),
        Err((_, error)) if gone(&error) => Ok(None),
        Err((what, error)) => Err(failed(tid, what, error)),
    }
}

/// What an expected thread had before it got the class from somebody else; `None` if it does not have the class, or has ended.
pub(super) fn has_come(tid: u32) -> Option<libc::sched_attr> {
    let attr = sched_getattr(Pid::from_raw(tid as i32)).ok()?;
    let before = libc::sched_attr { sched_policy: libc::SCHED_OTHER as u32, ..attr };
    (attr.sched_policy == SCHED_EXT).then_some(before)
}

/// The number by which the kernel knows a control group: that of its directory.
fn group_id(path: &Path) -> Result<u64, Error> {
    let metadata = std::fs::metadata(path);
    let metadata = metadata.map_err(|error| Error::file("look for the group", path, error))?;
    Ok(metadata.ino())
}

/// Whether thread `tid` has the class already.
pub(crate) fn has_class(tid: u32) -> bool {
    sched_getattr(Pid::from_raw(tid as i32)).is_ok_and(|attr| attr.sched_policy == SCHED_EXT)
}

/// Policies that have a slice (`sched_setattr(2)`).
fn is_fair(policy: u32) -> bool {
    [libc::SCHED_OTHER as u32, libc::SCHED_BATCH as u32, SCHED_EXT].contains(&policy)
}

fn gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn failed(tid: u32, what: &'static str, source: io::Error) -> Error {
    Error::Tid { tid, what, source }
}
