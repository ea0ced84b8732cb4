//! A host in a guest is recorded, a policy is tuned from the recording, put in force in the guest, and measured there.
//!
//! `LOWTAIL_TUNE_HOST` says which host of `hosts.rs` (302, two servers beside a loop). All points of the front are put in force and printed with
//! `--nocapture`; the one that is chosen has to be what was promised.

use lowtail_predict::{Goal, Recording};
use lowtail_tune::{Options, RecordedProblem, Tuned, TunedPoint, tune};

use crate::hosts::{Change, Host, What};
use crate::judge::{P99, as_it_was};
use crate::{guest, setting};

/// What is measured may be so far beyond the range that was promised.
const PROMISE: f64 = 0.25;
/// And differ by so many microseconds, which is as long as a clock interrupt and its way.
const TOLERANCE_US: f64 = 10.0;

fn read(bytes: &[u8]) -> Recording {
    Recording::read(bytes, &Default::default()).expect("a recording")
}

fn tuned(recording: &Recording, goal: &str, cost: &str) -> Tuned {
    let (goals, cost) =
        (vec![goal.parse::<Goal>().expect("a goal")], cost.parse().expect("a cost"));
    let problem = RecordedProblem::new(recording, as_it_was(recording), goals, Some(cost), false);
    let options = Options { threads: 2, ..Options::default() };
    tune(&problem.expect("a problem"), &options, &|_| {}).expect("points")
}

/// How a point is put in force: small-first stays only while lowtail watches.
fn change(number: usize, point: &TunedPoint) -> Change {
    let policy = point.policy.clone();
    let watched = policy.contains("sched-ext");
    let what = if watched { What::Watched(policy) } else { What::Policy(policy) };
    Change { name: format!("point {number}"), what }
}

#[test]
fn a_tuned_policy_gives_what_was_promised() {
    let seed = setting("LOWTAIL_TUNE_HOST", 302_u64);
    let series: String = setting("LOWTAIL_PREDICT_SERIES", "6.18".to_owned());
    let mut host = Host::new(seed, 1);
    host.changes.clear();
    let Some(recordings) = guest::play(&host, 1, &series, 10) else { return };
    let before = read(&recordings[0]);
    let server = host.vms[0].name.clone();
    let was_us = P99::of(&before, &server).us;
    // Half of what it is: no more than a weight, or a slice, may reach that.
    let goal = format!("{server} p99 <= {:.0}us", was_us / 2.0);
    let found = tuned(&before, &goal, "batch* work");
    println!("host {seed}: {:?}\n{}", host.vms, found.table());
    let chosen = found.chosen.expect("half of it can be reached");
    assert!(chosen > 0, "half of it is not reached as it is");
    host.changes = (1..).zip(&found.points).map(|(number, point)| change(number, point)).collect();
    let recordings = guest::play(&host, 1, &series, 10).expect("there was a guest before");
    // The last one is the host as it is once more.
    assert_eq!(recordings.len(), 2 + found.points.len(), "all were recorded");
    for (number, (point, after)) in (1..).zip(found.points.iter().zip(&recordings[1..])) {
        let (promised, is) = (point.figures[0].figure, P99::of(&read(after), &server));
        println!(
            "point {number}: promised {:.1} us ({:.1} to {:.1}), is {:.1} us ({:.1} to {:.1}; {was_us:.1} us before): {}",
            promised.median,
            promised.min,
            promised.max,
            is.us,
            is.within_us.0,
            is.within_us.1,
            point.changes
        );
        if number != chosen {
            continue;
        }
        // Runs of a tail of some dozen wake-ups differ among themselves by more than that (LIMITATIONS.md): it is the range that is promised.
        let least = promised.min * (1.0 - PROMISE) - TOLERANCE_US;
        let most = promised.max * (1.0 + PROMISE) + TOLERANCE_US;
        // Nor says one recording more of its own tail than its interval does.
        let (low, high) = is.within_us;
        assert!(low <= most && high >= least, "promised {promised:?} us, is {is:?}");
        assert!(low <= was_us / 2.0, "the goal is reached: {is:?} of {was_us} us");
    }
}
