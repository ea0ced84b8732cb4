//! `<cputune>`, as far as it is about processor time.
//!
//! `<cachetune>` and `<memorytune>` are not: they are left alone.

use roxmltree::Node;

use crate::cpus::Cpus;
use crate::element::{attribute, elements, fault, number, text};
use crate::error::XmlError;
use crate::range;

/// How the threads of a VM share the processors. Times are microseconds; what is absent, or
/// 0, is `None`; a quota of less than 0 is kept, for it says that there is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cputune {
    /// `cpu.shares`, or `cpu.weight` on a host with cgroup v2. Since 0.9.0.
    pub shares: Option<i64>,
    /// Of each vCPU. Since 0.9.4.
    pub period: Option<i64>,
    /// Of each vCPU.
    pub quota: Option<i64>,
    /// Of the VM as a whole. Since 1.3.3.
    pub global_period: Option<i64>,
    /// Of the VM as a whole.
    pub global_quota: Option<i64>,
    /// Of threads that are neither vCPUs nor I/O threads. Since 0.10.0.
    pub emulator_period: Option<i64>,
    /// Of threads that are neither vCPUs nor I/O threads.
    pub emulator_quota: Option<i64>,
    /// Of each I/O thread. Since 2.1.0.
    pub iothread_period: Option<i64>,
    /// Of each I/O thread.
    pub iothread_quota: Option<i64>,
    /// pCPUs of vCPUs, by number.
    pub vcpupin: Vec<(u32, Cpus)>,
    /// pCPUs of the emulator.
    pub emulatorpin: Option<Cpus>,
    /// pCPUs of I/O threads, by number.
    pub iothreadpin: Vec<(u32, Cpus)>,
    /// Policies of vCPUs. Since 1.2.13.
    pub vcpusched: Vec<(Cpus, Policy)>,
    /// Policies of I/O threads.
    pub iothreadsched: Vec<(Cpus, Policy)>,
    /// Policy of the emulator. Since 5.3.0.
    pub emulatorsched: Option<Policy>,
}

/// A scheduling policy; those of real time have a priority from 1 to 99.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo(u8),
    /// `SCHED_RR`.
    Rr(u8),
}

/// The numbers that vCPUs and I/O threads of a domain have.
pub(crate) struct ThreadNumbers<'a> {
    /// vCPUs that there can be.
    pub(crate) vcpus: u32,
    /// Numbers of the I/O threads.
    pub(crate) iothreads: &'a [u32],
}

impl Cputune {
    /// Reads all `<cputune>` of `domain`. Of values that can be there once libvirt takes the
    /// first; pins and policies must not be there twice for the same thread.
    pub(crate) fn read(
        domain: Node<'_, '_>,
        numbers: &ThreadNumbers<'_>,
    ) -> Result<Self, XmlError> {
        let mut tune = Cputune::default();
        let mut seen: Vec<&str> = Vec::new();
        for node in elements(domain, "cputune").flat_map(|tune| tune.children()) {
            let name = if node.is_element() { node.tag_name().name() } else { continue };
            match name {
                "vcpupin" => tune.read_vcpupin(node, numbers)?,
                "iothreadpin" => tune.read_iothreadpin(node, numbers)?,
                "emulatorpin" => {
                    let cpus = cpus(node, "cpuset")?;
                    once(tune.emulatorpin.replace(cpus).is_none(), node)?;
                }
                "vcpusched" => {
                    let known = |n: u16| u32::from(n) < numbers.vcpus;
                    sched(&mut tune.vcpusched, node, "vcpus", known)?;
                }
                "iothreadsched" => {
                    let known = |n: u16| numbers.iothreads.contains(&u32::from(n));
                    sched(&mut tune.iothreadsched, node, "iothreads", known)?;
                }
                "emulatorsched" => {
                    let policy = policy(node)?;
                    once(tune.emulatorsched.replace(policy).is_none(), node)?;
                }
                _ => {
                    let Some((key, slot)) = tune.value(name) else { continue };
                    if seen.contains(&key) {
                        continue;
                    }
                    seen.push(key);
                    *slot = value(node, key)?;
                }
            }
        }
        Ok(tune)
    }

    /// Whether any of its threads has CPUs of its own.
    pub fn pins(&self) -> bool {
        !self.vcpupin.is_empty() || self.emulatorpin.is_some() || !self.iothreadpin.is_empty()
    }

    /// The value that an element called `name` has.
    fn value(&mut self, name: &str) -> Option<(&'static str, &mut Option<i64>)> {
        Some(match name {
            "shares" => ("shares", &mut self.shares),
            "period" => ("period", &mut self.period),
            "quota" => ("quota", &mut self.quota),
            "global_period" => ("global_period", &mut self.global_period),
            "global_quota" => ("global_quota", &mut self.global_quota),
            "emulator_period" => ("emulator_period", &mut self.emulator_period),
            "emulator_quota" => ("emulator_quota", &mut self.emulator_quota),
            "iothread_period" => ("iothread_period", &mut self.iothread_period),
            "iothread_quota" => ("iothread_quota", &mut self.iothread_quota),
            _ => return None,
        })
    }

