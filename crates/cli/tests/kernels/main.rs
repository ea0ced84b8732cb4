//! One policy file on the kernels that hosts have: `plan`, `apply`, `status` and `revert`, and what else looks at a host, in guests
//! that `scripts/guest` boots. `inside.sh` is what they do there; docs/reference/apply.md has a table of what came of it.
//!
//! Debian 12's and 13's own kernels and the one of all other tests have to be had where `CI` is set. Others of trixie-backports come and
//! go: `cargo test -p lowtail --test kernels -- --ignored` fetches them.

mod said;

use std::path::Path;

use lowtail_standin::binary;
use lowtail_testkit::guest::Guest;
use serde_json::Value;

use said::Said;

/// A kernel, and what a policy gets on it.
struct Kernel {
    /// As `scripts/guest` names it.
    series: &'static str,
    /// Threads have slices of their own.
    slices: bool,
    /// Why small-first cannot be had there, if it cannot.
    small_first: Result<(), &'static str>,
}

const LINUX_6_1: Kernel =
    Kernel { series: "6.1", slices: false, small_first: Err("the kernel has no sched_ext") };
const LINUX_6_12: Kernel = Kernel { series: "6.12", slices: true, ..LINUX_6_1 };
const LINUX_6_16: Kernel = Kernel {
    series: "6.16",
    slices: true,
    small_first: Err("the kernel's sched_ext lacks cgroup_set_bandwidth"),
};
const LINUX_6_18: Kernel = Kernel { series: "6.18", slices: true, small_first: Ok(()) };
const LINUX_7: Kernel = Kernel { series: "7", ..LINUX_6_18 };

#[test]
fn linux_6_1_of_debian_12() {
    check(&LINUX_6_1);
}

#[test]
fn linux_6_1_with_control_groups_of_version_1() {
    let Some(said) = guest(&LINUX_6_1, "v1") else { return };
    applied(&LINUX_6_1, &said, Version::V1);
    shared(&said);
}

#[test]
fn linux_6_12_of_debian_13() {
    check(&LINUX_6_12);
}

/// It has sched_ext, but not what limits of control groups need there.
#[test]
#[ignore = "Debian's archive does not keep this kernel"]
fn linux_6_16() {
    check(&LINUX_6_16);
}

#[test]
fn linux_6_18() {
    check(&LINUX_6_18);
}

#[test]
#[ignore = "Debian's archive does not keep this kernel"]
fn newest_linux_7() {
    check(&LINUX_7);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// What a guest with this kernel says; `None` if there can be no such guest here.
fn guest(kernel: &Kernel, version: &str) -> Option<Said> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let inside = root.join("tests/kernels/inside.sh");
    let out = Guest::new(env!("CARGO_BIN_EXE_lowtail"))
        .command(["inside.sh", version])
        .also(binary())
        .also(inside)
        .set("SERIES", kernel.series)
        .set("MEMORY", 1024)
        .run()?;
    Some(Said::parse(&out))
}

/// All of it.
fn check(kernel: &Kernel) {
    let Some(said) = guest(kernel, "v2") else { return };
    looked_at(kernel, &said);
    planned(kernel, &said);
    applied(kernel, &said, Version::V2);
    kept(kernel, &said);
}

