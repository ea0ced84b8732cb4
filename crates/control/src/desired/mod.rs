//! The desired state of this host: settings for its VMs by a policy, and what the host cannot do.
//!
//! [`resolve()`] is a function of policy, VMs and [`HostCapabilities`] alone: it reads nothing and changes nothing.
//! [`settings()`] turns its wishes into places of [`manage`](crate::manage), which have an identity that has to be
//! looked up, and adds the CPUs of back-end workers, which depend on where those are now.

mod domains;
mod groups;
mod host_capabilities;
mod network;
mod nice;
mod settings;
mod taps;
mod threads;
mod value;
mod vms;
mod xen;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::guard::Machine;
use crate::policy::{self, Policy, Rule, Scheduler};
use lowtail_discover::{Kind, Vm};
use lowtail_kernel::Name;
use lowtail_kernel::hangs;

pub use host_capabilities::HostCapabilities;
pub(crate) use host_capabilities::online;
pub use settings::{Settings, settings};
pub use value::{Desired, Target};
pub use vms::{Member, members};

/// VMs that one sentence names.
const NAMES_MAX: usize = 8;

/// What a policy wants of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Who schedules vCPUs.
    pub vcpus: VcpusBy,
    /// VM by VM, in the order in which they were given.
    pub desired: Vec<Desired>,
    /// What cannot be set here.
    pub notes: Vec<Note>,
}

/// Who schedules vCPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VcpusBy {
    /// The rule small-first, by sched_ext.
    SmallFirst,
    /// The kernel's fair class.
    #[default]
    Fair,
    /// Xen's scheduler, with weights, caps and its own parameters.
    Xen,
    /// Whoever does: the policy does not say.
    Untouched,
}

