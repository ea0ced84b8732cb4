//! `lowtail host` in the dom0 of a real Xen 4.20, which `scripts/xen` boots: `inside.sh` is what is done there, with two guests on one pCPU,
//! then with a server beside a loop, a policy (`policy.toml`), and `xl.sh`, which kills lowtail after each of its changes. What a toolstack may do wrong is in the unit tests of `lowtail_kernel::tool` and `lowtail_xen`.
//!
//! Needs QEMU, busybox, cpio and Debian's archive: without them the test says so and passes, unless `CI` is set.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lowtail_testkit::needs::skip;
use lowtail_testkit::xen;
use serde_json::Value;

/// What each section of `inside.sh` printed, and its exit code.
struct Said(String);

impl Said {
    fn section(&self, name: &str) -> (&str, i32) {
        xen::section(&self.0, name)
    }

    /// The section ended so, and has all of this.
    fn has(&self, name: &str, code: i32, all: &[&str]) -> &str {
        let (text, ended) = self.section(name);
        assert_eq!(ended, code, "{name}: {text}");
        for part in all {
            assert!(text.contains(part), "{name}: no `{part}` in\n{text}");
        }
        text
    }

    fn json(&self, name: &str, code: i32) -> Value {
        let text = self.has(name, code, &[]);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }
}