/// `doctor`, `vms` and `observe` see the host and its VMs.
fn looked_at(kernel: &Kernel, said: &Said) {
    // Without modules there is no clsact, and so the doctor has something to say on every kernel.
    let doctor = said.json("doctor", 1);
    for command in ["vms", "observe", "record", "apply"] {
        assert_eq!(doctor["capabilities"][command], true, "{command}");
    }
    let checks = doctor["checks"].as_array().expect("checks");
    let state = |id: &str| {
        let check = checks.iter().find(|check| check["id"] == id).expect(id);
        (check["state"].as_str().expect("a state"), check["found"].as_str().expect("a text"))
    };
    let wanted = match kernel.small_first {
        Ok(()) => ("ok", "free"),
        Err(why) if why.contains("lacks") => {
            ("degraded", "in this kernel, without cgroup_set_bandwidth")
        }
        Err(_) => ("degraded", "not in this kernel"),
    };
    assert_eq!(state("sched-ext"), wanted);
    let (slices, release) = state("kernel");
    assert_eq!(slices, if kernel.slices { "ok" } else { "note" });
    assert!(release.starts_with(&format!("Linux {}.", kernel.series)), "{release}");

    let vms = said.json("vms", 0);
    let found = |vm: &Value| {
        let threads = vm["threads"].as_array().expect("threads").iter();
        let vcpus = threads.filter(|thread| thread["role"] == "vcpu").count();
        (vm["name"].as_str().expect("a name").to_string(), vcpus)
    };
    let found: Vec<_> = vms["vms"].as_array().expect("machines").iter().map(found).collect();
    assert_eq!(found, [("one".into(), 1), ("three".into(), 1), ("two".into(), 2)]);
    assert_eq!(vms["problems"], Value::Array(Vec::new()));

    // A VM with a wake-up each 2 ms. `lowtail` itself may make it late, which is a finding, and code 1.
    let (code, seen) = said.code("observe");
    let findings = seen["findings"].as_array().expect("findings").len();
    assert_eq!(code, i32::from(findings > 0), "{seen}");
    let threads = seen["vms"][0]["threads"].as_array().expect("threads").iter();
    let wakes =
        threads.filter_map(|thread| thread["wakeup_latency"]["count"].as_u64()).sum::<u64>();
    assert_eq!(seen["vms"][0]["name"], "web", "{seen}");
    // Its verifier has taken the programs that look at packets.
    let gaps = seen["coverage_gaps"].to_string();
    assert!(!gaps.contains("packets: load"), "{gaps}");
    // Some 500 in a second; the stand-in begins while the observer does.
    assert!((400..=600).contains(&wakes), "{wakes}: {seen}");
}

/// `plan` says what can be had and what not.
fn planned(kernel: &Kernel, said: &Said) {
    let notes = |plan: &Value| {
        let notes = plan["notes"].as_array().expect("notes").iter();
        notes.map(|note| note["text"].as_str().expect("a text").to_string()).collect::<Vec<_>>()
    };
    let (once, kept) = (said.json("plan", 0), said.json("plan-watch", 0));
    assert_eq!(once["vcpu_scheduler"], "fair");
    assert_eq!(
        kept["vcpu_scheduler"],
        if kernel.small_first.is_ok() { "small-first" } else { "fair" }
    );
    let no_slices = |notes: &[String]| {
        notes.iter().any(|note| note.contains("a slice cannot be set here: it needs Linux 6.12"))
    };
    assert_eq!(no_slices(&notes(&once)), !kernel.slices);
    if let Err(why) = kernel.small_first {
        for notes in [notes(&once), notes(&kept)] {
            let why = format!("small-first for vCPUs cannot be set here: {why}");
            assert!(notes.iter().any(|note| note.starts_with(&why)), "{notes:?}");
        }
    } else {
        assert!(notes(&once).iter().any(|note| note.contains("add --watch")));
        assert!(notes(&kept).iter().any(|note| note.contains("slice is not used")));
    }
}

