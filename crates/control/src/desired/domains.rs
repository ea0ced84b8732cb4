//! VMs of libvirt's, by the process that runs them, and their values as libvirt has them.

use std::collections::BTreeMap;
use std::path::Path;

use lowtail_libvirt::labels::Label;

use super::value::{Desired, Target};
use crate::libvirt::{self, Domain, Part, Running};
use crate::manage::{self, Knob, Libvirt, Setting};
use lowtail_discover::{Found, Kind, Vm};

/// What libvirt knows of the VMs that were found.
#[derive(Debug, Default)]
pub(super) struct Domains {
    uri: String,
    known: BTreeMap<(u32, u64), Running>,
    /// Why nothing is known.
    pub(super) unknown: Option<String>,
}

impl Domains {
    /// Asks libvirt, if one of the VMs is one of its.
    pub(super) fn ask(uri: &str, found: &Found) -> Self {
        let own = || found.vms.iter().filter(|vm| vm.kind == Kind::Libvirt);
        let mut domains = Domains { uri: uri.to_string(), ..Domains::default() };
        if own().next().is_none() {
            return domains;
        }
        match running(uri) {
            Ok(all) => {
                let of = |vm: &Vm| Some((id(vm), all.iter().find(|one| one.is(vm))?.clone()));
                domains.known = own().filter_map(of).collect();
            }
            Err(why) => domains.unknown = Some(why),
        }
        domains
    }

    /// What descriptions of VMs say, by process and when it began.
    pub(super) fn libvirt_labels(&self) -> BTreeMap<(u32, u64), Vec<Label>> {
        self.known.iter().map(|(id, one)| (*id, one.labels.clone())).collect()
    }

    /// The VM `vm` as libvirt names it.
    pub(super) fn of(&self, vm: &Vm) -> Option<&Domain> {
        self.known.get(&id(vm)).map(|running| &running.domain)
    }

    /// Moves those wishes of `vm` to libvirt's values that libvirt has: weight of the VM, all limits. The others
    /// stay: bursts, and the weight of the emulator's threads.
    pub(super) fn take(&self, vm: &Vm, desired: &mut Vec<Desired>) -> Vec<Setting> {
        let Some(domain) = self.of(vm) else { return Vec::new() };
        let knob =
            |key| Knob::Libvirt(Libvirt { uri: self.uri.clone(), domain: domain.clone(), key });
        let mut values: Vec<(libvirt::Key, String, String)> = Vec::new();
        desired.retain(|wish| {
            let Some(taken) = values_of(vm, wish) else { return true };
            for (key, to) in taken {
                // All vCPUs have one limit, and so have all I/O threads.
                if !values.iter().any(|(there, ..)| *there == key) {
                    values.push((key, to, wish.why.clone()));
                }
            }
            false
        });
        let setting = |(key, to, why)| Setting { knob: knob(key), to, why };
        values.into_iter().map(setting).collect()
    }
}

fn id(vm: &Vm) -> (u32, u64) {
    (vm.pid, vm.started_ticks)
}

#[cfg(feature = "libvirt")]
fn running(uri: &str) -> Result<Vec<Running>, String> {
    libvirt::with(uri, |to| to.running()).map_err(|error| {
        format!("{error}; values of libvirt's VMs are written to their control groups directly")
    })
}

#[cfg(not(feature = "libvirt"))]
fn running(_uri: &str) -> Result<Vec<Running>, String> {
    Err(libvirt::WITHOUT.to_string())
}

/// Keys and values of libvirt's for what is to be in a control group; `None` if libvirt has none for it.
fn values_of(vm: &Vm, wish: &Desired) -> Option<Vec<(libvirt::Key, String)>> {
    let Target::Group(path, file) = &wish.target else { return None };
    let part = part(vm, path)?;
    let (period, quota) = (libvirt::Key::Period(part), libvirt::Key::Quota(part));
    let to = wish.to.clone();
    match file {
        manage::Key::CpuShares | manage::Key::CpuWeight if part == Part::Global => {
            Some(vec![(libvirt::Key::CpuShares, to)])
        }
        manage::Key::CfsPeriod => Some(vec![(period, to)]),
        manage::Key::CfsQuota => Some(vec![(quota, to)]),
        manage::Key::CpuMax => match to.split_once(' ') {
            Some((us, of)) => Some(vec![(quota, us.to_string()), (period, of.to_string())]),
            None => Some(vec![(quota, "-1".to_string())]),
        },
        _ => None,
    }
}

/// Which part of a VM a group of it is.
fn part(vm: &Vm, path: &Path) -> Option<Part> {
    if vm.cgroup.as_deref() == Some(path) {
        return Some(Part::Global);
    }
    let group = vm.groups.iter().find(|group| group.path == path)?;
    let label = group.label.as_given();
    let parts = [("vcpu", Part::Vcpu), ("emulator", Part::Emulator), ("iothread", Part::IoThread)];
    parts.iter().find(|(name, _)| label.starts_with(name)).map(|(_, part)| *part)
}
