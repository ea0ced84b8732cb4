//! Latency beside loops, weights and caps.

use crate::{at, guest, share, still_there};

/// A server that is busy for 5 % of the time, alone and beside one and two loops, on one CPU.
#[test]
fn a_server_beside_loops_answers_as_if_it_were_alone() {
    let Some(figures) = guest("latency", 1) else { return };
    let alone = at(&figures, "/alone-fair/server/p99_us");
    for (scenario, loops) in [("one", vec!["a"]), ("two", vec!["a", "b"])] {
        let (fair, ours) = (format!("{scenario}-fair"), format!("{scenario}-small-first"));
        still_there(&figures, &ours);
        let p99 = at(&figures, &format!("/{ours}/server/p99_us"));
        let theirs = at(&figures, &format!("/{fair}/server/p99_us"));
        assert!(p99 <= theirs / 2.0, "{scenario}: p99 {p99} us, EEVDF's {theirs}");
        assert!(p99 <= 1.5 * alone, "{scenario}: p99 {p99} us, alone {alone}");
        // What the server uses is what it uses alone under the kernel's own scheduler: what its wake-ups cost more
        // here counts against us.
        let used = share(&figures, "alone-fair", "server");
        let left: f64 = loops.iter().map(|name| share(&figures, &ours, name)).sum();
        assert!(
            left >= 1.0 - used - 0.01,
            "{scenario}: the loops have {left}, the server uses {used}"
        );
    }
}

/// Shares within 2 % of what weights and limits say, of the policy and of control groups.
#[test]
fn weights_and_caps_are_met() {
    let Some(figures) = guest("shares", 1) else { return };
    let near = |scenario: &str, vm: &str, wanted: f64| {
        let had = share(&figures, scenario, vm);
        assert!((had / wanted - 1.0).abs() <= 0.02, "{scenario}: `{vm}` has {had}, not {wanted}");
    };
    for scenario in ["weights", "group-weights"] {
        still_there(&figures, scenario);
        for (vm, weight) in [("a", 1.0), ("b", 2.0), ("c", 4.0)] {
            near(scenario, vm, weight / 7.0);
        }
    }
    for scenario in ["cap", "group-cap"] {
        still_there(&figures, scenario);
        near(scenario, "a", 0.25);
        near(scenario, "b", 0.75);
    }
    // A limit on one of a machine's two threads: the machine has its half, and the other thread the rest of that.
    let first = at(&figures, "/thread-cap/a/first_share");
    assert!((first / 0.10 - 1.0).abs() <= 0.02, "the thread has {first}");
    near("thread-cap", "a", 0.5);
}

/// A machine of four loops whose limit is 40 % of a CPU, which its threads use up in many short turns.
#[test]
fn a_cap_of_four_loops_is_met() {
    let Some(figures) = guest("shares", 1) else { return };
    let had = share(&figures, "four-capped", "a");
    assert!((had / 0.40 - 1.0).abs() <= 0.02, "`a` has {had}");
}
