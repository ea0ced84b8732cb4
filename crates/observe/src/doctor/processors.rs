//! What decides who runs: control groups, sched_ext, polling, threads of one core, clocks.

use super::check::Command::{Apply, Observe, Record};
use super::{Check, Host, State};
use lowtail_discover::hierarchy;
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_kernel::hangs;
use lowtail_kernel::sched_ext;

/// Clocks that are read in the processor itself.
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase"];

pub(super) fn checks(host: &Host) -> Vec<Check> {
    let mut checks = vec![groups(host), sched_ext(host)];
    checks.extend(polling(host));
    checks.push(siblings(host));
    checks.extend(clock(host));
    checks
}

fn groups(host: &Host) -> Check {
    let title = "CPU controller of control groups";
    let needed = [Observe, Apply];
    let Some(Hierarchy { version, root }) = hierarchy(&host.roots) else {
        let check = Check::ok("cgroup-cpu", title, "no hierarchy has the controller cpu");
        return check.needed_for(&needed).but(
            State::Missing,
            "quotas are not seen, and none can be set",
            "mount one: mount -t cgroup2 none /sys/fs/cgroup",
        );
    };
    let shown = root.display();
    match version {
        Version::V2 => {
            let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
            let has = |list: &str| list.split_whitespace().any(|name| name == "cpu");
            let check = |found: String| Check::ok("cgroup-cpu", title, found).needed_for(&needed);
            let controllers = read("cgroup.controllers");
            let controllers = controllers.split_whitespace().collect::<Vec<_>>().join(" ");
            if !has(&read("cgroup.subtree_control")) {
                return check(format!("version 2 at {shown}, cpu not handed down")).but(
                    State::Note,
                    "groups have no quotas and weights until somebody hands it down; apply does",
                    format!("echo +cpu > {shown}/cgroup.subtree_control"),
                );
            }
            check(format!("version 2 at {shown}: {controllers}"))
        }
        Version::V1 => {
            Check::ok("cgroup-cpu", title, format!("version 1 at {shown}")).needed_for(&needed)
        }
    }
}

fn sched_ext(host: &Host) -> Check {
    let title = "sched_ext (schedulers in BPF)";
    let check = |found: String| Check::ok("sched-ext", title, found).needed_for(&[Apply]);
    let without =
        "apply cannot run the small-first scheduler; weights, caps and pinning still work";
    let (first, last) = sched_ext::KERNELS;
    let remedy = format!("boot Linux {first} to {last} with CONFIG_SCHED_CLASS_EXT=y");
    let state = host.sys("kernel/sched_ext/state");
    let lacking = state.as_ref().map_or_else(Vec::new, |_| sched_ext::lacking(&host.roots.sys));
    match state.as_deref() {
        None => check("not in this kernel".to_string()).but(State::Degraded, without, remedy),
        Some(_) if !lacking.is_empty() => {
            let found = format!("in this kernel, without {}", lacking.join(", "));
            check(found).but(State::Degraded, without, remedy)
        }
        Some("disabled") => {
            let trouble = host.version().and_then(|version| hangs::of(version).next());
            match trouble.filter(|_| host.has_sys("module/kvm")) {
                None => check("free".to_string()),
                Some(trouble) => check("free".to_string()).but(
                    State::Note,
                    format!("on kernels such as this one {}", trouble.sentence()),
                    trouble.remedy,
                ),
            }
        }
        Some(_) => {
            let name = host.sys("kernel/sched_ext/root/ops").unwrap_or_default();
            let name = lowtail_kernel::Name::new(name);
            check(format!("another scheduler is loaded: {name}")).but(
                State::Degraded,
                "the kernel takes one only, so apply cannot load small-first",
                "end the program that has loaded it",
            )
        }
    }
}

/// Nothing without KVM.
fn polling(host: &Host) -> Option<Check> {
    let ns: u64 = host.sys("module/kvm/parameters/halt_poll_ns")?.parse().ok()?;
    let (id, title) = ("halt-polling", "halt polling of KVM");
    Some(match ns {
        0 => Check::ok(id, title, "off"),
        ns => Check::ok(id, title, format!("up to {} us", ns / 1000)).but(
            State::Note,
            "an idle vCPU keeps its CPU for that long after each halt; others wait for it",
            "echo 0 > /sys/module/kvm/parameters/halt_poll_ns, if vCPUs share CPUs",
        ),
    })
}

fn siblings(host: &Host) -> Check {
    let (id, title) = ("smt", "threads that share a core (SMT)");
    let active = host.sys("devices/system/cpu/smt/active");
    let control = host.sys("devices/system/cpu/smt/control").unwrap_or_default();
    match active.as_deref() {
        Some("1") => Check::ok(id, title, "on").but(
            State::Note,
            "a vCPU runs slower while its core's other thread is busy, which is no waiting: `trace latency` of a recording shows it",
            "pin a VM's vCPUs to both threads of a core, or echo off > /sys/devices/system/cpu/smt/control",
        ),
        Some(_) if control == "notsupported" => Check::ok(id, title, "none"),
        Some(_) => Check::ok(id, title, "off"),
        None => Check::ok(id, title, "the kernel does not tell").but(
            State::Note,
            "lowtail does not see how vCPUs slow each other down",
            "look at lscpu",
        ),
    }
}

/// Nothing where the kernel does not tell.
fn clock(host: &Host) -> Option<Check> {
    let name = host.sys("devices/system/clocksource/clocksource0/current_clocksource")?;
    let fast = FAST_CLOCKS.contains(&name.as_str());
    let check = Check::ok("clock", "clock", name).needed_for(&[Observe, Record]);
    Some(match fast {
        true => check,
        false => check.but(
            State::Degraded,
            "each event costs a slow reading of a device, and observing exceeds its budget",
            "find out why the kernel does not trust the processor's clock: dmesg | grep -i clocksource",
        ),
    })
}
