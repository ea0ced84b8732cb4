//! How it begins and ends, and that nobody is left waiting.

use lowtail_control::vcpu::{Options, Scheduler, available};
use serde_json::{Value, json};

use crate::{at, guest};

/// On a host without sched_ext the error says what is missing; with bad options, what would be right.
#[test]
fn what_cannot_be_is_said() {
    let bad = Options { vms: 1, ..Options::default() };
    let error = Scheduler::load(&bad).expect_err("no room").to_string();
    assert!(error.contains("room for 1 VMs"), "{error}");
    let bad = Options { watchdog: std::time::Duration::from_secs(31), ..Options::default() };
    let error = Scheduler::load(&bad).expect_err("too far away").to_string();
    assert!(error.contains("1 ms to 30 s"), "{error}");
    if std::fs::metadata("/sys/kernel/sched_ext").is_err() {
        let error = available().expect_err("there is none").to_string();
        assert!(error.contains("CONFIG_SCHED_CLASS_EXT"), "{error}");
        assert_eq!(Scheduler::load(&Options::default()).expect_err("none").to_string(), error);
    }
}

/// A third of a load was once a search for one name, which the kernel's check made for each place that reads a CPU mask: 9.6 s
/// in place of 6.3 s, of the guest's clock, which counts instructions.
#[test]
fn the_kernels_check_is_no_longer_than_it_was() {
    let Some(figures) = guest("verified", 1) else { return };
    let load_s = at(&figures, "/load_seconds");
    assert!(load_s < 7.5, "{load_s} s: {}", figures["programs"]);
    assert!(at(&figures, "/programs/lowtail_dispatc/verified") > 1_000.0, "{figures:#}");
}

#[test]
fn twenty_times_it_comes_and_goes() {
    comes_and_goes("loads", 20);
}

#[test]
#[ignore = "takes ten minutes: make scheduler-wide"]
fn two_hundred_times_it_comes_and_goes() {
    comes_and_goes("many-loads", 200);
}

/// Each time all threads are in, and each time they are back.
fn comes_and_goes(group: &str, times: u32) {
    let Some(figures) = guest(group, 1) else { return };
    for key in ["enabled", "disabled", "fair"] {
        assert_eq!(figures[key], json!(times), "{key}");
    }
    // Two threads that want a tenth of a CPU each.
    let share = at(&figures, "/share");
    assert!((0.15..0.25).contains(&share), "{share}");
}

/// A thread that does not run for longer than the watchdog waits, and somebody who asks the kernel for its own scheduler.
#[test]
fn when_the_kernel_ends_it_the_state_says_why() {
    let Some(figures) = guest("ends", 1) else { return };
    assert_eq!(figures["before"], json!("enabled"));
    let second = figures["second"].as_str().unwrap_or_default();
    assert!(second.contains("`lowtail") && second.contains("loaded already"), "{second}");
    // The words of scx_exit_reason() in kernel/sched/ext.c.
    let reason =
        |key: &str| figures[key]["ended"]["reason"].as_str().unwrap_or_default().to_string();
    assert_eq!(reason("stalled"), "runnable task stall");
    let message = figures["stalled"]["ended"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("failed to"), "{message}");
    assert_eq!(figures["after_stall"], json!("disabled"));
    assert!(at(&figures, "/share") > 0.95, "the thread runs under the kernel's own scheduler");
    assert_eq!(reason("asked"), "disabled by sysrq-S");
}

/// The kernel's own scheduler has all when the process is dead.
#[test]
fn a_kill_ends_it() {
    let Some(figures) = guest("killed", 1) else { return };
    assert_eq!(figures["before"], json!("enabled"));
    assert_eq!(figures["after"], json!("disabled"));
    assert_eq!(figures["again"], json!(true));
}

/// Ten VMs of a hundred threads each, all of which want the CPU for ten seconds.
#[test]
fn a_thousand_threads_all_run() {
    let Some(figures) = guest("crowd", 1) else { return };
    assert_eq!(figures["enabled"], json!(true), "{:?}", figures["state"]);
    let vms = || (0..10).map(|i| at(&figures, &format!("/m{i}/share")));
    // A turn of 10 ms each in ten seconds: each VM has a tenth, less what the rest of the guest uses.
    assert!(vms().sum::<f64>() > 0.95);
    for share in vms() {
        assert!((0.08..0.12).contains(&share), "{share}");
    }
}

/// With two CPUs: one goes and comes back three times, with threads that may run anywhere and threads that may run only there; then all
/// are moved from one to the other, by their affinity and by a cpuset. Watched by a watchdog of 3 s.
#[test]
fn cpus_come_and_go() {
    let Some(figures) = guest("hotplug", 2) else { return };
    assert_eq!(figures["state"], json!("enabled"));
    let close = |had: f64, wanted: f64| (had / wanted - 1.0).abs() < 0.05;
    assert!(close(at(&figures, "/both"), 2.0));
    for had in figures["one"].as_array().into_iter().flatten().filter_map(Value::as_f64) {
        assert!(close(had, 1.0), "{had}");
    }
    assert!(close(at(&figures, "/again"), 2.0));
    assert!(close(at(&figures, "/moved"), 1.0));
    assert!(close(at(&figures, "/back"), 1.0));
    for had in figures["confined"].as_array().expect("two figures") {
        assert!(close(had.as_f64().expect("a share"), 1.0), "{had}");
    }
    assert!(at(&figures, "/least_ms") > 0.0, "somebody did not run");
}
