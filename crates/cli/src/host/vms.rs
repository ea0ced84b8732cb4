//! `lowtail host vms`.

use std::fmt::Write;
use std::process::ExitCode;

use lowtail_discover::{Declared, Found, Kind, Role, Vm, scan};
use lowtail_kernel::Roots;
use serde_json::json;

use super::dom0::is_dom0;
use super::domains;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;

/// `lowtail host vms`.
#[derive(Debug, clap::Args)]
pub(crate) struct Vms {
    /// A VM that lowtail does not find: NAME=CGROUP or NAME=PID, and ,tap=INTERFACE for each
    /// of its interfaces; or another name for one that it finds. Repeat for more
    #[arg(long, value_name = "NAME=GROUP|PID")]
    vm: Vec<Declared>,
}

pub(crate) fn run(args: &Vms, global: &Global) -> Result<ExitCode, Fail> {
    if is_dom0() {
        return domains::run(&args.vm, global);
    }
    let found = scan(&Roots::default(), &args.vm);
    if global.json {
        let vms = serde_json::to_value(&found.vms);
        let vms = vms.map_err(|error| Fail::Bug(format!("JSON: {error}")))?;
        out::json(
            &json!({ "vms": vms, "problems": found.troubles, "incomplete_reason": found.unknown }),
        )?;
    } else if !global.quiet && (found.unknown.is_none() || !found.vms.is_empty()) {
        out::text(&table(&found.vms))?;
    }
    if !global.json && !global.quiet {
        tell(&found);
    }
    // Nobody seen is not nobody there.
    found.unknown.map_or(Ok(ExitCode::SUCCESS), |why| Err(Fail::Host(why)))
}

/// What could not be found out, on standard error.
fn tell(found: &Found) {
    // Why nothing is known is the error.
    for trouble in found.troubles.iter().filter(|trouble| found.unknown.as_ref() != Some(*trouble))
    {
        out::note(&format!("note: {trouble}"));
    }
}

const HEAD: [&str; 10] = [
    "VM",
    "named by",
    "run by",
    "found by",
    "process",
    "vCPUs",
    "I/O",
    "vhost",
    "interfaces",
    "control group",
];
/// Columns of numbers.
const RIGHT: std::ops::RangeInclusive<usize> = 4..=7;

fn table(vms: &[Vm]) -> String {
    if vms.is_empty() {
        return "no VMs found; --vm NAME=CGROUP or --vm NAME=PID declares one\n".to_string();
    }
    let rows: Vec<[String; 10]> = vms.iter().map(row).collect();
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|i| {
            let cells = rows.iter().map(|row| row[i].chars().count());
            cells.chain([HEAD[i].len()]).max().unwrap_or_default()
        })
        .collect();
    let mut text = String::new();
    let head = HEAD.map(String::from);
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = match RIGHT.contains(&i) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
            let _ = write!(line, "{cell}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn row(vm: &Vm) -> [String; 10] {
    let count = |is: fn(Role) -> bool| {
        let n = vm.threads.iter().filter(|thread| is(thread.role)).count();
        if n == 0 { "-".to_string() } else { n.to_string() }
    };
    let taps: Vec<String> = vm.taps.iter().map(|tap| tap.name.to_string()).collect();
    let group = vm.cgroup.as_ref().map(|group| lowtail_out::path(group));
    let or_dash = |text: String| if text.is_empty() { "-".to_string() } else { text };
    [
        vm.name.to_string(),
        vm.origin.named_by.to_string(),
        run_by(vm.kind).to_string(),
        vm.origin.known_by.to_string(),
        vm.pid.to_string(),
        count(|role| matches!(role, Role::Vcpu(_))),
        count(|role| matches!(role, Role::IoThread(_))),
        count(|role| matches!(role, Role::Vhost(_))),
        or_dash(taps.join(",")),
        group.unwrap_or_else(|| "shared".to_string()),
    ]
}

fn run_by(kind: Kind) -> &'static str {
    match kind {
        Kind::Libvirt => "libvirt",
        Kind::Qemu => "QEMU",
        Kind::Firecracker => "Firecracker",
        Kind::CloudHypervisor => "Cloud Hypervisor",
        Kind::Kvm => "another",
        Kind::Declared => "declared",
        Kind::Xen => "Xen",
    }
}
