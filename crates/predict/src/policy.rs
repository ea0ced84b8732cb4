//! What a policy file would do to the recorded host: the same function of policy and VMs decides that decides on a live one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lowtail_control::desired::{HostCapabilities, Target, VcpusBy, resolve};
use lowtail_control::manage::Key;
use lowtail_control::policy::Policy;
use lowtail_discover::{Group, Kind, KnownBy, Name, NamedBy, Origin, Role, Users, Vm, VmThread};
use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::cgroup::Limit;
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_kernel::cgroup::Version;
use lowtail_kernel::release;

use crate::model::Model;
use crate::recording::Recording;
use crate::xen_policy;

/// `cpu.weight` of who has the usual one, and its `cpu.shares`.
const USUAL: (u64, u64) = (100, 1024);

/// A thread of a model, as a number of Linux: threads of VMs that are added have none.
fn tid(vcpu: usize) -> u32 {
    vcpu as u32 + 1
}

/// Puts `policy` in force on `model`, a model of `recording`. Returns what cannot be, in words.
pub fn put_in_force(model: &mut Model, recording: &Recording, policy: &Policy) -> Vec<String> {
    if recording.host.xen.is_some() {
        return xen_policy::put_in_force(model, recording, policy);
    }
    let vms = vms(model, recording);
    let capabilities = capabilities(model, recording);
    let wanted = resolve(policy, &vms, &capabilities);
    for wish in &wanted.desired {
        match &wish.target {
            Target::Group(path, key) => set_group(model, path, *key, &wish.to),
            Target::Thread(tid) => set_thread(model, *tid, &wish.to),
        }
    }
    if wanted.vcpus == VcpusBy::SmallFirst {
        let config = SmallFirstConfig { params: policy.small_first, ..SmallFirstConfig::default() };
        model.config.scheduler = SchedulerConfig::SmallFirst(config);
        model.suit_small_first();
    }
    let mut notes: Vec<String> = wanted.notes.iter().map(ToString::to_string).collect();
    if policy.workers.cpus.is_some() {
        notes.push("where back-end workers run is not predicted: `workers.cpus`".to_owned());
    }
    notes
}

/// The VMs of `model`, as they would be found.
fn vms(model: &Model, recording: &Recording) -> Vec<Vm> {
    let mut vms: Vec<Vm> = Vec::new();
    let mut vcpu = 0;
    let path = |group: lowtail_host::Cgroup| -> PathBuf {
        Path::new("/").join(model.config.cgroups[group.index()].name.trim_start_matches('/'))
    };
    for (dom, domain) in model.domains.iter().enumerate() {
        let first = vcpu;
        vcpu += domain.members.len();
        let Some(vm) = domain.vm else { continue };
        let name = &recording.host.vms[vm];
        let cgroup = domain.group.map(path);
        let mut groups = BTreeSet::new();
        let threads = domain.members.iter().zip(first..).map(|(&thread, vcpu)| {
            let info = &recording.infos[thread];
            let own = model.config.vms[dom].threads[vcpu - first].cgroup.map(path);
            let own = own.filter(|own| Some(own) != cgroup.as_ref());
            if let Some(own) = &own {
                let label = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
                groups.insert(Group { label: Name::new(label), path: own.clone(), shared: false });
            }
            VmThread {
                tid: tid(vcpu),
                role: role(info.role),
                comm: Name::new(info.comm.clone().unwrap_or_default()),
                cgroup: own,
            }
        });
        let threads: Vec<VmThread> = threads.collect();
        if let Some(path) = &cgroup {
            groups.insert(Group { label: Name::new("all"), path: path.clone(), shared: false });
        }
        vms.push(Vm {
            name: Name::new(name.clone()),
            kind: Kind::Qemu,
            // Whose it was is not in the recording; a prediction harms nobody.
            origin: Origin {
                known_by: KnownBy::Libvirt,
                named_by: NamedBy::Root,
                uid: Some(0),
                root_cgroup: true,
            },
            pid: tid(first),
            started_ticks: 0,
            cgroup,
            labels: Default::default(),
            threads,
            taps: Vec::new(),
            groups: groups.into_iter().collect(),
        });
    }
    vms
}

