//! Recordings of simulated hosts: no kernel is needed.

use lowtail_control::policy::Policy;
use lowtail_predict::{Change, Recording, predict};
use lowtail_tune::{Cost, Error, Options, Problem, RecordedProblem, Tuned, tune};

use crate::hosts::{as_it_was, small};

fn problem<'a>(
    recording: &'a Recording,
    goals: &[&str],
    cost: Option<&str>,
) -> Result<RecordedProblem<&'a Recording>, Error> {
    let goals = goals.iter().map(|goal| goal.parse().unwrap()).collect();
    let cost = cost.map(|cost| cost.parse::<Cost>().unwrap());
    RecordedProblem::new(recording, as_it_was(recording), goals, cost, false)
}

fn found(recording: &Recording, goals: &[&str], threads: usize) -> Tuned {
    let problem = problem(recording, goals, Some("batch work")).unwrap();
    let options = Options { budget: Some(80), seeds: 3, threads, ..Options::default() };
    tune(&problem, &options, &|_| {}).unwrap()
}

/// The server's 99th percentile beside the loop is some milliseconds: the tick of 4 ms lets it in. Half a millisecond is reached by letting it
/// go before the loop, and `predict`, by seeds of its own, says so, too.
#[test]
fn a_goal_that_can_be_reached_is() {
    let recording = small();
    let tuned = found(&recording, &["web p99 <= 500us"], 2);
    println!("{}", tuned.table());
    assert!(!tuned.before.reached, "{tuned:#?}");
    let chosen = &tuned.points[tuned.chosen.expect("a point") - 1];
    assert!(chosen.reached && chosen.figures[0].figure.median <= 500.0);
    assert!(chosen.lost.median < 0.5, "{chosen:?}");
    // The text is a policy, and gives what was promised.
    let policy = Policy::parse("point", &chosen.policy).expect("a policy");
    let change = Change { setup: None, policy: Some(&policy) };
    let predicted = predict(&recording, &as_it_was(&recording), &change, 5, false).unwrap();
    let web = predicted.vms.iter().find(|vm| vm.name == "web").unwrap().predicted.unwrap();
    let (promised, other) = (chosen.figures[0].figure.median, web.p99_us.unwrap().median);
    assert!((promised - other).abs() <= 0.25 * promised.max(20.0), "{promised} {other}");
    for point in &tuned.points {
        assert!(Policy::parse("point", &point.policy).is_ok(), "{}", point.policy);
    }
}

/// Two vCPUs of a VM that meet on the only CPU wait for each other whatever the policy: 1 ms of work each, at a sixth of the time.
#[test]
fn own_work_is_what_limits() {
    let tuned = found(&small(), &["pair p99 <= 100us"], 2);
    assert_eq!(tuned.chosen, None, "{}", tuned.table());
    let limit = &tuned.limits[0];
    assert!(limit.contains("pair p99 <= 100 us: its own work"), "{limit}");
}

/// All of a CPU is more than it gets beside others.
#[test]
fn other_vms_are_what_limits() {
    let tuned = found(&small(), &["web p99 <= 4ms", "batch cpu >= 90%"], 2);
    assert_eq!(tuned.chosen, None, "{}", tuned.table());
    let limit = tuned.limits.iter().find(|limit| limit.starts_with("batch cpu")).unwrap();
    // The pair has a quarter of the CPU, the server a tenth.
    assert!(limit.contains("above all pair"), "{limit}");
}

#[test]
fn the_same_seed_gives_the_same_points_on_any_number_of_threads() {
    let recording = small();
    let of = |threads| found(&recording, &["web p99 <= 500us"], threads);
    assert_eq!(of(1), of(3));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let recording = small();
    let error = |goals: &[&str], cost: Option<&str>| {
        problem(&recording, goals, cost).map(|_| ()).unwrap_err().to_string()
    };
    let said = error(&["wbe p99 <= 1ms"], None);
    assert!(said.contains("--goal `wbe`: there is no such VM; there is web"), "{said}");
    let said = error(&["web p99 <= 1ms"], Some("bacth work"));
    assert!(said.contains("--cost `bacth`"), "{said}");
    let said = error(&["web p99 <= 1ms"], Some("batch avg"));
    assert!(said.contains("`batch work`"), "{said}");
    // 10 s at five wake-ups a second.
    let said = error(&["rare p99 <= 1ms"], None);
    assert!(said.contains("500 are needed: record for longer"), "{said}");
    assert!(problem(&recording, &["rare p90 <= 1ms"], None).is_ok());
    assert!(error(&[], None).contains("--goal"));
}

/// Without a cost it is the work of all VMs without a goal of latency.
#[test]
fn the_usual_cost_is_that_of_others() {
    let recording = small();
    let problem = problem(&recording, &["web p99 <= 1ms"], None).unwrap();
    assert_eq!(problem.cost(), "other VMs' work");
    let text = problem
        .starts()
        .into_iter()
        .map(|point| problem.policy(&problem.canonical(point)))
        .find(|text| text.contains("\"batch\""))
        .expect("a policy for the others");
    assert!(text.contains("name = [\"pair\", \"rare\", \"batch\"]"), "{text}");
}
