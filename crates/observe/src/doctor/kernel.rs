//! What the kernel lets BPF programs do, and this user.

use std::collections::BTreeSet;

use super::check::Command::{Apply, Observe, Record, Vms};
use super::{Check, Host, Program, State};
use lowtail_kernel::btf;
use lowtail_kernel::thread::SLICES_SINCE;

/// Programs at tracepoints with the kernel's types came with 5.5, a capability of their own and rings with 5.8,
/// atomic operations that return a value with 5.12 (commit 5ffa25502b5a).
const OLDEST: (u32, u32) = (5, 12);
/// Bits of `CapEff`, `linux/capability.h`.
const NET_ADMIN: u32 = 12;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const SYS_NICE: u32 = 23;
const PERFMON: u32 = 38;
const BPF: u32 = 39;
/// Tracepoints of the scheduler, without which there is nothing to observe.
const SCHEDULER: [&str; 3] = ["sched_switch", "sched_wakeup", "sched_wakeup_new"];
/// Others, and what would not be seen.
const OTHERS: [(&str, &[&str]); 4] = [
    ("who moves between processors", &["sched_waking", "sched_migrate_task"]),
    ("names of threads in recordings", &["task_newtask", "task_rename"]),
    (
        "time in queues of the network",
        &["net_dev_queue", "net_dev_start_xmit", "netif_receive_skb"],
    ),
    ("packets that the host drops", &["kfree_skb"]),
];

pub(super) fn checks(host: &Host) -> Vec<Check> {
    let tracepoints = tracepoints(host);
    let mut checks = vec![
        release(host),
        capabilities(host),
        types(&tracepoints),
        programs(host),
        scheduler_tracepoints(&tracepoints),
        other_tracepoints(&tracepoints),
    ];
    checks.extend(compiler(host));
    checks
}

