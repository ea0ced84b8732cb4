//! Who runs VMs here, and from where we look.

use super::check::Command::{Apply, Observe, Record, Vms};
use super::{Check, Host, State};
use lowtail_discover::scan;
use lowtail_kernel::file;

/// The first namespaces of all (`include/linux/proc_ns.h`: `PROC_PID_INIT_INO`, `PROC_CGROUP_INIT_INO`).
const FIRST_PIDS: &str = "pid:[4026531836]";
const FIRST_CGROUPS: &str = "cgroup:[4026531835]";
/// Daemons of libvirt's that run VMs, as one or one for each driver. The kernel keeps 15 bytes of a name.
const LIBVIRT: [&str; 3] = ["libvirtd", "virtqemud", "virtchd"];

pub(super) fn checks(host: &Host) -> Vec<Check> {
    vec![namespaces(host), kvm(host), libvirt(host), machines(host)]
}

/// Programs in the kernel number threads as the first namespace does.
fn namespaces(host: &Host) -> Check {
    let of = |name: &str| file::link(&host.roots.proc.join("self/ns").join(name)).ok();
    let (pids, groups) = (of("pid"), of("cgroup"));
    let check = |found: &str| {
        Check::ok("namespaces", "namespaces", found).needed_for(&[Vms, Observe, Record, Apply])
    };
    let remedy = "run lowtail on the host itself, or in a container with its namespaces: --pid=host --cgroupns=host";
    match (pids.as_deref(), groups.as_deref()) {
        (Some(pids), _) if pids != FIRST_PIDS => {
            check("in a namespace of processes of its own").but(
                State::Missing,
                "the kernel's numbers of threads are not those seen here, so that VMs could not be told apart",
                remedy,
            )
        }
        (_, Some(groups)) if groups != FIRST_CGROUPS => check("in a namespace of control groups")
            .but(State::Degraded, "groups above it are not seen, with their quotas", remedy),
        (None, _) => check("the kernel does not tell").but(
            State::Note,
            "lowtail cannot tell whether it sees all VMs",
            "mount proc at /proc",
        ),
        _ => check("the host's"),
    }
}

fn kvm(host: &Host) -> Check {
    let (id, title) = ("kvm", "KVM");
    let vendor =
        ["kvm_intel", "kvm_amd"].iter().find(|name| host.has_sys(&format!("module/{name}")));
    let device = host
        .proc("misc")
        .is_some_and(|list| list.lines().any(|line| line.split_whitespace().nth(1) == Some("kvm")));
    match (vendor, device) {
        (Some(vendor), true) => Check::ok(id, title, *vendor),
        (None, true) => Check::ok(id, title, "there"),
        (_, false) => Check::ok(id, title, "not there").but(
            State::Note,
            "VMs run under emulation, if at all; lowtail observes them all the same",
            "modprobe kvm_intel or kvm_amd, and virtualisation enabled in the firmware",
        ),
    }
}

fn libvirt(host: &Host) -> Check {
    let pids = file::numbers(&host.roots.proc).unwrap_or_default();
    let runs = pids.into_iter().find_map(|pid| {
        let comm = host.proc(&format!("{pid}/comm"))?;
        LIBVIRT.iter().find(|name| **name == comm)
    });
    let found = match runs {
        Some(name) => format!("{name} runs; VMs are found without asking it"),
        None => "does not run; VMs are found without it".to_string(),
    };
    Check::ok("libvirt", "libvirt", found)
}

fn machines(host: &Host) -> Check {
    let found = scan(&host.roots, &[]);
    let mut vms = found.vms.iter().map(|vm| vm.name.to_string());
    let shown: Vec<String> = vms.by_ref().take(5).collect();
    let more = found.vms.len() - shown.len();
    let text = match (shown.is_empty(), more) {
        (true, _) => "none".to_string(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    };
    if let Some(why) = found.unknown {
        let check = Check::ok("vms", "VMs", "unknown");
        return check.needed_for(&[Vms, Observe, Record, Apply]).but(
            State::Missing,
            why,
            "mount proc at /proc, and let lowtail have some 64 open files",
        );
    }
    let check = Check::ok("vms", "VMs", text).needed_for(&[Vms, Observe]);
    match found.troubles.first() {
        Some(trouble) => check.but(
            State::Note,
            trouble.clone(),
            "`lowtail host vms` lists all; --vm declares what lowtail does not find",
        ),
        None => check,
    }
}
