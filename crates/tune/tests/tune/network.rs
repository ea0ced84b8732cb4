//! Rate and burst of a classifier.

use lowtail_control::policy::Policy;
use lowtail_tune::{Effort, Error, Options, Point, Problem, Run, ScenarioProblem, tune};

/// A server answers with 2 KB at random, some 4 Mbit/s, beside bulk, through a link whose switch has two bands.
const SCENARIO: &str = r#"
title = "small answers beside bulk"
duration = "6s"

[network]
topology = { kind = "star", hosts = ["A", "B", "C"] }
link = { rate = "100Mbit/s", delay = "50us", buffer = "320KB" }
queue = { kind = "tag", by = "paper", queue = { kind = "split", queue = { kind = "fifo" } } }
switch = { kind = "prio", bands = 2, queue = { kind = "fifo", bytes = "320KB" } }

[traffic.small]
from = "C"
to = "A"
pattern = { kind = "requests", request = 100, reply = "2KB", gap = { exponential = "4ms" } }

[traffic.bulk]
from = "B"
to = "C"
pattern = { kind = "bulk" }
"#;

fn problem(text: &str, goal: &str) -> Result<ScenarioProblem, Error> {
    ScenarioProblem::new("test.toml", text, None, None, vec![goal.parse().unwrap()], None)
}

/// With a rate of 1 Mbit/s the answers are large, and wait behind bulk; with the paper's they are not.
#[test]
fn a_rate_is_found() {
    let narrow =
        SCENARIO.replace("by = \"paper\"", "by = \"paper\", rate = \"1Mbit/s\", burst = 3000");
    let problem = problem(&narrow, "small p99 <= 5ms").unwrap();
    let options = Options { budget: Some(40), seeds: 2, threads: 2, ..Options::default() };
    let tuned = tune(&problem, &options, &|_| {}).unwrap();
    println!("{}", tuned.table());
    assert!(!tuned.before.reached, "{}", tuned.table());
    let chosen = &tuned.points[tuned.chosen.expect("a point") - 1];
    let policy = Policy::parse("point", &chosen.policy).expect("a policy");
    let params = policy.flow.params(None);
    assert!(params.rate > 65_536 / 1000, "more than 1 Mbit/s: {}", chosen.policy);
    assert!(chosen.lost.median < 0.1, "bulk keeps its throughput: {}", tuned.table());
}

/// The file has what the scenario is simulated with, by the rule's own parameters.
#[test]
fn a_points_file_is_what_was_simulated() {
    let own = SCENARIO.replace("by = \"paper\", ", "");
    let problem = problem(&own, "small p99 <= 5ms").unwrap();
    let point = Point::empty(problem.parameters()).with(0, Some(4));
    let text = problem.policy(&point);
    assert!(text.contains("rate = \"6.3Mbit/s\"") && text.contains("burst = \"30KB\""), "{text}");
    // Ten pairs, as docs/reference/scenario.md has it.
    assert!(
        text.contains("vm_rate = \"63000kbit/s\"") && text.contains("vm_burst = 300000"),
        "{text}"
    );
    Policy::parse("point", &text).expect("a policy");
    // It makes a difference, and the same one each time.
    let run = Run { effort: Effort::Short, seed: 3 };
    let of = |point: &Point| problem.evaluate(point, run).unwrap().unwrap();
    assert_eq!(of(&point), of(&point));
    let large = Point::empty(problem.parameters()).with(0, Some(0)).with(1, Some(0));
    assert_ne!(of(&point).goals, of(&large).goals);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let said = |text: &str, goal: &str| problem(text, goal).map(|_| ()).unwrap_err().to_string();
    let error = said(SCENARIO, "smal p99 <= 5ms");
    assert!(error.contains("no such traffic; there is bulk, small"), "{error}");
    assert!(said(SCENARIO, "small cpu >= 5%").contains("no processor time"));
    let plain = SCENARIO.replace(
        "kind = \"tag\", by = \"paper\", queue = { kind = \"split\", queue = { kind = \"fifo\" } }",
        "kind = \"fifo\"",
    );
    let error = said(&plain, "small p99 <= 5ms");
    assert!(error.contains("no classifier"), "{error}");
    assert!(said("title = 3", "small p99 <= 5ms").contains("test.toml:1:"));
    // 250 a second, one after the other.
    let short = SCENARIO.replace("\"6s\"", "\"1s\"");
    assert!(said(&short, "small p99 <= 5ms").contains("500 are needed"));
}
