//! Claims when costs are moved.

use lowtail_lab::{RunOptions, Sensitivity, sensitivity};

use crate::parse;

/// A timer sleeper alone: all that it waits for is what things cost.
const ALONE: &str = r#"
title = "alone"
duration = "10s"
[host]
pcpus = 1
costs = { file = "xen-2017", wake_to_tickle = "3us", tickle_to_schedule_idle = "5us", schedule = "0us", context_switch = "7us", cold_cache = "11us" }
scheduler = { kind = "credit2", version = "4.21", ratelimit = "0us" }
[vm.nap]
workload = { kind = "timer-sleeper", sleep = "1ms", wakeups = 200, late_limit = "1ms" }
"#;

fn moved(claims: &str, by: f64) -> Sensitivity {
    let experiment = parse(&format!("{ALONE}{claims}")).unwrap();
    sensitivity(&experiment, &RunOptions { jobs: 2, ..RunOptions::default() }, by, &|_| ()).unwrap()
}

fn claim(id: &str, metric: &str, bound: &str) -> String {
    format!("[[claim]]\nid = '{id}'\ncase = 'run'\nmetric = '{metric}'\n{bound}\n")
}

/// A wait that is a sum of costs moves with each by its share, so that what all of them move it by adds up to the part of it by which
/// they were moved; one that is no part of it does not move it.
#[test]
fn a_sum_of_costs_moves_with_each() {
    let moved = moved(&claim("wait", "max", "at_most = 1e9"), 0.2);
    assert!(moved.costs.contains(&"context_switch") && !moved.costs.contains(&"schedule"));
    let wait = &moved.claims[0];
    let own = wait.verdict.measured.unwrap();
    let steps = wait.measured.iter().map(|pair| pair[1].unwrap() - pair[0].unwrap());
    let steps: Vec<f64> = steps.collect();
    // What is measured is of three digits.
    assert!((steps.iter().sum::<f64>() / (0.4 * own) - 1.0).abs() < 0.05, "{own} {steps:?}");
    let of = |cost: &str| steps[moved.costs.iter().position(|name| *name == cost).unwrap()];
    assert!((of("tickle_to_schedule_idle") - 0.4 * 5.0).abs() < 0.1, "{steps:?}");
    // Nobody else runs: it is never told to make room.
    assert_eq!(of("tickle_to_schedule"), 0.0);
    let (low, high) = wait.range().unwrap();
    assert!(low < own && own < high);
    assert!(wait.flips.is_empty());
}

/// A bound just above what is measured flips with each cost that adds to it moved up; one that is far away, and one of a count, with none.
#[test]
fn a_claim_on_the_edge_flips() {
    let first = moved(&claim("wait", "max", "at_most = 1e9"), 0.2);
    let own = first.claims[0].verdict.measured.unwrap();
    let edge = claim("edge", "max", &format!("at_most = {}", own * 1.001));
    let count = claim("count", "count", "at_least = 200");
    let moved = moved(&[edge, claim("far", "max", "at_most = 1e9"), count].concat(), 0.2);
    let [edge, far, count] = &moved.claims[..] else { panic!("three claims") };
    assert!(edge.flips.contains(&("tickle_to_schedule_idle", true)), "{:?}", edge.flips);
    assert!(edge.flips.iter().all(|(_, up)| *up), "{:?}", edge.flips);
    assert!(far.flips.is_empty() && count.flips.is_empty());
    assert_eq!((count.most(), far.most()), (None, edge.most()));
    let json = moved.json();
    assert_eq!(json["by_ratio"], 0.2);
    assert!(json["claims"][0]["flips"][0]["up"].as_bool().unwrap());
    assert!(json["claims"][2]["moved_most_by"].is_null());
}