fn role(role: Option<lowtail_trace::Role>) -> Role {
    match role {
        Some(lowtail_trace::Role::Vcpu(index)) => Role::Vcpu(index),
        Some(lowtail_trace::Role::Vhost(index)) => Role::Vhost(index),
        Some(lowtail_trace::Role::IoThread(index)) => Role::IoThread(index),
        Some(lowtail_trace::Role::Emulator) => Role::Emulator,
        Some(lowtail_trace::Role::Worker) | None => Role::Worker,
    }
}

fn capabilities(model: &Model, recording: &Recording) -> HostCapabilities {
    let kernel = recording.host.kernel.as_deref().and_then(release::version);
    let groups = !model.config.cgroups.is_empty();
    HostCapabilities {
        hierarchy: groups.then_some(Version::V2),
        cpus: (0..usize::from(model.config.pcpus)).collect(),
        kernel: kernel.unwrap_or((6, 12)),
        small_first: small_first(kernel),
        libvirt_labels: Default::default(),
        users: Users::default(),
        missing_users: Vec::new(),
        aside: BTreeSet::new(),
        held: Default::default(),
        xen: None,
    }
}

/// sched_ext came with 6.12; what else small-first needs is not in the recording.
fn small_first(kernel: Option<(u32, u32)>) -> Result<(), String> {
    match kernel {
        Some(kernel) if kernel < (6, 12) => Err("the recorded kernel has no sched_ext".to_owned()),
        _ => Ok(()),
    }
}

/// Sets a file of a control group to what control would write there.
fn set_group(model: &mut Model, path: &Path, key: Key, to: &str) {
    let name = path.to_string_lossy();
    let name = name.trim_start_matches('/');
    let groups = &mut model.config.cgroups;
    let found = groups.iter_mut().find(|group| group.name.trim_start_matches('/') == name);
    let Some(group) = found else { return };
    let us = |text: &str| text.parse::<u64>().ok().map(Duration::from_us);
    match key {
        Key::CpuWeight => {
            let weight: u64 = to.parse().unwrap_or(USUAL.0);
            group.shares = (weight * USUAL.1 / USUAL.0).clamp(2, 262_144);
        }
        Key::CpuMax => {
            let mut words = to.split_whitespace();
            let quota = words.next().and_then(us);
            let period = words.next().and_then(us).unwrap_or(Duration::from_ms(100));
            let burst = group.limit.map_or(Duration::ZERO, |limit| limit.burst);
            group.limit = quota.map(|quota| Limit {
                quota: quota.max(Duration::from_ms(1)),
                period,
                burst: burst.min(quota),
            });
        }
        Key::CpuMaxBurst => {
            if let (Some(limit), Some(burst)) = (&mut group.limit, us(to)) {
                limit.burst = burst.min(limit.quota);
            }
        }
        Key::CpuShares => group.shares = to.parse().unwrap_or(USUAL.1).clamp(2, 262_144),
        Key::CfsQuota | Key::CfsPeriod | Key::CfsBurst | Key::CpusetCpus => {}
    }
}

/// Sets a thread's attributes, `KEY=VALUE` by blanks.
fn set_thread(model: &mut Model, of: u32, to: &str) {
    let mut at = (of - 1) as usize;
    for vm in &mut model.config.vms {
        if at >= vm.threads.len() {
            at -= vm.threads.len();
            continue;
        }
        let thread = &mut vm.threads[at];
        for word in to.split_whitespace() {
            match word.split_once('=') {
                Some(("nice", nice)) => thread.nice = nice.parse().unwrap_or(thread.nice),
                Some(("slice_ns", ns)) => {
                    thread.slice = ns.parse().ok().map(Duration::from_ns);
                }
                _ => {}
            }
        }
        return;
    }
}