    fn read_vcpupin(
        &mut self,
        node: Node<'_, '_>,
        numbers: &ThreadNumbers<'_>,
    ) -> Result<(), XmlError> {
        let vcpu = attribute(node, "vcpu")?;
        let cpus = cpus(node, "cpuset")?;
        let twice = self.vcpupin.iter().any(|(other, _)| *other == vcpu);
        if twice {
            return Err(fault(node, format!("vCPU {vcpu} is pinned twice")));
        }
        // libvirt warns of vCPUs that there cannot be, and goes on.
        if vcpu < numbers.vcpus {
            self.vcpupin.push((vcpu, cpus));
        }
        Ok(())
    }

    fn read_iothreadpin(
        &mut self,
        node: Node<'_, '_>,
        numbers: &ThreadNumbers<'_>,
    ) -> Result<(), XmlError> {
        let thread = attribute(node, "iothread")?;
        let cpus = cpus(node, "cpuset")?;
        if !numbers.iothreads.contains(&thread) {
            return Err(fault(node, format!("there is no I/O thread {thread}")));
        }
        if self.iothreadpin.iter().any(|(other, _)| *other == thread) {
            return Err(fault(node, format!("I/O thread {thread} is pinned twice")));
        }
        self.iothreadpin.push((thread, cpus));
        Ok(())
    }
}

fn once(first: bool, node: Node<'_, '_>) -> Result<(), XmlError> {
    if first { Ok(()) } else { Err(fault(node, "libvirt takes one of them")) }
}

/// The number in `node`, called `key`, if libvirt takes it.
fn value(node: Node<'_, '_>, key: &str) -> Result<Option<i64>, XmlError> {
    let at = node.range().start;
    let n = number(&text(node)).map_err(|message| fault(node, message))?;
    let checked = match key {
        "shares" => {
            // Which of the two ranges counts is known on the host.
            let (low, high) = (*range::WEIGHT.start(), *range::SHARES.end());
            let fits = (low..=high).contains(&n);
            let message = format!(
                "shares {n}: libvirt takes 2 to {high} with cgroup v1, 1 to {} with v2",
                range::WEIGHT.end()
            );
            if fits { Ok(Some(n)) } else { Err(message) }
        }
        _ if key.ends_with("period") => range::period(key, n),
        _ => range::quota(key, n).map(|limit| limit.or_else(|| (n < 0).then_some(-1))),
    };
    checked.map_err(|message| XmlError::new(at, format!("<{key}>: {message}")))
}

/// The list in attribute `key` of `node`.
fn cpus(node: Node<'_, '_>, key: &str) -> Result<Cpus, XmlError> {
    let Some(list) = node.attribute(key) else {
        return Err(fault(node, format!("`{key}` is missing, such as {key}='0-3,^2'")));
    };
    Cpus::parse(list).map_err(|message| fault(node, format!("{key}: {message}")))
}

fn policy(node: Node<'_, '_>) -> Result<Policy, XmlError> {
    let wanted = "batch, idle, fifo or rr";
    let Some(name) = node.attribute("scheduler") else {
        return Err(fault(node, format!("`scheduler` is missing: {wanted}")));
    };
    match name {
        "batch" => return Ok(Policy::Batch),
        "idle" => return Ok(Policy::Idle),
        "fifo" | "rr" => {}
        _ => {
            let message = format!("scheduler `{}`: {wanted}", crate::name::shown(name));
            return Err(fault(node, message));
        }
    }
    let (low, high) = range::PRIORITY.into_inner();
    let Some(priority) = node.attribute("priority") else {
        return Err(fault(node, format!("`priority` is missing: {low} to {high}")));
    };
    let priority = number(priority).map_err(|message| fault(node, message))?;
    if !range::PRIORITY.contains(&priority) {
        return Err(fault(node, format!("priority {priority}: the kernel takes {low} to {high}")));
    }
    let priority = priority as u8;
    Ok(if name == "fifo" { Policy::Fifo(priority) } else { Policy::Rr(priority) })
}

/// Adds the policy that `node` gives to the threads in its attribute `key`.
fn sched(
    list: &mut Vec<(Cpus, Policy)>,
    node: Node<'_, '_>,
    key: &str,
    known: impl Fn(u16) -> bool,
) -> Result<(), XmlError> {
    let threads = cpus(node, key)?;
    let policy = policy(node)?;
    if let Some(odd) = threads.iter().find(|&n| !known(n)) {
        return Err(fault(node, format!("{key}: there is no number {odd}")));
    }
    if let Some(twice) = threads.iter().find(|&n| list.iter().any(|(other, _)| other.has(n))) {
        return Err(fault(node, format!("{key}: number {twice} is there twice")));
    }
    list.push((threads, policy));
    Ok(())
}
