//! From libvirt's domains to a scenario, as text that a user can go on from.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::path::Path;

use lowtail_libvirt::name::shown;
use lowtail_libvirt::range::CgroupVersion;
use lowtail_libvirt::{Cpus, Cputune, Domain, Policy, Position};

use crate::error::{Error, FileError};
use crate::topology::TopologyFile;

/// Columns of at most so many VMs are shown by the scenario itself.
const SHOWN_VMS: usize = 4;

/// Largest description of a domain; what its own reader refuses is smaller.
const FILE_BYTES_MAX: usize = 8 << 20;

/// The text of a file that describes a domain.
///
/// # Errors
/// If it cannot be read, is larger than any such file, or is no text: then at which byte.
pub fn read(path: &Path) -> Result<String, Error> {
    Ok(lowtail_config_text::read(path, FILE_BYTES_MAX, "domain XML")?)
}

/// The host that the domains run on.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Number of pCPUs.
    pub pcpus: u16,
    /// What they share, if that is known.
    pub topology: Option<TopologyFile>,
    /// The name of a scheduler, or a kind of them.
    pub scheduler: String,
    /// What `<shares>` are.
    pub version: CgroupVersion,
}

/// The scenario of a host with these domains, each with the file that it is from. All vCPUs
/// compute all the time: nothing in a domain's description says what it does.
///
/// # Errors
/// If there is no such scheduler, or a domain that the host cannot have.
pub fn scenario(domains: &[(String, Domain)], host: &HostOptions) -> Result<String, Error> {
    let scheduler = crate::scheduler::newest(&host.scheduler)?;
    let names = domains.iter().map(|(_, domain)| shown(&domain.name));
    let names: Vec<String> = names.collect();
    let mut seen = BTreeSet::new();
    for (name, (file, domain)) in names.iter().zip(domains) {
        if !seen.insert(name) {
            return Err(wrong(
                file,
                domain.positions.name,
                format!("another VM is called `{name}`, too"),
            ));
        }
    }
    let mut show = vec!["guest_percent".to_string()];
    for (name, (_, domain)) in names.iter().zip(domains).take(SHOWN_VMS) {
        show.push(format!("cpus_used.{name}"));
        if limited(&domain.cputune) {
            show.push(format!("throttled_percent.{name}"));
        }
    }
    let mut few = names.iter().take(SHOWN_VMS).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN_VMS {
        few += ", …";
    }
    let version = match host.version {
        CgroupVersion::V1 => 1,
        CgroupVersion::V2 => 2,
    };
    let mut text = format!(
        "title = {}\nduration = \"10s\"\nshow = [{}]\n\n[host]\npcpus = {}\nlayout = \"libvirt\"\n\
         cgroup_version = {version}\nscheduler = {{ {scheduler} }}\n",
        toml_text(&format!("A host with {few}")),
        show.iter().map(|name| toml_text(name)).collect::<Vec<_>>().join(", "),
        host.pcpus,
    );
    text += &host.topology.as_ref().map(TopologyFile::toml).unwrap_or_default();
    for (name, (file, domain)) in names.iter().zip(domains) {
        let import = DomainImport { file, domain, host };
        text += &import.text(name)?;
    }
    Ok(text)
}

/// Whether any group of the domain's vCPUs has a limit.
fn limited(tune: &Cputune) -> bool {
    let quotas = [tune.quota, tune.global_quota];
    quotas.iter().any(|quota| quota.is_some_and(|us| us > 0))
}

fn wrong(file: &str, at: Position, message: String) -> Error {
    FileError::new(format!("{file}:{at}"), message).into()
}

/// A text as TOML has it.
fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// A name as a key.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.chars().all(bare) { name.to_string() } else { toml_text(name) }
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// A domain on its way into a scenario.
struct DomainImport<'a> {
    file: &'a str,
    domain: &'a Domain,
    host: &'a HostOptions,
}

