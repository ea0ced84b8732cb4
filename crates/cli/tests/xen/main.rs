//! `lowtail host doctor`, `vms`, `record` and `observe` in the dom0 of a real Xen 4.20, which `scripts/xen` boots: `inside.sh` is what is done there, with
//! two guests on one pCPU. What a toolstack may do wrong is in the unit tests of `lowtail_kernel::tool` and `lowtail_xen`.
//!
//! Needs QEMU, busybox, cpio and Debian's archive: without them the test says so and passes, unless `CI` is set.

use std::fs;
use std::path::Path;
use std::process::Command;

use lowtail_testkit::needs::skip;
use serde_json::Value;

/// What `scripts/xen` returns where no Xen can be booted.
const NO_XEN: i32 = 125;

/// What each section of `inside.sh` printed, and its exit code.
struct Said(String);

impl Said {
    fn section(&self, name: &str) -> (&str, i32) {
        let head = format!("=== {name}\n");
        let (_, rest) = self.0.split_once(&head).unwrap_or_else(|| panic!("no section {name}"));
        let (text, rest) = rest.split_once("--- ").expect("its end");
        let code = rest.lines().next().and_then(|line| line.trim().parse().ok());
        (text, code.expect("an exit code"))
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

/// Boots it all; `None` if that cannot be done here.
fn dom0() -> Option<Said> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xen");
    let also = tempfile::tempdir().expect("a directory");
    let root = also.path().join("root");
    for dir in ["bin", "dev"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    fs::copy(tests.join("guest.sh"), root.join("init")).expect("a file");
    let pack = "cp \"$(command -v busybox)\" root/bin/busybox && \
                (cd root && find . | cpio --quiet -o -H newc) >initrd && rm -r root";
    let packed = Command::new("sh").args(["-c", pack]).current_dir(also.path()).output();
    let packed = packed.expect("a shell");
    let why = String::from_utf8_lossy(&packed.stderr);
    if !packed.status.success() && skip(Some(&format!("no busybox or no cpio: {why}"))) {
        return None;
    }
    fs::copy(tests.join("inside.sh"), also.path().join("inside.sh")).expect("a file");
    let mut command = Command::new(tests.join("../../../../scripts/xen"));
    command.args(["run", env!("CARGO_BIN_EXE_lowtail"), "/also/inside.sh"]);
    command.env("LOWTAIL_XEN_ALSO", also.path()).env("LOWTAIL_XEN_SECONDS", "590");
    let output = command.output().expect("a shell");
    let why = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_XEN) && skip(Some(&why)) {
        return None;
    }
    let out = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    // So that a test that fails shows all.
    println!("{out}{why}");
    assert!(output.status.success(), "in dom0: {}", output.status);
    Some(Said(out))
}

#[test]
#[ignore = "three minutes beside all the others: `make dom0`"]
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
}

/// By what `inside.sh` has made: one vCPU of dom0's on pCPU 0, two guests that share pCPU 1, and Xen's default limit of 1 ms.
fn doctor(said: &Said) {
    let all = ["dom0 of Xen 4.20", "credit2, rate limit 1000 us", "tickles none", "-p Pool-0 -r 0"];
    said.has("doctor", 0, &all);
    said.has("doctor", 0, &["pinned to pCPUs 0", "vms, observe, record; cannot: apply"]);
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
