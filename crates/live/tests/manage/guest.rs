//! The same with the other version of control groups: in a guest whose kernel has v2 only.

use std::path::Path;
use std::process::Command;

use crate::needs::skip;

/// What runs there: not what is about CPUs, of which it has one, about instants of a clock that is slow there, or long.
const TESTS: &str = "kill::after limits:: foreign:: ledger::";

#[test]
fn with_cgroup_v2() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest");
    let kernel = Command::new(&script).arg("kernel").output().expect("a script");
    let why = format!("no kernel for the guest: {}", String::from_utf8_lossy(&kernel.stderr));
    if skip((!kernel.status.success()).then_some(&why)) {
        return;
    }
    // A stand-in is looked for beside the directory of the test.
    let inside = format!(
        "ln -s /bin/lowtail-standin /lowtail-standin; CI=true lowtail {TESTS} --test-threads=1"
    );
    let output = Command::new(&script)
        .arg("run")
        .arg(std::env::current_exe().expect("this test"))
        .args(["sh", "-c", &inside])
        .env("LOWTAIL_GUEST_ALSO", lowtail_standin::binary())
        .env("LOWTAIL_GUEST_SECONDS", "300")
        .output()
        .expect("a script");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("running 16 tests") && said.contains("16 passed"), "{said}");
}