impl DomainImport<'_> {
    fn text(&self, name: &str) -> Result<String, Error> {
        let (domain, tune) = (self.domain, &self.domain.cputune);
        let key = key(name);
        let vcpus = domain.vcpus.len();
        let mut text = format!("\n# {}\n[vm.{key}]\nvcpus = {vcpus}\n", shown(self.file));
        text += "workload = { kind = \"cpu-loop\" }\n";
        if !domain.iothreads.is_empty() {
            let n = domain.iothreads.len();
            let _ = writeln!(
                text,
                "# Its {n} I/O threads are not simulated; with a workload they are (pins left out):\n\
                 # iothreads = {{ count = {n}, workload = {{ kind = … }} }}"
            );
        }
        if let Some(shares) = tune.shares {
            let checked = self.host.version.check_shares("shares", shares);
            checked.map_err(|message| {
                wrong(self.file, domain.positions.shares, format!("<shares>: {message}"))
            })?;
        }
        let values = [
            ("shares", tune.shares),
            ("period", tune.period),
            ("quota", tune.quota),
            ("global_period", tune.global_period),
            ("global_quota", tune.global_quota),
            ("emulator_period", tune.emulator_period),
            ("emulator_quota", tune.emulator_quota),
            ("iothread_period", tune.iothread_period),
            ("iothread_quota", tune.iothread_quota),
        ];
        let mut lines = String::new();
        for (key, value) in values {
            if let Some(value) = value {
                let _ = writeln!(lines, "{key} = {value}");
            }
        }
        lines += &self.pins()?;
        lines += &self.policies();
        if !lines.is_empty() {
            let _ = write!(text, "\n[vm.{key}.cputune]\n{lines}");
        }
        Ok(text)
    }

    /// Where its threads may run, if not everywhere.
    fn pins(&self) -> Result<String, Error> {
        let (domain, tune) = (self.domain, &self.domain.cputune);
        let mut lines = String::new();
        if !tune.vcpupin.is_empty() || domain.cpuset.is_some() {
            let pins = domain.vcpus.iter().map(|&vcpu| {
                let own = tune.vcpupin.iter().find(|(other, _)| *other == vcpu);
                let cpus = own.map(|(_, cpus)| cpus).or(domain.cpuset.as_ref());
                self.here(&format!("vCPU {vcpu}"), cpus)
            });
            let pins = pins.collect::<Result<Vec<_>, Error>>()?;
            let _ = writeln!(lines, "vcpupin = {}", list(pins));
        }
        if let Some(cpus) = tune.emulatorpin.as_ref().or(domain.cpuset.as_ref()) {
            let cpus = self.here("the emulator", Some(cpus))?;
            let _ = writeln!(lines, "emulatorpin = {cpus}");
        }
        Ok(lines)
    }

    /// Those of `cpus` that the host has, as the kernel takes them (`sched_setaffinity(2)`).
    fn here(&self, thread: &str, cpus: Option<&Cpus>) -> Result<String, Error> {
        let pcpus = self.host.pcpus;
        let Some(cpus) = cpus else { return Ok(list(0..pcpus)) };
        let here: Vec<u16> = cpus.iter().filter(|&cpu| cpu < pcpus).collect();
        if let (true, Some(first)) = (here.is_empty(), cpus.iter().next()) {
            let message = format!(
                "{thread} may only run on pCPU {first} and beyond, but the host has pCPUs 0 to {}; \
                 give it more with --pcpus",
                pcpus - 1
            );
            let positions = &self.domain.positions;
            let pins = self.domain.cputune.pins();
            let at = if pins { positions.cputune } else { positions.vcpu };
            return Err(wrong(self.file, at, message));
        }
        Ok(list(here))
    }

    /// How its threads are scheduled, if not as usual. vCPUs are numbered anew if some are not
    /// online.
    fn policies(&self) -> String {
        let tune = &self.domain.cputune;
        let mut lines = String::new();
        let scheds = tune.vcpusched.iter().filter_map(|(cpus, policy)| {
            let online = self.domain.vcpus.iter().enumerate();
            let here = online.filter(|(_, vcpu)| cpus.iter().any(|n| u32::from(n) == **vcpu));
            let here: Vec<usize> = here.map(|(i, _)| i).collect();
            let some = !here.is_empty();
            some.then(|| format!("{{ vcpus = {}, {} }}", list(here), policy_text(*policy)))
        });
        let scheds: Vec<String> = scheds.collect();
        if !scheds.is_empty() {
            let _ = writeln!(lines, "vcpusched = {}", list(scheds));
        }
        if let Some(policy) = tune.emulatorsched {
            let _ = writeln!(lines, "emulatorsched = {{ {} }}", policy_text(policy));
        }
        lines
    }
}

fn policy_text(policy: Policy) -> String {
    match policy {
        Policy::Batch => "scheduler = \"batch\"".to_string(),
        Policy::Idle => "scheduler = \"idle\"".to_string(),
        Policy::Fifo(priority) => format!("scheduler = \"fifo\", priority = {priority}"),
        Policy::Rr(priority) => format!("scheduler = \"rr\", priority = {priority}"),
    }
}