/// What cannot be set here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Of which VM, if not of all.
    pub vm: Option<Name>,
    /// What, and why not.
    #[serde(rename = "text")]
    pub what: String,
    /// Whether the policy insists on it.
    pub fatal: bool,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.vm {
            Some(vm) => write!(f, "{vm}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What `policy` wants of `vms` on a host with these `capabilities`.
pub fn resolve(policy: &Policy, vms: &[Vm], capabilities: &HostCapabilities) -> Wanted {
    let mut wanted = Wanted { vcpus: by(policy.scheduler, capabilities), ..Wanted::default() };
    if let (VcpusBy::Fair, Scheduler::Auto | Scheduler::SchedExt, Err(why)) =
        (wanted.vcpus, policy.scheduler, &capabilities.small_first)
    {
        let rest =
            if capabilities.has_slices() { "weights, caps and slices" } else { "weights and caps" };
        let what = format!(
            "small-first for vCPUs cannot be set here: {why}; {rest} of the fair class are what there is"
        );
        let fatal = policy.scheduler == Scheduler::SchedExt;
        wanted.notes.push(Note { vm: None, what, fatal });
    }
    if wanted.vcpus == VcpusBy::SmallFirst {
        wanted.note(
            None,
            "small-first runs VMs only when no ordinary thread wants the CPU: give threads that compute without end CPUs of their own; a VM that waits behind them goes to the fair class for a while",
        );
    }
    if wanted.vcpus == VcpusBy::SmallFirst {
        for trouble in hangs::of(capabilities.kernel) {
            wanted.note(
                None,
                format!("on kernels such as this one {}: {}", trouble.sentence(), trouble.remedy),
            );
        }
    }
    if wanted.vcpus != VcpusBy::Untouched && capabilities.hierarchy.is_none() {
        wanted
            .note(None, "weights and caps cannot be set here: no CPU controller of control groups");
    }
    if let Some(key) = policy.vms.needs_libvirt()
        && capabilities.libvirt_labels.is_empty()
    {
        wanted.note(
            None,
            format!("entries with `{key}` fit nothing: what libvirt says of VMs is not known"),
        );
    }
    let of_libvirt = || vms.iter().any(|vm| vm.kind == Kind::Libvirt);
    if policy.vms.by_label() && capabilities.libvirt_labels.is_empty() && of_libvirt() {
        wanted
            .note(None, "labels in libvirt's metadata are not known, those of control groups are");
    }
    for name in &capabilities.missing_users {
        wanted.note(None, format!("this host has no user `{name}`"));
    }
    wanted.held(vms, capabilities);
    let managed = managed(policy, vms, capabilities);
    wanted.limited(&managed);
    if wanted.vcpus != VcpusBy::Untouched {
        wanted.unnamed(&managed);
    }
    for (vm, rule) in managed {
        if wanted.vcpus != VcpusBy::Untouched {
            if let Some(version) = capabilities.hierarchy {
                wanted.groups(vm, &rule, version, capabilities);
            }
            wanted.threads(vm, &rule, capabilities);
        }
        if rule.pcpus.is_some() || rule.preferred_pcpus.is_some() {
            wanted.note(Some(vm), "`pcpus` is for hosts of Xen's: vCPUs here stay where they are");
        }
        if !rule.only_limits {
            wanted.workers(vm, policy.workers.slice, capabilities);
        }
    }
    wanted
}

/// The VMs that are touched, each with its rule.
fn managed<'a>(
    policy: &Policy,
    vms: &'a [Vm],
    capabilities: &HostCapabilities,
) -> Vec<(&'a Vm, Rule)> {
    let rule = |vm: &Vm| {
        policy.vms.rule(vm, capabilities.libvirt_labels_of(vm), &capabilities.users).into_owned()
    };
    let touched = vms.iter().filter(|vm| !capabilities.is_held(vm));
    touched.map(|vm| (vm, rule(vm))).filter(|(_, rule)| rule.manage).collect()
}

/// The VMs as the guard watches them.
pub fn machines(policy: &Policy, vms: &[Vm], capabilities: &HostCapabilities) -> Vec<Machine> {
    let machine = |vm: &Vm| {
        let users = &capabilities.users;
        let rule = policy.vms.rule(vm, capabilities.libvirt_labels_of(vm), users);
        let trusted = policy::is_trusted(vm, users);
        Machine {
            id: (vm.pid, vm.started_ticks),
            name: vm.name.clone(),
            goal: policy.goals.of(vm, users),
            // What the policy takes from a VM on purpose breaks no goal but one of the policy's. Nor does anybody whose word does not
            // count decide by how a VM does what others get.
            by_default: trusted && !rule.only_limits && !rule.is_lowered(),
            trusted,
        }
    };
    vms.iter().map(machine).collect()
}

/// These names in a sentence, the first of them if they are many; `None` if there are none.
fn listed(names: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    let shown = names.join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}

fn by(scheduler: Scheduler, capabilities: &HostCapabilities) -> VcpusBy {
    match scheduler {
        Scheduler::None => VcpusBy::Untouched,
        Scheduler::Auto | Scheduler::SchedExt if capabilities.small_first.is_ok() => {
            VcpusBy::SmallFirst
        }
        Scheduler::Auto | Scheduler::SchedExt | Scheduler::Fair => VcpusBy::Fair,
    }
}

impl Wanted {
    /// Says of which VMs only limits are in force, and why: all in one sentence, since anybody may start many.
    fn limited(&mut self, managed: &[(&Vm, Rule)]) {
        let limited = managed.iter().filter(|(_, rule)| rule.only_limits);
        let names = limited.map(|(vm, _)| match vm.origin.uid {
            Some(uid) => format!("{} (user {uid})", vm.name),
            None => vm.name.to_string(),
        });
        let Some(shown) = listed(names) else { return };
        self.note(
            None,
            format!(
                "only limits are in force for {shown}: who runs them is not in `users`, and no entry chooses them by a \
                 control group or label"
            ),
        );
    }

    /// Says which VMs are not touched for now, and why.
    fn held(&mut self, vms: &[Vm], capabilities: &HostCapabilities) {
        let mut by_why: BTreeMap<&str, Vec<&Vm>> = BTreeMap::new();
        for vm in vms {
            if let Some(why) = capabilities.held.get(&(vm.pid, vm.started_ticks)) {
                by_why.entry(why).or_default().push(vm);
            }
        }
        for (why, vms) in by_why {
            let shown = listed(vms.iter().map(|vm| vm.name.to_string())).unwrap_or_default();
            self.note(None, format!("not touched: {shown}: {why}"));
        }
    }

    /// Says which VMs keep their weight because no entry fits them, all in one sentence, too.
    fn unnamed(&mut self, managed: &[(&Vm, Rule)]) {
        let unnamed = managed.iter().filter(|(_, rule)| rule.unnamed && !rule.only_limits);
        let Some(shown) = listed(unnamed.map(|(vm, _)| vm.name.to_string())) else { return };
        self.note(
            None,
            format!("no entry fits {shown}: weights stay; `others = \"weigh\"` sets them by vCPUs"),
        );
    }

    fn note(&mut self, vm: Option<&Vm>, what: impl Into<String>) {
        let vm = vm.map(|vm| vm.name.clone());
        self.notes.push(Note { vm, what: what.into(), fatal: false });
    }

    fn wish(&mut self, vm: &Vm, target: Target, to: impl ToString, why: String) {
        let libvirts = vm.kind == Kind::Libvirt && matches!(target, Target::Group(..));
        let why = if libvirts { format!("{why}; libvirt's group") } else { why };
        self.desired.push(Desired { target, to: to.to_string(), why, libvirts });
    }
}
