//! No legal policy and no crowd brings the kernel's watchdog; a limit holds on an idle CPU; who interrupts is who pays.

use crate::{at, guest, share, still_there};

/// Before turns, waits and limits were bounded by the watchdog's time, each of the first four ended the scheduler.
#[test]
fn nobody_waits_for_the_watchdog() {
    let Some(figures) = guest("starved", 1) else { return };
    for scenario in ["light", "limited", "limited-above", "no-room"] {
        still_there(&figures, scenario);
    }
    // A tenth of a CPU that nobody else wants: 20 ms' worth may have been saved up, in four seconds.
    let alone = share(&figures, "alone", "a");
    assert!((0.09..0.11).contains(&alone), "{alone}");
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
