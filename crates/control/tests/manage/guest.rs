//! The same with the other version of control groups: in a guest whose kernel has v2 only.

use lowtail_testkit::guest::Guest;

/// What runs there: not what is about CPUs, of which it has one, about instants of a clock that is slow there, or long.
const TESTS: &str = "kill::after limits:: foreign:: ledger::";

/// What this test says in a guest where `script` runs it as `lowtail`, with stand-ins at hand; it has to end well. `None` if there can
/// be no guest here.
pub(super) fn within(script: &str, set: impl FnOnce(Guest) -> Guest) -> Option<String> {
    // A stand-in is looked for beside the directory of the test.
    let script = format!("ln -s /bin/lowtail-standin /lowtail-standin; {script}");
    let guest = Guest::of_this_test().command(["sh", "-c", &script]);
    let guest = guest.also(lowtail_standin::binary());
    set(guest).run()
}

#[test]
fn with_cgroup_v2() {
    let script = format!("CI=true lowtail {TESTS} --test-threads=1");
    let Some(said) = within(&script, |guest| guest) else { return };
    assert!(said.contains("running 19 tests") && said.contains("19 passed"), "{said}");
}