/// Packs what a guest boots from: `init` as its first process, busybox, and a program with its libraries.
fn pack(also: &Path, name: &str, init: &str, program: Option<&Path>) -> Result<(), String> {
    let root = also.join("root");
    for dir in ["bin", "dev"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    fs::copy(tests().join(init), root.join("init")).expect("a file");
    if let Some(program) = program {
        let name = program.file_name().expect("a name");
        fs::copy(program, root.join("bin").join(name)).expect("a file");
    }
    // Its loader looks for libraries where they are here.
    let script = "set -e; cp \"$(command -v busybox)\" root/bin/busybox; \
        for program in root/bin/lowtail-*; do [ ! -e $program ] || { strip $program; ldd $program; }; done | \
        sed -n 's,^[^/]*\\(/[^ ]*\\) (0x.*,\\1,p' | while read -r library; do mkdir -p root${library%/*}; cp -L $library root$library; done; \
        (cd root && find . | cpio --quiet -o -H newc) >$NAME; rm -r root";
    let packed =
        Command::new("sh").args(["-c", script]).env("NAME", name).current_dir(also).output();
    let packed = packed.expect("a shell");
    match packed.status.success() {
        true => Ok(()),
        false => Err(format!("no busybox or no cpio: {}", String::from_utf8_lossy(&packed.stderr))),
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xen")
}

/// Boots it all; `None` if that cannot be done here.
fn dom0() -> Option<Said> {
    let also = tempfile::tempdir().expect("a directory");
    let standin = lowtail_standin::binary();
    let packed = pack(also.path(), "loop", "guest.sh", None)
        .and_then(|()| pack(also.path(), "server", "server.sh", Some(&standin)));
    if let Err(why) = packed
        && skip(Some(&why))
    {
        return None;
    }
    for file in ["inside.sh", "policy.toml", "xl.sh"] {
        fs::copy(tests().join(file), also.path().join(file)).expect("a file");
    }
    xen::dom0(env!("CARGO_BIN_EXE_lowtail"), also.path(), 1500).map(Said)
}

#[test]
#[ignore = "eight minutes beside all the others: `make dom0`"]
fn two_guests_on_one_pcpu() {
    let Some(said) = dom0() else { return };
    said.has("alone", 0, &["1 VMs", "Domain-0"]);
    doctor(&said);
    vms(&said);
    said.has("record", 0, &["events of", "d1 is web, d2 is batch"]);
    said.has("latency", 0, &["d1v0", "d2v0"]);
    said.has("wrong-option", 2, &["--vm", "leave it out"]);
    said.has("no-xl", 4, &["no `xl`", "xen-utils"]);
    observe(&said);
    plan(&said);
    apply(&said);
    kills(&said);
    watch(&said);
}

/// By what `inside.sh` has made: one vCPU of dom0's on pCPU 0, two guests that share pCPU 1, and Xen's default limit of 1 ms.
fn doctor(said: &Said) {
    let all = ["dom0 of Xen 4.20", "credit2, rate limit 1000 us", "tickles none", "-p Pool-0 -r 0"];
    said.has("doctor", 0, &all);
    said.has("doctor", 0, &["pinned to pCPUs 0", "vms, observe, record, apply"]);
}

fn vms(said: &Said) {
    said.has("vms", 0, &["Domain-0", "web", "batch", "vif1.0", "vif2.0", "Pool-0", "512"]);
    let json = said.json("vms-json", 0);
    let vms = json["vms"].as_array().expect("a list");
    let batch = vms.iter().find(|vm| vm["name"] == "batch").expect("a guest");
    assert_eq!((&batch["domain_id"], &batch["weight"]), (&2.into(), &512.into()));
    assert_eq!(batch["vcpus"][0]["hard_affinity"], "1");
    assert_eq!(batch["interfaces"][0]["mac"], "00:16:3e:00:00:02");
}

/// Each waits for the other, and Xen's own records say why: credit2 compares credits, or protects the runner for the rate limit.
fn observe(said: &Said) {
    said.has(
        "observe",
        1,
        &["3 VMs", "web: ready time", "batch ran on its CPU", "% of the wait ("],
    );
    let json = said.json("observe-json", 1);
    let vms = json["vms"].as_array().expect("a list");
    let names: Vec<&str> = vms.iter().filter_map(|vm| vm["name"].as_str()).collect();
    assert_eq!(names, ["Domain-0", "batch", "web"]);
    let findings = json["findings"].as_array().expect("a list");
    let waits = findings.iter().find(|f| f["vm"] == "web" && f["symptom"] == "ready-time");
    let cause = &waits.expect("a finding")["causes"][0];
    assert_eq!(cause["runner"]["vm"][0], "batch", "{cause}");
    let reason = cause["reason"].as_str().expect("a reason");
    assert!(["lower_credit", "rate_limit", "rate_limit_no_tickle"].contains(&reason), "{cause}");
    // Both want pCPU 1 all the time; a twentieth is for Xen and for what is not seen at both ends.
    let ran = |name: &str| {
        let vm = vms.iter().find(|vm| vm["name"] == name).expect("it is there");
        vm["threads"][0]["run_time_seconds"].as_f64().expect("a time")
    };
    let (both, interval) = (ran("web") + ran("batch"), json["interval_seconds"].as_f64());
    let interval = interval.expect("a time");
    assert!(both > 0.9 * interval && both <= interval, "{both} of {interval}");
}

/// What the policy differs in from what `inside.sh` has made, and Xen's rate limit, which is the trap.
fn plan(said: &Said) {
    let text = said.has(
        "plan",
        0,
        &["weight of domain 3", "512", "credit2 of pool Pool-0", "no rate limit", "vCPUs by Xen"],
    );
    assert!(text.contains("nearest is no rate limit") && text.contains("9.99 ms"), "{text}");
    let json = said.json("plan-json", 0);
    assert_eq!(json["vcpu_scheduler"], "xen");
    let changes = json["plan"]["changes"].as_array().expect("a list");
    assert_eq!(changes.len(), CHANGES, "{changes:?}");
    said.has("guard", 2, &["--guard", "leave it out"]);
    said.has("predict", 2, &["--predict", "lowtail predict"]);
    said.has("declared", 2, &["--vm", "leave it out"]);
}

/// Weights of two domains, a vCPU's pCPUs, and the rate limit; the cap is as it was.
const CHANGES: usize = 4;

/// The server's wake-ups wait for the loop's timer, then for nothing; then all is as it was.
fn apply(said: &Said) {
    said.has("apply", 0, &["4 changed", "revert"]);
    let (before, applied) =
        (said.has("before", 0, &["ratelimit=1000us"]), said.has("applied", 0, &["ratelimit=0us"]));
    assert_ne!(before, applied);
    said.has("status", 0, &["in force", "wake-up p50 us before", "server", "CPUs used before"]);
    let json = said.json("status-json", 0);
    let of = |when: &str, vm: &str, figure: &str| {
        let vms = json["effect"][when].as_array().expect("a list");
        let vm = vms.iter().find(|found| found["name"] == vm).expect("it is there");
        vm[figure].as_f64().expect("a figure")
    };
    let p50 = |when| of(when, "server", "wakeup_latency_p50_seconds");
    let p99 = |when| of(when, "server", "wakeup_latency_p99_seconds");
    let cpus = |when| of(when, "batch", "cpus_used");
    println!(
        "server: p50 {:.1} us -> {:.1} us, p99 {:.1} us -> {:.1} us; loop: {:.3} -> {:.3} CPUs",
        p50("before") * 1e6,
        p50("after") * 1e6,
        p99("before") * 1e6,
        p99("after") * 1e6,
        cpus("before"),
        cpus("after")
    );
    // CSCHED2_MAX_TIMER of credit2 is 10 ms.
    assert!((8e-3..11e-3).contains(&p50("before")), "the trap is not there");
    assert!(p50("after") < 0.1e-3, "it is still there");
    assert!(cpus("before") > 0.9 && cpus("after") > 0.5, "the loop has lost more than half");
    said.has("again", 0, &["0 settings would change"]);
    said.has("revert", 0, &["4 restored"]);
    assert_eq!(said.has("reverted", 0, &[]), before);
    said.has("nothing", 0, &["nothing is changed on this host"]);
}

/// After each change the kill came before lowtail knew of it.
fn kills(said: &Said) {
    let before = said.has("before", 0, &[]);
    let mut seen = BTreeSet::new();
    for at in 0..CHANGES {
        let (_, code) = said.section(&format!("kill-{at}"));
        assert_ne!(code, 0, "kill {at}");
        let (killed, _) = said.section(&format!("killed-{at}"));
        assert_ne!(killed, before, "kill {at}");
        seen.insert(killed);
        said.has(&format!("restore-{at}"), 0, &[" restored"]);
        assert_eq!(said.has(&format!("restored-{at}"), 0, &[]), before, "kill {at}");
    }
    assert_eq!(seen.len(), CHANGES, "each came after another change");
    said.has(&format!("kill-{CHANGES}"), 0, &["4 changed"]);
    assert_eq!(said.has(&format!("restored-{CHANGES}"), 0, &[]), before);
}

/// A domain that comes gets what it shall have; at the end all is as it was.
fn watch(said: &Said) {
    let late = said.has("late", 0, &["late", "ratelimit=0us"]);
    assert!(late.lines().any(|line| line.starts_with("late") && line.contains(" 128 ")), "{late}");
    said.has("held", 0, &["keeps them in force"]);
    said.has("watch", 0, &["VM late has come", "weight of domain 4", "restored"]);
    assert_eq!(said.has("unwatched", 0, &[]), said.has("before", 0, &[]));
}
