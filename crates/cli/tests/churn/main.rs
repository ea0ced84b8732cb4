//! VMs with pins, weights, caps and storms come and go under `apply --watch` with small-first, in a guest with a kernel of 6.18. What was
//! scheduled is recorded, and judged from outside: no CPU is idle while somebody waits who may run there, nobody waits for longer than is
//! promised, limits hold in each second, and in the end all is as it was.
//!
//! On one CPU all is for one queue; eight have work for each other.
//!
//! `LOWTAIL_CHURN_SECONDS` says for how long by the guest's clock; `make churn` has ten minutes of them, which take two hours.
//! `LOWTAIL_SEED` begins elsewhere. Needs QEMU and Debian's archive: without them the tests say so and pass, unless `CI` is set.

mod book;
mod host;
mod judge;
mod schedule;
mod vms;

use std::path::Path;

use lowtail_testkit::guest::Guest;
use lowtail_testkit::seed::seed;

/// CPUs here, in the guest.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Several CPUs have turns of so long at most, so that one that is woken does not wait for all others.
const TURN_US: u64 = 500;
/// Seconds of the guest's clock without `LOWTAIL_CHURN_SECONDS`: a minute of ours on eight CPUs, which one of ours emulates.
fn usual_seconds(cpus: u32) -> u64 {
    if cpus > 1 { 6 } else { 10 }
}
/// Seconds of ours that one of the guest's may take, and for its beginning and end.
const SLOWNESS: u64 = 20;
const AROUND: u64 = 900;

#[test]
fn vms_come_and_go_on_eight_cpus() {
    in_a_guest(8);
}

#[test]
fn vms_come_and_go_on_one_cpu() {
    in_a_guest(1);
}

/// An inversion that ended a host once: `apply` waited for a lock of a VM's process whose threads were starved by VMs that it had
/// not taken yet, for as long as it did not take them.
#[test]
fn forty_vms_that_come_at_once_are_taken_at_once() {
    guest(8, AROUND, "crowd");
}

fn in_a_guest(cpus: u32) {
    let seconds = match std::env::var("LOWTAIL_CHURN_SECONDS") {
        Ok(text) => text.parse().expect("LOWTAIL_CHURN_SECONDS: a number"),
        Err(_) => usual_seconds(cpus),
    };
    guest(cpus, AROUND + SLOWNESS * seconds, &seconds.to_string());
}

/// Runs `inside` there, for so many seconds of ours at most.
fn guest(cpus: u32, seconds: u64, what: &str) {
    let own = std::env::current_exe().expect("this test");
    let name = own.file_name().and_then(|name| name.to_str()).expect("a name of cargo's");
    let inside = format!(
        "LOWTAIL_SEED={} LOWTAIL_CHURN_SECONDS={what} {name} --ignored --exact inside --nocapture",
        seed()
    );
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["sh", "-c", &inside]);
    let guest = guest.also(&own).also(lowtail_standin::binary());
    let guest = guest.set("CPUS", cpus).set("MEMORY", 1536);
    let guest = if cpus > 1 { guest.set("TURN_US", TURN_US) } else { guest };
    let Some(said) = guest.set("SECONDS", seconds).run() else { return };
    assert!(said.contains("1 passed"), "it ran there");
}

/// What the guest does.
#[test]
#[ignore = "runs in the guest"]
fn inside() {
    // Its first process is a shell.
    assert!(Path::new("/command").exists(), "this is for the guest");
    match std::env::var("LOWTAIL_CHURN_SECONDS").expect("the outer test says it").as_str() {
        "crowd" => host::crowd(),
        seconds => host::churn(seed(), seconds.parse().expect("a number")),
    }
}
