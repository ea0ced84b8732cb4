//! The shipped experiments: their claims hold, and they give the same bits every time.

use std::sync::OnceLock;

use crate::{Place, Ran, TINY};

/// All experiments with two jobs, run once for all tests.
fn all() -> &'static Ran {
    static ALL: OnceLock<Ran> = OnceLock::new();
    ALL.get_or_init(|| Place::new().line("lab run --all --json --no-report --jobs 2"))
}

/// One of each kind: run queues of Xen, of Linux and ours, a back end, a network, hosts and network
/// together.
const KINDS: [&str; 5] =
    ["credit2-ratelimit", "quota-freeze", "netback-tasklets", "host-queue", "small-is-better"];

/// A run follows from the file and the seed alone: two runs give the same bytes, and how many
/// cases run at the same time does not matter.
#[test]
fn the_same_bytes_every_time() {
    let line = format!("lab run {} --json --no-report --jobs 1", KINDS.join(" "));
    let one = Place::new().line(&line).json();
    let two = all().json();
    let of = |value: &serde_json::Value, name: &str| {
        let experiments = value["experiments"].as_array().unwrap();
        experiments.iter().find(|e| e["name"] == name).map(|e| e.to_string())
    };
    for name in KINDS {
        let (one, two) = (of(&one, name), of(&two, name));
        assert!(one.is_some() && one == two, "{name}: one and two jobs give different figures");
    }
    let list = Place::new().line("lab list --json").json();
    let names = |value: &serde_json::Value| -> Vec<String> {
        let experiments = value["experiments"].as_array().unwrap().iter();
        experiments.map(|experiment| experiment["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&two), names(&list), "all experiments, in the order of the list");
}

/// The shipped claims hold with the shipped seeds.
#[test]
fn all_claims_hold() {
    for experiment in all().json()["experiments"].as_array().unwrap() {
        for claim in experiment["claims"].as_array().unwrap() {
            assert_eq!(claim["holds"], true, "{}: {claim:#}", experiment["name"]);
        }
        for row in experiment["rows"].as_array().unwrap() {
            assert_eq!(row["complete"], true, "{}: {row:#}", experiment["name"]);
        }
    }
    all().expect(0, &[]);
}

/// Every experiment has the shape that is promised, not only the small ones.
#[test]
fn all_have_the_promised_shape() {
    all().json()["experiments"].as_array().unwrap().iter().for_each(crate::json::experiment);
}

#[test]
fn another_seed_gives_other_figures() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let run = |seed| place.line(&format!("lab run tiny.toml --json --no-report {seed}"));
    let (own, three, four) = (run(""), run("--seed 3"), run("--seed 4"));
    // The file says 3.
    assert_eq!(own.out, three.out);
    let (three, four) = (&three.json()["experiments"][0], &four.json()["experiments"][0]);
    assert_eq!((&three["seed"], &four["seed"]), (&3.into(), &4.into()));
    // The think time is drawn anew; the mean of 500 draws is hardly ever the same.
    assert_ne!(three["rows"][0]["avg"], four["rows"][0]["avg"]);
    assert_eq!(four["command"], "lowtail lab run tiny.toml --seed 4");
}

/// The command that a run prints repeats it.
#[test]
fn a_run_says_how_to_repeat_it() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let first = place.line("lab run tiny.toml --no-report --seed 99");
    let version = env!("CARGO_PKG_VERSION");
    let start = format!("lowtail {version}: lowtail ");
    let command = first.out.lines().find_map(|line| line.trim().strip_prefix(&start)).unwrap();
    let again = place.line(&format!("{command} --no-report"));
    assert_eq!(first.out, again.out);
}
