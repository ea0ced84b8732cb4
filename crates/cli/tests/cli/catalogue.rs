//! The shipped experiments: their claims hold, and they give the same bits every time.

use std::sync::OnceLock;

use serde_json::Value;

use crate::{Place, Ran, TINY};

/// All experiments with two jobs, run once for all tests, and their tables.
fn all_with_tables() -> &'static (Ran, String) {
    static ALL: OnceLock<(Ran, String)> = OnceLock::new();
    ALL.get_or_init(|| {
        let place = Place::new();
        let ran = place.line("lab run --all --json --no-report --jobs 2 --markdown results.md");
        (ran, std::fs::read_to_string(place.path("results.md")).expect("written"))
    })
}

fn all() -> &'static Ran {
    &all_with_tables().0
}

/// docs/results.md has the figures of this version.
#[test]
fn the_tables_of_the_documentation_are_not_stale() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.md");
    let kept = std::fs::read_to_string(kept).expect("docs/results.md");
    let now = &all_with_tables().1;
    let differs = now.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert!(*now == kept, "`make results` writes docs/results.md anew; first: {differs:#?}");
}

/// docs/claims.md has what some experiments give with ten seeds; all of them would take a quarter of an hour.
#[test]
fn claims_by_ten_seeds_are_not_stale() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/claims.md");
    let kept = std::fs::read_to_string(kept).expect("docs/claims.md");
    let place = Place::new();
    place
        .line("lab run kernel-quota kernel-weights xen-guests --seeds 10 --no-report --claims claims.md")
        .expect(0, &["claims: claims.md"]);
    let now = std::fs::read_to_string(place.path("claims.md")).expect("written");
    let chapters: Vec<&str> = now.split("\n## ").skip(1).map(str::trim_end).collect();
    assert_eq!(chapters.len(), 3, "{now}");
    for chapter in chapters {
        assert!(chapter.contains("of 10"), "no seeds: {chapter}");
        assert!(kept.contains(chapter), "`make results` writes docs/claims.md anew: {chapter}");
    }
}

/// docs/results.md says how many claims count, which is what is left of all without those that are weak or fitted. The README has no
/// other number.
#[test]
fn the_number_of_claims_that_count() {
    let (all, tables) = all_with_tables();
    let json = all.json();
    let experiments = json["experiments"].as_array().expect("experiments");
    let claims = experiments.iter().flat_map(|experiment| experiment["claims"].as_array().unwrap());
    let marked = |claim: &Value, key: &str| claim[key] == true;
    let counts = claims.filter(|claim| !marked(claim, "weak") && !marked(claim, "fitted")).count();
    let held = format!("Of {counts} claims that count, ");
    assert!(tables.contains(&held), "{held}");
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).expect("README.md");
    let words: Vec<&str> = readme.split_whitespace().collect();
    for pair in words.windows(2).filter(|pair| pair[1].starts_with("claims")) {
        let number = pair[0].parse::<usize>();
        assert!(number.is_err() || number == Ok(counts), "{pair:?}, not {counts}");
    }
}

/// The picture of the README is that of this version, and stands for itself.
#[test]
fn the_picture_of_the_readme_is_not_stale() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let kept = std::fs::read_to_string(format!("{root}/docs/pictures/small-first-ratelimit.svg"));
    let kept = kept.expect("the picture");
    let place = Place::new();
    let cases = [
        "random, mean 1000us, alone",
        "random, mean 1000us, small-first",
        "random, mean 1000us, credit2 4.8.1, limit 1000us",
        "random, mean 1000us, credit2 4.21, limit 1000us",
        "random, mean 1000us, credit2 4.8.1, limit 0us",
    ];
    let run = ["lab", "run", "small-first-ratelimit", "--no-report", "--chart", "now.svg"];
    let chosen = cases.iter().flat_map(|case| ["--case", case]);
    place.run(run.into_iter().chain(chosen)).expect(0, &["chart: now.svg"]);
    let now = std::fs::read_to_string(place.path("now.svg")).expect("written");
    assert!(now == kept, "`make results` draws it anew");
    assert!(now.starts_with("<svg xmlns=") && now.ends_with("</svg>\n"));
    assert_eq!(now.matches("class=\"curve stroke").count(), 2 * cases.len(), "curve and legend");
    for wrong in
        ["bobtail many --chart x.svg", "many --chart x.svg", "netback-tasklets --chart x.svg"]
    {
        let ran = place.line(&format!("lab run {wrong} --no-report"));
        ran.expect(2, &["--chart"]);
        assert!(!place.path("x.svg").exists(), "{wrong}");
    }
}

/// And that of the frontier, with a panel for each rate and metric.
#[test]
fn the_picture_of_the_frontier_is_not_stale() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures/small-first-frontier.svg");
    let kept = std::fs::read_to_string(kept).expect("the picture");
    let place = Place::new();
    place
        .line("lab run small-first-frontier --no-report --chart now.svg")
        .expect(0, &["chart: now.svg"]);
    let now = std::fs::read_to_string(place.path("now.svg")).expect("written");
    assert!(now == kept, "`make results` draws it anew");
    assert_eq!(now.matches("<path class=\"axis\"").count(), 5 * 3, "five rates, three percentiles");
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

/// The shipped claims hold with the shipped seeds, but for those that say why they are missed.
#[test]
fn all_claims_hold() {
    for experiment in all().json()["experiments"].as_array().unwrap() {
        for claim in experiment["claims"].as_array().unwrap() {
            let holds = claim["holds"] == true || claim["missed"].is_string();
            assert!(holds, "{}: {claim:#}", experiment["name"]);
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
    assert_ne!(three["rows"][0]["avg_seconds"], four["rows"][0]["avg_seconds"]);
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
