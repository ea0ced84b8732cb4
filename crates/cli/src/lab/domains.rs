//! `lowtail lab run --domain-xml`: VMs of libvirt's on a host.

use std::path::Path;

use lowtail_lab::error::LocatedError;
use lowtail_lab::kvm::import::{HostOptions, read, scenario};
use lowtail_lab::quoted::quoted;
use lowtail_lab::topology::TopologyFile;
use lowtail_lab::{Error, Experiment};
use lowtail_libvirt::range::CgroupVersion;
use lowtail_libvirt::{Domain, Position};

use super::args::{LabRun, SCHEDULER, processors};
use crate::exit::Fail;

/// Most pCPUs of a host.
const PCPUS_MAX: usize = lowtail_host::CpuSet::MAX_PCPUS as usize;

/// The scenario of a host with the VMs that `args` name.
pub(super) fn text(args: &LabRun) -> Result<String, Fail> {
    text_of(args, &vms(args)?)
}

/// The VMs that `args` name, each with the path of its file.
fn vms(args: &LabRun) -> Result<Vec<(String, Domain)>, Fail> {
    args.domain_xml.iter().map(|path| vm(path)).collect()
}

fn text_of(args: &LabRun, vms: &[(String, Domain)]) -> Result<String, Fail> {
    let version = if version(args) == 1 { CgroupVersion::V1 } else { CgroupVersion::V2 };
    let scheduler = scheduler(args).to_string();
    let topology = args.topology.as_deref().map(topology).transpose()?;
    let (pcpus, topology) = topology.map_or_else(|| (pcpus(args), None), |(n, of)| (n, Some(of)));
    let host = HostOptions { pcpus, topology, scheduler, version };
    Ok(scenario(vms, &host)?)
}

/// What the file at `path` says that pCPUs share, and how many they are.
fn topology(path: &Path) -> Result<(u16, TopologyFile), Fail> {
    let lists = TopologyFile::read(path).map_err(|error| Fail::Input(error.to_string()))?;
    let pcpus = lists
        .pcpus()
        .map_err(|error| Fail::Input(format!("{}: {}", lowtail_out::path(path), error.message)))?;
    Ok((pcpus, lists))
}

/// The same as an experiment.
pub(super) fn load(args: &LabRun) -> Result<Experiment, Fail> {
    let vms = vms(args)?;
    let text = text_of(args, &vms)?;
    Experiment::parse("machines.toml", &text, None).map_err(|error| match error {
        Error::At(LocatedError { line, message, .. }) => {
            if let Some((file, at)) = vcpus_at(args, &vms, &text, line) {
                return Fail::Input(format!("{file}:{at}: <vcpu>: {message}"));
            }
            let first = args.domain_xml.first().map(|path| lowtail_out::path(path));
            let what = match args.domain_xml.len() {
                1 => first.unwrap_or_default(),
                _ => "--domain-xml".to_string(),
            };
            Fail::Input(format!(
                "{what}: {message} (line {line} of the scenario that --print-toml prints)"
            ))
        }
        other => other.into(),
    })
}

/// The file and its line that say how many vCPUs one of `vms` has, if that is what `line` of the scenario `text` is about.
fn vcpus_at(
    args: &LabRun,
    vms: &[(String, Domain)],
    text: &str,
    line: usize,
) -> Option<(String, Position)> {
    let wrong = text.lines().nth(line.checked_sub(1)?)?;
    let is_vm = |line: &&str| line.starts_with("[vm.") && !line.ends_with(".cputune]");
    if !wrong.starts_with("vcpus = ") && !is_vm(&wrong) {
        return None;
    }
    // There is a table for each file, in their order.
    let number = text.lines().take(line).filter(is_vm).count().checked_sub(1)?;
    let path = args.domain_xml.get(number)?;
    Some((lowtail_out::path(path), vms.get(number)?.1.positions.vcpu))
}

/// The command that does it again on any VM.
pub(super) fn command(args: &LabRun, seed: u64) -> String {
    let files = args.domain_xml.iter().map(|path| quoted(&path.display().to_string()));
    let files: Vec<String> = files.collect();
    let host = match &args.topology {
        Some(file) => format!("--topology {}", quoted(&file.display().to_string())),
        None => format!("--pcpus {}", pcpus(args)),
    };
    format!(
        "lowtail lab run {host} --scheduler {} --cgroup-version {} --seed {seed} \
         --domain-xml {}",
        quoted(scheduler(args)),
        version(args),
        files.join(" ")
    )
}

fn pcpus(args: &LabRun) -> u16 {
    args.pcpus.unwrap_or_else(|| processors().min(PCPUS_MAX) as u16)
}

fn scheduler(args: &LabRun) -> &str {
    args.scheduler.as_deref().unwrap_or(SCHEDULER)
}

fn version(args: &LabRun) -> u8 {
    args.cgroup_version.unwrap_or(2)
}

/// Refuses options that are about VMs where there are none.
pub(super) fn check(args: &LabRun) -> Result<(), Fail> {
    let options = [
        ("--pcpus", args.pcpus.is_some()),
        ("--topology", args.topology.is_some()),
        ("--scheduler", args.scheduler.is_some()),
        ("--cgroup-version", args.cgroup_version.is_some()),
        ("--print-toml", args.print_toml),
    ];
    match options.iter().find(|(_, given)| *given) {
        Some((option, _)) if args.domain_xml.is_empty() => Err(Fail::Usage(format!(
            "{option} is for --domain-xml; a scenario file says what its host is"
        ))),
        _ => Ok(()),
    }
}

fn vm(path: &Path) -> Result<(String, Domain), Fail> {
    let name = path.display().to_string();
    let domain =
        Domain::parse(&name, &read(path)?).map_err(|error| Fail::Input(error.to_string()))?;
    Ok((name, domain))
}