pub(super) fn release(host: &Host) -> Check {
    let release = host.proc("sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_string());
    let check = Check::ok("kernel", "kernel", format!("Linux {release}"));
    let check = check.needed_for(&[Observe, Record, Apply]);
    match host.version() {
        Some(version) if version < OLDEST => check.but(
            State::Missing,
            "its BPF cannot do what the programs of observe and record need",
            format!("boot Linux {}.{} or later", OLDEST.0, OLDEST.1),
        ),
        Some(version) if version < SLICES_SINCE => check.but(
            State::Note,
            "threads have no slices of their own: apply leaves out those of a policy",
            format!("boot Linux {}.{} or later", SLICES_SINCE.0, SLICES_SINCE.1),
        ),
        Some(_) => check,
        None => check.but(
            State::Note,
            "lowtail cannot tell what this version lacks",
            "mount proc at /proc",
        ),
    }
}

fn capabilities(host: &Host) -> Check {
    let status = host.proc("self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 == 1;
    let admin = has(SYS_ADMIN);
    let lacks = |wanted: &[(bool, &'static str)]| -> Vec<&'static str> {
        wanted.iter().filter(|(there, _)| !there).map(|(_, name)| *name).collect()
    };
    let vital = lacks(&[(admin || has(BPF), "CAP_BPF"), (admin || has(PERFMON), "CAP_PERFMON")]);
    let useful = lacks(&[
        (has(SYS_PTRACE), "CAP_SYS_PTRACE"),
        (has(NET_ADMIN), "CAP_NET_ADMIN"),
        (has(SYS_NICE), "CAP_SYS_NICE"),
        (admin, "CAP_SYS_ADMIN"),
    ]);
    let found = match [vital.as_slice(), useful.as_slice()].concat() {
        all if all.is_empty() => "all that lowtail needs".to_string(),
        some => format!("without {}", some.join(", ")),
    };
    let check = Check::ok("capabilities", "capabilities of this user", found);
    let check = check.needed_for(&[Vms, Observe, Record, Apply]);
    let remedy = "run lowtail as root";
    match (vital.is_empty(), useful.is_empty()) {
        (false, _) => check.but(State::Missing, "no BPF program can be loaded", remedy),
        (true, false) => check.but(
            State::Degraded,
            "programs and interfaces of others' VMs are not seen, or nothing can be applied",
            remedy,
        ),
        (true, true) => check,
    }
}

/// The names of tracepoints for which the kernel describes the types: it has `btf_trace_NAME` for each
/// (`include/trace/bpf_probe.h`).
fn tracepoints(host: &Host) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let read = btf::names(&host.roots.sys.join(btf::VMLINUX), |name| {
        let name = name.strip_prefix(b"btf_trace_");
        found.extend(name.and_then(|name| std::str::from_utf8(name).ok()).map(String::from));
    });
    read.ok().map(|()| found)
}

fn types(tracepoints: &Option<BTreeSet<String>>) -> Check {
    let title = "BTF (type information of the kernel)";
    let needed = [Observe, Record, Apply];
    match tracepoints {
        Some(_) => Check::ok("btf", title, "/sys/kernel/btf/vmlinux").needed_for(&needed),
        None => Check::ok("btf", title, "no /sys/kernel/btf/vmlinux").needed_for(&needed).but(
            State::Missing,
            "no program at a tracepoint can be loaded",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as all larger distributions have since 2021",
        ),
    }
}

fn programs(host: &Host) -> Check {
    let check = |found: String| {
        Check::ok("bpf", "BPF programs", found).needed_for(&[Observe, Record, Apply])
    };
    let lockdown = host.sys("kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return check("the kernel is locked down: confidentiality".to_string()).but(
            State::Missing,
            "no program may read what the kernel knows of threads and packets",
            "boot with lockdown=integrity, or without lockdown",
        );
    }
    match ((host.load)(Program::Tracing), (host.load)(Program::Classifier)) {
        (Ok(()), Ok(())) => check("tracing and tc programs load".to_string()),
        (Ok(()), Err(why)) => check(format!("tracing programs load, tc programs do not: {why}"))
            .but(
                State::Degraded,
                "traffic can be observed, but not tagged or split",
                "boot a kernel with CONFIG_NET_CLS_ACT=y and CONFIG_NET_CLS_BPF, and run lowtail as root",
            ),
        (Err(why), _) => check(format!("no tracing program loads: {why}")).but(
            State::Missing,
            "nothing can be observed or recorded",
            "run lowtail as root, on a kernel with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_EVENTS=y",
        ),
    }
}

fn scheduler_tracepoints(tracepoints: &Option<BTreeSet<String>>) -> Check {
    let has = |name: &&str| tracepoints.as_ref().is_some_and(|all| all.contains(*name));
    let lacking: Vec<&str> = SCHEDULER.iter().copied().filter(|name| !has(name)).collect();
    let (id, title) = ("sched-tracepoints", "scheduler tracepoints");
    if lacking.is_empty() {
        return Check::ok(id, title, SCHEDULER.join(", ")).needed_for(&[Observe, Record]);
    }
    let check = Check::ok(id, title, format!("without {}", lacking.join(", ")));
    check.needed_for(&[Observe, Record]).but(
        State::Missing,
        "lowtail cannot see who waits for a CPU",
        "boot a kernel with CONFIG_TRACEPOINTS=y and CONFIG_DEBUG_INFO_BTF=y",
    )
}

fn other_tracepoints(tracepoints: &Option<BTreeSet<String>>) -> Check {
    let has = |name: &&str| tracepoints.as_ref().is_some_and(|all| all.contains(*name));
    let mut lacking = Vec::new();
    let mut unseen = Vec::new();
    for (what, names) in OTHERS {
        let without: Vec<&str> = names.iter().copied().filter(|name| !has(name)).collect();
        if !without.is_empty() {
            lacking.extend(without);
            unseen.push(what);
        }
    }
    let (id, title) = ("tracepoints", "task and network tracepoints");
    if lacking.is_empty() {
        return Check::ok(id, title, "all that lowtail uses").needed_for(&[Observe, Record]);
    }
    let check = Check::ok(id, title, format!("without {}", lacking.join(", ")));
    check.needed_for(&[Observe, Record]).but(
        State::Degraded,
        format!("not seen: {}", unseen.join("; ")),
        "boot a newer kernel",
    )
}

/// Whether programs are compiled; nothing where the kernel does not tell, as it does to root only.
fn compiler(host: &Host) -> Option<Check> {
    let compiled = host.proc("sys/net/core/bpf_jit_enable")? != "0";
    let (id, title) = ("bpf-jit", "BPF JIT compiler");
    let found = if compiled { "on" } else { "off: programs are interpreted" };
    let check = Check::ok(id, title, found).needed_for(&[Observe, Record]);
    Some(match compiled {
        true => check,
        false => check.but(
            State::Degraded,
            "observing costs several times what the documentation says",
            "sysctl net.core.bpf_jit_enable=1",
        ),
    })
}
