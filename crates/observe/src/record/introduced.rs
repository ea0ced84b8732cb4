//! VMs and threads, told to a recording once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use lowtail_discover::{Role, Vm};
use lowtail_trace::Role as TraceRole;
use lowtail_trace::recording::Writer;

/// What one recording knows of VMs.
#[derive(Debug, Default)]
pub(super) struct Introduced {
    /// Its numbers of VMs, by process and when that started.
    vms: BTreeMap<(u32, u64), u32>,
    members: BTreeSet<u32>,
}

impl Introduced {
    /// Writes the VMs and threads that have not been; gives those threads.
    pub(super) fn write<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        vms: &BTreeMap<(u32, u64), Vm>,
    ) -> io::Result<Vec<u32>> {
        let mut new = Vec::new();
        for (&key, vm) in vms {
            let number = match self.vms.get(&key) {
                Some(&number) => number,
                None => {
                    let kind = serde_json::to_value(vm.kind).unwrap_or_default();
                    let number = out.vm(vm.name.as_given(), kind.as_str().unwrap_or_default())?;
                    self.vms.insert(key, number);
                    number
                }
            };
            for thread in &vm.threads {
                if self.members.insert(thread.tid) {
                    out.member(thread.tid, number, role(thread.role))?;
                    new.push(thread.tid);
                }
            }
        }
        Ok(new)
    }
}

fn role(role: Role) -> TraceRole {
    match role {
        Role::Vcpu(index) => TraceRole::Vcpu(index),
        Role::Emulator => TraceRole::Emulator,
        Role::IoThread(index) => TraceRole::IoThread(index),
        Role::Vhost(index) => TraceRole::Vhost(index),
        Role::Worker => TraceRole::Worker,
    }
}
