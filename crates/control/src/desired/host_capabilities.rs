//! What a host offers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use lowtail_libvirt::labels::Label;

use super::domains::Domains;
use crate::manage::cpus;
use crate::policy::Policy;
use crate::xen::XenHost;
use lowtail_discover::{Found, Users, Vm};
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_kernel::sched_ext;
use lowtail_kernel::{Name, Roots};

/// And `cpu.max.burst` from here on (f4183717b370).
const BURST_SINCE: (u32, u32) = (5, 14);

/// What a host offers, as far as a policy asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCapabilities {
    /// The CPU controller of control groups, if there are any.
    pub hierarchy: Option<Version>,
    /// The CPUs that are on.
    pub cpus: BTreeSet<usize>,
    /// Major and minor version of the kernel.
    pub kernel: (u32, u32),
    /// Whether the scheduler small-first can be had; if not, why.
    pub small_first: Result<(), String>,
    /// What libvirt's descriptions of VMs say, by process and when it began, where somebody has asked libvirt.
    pub libvirt_labels: BTreeMap<(u32, u64), Vec<Label>>,
    /// Users whose word on their VMs counts: [`HostCapabilities::ask_users`].
    pub users: Users,
    /// Users of the policy that this host does not have.
    pub missing_users: Vec<Name>,
    /// VMs that the fair class is to have for a while though small-first can be had, by process and when it began: ordinary threads
    /// have their CPUs.
    pub aside: BTreeSet<(u32, u64)>,
    /// VMs that are not touched for now though the policy has settings for them, and why: the guard has reverted them, or their turn
    /// comes later.
    pub held: BTreeMap<(u32, u64), String>,
    /// The Xen host that this is the dom0 of, if it is one: its domains are the VMs.
    pub xen: Option<XenHost>,
}

impl HostCapabilities {
    /// Those of this host; `hierarchy` is the one of its VMs.
    ///
    /// # Errors
    /// If the kernel does not say which CPUs are on.
    pub fn read(roots: &Roots, hierarchy: Option<&Hierarchy>) -> io::Result<Self> {
        let release = fs::read_to_string(roots.proc.join("sys/kernel/osrelease"))?;
        Ok(HostCapabilities {
            hierarchy: hierarchy.map(|hierarchy| hierarchy.version),
            cpus: online(roots)?,
            kernel: version(&release),
            small_first: small_first(roots),
            libvirt_labels: BTreeMap::new(),
            users: Users::default(),
            missing_users: Vec::new(),
            aside: BTreeSet::new(),
            held: BTreeMap::new(),
            xen: None,
        })
    }

    /// Reads again what changes while a host runs: which CPUs are on, and where VMs' control groups are. If it cannot be
    /// read, it is as it was.
    ///
    /// # Errors
    /// As [`read`](HostCapabilities::read).
    pub fn refresh(&mut self, roots: &Roots, hierarchy: Option<&Hierarchy>) -> io::Result<()> {
        self.cpus = online(roots)?;
        self.hierarchy = hierarchy.map(|hierarchy| hierarchy.version);
        if self.xen.is_some() {
            self.ask_xen()?;
        }
        Ok(())
    }

    /// Asks libvirt what it says of its VMs, where `policy` goes by that. What is known of VMs already
    /// stays if libvirt does not answer. [`settings()`](super::settings()) does so by itself.
    pub fn ask_libvirt(&mut self, policy: &Policy, found: &Found) {
        if policy.vms.needs_libvirt().is_some() || policy.vms.by_label() {
            self.know(Domains::ask(&policy.libvirt, found).libvirt_labels());
        }
    }

    /// Asks Xen's toolstack: this is a dom0, and its domains are the VMs. The kernel of dom0 schedules none of them.
    ///
    /// # Errors
    /// If the toolstack does not answer.
    pub fn ask_xen(&mut self) -> io::Result<()> {
        self.xen = Some(XenHost::read().map_err(io::Error::other)?);
        self.small_first = Err("the vCPUs are scheduled by Xen".to_string());
        Ok(())
    }

    /// Looks up the users of `policy` on this host.
    pub fn ask_users(&mut self, policy: &Policy) {
        (self.users, self.missing_users) = policy.users.on_this_host();
    }

    /// Adds what libvirt says now.
    pub(super) fn know(&mut self, libvirt_labels: BTreeMap<(u32, u64), Vec<Label>>) {
        self.libvirt_labels.extend(libvirt_labels);
    }

    /// What libvirt says of this VM.
    pub(super) fn libvirt_labels_of(&self, vm: &Vm) -> &[Label] {
        self.libvirt_labels.get(&(vm.pid, vm.started_ticks)).map_or(&[], Vec::as_slice)
    }

    /// Whether the fair class is to have this VM for a while.
    pub(super) fn is_aside(&self, vm: &Vm) -> bool {
        self.aside.contains(&(vm.pid, vm.started_ticks))
    }

    /// Whether this VM is not to be touched for now.
    pub(super) fn is_held(&self, vm: &Vm) -> bool {
        self.held.contains_key(&(vm.pid, vm.started_ticks))
    }

    /// Whether a thread can have a slice of its own.
    pub(super) fn has_slices(&self) -> bool {
        self.kernel >= lowtail_kernel::thread::SLICES_SINCE
    }

    /// Whether a group can save up run time.
    pub(super) fn has_burst(&self) -> bool {
        self.kernel >= BURST_SINCE
    }
}

/// The CPUs that are on.
pub(crate) fn online(roots: &Roots) -> io::Result<BTreeSet<usize>> {
    let online = fs::read_to_string(roots.sys.join("devices/system/cpu/online"))?;
    let online = cpus::parse(online.trim()).map_err(io::Error::other)?;
    match online.is_empty() {
        true => Err(io::Error::other("the kernel names no CPU that is on")),
        false => Ok(online),
    }
}

/// Whether the kernel has what the scheduler needs.
fn small_first(roots: &Roots) -> Result<(), String> {
    if !roots.sys.join("kernel/sched_ext").is_dir() {
        return Err("the kernel has no sched_ext".to_string());
    }
    match sched_ext::lacking(&roots.sys) {
        lacking if lacking.is_empty() => Ok(()),
        lacking => Err(sched_ext::sentence(&lacking)),
    }
}

/// Of `6.12.3-amd64`; 0 for what is no number.
fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
    let mut next = || parts.next().flatten().unwrap_or(0);
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.12.3-amd64\n"), (6, 12));
        assert_eq!(version("5.14-rc1"), (5, 14));
        assert_eq!(version("odd"), (0, 0));
    }

    #[test]
    fn this_host() {
        let capabilities =
            HostCapabilities::read(&Roots::default(), None).expect("a host of Linux");
        assert!(!capabilities.cpus.is_empty() && capabilities.kernel >= (3, 0), "{capabilities:?}");
    }
}
