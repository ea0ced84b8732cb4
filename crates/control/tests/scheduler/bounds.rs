//! No legal policy and no crowd brings the kernel's watchdog; limits hold on idle CPUs; who interrupts is who pays; who exits ends.

use crate::{at, guest, share, still_there};

/// Before turns, waits and limits were bounded by the watchdog's time, each of these ended the scheduler.
#[test]
fn nobody_waits_for_the_watchdog() {
    let Some(figures) = guest("starved", 1) else { return };
    for scenario in ["light", "lights", "limited", "limited-above", "no-room", "bomb"] {
        still_there(&figures, scenario);
    }
    // Who has waited for a quarter of the four seconds goes first, and runs for a millisecond. Its weight would give it 3 us.
    let light = share(&figures, "light", "light");
    assert!((0.0005..0.004).contains(&light), "{light}");
    // A hundred threads, 16 us each once in a sixth of the four seconds, and as many switches of less than 100 us.
    for scenario in ["limited", "limited-above"] {
        let had = share(&figures, scenario, "a");
        assert!(had < 0.02, "{scenario}: {had}");
    }
    // A VM of 1,000 threads, of which 64 could have numbers, was there first: the next one has its number.
    assert!(at(&figures, "/no-room/a/runs") > 0.0, "all numbers were one VM's");
    // One of 300 threads has no more than its half: they are not overdue because there are many of them.
    let beside = share(&figures, "bomb", "a");
    assert!(beside >= 0.45, "{beside}");
}

/// As near to the limit as `off` where nobody else wants the CPUs, by the policy and by control groups.
fn hold_on_idle_cpus(cpus: u32, off: f64) {
    let Some(figures) = guest("idle", cpus) else { return };
    let scenarios = figures.as_object().expect("scenarios");
    assert!(scenarios.len() >= 7);
    for scenario in scenarios.keys() {
        still_there(&figures, scenario);
        let limit = if scenario.starts_with("twenty") { 0.2 } else { 0.1 };
        let had = share(&figures, scenario, "a");
        assert!((had / limit - 1.0).abs() <= off, "{scenario}: {had}, not {limit}");
    }
}

#[test]
fn limits_hold_on_an_idle_cpu() {
    hold_on_idle_cpus(1, 0.02);
}

/// Before, 10 % was 57 % here as well. What it costs to choose who runs is part of a limit, some 40 us in this guest for each run of
/// 500 us, and the kernel does not count it for one that it fetches from another CPU: these have up to 5 % less than their limit, on eight CPUs 6 %.
#[test]
fn limits_hold_on_two_idle_cpus() {
    hold_on_idle_cpus(2, 0.1);
}

#[test]
#[ignore = "minutes: make scheduler-wide"]
fn limits_hold_on_wide_idle_hosts() {
    [8, 16].into_iter().for_each(|cpus| hold_on_idle_cpus(cpus, 0.1));
}

/// All parameters at their ends.
#[test]
fn no_parameter_ends_it() {
    let Some(figures) = guest("extremes", 1) else { return };
    let scenarios = figures.as_object().expect("scenarios");
    assert!(scenarios.len() >= 10);
    for scenario in scenarios.keys() {
        still_there(&figures, scenario);
    }
}

/// A limit stops most of those that may interrupt: they have paid nothing then. Who was counted to have paid before, ran.
#[test]
fn who_interrupts_is_who_pays() {
    let Some(figures) = guest("paid", 1) else { return };
    assert_eq!(figures["enabled"], serde_json::json!(true));
    let (paid, ran) = (at(&figures, "/server/preemptions"), at(&figures, "/server/runs"));
    assert!(paid <= ran, "paid for {paid}, ran {ran} times");
}

/// Twenty threads with the least limit are killed. A limit stops each for a sixth of the watchdog's four seconds at most until it
/// begins to exit, and for no time from then on.
#[test]
fn who_exits_comes_to_its_end() {
    let Some(figures) = guest("exits", 1) else { return };
    assert_eq!(figures["enabled"], serde_json::json!(true), "{:?}", figures["state"]);
    let took = at(&figures, "/took_ms");
    assert!(took < 2000.0, "{took} ms");
}