/// What the policy comes to in these values: two vCPUs of weight 100 are a group of 200, or of 2048 shares (1024 are the usual ones); 10 % and
/// 80 % of the kernel's period of 100 ms; workers have twice the usual weight; 3 ms for the vCPU of `one`.
fn wanted(before: &[String], version: Version, slices: bool) -> Vec<String> {
    let group = |name: &str| format!("machine-qemu\\x2d1\\x2d{name}.scope");
    let (one, two, three) = (group("one"), group("two"), group("three"));
    // With v1 there is no group between the VM's and those of its threads.
    let values = match version {
        Version::V1 => vec![
            (format!("{one}/vcpu0/cpu.cfs_quota_us"), "80000"),
            (format!("{one}/iothread1/cpu.shares"), "2048"),
            (format!("{two}/cpu.shares"), "2048"),
            (format!("{three}/cpu.cfs_quota_us"), "10000"),
        ],
        Version::V2 => vec![
            (format!("{one}/libvirt/vcpu0/cpu.max"), "80000 100000"),
            (format!("{one}/libvirt/iothread1/cpu.weight"), "200"),
            (format!("{two}/cpu.weight"), "200"),
            (format!("{three}/cpu.max"), "10000 100000"),
        ],
    };
    let mut lines = before.to_vec();
    for (file, value) in values {
        let line = lines.iter_mut().find(|line| line.starts_with(&format!("{file} ")));
        *line.unwrap_or_else(|| panic!("no {file} in {before:#?}")) = format!("{file} {value}");
    }
    // The stand-ins were begun in this order, and so are their threads.
    if slices {
        let line = lines.iter_mut().find(|line| line.starts_with("CPU 0/KVM "));
        let words: Vec<_> = line.as_ref().expect("a vCPU").split(" slice=").collect();
        let cpus = words[1].split_once(' ').expect("CPUs").1;
        *line.expect("a vCPU") = format!("{} slice=3000000 {cpus}", words[0]);
    }
    lines
}

/// `apply` and `revert`: exactly what the policy says, and exactly back.
fn applied(kernel: &Kernel, said: &Said, version: Version) {
    let before = said.lines("before", 0);
    said.lines("apply", 0);
    assert_eq!(said.lines("applied", 0), wanted(&before, version, kernel.slices));
    let status = said.lines("status", 0).join("\n");
    let places = if kernel.slices { 5 } else { 4 };
    let in_force = status.lines().filter(|line| line.ends_with("  in force")).count();
    assert_eq!(in_force, places, "{status}");
    said_in_status(kernel, &status, !kernel.slices);
    said.lines("revert", 0);
    assert_eq!(said.lines("reverted", 0), before);
}

/// `status` says what could not be had.
fn said_in_status(kernel: &Kernel, status: &str, no_slices: bool) {
    if let Err(why) = kernel.small_first {
        let note = format!("note: small-first for vCPUs cannot be set here: {why}");
        assert!(status.contains(&note), "{status}");
    }
    assert_eq!(status.contains("note: one: a slice cannot be set here"), no_slices, "{status}");
}

/// The second VM has twice the run time of the first, and the third a tenth of the CPU: within 2 %.
fn shared(said: &Said) {
    let figures = said.lines("shares", 0);
    let figure = |name: &str| -> f64 {
        let mut lines = figures.iter().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(first, _)| *first == name);
        found.and_then(|(_, figure)| figure.parse().ok()).expect(name)
    };
    let near = |had: f64, wanted: f64| (had / wanted - 1.0).abs() <= 0.02;
    assert!(near(figure("two") / figure("one"), 2.0), "{figures:?}");
    assert!(near(figure("three") / figure("time"), 0.1), "{figures:?}");
}

/// `apply --watch`, with small-first where the kernel has what it needs; killed, and reverted.
fn kept(kernel: &Kernel, said: &Said) {
    let before = said.lines("before", 0);
    said.lines("waited", 0);
    let small_first = kernel.small_first.is_ok();
    let mut values = wanted(&before, Version::V2, kernel.slices && !small_first);
    if small_first {
        // SCHED_EXT of include/uapi/linux/sched.h.
        values.iter_mut().for_each(|line| *line = line.replace("policy=0 ", "policy=7 "));
    }
    assert_eq!(said.lines("kept", 0), values);
    shared(said);
    let status = said.lines("kept-status", 0).join("\n");
    said_in_status(kernel, &status, !kernel.slices);
    let schedules = "small-first schedules 3 VMs";
    assert_eq!(status.contains(schedules), small_first, "{status}");
    // What a killed process had is told, and so is that nobody has it now.
    let killed = said.lines("killed-status", i32::from(small_first)).join("\n");
    assert!(killed.contains("no process keeps them in force"), "{killed}");
    let gone = "the process that had small-first is gone";
    assert_eq!(killed.contains(gone), small_first, "{killed}");
    said.lines("killed-revert", 0);
    assert_eq!(said.lines("restored", 0), before);
}
