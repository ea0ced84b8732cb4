//! Which thread is which.

use std::collections::HashMap;

use super::thread::{Role, ThreadInfo};
use crate::vcpu::Label;

/// A recording may name and follow so many threads.
pub const THREADS_MAX: usize = 1 << 17;

/// What a recording has said of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    tgid: u32,
    comm: [u8; 16],
}

/// All that a recording has said of threads up to now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    known: HashMap<u32, Known>,
    vms: Vec<String>,
    /// VM, by its place in `vms`, and role.
    members: HashMap<u32, (usize, Role)>,
}

impl Threads {
    /// A thread is of this process, if that is not 0, and calls itself so. With too many, the name is forgotten.
    pub(crate) fn name(&mut self, tid: u32, tgid: u32, comm: [u8; 16]) {
        if self.known.len() < THREADS_MAX || self.known.contains_key(&tid) {
            let known = self.known.entry(tid).or_default();
            known.comm = comm;
            if tgid != 0 {
                known.tgid = tgid;
            }
        }
    }

    /// Whether it is known by that name.
    pub(crate) fn has_name(&self, tid: u32, comm: &[u8; 16]) -> bool {
        self.known.get(&tid).is_some_and(|known| known.comm == *comm)
    }

    /// What it is known by, zeros if it is not.
    pub(crate) fn comm(&self, tid: u32) -> [u8; 16] {
        self.known.get(&tid).map(|known| known.comm).unwrap_or_default()
    }

    /// Another machine. `false` if there are too many.
    pub(crate) fn vm(&mut self, name: String) -> bool {
        self.vms.push(name);
        self.vms.len() <= THREADS_MAX
    }

    /// A thread of VM number `vm`. `false` if there is no such VM.
    pub(crate) fn member(&mut self, tid: u32, vm: usize, role: Role) -> bool {
        if self.members.len() < THREADS_MAX {
            self.members.insert(tid, (vm, role));
        }
        vm < self.vms.len()
    }

    /// Whether it is of a VM.
    pub(crate) fn is_member(&self, tid: u32) -> bool {
        self.members.contains_key(&tid)
    }

    /// The VMs with the numbers and roles of their threads.
    pub(crate) fn vms(&self) -> Vec<(String, Vec<ThreadInfo>)> {
        let mut all: Vec<(String, Vec<ThreadInfo>)> =
            self.vms.iter().map(|name| (name.clone(), Vec::new())).collect();
        for (&tid, &(vm, _)) in &self.members {
            if let Some((_, threads)) = all.get_mut(vm) {
                threads.push(self.thread(tid));
            }
        }
        for (_, threads) in &mut all {
            threads.sort_by_key(|thread| (thread.role, thread.tid));
        }
        all
    }

    /// How many threads have a name.
    pub(crate) fn named(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn thread(&self, tid: u32) -> ThreadInfo {
        let known = self.known.get(&tid);
        let member = self.members.get(&tid).copied();
        ThreadInfo {
            tid,
            tgid: known.map(|known| known.tgid).filter(|&tgid| tgid != 0),
            comm: known.map(|known| text(&known.comm)),
            vm: member.and_then(|(vm, _)| self.vms.get(vm).cloned()),
            role: member.map(|(_, role)| role),
        }
    }

    /// What a thread is called by now.
    pub(crate) fn label(&self, tid: u32) -> Label {
        let thread = self.thread(tid);
        let comm = thread.comm.as_deref().map_or_else(|| "thread".to_owned(), harmless);
        let member = self.members.get(&tid).copied();
        let (name, rank) = match (&thread.vm, member) {
            (Some(vm), Some((number, role))) => {
                let vm = harmless(vm);
                let name = match role {
                    Role::Vcpu(index) => format!("{vm} vcpu{index}"),
                    Role::Vhost(index) => format!("{vm} vhost{index}"),
                    Role::IoThread(index) => format!("{vm} iothread{index}"),
                    Role::Emulator => format!("{vm} emulator"),
                    Role::Worker => format!("{vm} {comm}[{tid}]"),
                };
                let (role, index) = role.packed();
                (name, (number as u32, u32::from(role) << 16 | u32::from(index), tid))
            }
            _ => (format!("{comm}[{tid}]"), (u32::MAX, 0, tid)),
        };
        Label { name, idle: false, rank, thread: Some(Box::new(thread)) }
    }
}

/// A name as the kernel has it: up to the first zero byte.
pub(crate) fn text(comm: &[u8]) -> String {
    let end = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

/// A name for a terminal.
pub(crate) fn harmless(name: &str) -> String {
    lowtail_out::name(name).into_owned()
}
