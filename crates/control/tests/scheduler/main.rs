//! The scheduler for vCPUs on a real kernel: Debian's 6.18, booted by `scripts/guest` under QEMU with a clock that counts
//! instructions. `examples/guest_scheduler` plays scenarios there and prints figures; they are judged here. Needs
//! QEMU and Debian's archive: without them the tests say so and pass, unless `CI` is set.

mod attackers;
mod bounds;
mod ends;
mod figures;
mod pins;

use std::path::{Path, PathBuf};

use lowtail_testkit::guest::Guest;
use serde_json::Value;

/// The program that plays, which cargo builds beside the tests.
fn player() -> PathBuf {
    let own = std::env::current_exe().expect("a program");
    // target/debug/deps/scheduler-…: examples are beside `deps`.
    let dir = own.parent().and_then(Path::parent).expect("a directory of cargo's");
    dir.join("examples/guest_scheduler")
}

/// What the guest with so many CPUs says of a group of scenarios. Guests beside each other are in nobody's way: their clocks
/// count instructions. `None` if there can be no guest here.
fn guest(group: &str, cpus: u32) -> Option<Value> {
    let player = player();
    assert!(player.exists(), "no {}: cargo build -p lowtail-control --examples", player.display());
    let guest = Guest::new(&player).command(["lowtail", group]);
    let out = guest.set("CPUS", cpus).run()?;
    let figures = out.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let figures = serde_json::from_str(figures).unwrap_or_else(|error| panic!("{error}: {out}"));
    println!("{group}: {figures:#}");
    Some(figures)
}

/// The figure at a path such as `/one-fair/server/p99_us`.
fn at(figures: &Value, path: &str) -> f64 {
    let figure = figures.pointer(path).and_then(Value::as_f64);
    figure.unwrap_or_else(|| panic!("no figure {path}"))
}

/// The share of a CPU that a VM had.
fn share(figures: &Value, scenario: &str, vm: &str) -> f64 {
    at(figures, &format!("/{scenario}/{vm}/share"))
}

/// Nobody has ended the scheduler in that scenario.
fn still_there(figures: &Value, scenario: &str) {
    let enabled = figures.pointer(&format!("/{scenario}/enabled")).and_then(Value::as_bool);
    assert_eq!(enabled, Some(true), "{scenario}: {:?}", figures[scenario]["state"]);
}
