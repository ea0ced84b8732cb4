//! Weights and limits, in control groups.

use std::path::Path;

use lowtail_engine::Duration;
use lowtail_host::cgroup::Limit;
use lowtail_libvirt::range::{CgroupVersion, WEIGHT};

use super::{HostCapabilities, Target, VcpusBy, Wanted};
use crate::manage::Key;
use crate::policy::{Cap, Rule, Weight};
use lowtail_discover::{Role, Vm};
use lowtail_kernel::cgroup::Version;

/// A part of a VM that may have control groups of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Vcpu,
    Emulator,
    IoThread,
}

impl Part {
    /// Of the group called so, below its VM's: as libvirt calls them.
    fn of(label: &str) -> Option<Self> {
        let numbered = |name: &str| {
            let digits = label.strip_prefix(name);
            digits.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        match label {
            "emulator" => Some(Part::Emulator),
            _ if numbered("vcpu") => Some(Part::Vcpu),
            _ if numbered("iothread") => Some(Part::IoThread),
            _ => None,
        }
    }
}

impl Wanted {
    /// What a VM's control groups shall have.
    pub(super) fn groups(
        &mut self,
        vm: &Vm,
        rule: &Rule,
        version: Version,
        capabilities: &HostCapabilities,
    ) {
        let vcpus = vm.vcpus(capabilities.cpus.len());
        let counted = match vm.vcpus(usize::MAX) {
            all if all > vcpus => format!("{vcpus} vCPUs of {} ({all}, on {vcpus} CPUs)", vm.name),
            _ => format!("{vcpus} vCPUs of {}", vm.name),
        };
        match (&vm.cgroup, rule.weight) {
            (Some(group), Weight::PerVcpu(weight)) if vcpus > 0 => {
                let all = weight.saturating_mul(vcpus);
                let (key, to, most) = shares(version, all);
                let why = format!("weight {weight} for each of {counted}");
                if to == most {
                    self.note(
                        Some(vm),
                        format!(
                            "weight {weight} for each of {vcpus} vCPUs: {} ends at {most}",
                            key.file()
                        ),
                    );
                }
                self.wish(vm, Target::Group(group.clone(), key), to, why);
            }
            _ => {}
        }
        if let Some(cap) = &rule.cap {
            match &vm.cgroup {
                Some(group) => self.cap(vm, group, cap, version, capabilities, "cap"),
                None => self.no_group(vm, "cap", "it is in a control group with others"),
            }
            if let Some(percent) = cap.percent().filter(|p| vcpus > 0 && *p >= 100.0 * vcpus as f64)
            {
                let plural = if vcpus == 1 { "vCPU" } else { "vCPUs" };
                self.note(Some(vm), format!("a cap of {percent}% hardly limits {vcpus} {plural}"));
            }
        }
        for (key, part, cap) in [
            ("vcpu_cap", Part::Vcpu, &rule.vcpu_cap),
            ("emulator_cap", Part::Emulator, &rule.emulator_cap),
            ("iothread_cap", Part::IoThread, &rule.iothread_cap),
        ] {
            let Some(cap) = cap else { continue };
            let own = of_part(vm, part);
            if own.is_empty() && has(vm, part) {
                self.no_group(vm, key, "those threads have no control groups of their own");
            }
            for group in own {
                self.cap(vm, group, cap, version, capabilities, key);
            }
        }
        if let Some(weight) = rule.emulator_weight {
            let own = of_part(vm, Part::Emulator);
            if own.is_empty() {
                self.no_group(
                    vm,
                    "emulator_weight",
                    "those threads have no control group of their own",
                );
            }
            for group in own {
                let (key, to, _) = shares(version, weight);
                let why = format!("emulator_weight {weight} of {}", vm.name);
                self.wish(vm, Target::Group(group.to_path_buf(), key), to, why);
            }
        }
    }

    /// There is no group for it. The scheduler small-first has limits of its own for VMs, vCPUs and I/O threads.
    fn no_group(&mut self, vm: &Vm, key: &str, why: &str) {
        if self.vcpus == VcpusBy::SmallFirst && ["cap", "vcpu_cap", "iothread_cap"].contains(&key) {
            return;
        }
        self.note(Some(vm), format!("{key} cannot be set here: {why}"));
    }

    fn cap(
        &mut self,
        vm: &Vm,
        group: &Path,
        cap: &Cap,
        version: Version,
        capabilities: &HostCapabilities,
        key: &str,
    ) {
        let why = match cap.percent() {
            Some(percent) => format!("{key} of {percent}% of {}", vm.name),
            None => format!("{key} none of {}", vm.name),
        };
        for (file, to) in limit(version, cap, capabilities.has_burst()) {
            self.wish(vm, Target::Group(group.to_path_buf(), file), to, why.clone());
        }
        let burst = matches!(cap, Cap::Limited(Limit { burst, .. }) if !burst.is_zero());
        if burst && !capabilities.has_burst() {
            self.note(
                Some(vm),
                format!("the burst of {key} cannot be set here: it needs Linux 5.14"),
            );
        }
    }
}

/// The groups of a part of a VM.
fn of_part(vm: &Vm, part: Part) -> Vec<&Path> {
    let own = vm.groups.iter().filter(|group| !group.shared);
    let own = own.filter(|group| Part::of(group.label.as_given()) == Some(part));
    own.map(|group| group.path.as_path()).collect()
}

/// Whether there are such threads at all.
fn has(vm: &Vm, part: Part) -> bool {
    vm.threads.iter().any(|thread| match thread.role {
        Role::Vcpu(_) => part == Part::Vcpu,
        Role::IoThread(_) => part == Part::IoThread,
        Role::Emulator | Role::Vhost(_) | Role::Worker => part == Part::Emulator,
    })
}

/// File and value of a weight, and the largest value that the file takes.
fn shares(version: Version, weight: u64) -> (Key, u64, u64) {
    match version {
        Version::V1 => {
            let most = CgroupVersion::V1.shares().end().unsigned_abs();
            let weight = i64::try_from(weight).unwrap_or(i64::MAX);
            let shares = CgroupVersion::V2.kernel_shares(weight).unsigned_abs();
            (Key::CpuShares, shares.min(most), most)
        }
        Version::V2 => {
            let most = WEIGHT.end().unsigned_abs();
            (Key::CpuWeight, weight.min(most), most)
        }
    }
}

/// Files and values of a limit.
fn limit(version: Version, cap: &Cap, has_burst: bool) -> Vec<(Key, String)> {
    let us = |span: Duration| span.as_ns() / 1000;
    let mut files = match (version, cap) {
        (Version::V1, Cap::Unlimited) => vec![(Key::CfsQuota, "-1".to_string())],
        (Version::V1, Cap::Limited(limit)) => vec![
            (Key::CfsQuota, us(limit.quota).to_string()),
            (Key::CfsPeriod, us(limit.period).to_string()),
        ],
        (Version::V2, Cap::Unlimited) => vec![(Key::CpuMax, "max".to_string())],
        (Version::V2, Cap::Limited(limit)) => {
            vec![(Key::CpuMax, format!("{} {}", us(limit.quota), us(limit.period)))]
        }
    };
    if let (Cap::Limited(limit), true) = (cap, has_burst) {
        let key = match version {
            Version::V1 => Key::CfsBurst,
            Version::V2 => Key::CpuMaxBurst,
        };
        // Without one as well: an older one may be larger than the quota is now.
        files.push((key, us(limit.burst).to_string()));
    }
    files
}
