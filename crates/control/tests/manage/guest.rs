//! The same with the other version of control groups: in a guest whose kernel has v2 only.

use std::path::Path;
use std::process::Command;

use crate::needs::skip;

/// What runs there: not what is about CPUs, of which it has one, about instants of a clock that is slow there, or long.
const TESTS: &str = "kill::after limits:: foreign:: ledger::";

/// What this test says in a guest where `script` runs it as `lowtail`, with stand-ins at hand; it has to end well. `None` if there can
/// be no guest here.
pub(super) fn within(script: &str, environment: &[(&str, &str)]) -> Option<String> {
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest");
    let kernel = Command::new(&guest).arg("kernel").output().expect("a script");
    let why = format!("no kernel for the guest: {}", String::from_utf8_lossy(&kernel.stderr));
    if skip((!kernel.status.success()).then_some(&why)) {
        return None;
    }
    let output = Command::new(&guest)
        .arg("run")
        .arg(std::env::current_exe().expect("this test"))
        // A stand-in is looked for beside the directory of the test.
        .args(["sh", "-c", &format!("ln -s /bin/lowtail-standin /lowtail-standin; {script}")])
        .env("LOWTAIL_GUEST_ALSO", lowtail_standin::binary())
        .env("LOWTAIL_GUEST_SECONDS", "300")
        .envs(environment.iter().copied())
        .output()
        .expect("a script");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

#[test]
fn with_cgroup_v2() {
    let script = format!("CI=true lowtail {TESTS} --test-threads=1");
    let Some(said) = within(&script, &[]) else { return };
    assert!(said.contains("running 17 tests") && said.contains("17 passed"), "{said}");
}
