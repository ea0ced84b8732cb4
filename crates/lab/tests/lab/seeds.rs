//! Several seeds: means and intervals; what a computing VM loses; claims about the frontier, and its picture.

use lowtail_lab::report::{chart, html};
use lowtail_lab::{Outcome, RunOptions, json, run};

use crate::{SMALL, parse, run_with};

/// A server and a loop, under credit2 with three limits, with costs that can be added up by hand.
const FRONTIER: &str = r#"
title = "A frontier"
seed = 1
seeds = 3
frontier = { cost = "lost_percent.loop", metrics = ["p50", "p99"], panels = "rate", series = "scheduler" }

[host]
pcpus = 1
costs = { file = "xen-2017", schedule = "0us", context_switch = "10us", cold_cache = "0us" }
scheduler = { kind = "credit2", version = "4.8.1", ratelimit = "0us" }

[vm.io]
workload = { kind = "request-server", load = { open = { exponential = "1ms" } }, service = "100us", tx_completion = "never", requests = 500 }

[vm.loop]
workload = { kind = "cpu-loop" }

[[case]]
name = "{rate}/s: {scheduler}, {limit}"
for = { rate = [1000], scheduler = ["credit2"], limit = ["0us", "500us", "1000us"] }
rows = ["io"]
set = { "host.scheduler.ratelimit" = "{limit}" }

[[case]]
name = "{rate}/s: {scheduler}"
for = { rate = [1000], scheduler = ["null"] }
vms = ["io"]
rows = ["io"]
set = { "host.scheduler" = { kind = "null" } }
"#;

fn with_seeds(text: &str, seeds: u16, jobs: usize) -> Outcome {
    let options = RunOptions { seeds: Some(seeds), jobs, ..RunOptions::default() };
    run(&parse(text).unwrap(), &options, &|_| ()).unwrap()
}

/// A figure of several seeds is the mean of those of each, for any number of threads; of one seed all is as ever.
#[test]
fn figures_are_means_over_the_seeds() {
    let all = with_seeds(SMALL, 3, 1);
    assert_eq!(
        json(std::slice::from_ref(&all)).to_string(),
        json(&[with_seeds(SMALL, 3, 4)]).to_string()
    );
    let one = |seed| {
        let options = RunOptions { seed: Some(seed), ..RunOptions::default() };
        run(&parse(SMALL).unwrap(), &options, &|_| ()).unwrap()
    };
    let each = [3, 4, 5].map(one);
    for (i, row) in all.rows.iter().enumerate() {
        assert_eq!(row.n, each.iter().map(|outcome| outcome.rows[i].n).sum::<u64>());
        for metric in ["avg", "p99", "switches_per_second"] {
            let figures = each.each_ref().map(|outcome| outcome.rows[i].get(metric).unwrap());
            let mean = figures.iter().sum::<f64>() / 3.0;
            assert!((row.get(metric).unwrap() / mean - 1.0).abs() < 1e-12, "{metric}");
            // t of two degrees of freedom is 4.303; the standard error is that of three values.
            let squares: f64 = figures.iter().map(|x| (x - mean).powi(2)).sum();
            let half = 4.303 * (squares / 2.0 / 3.0).sqrt();
            assert!((row.interval(metric).unwrap() - half).abs() <= 1e-9 * half, "{metric}");
        }
    }
    assert_eq!((all.seeds, all.command.as_str()), (3, "lowtail lab run x.toml --seed 3 --seeds 3"));
    let page = html(std::slice::from_ref(&all));
    for text in [all.table(false), all.markdown(), page] {
        assert!(text.contains("means of 3 runs, seeds 3 to 5"), "{text}");
    }
    assert_eq!(with_seeds(SMALL, 1, 1).rows, run_with(SMALL, 1).rows);
    let rows = &json(&[all])["experiments"][0]["rows"][0];
    assert!(rows["intervals"]["p99_seconds"].is_f64() && rows["intervals"]["count"].is_null());
}

/// 10 us of each switch back are what the loop loses of the time that the server, with its own switch, leaves it.
#[test]
fn what_a_loop_loses_is_its_switches() {
    let text =
        FRONTIER.replace("seeds = 3", "seeds = 1").replace("{ exponential = \"1ms\" }", "\"1ms\"");
    let outcome = run_with(&text, 1);
    let figure = |name: &str| outcome.rows[0].get(name).unwrap();
    // Each request takes 100 us and two switches, the one back of the loop's time; between them is nothing else.
    let (back, used) = (figure("switches_per_second") / 2.0 * 10e-6, figure("cpus_used.io"));
    assert!((used / (11.0 * back) - 1.0).abs() < 0.01, "{used}, {back}");
    let lost = figure("lost_percent.loop");
    assert!((lost / (100.0 * back / (1.0 - used)) - 1.0).abs() < 0.01, "{lost}");
}

#[test]
fn claims_for_each_value_of_a_variable() {
    let claim = "[[claim]]\nid = '{what}: {limit}'\nfor = { limit = ['0us', '500us'], what = ['p50', 'p99'] }\n\
                 case = '1000/s: credit2, {limit}'\nmetric = '{what}'\nat_most = { case = '1000/s: credit2, 1000us', times = 9 }\n";
    let outcome = run_with(&format!("{FRONTIER}{claim}"), 2);
    let ids: Vec<&str> = outcome.claims.iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(ids, ["p50: 0us", "p99: 0us", "p50: 500us", "p99: 500us"]);
    assert!(outcome.holds());
    // What is not there is told with its place, as in a claim that is written out.
    let wrong =
        parse(&format!("{FRONTIER}{}", claim.replace("'500us'", "'5us'"))).unwrap_err().to_string();
    assert!(wrong.contains("no row is called `1000/s: credit2, 5us`"), "{wrong}");
    let twice =
        parse(&format!("{FRONTIER}{}", claim.replace("{what}: ", ""))).unwrap_err().to_string();
    assert!(twice.contains("two claims are called `0us`"), "{twice}");
    // As many copies of a long entry as would fill the memory are refused.
    let values = vec!["'0us'"; 400].join(", ");
    let long = format!(
        "{FRONTIER}{}{}",
        "# padding\n".repeat(5000),
        claim.replace("'0us', '500us'", &values)
    );
    let long = parse(&long).unwrap_err().to_string();
    assert!(long.contains("800 claims, each perhaps as long as the file"), "{long}");
}

/// Without a limit the server waits least and the loop loses most: neither end is inside the other, and a row that is dearer
/// and slower is inside.
#[test]
fn a_point_inside_the_frontier_is_told() {
    let claim = |case: &str, metric: &str, other: &str| {
        format!(
            "[[claim]]\nid = '{case} {metric}'\ncase = '1000/s: credit2, {case}'\nmetric = '{metric}'\n\
             never_inside = {{ cost = 'lost_percent.loop', where = {{ limit = '{other}' }} }}\n"
        )
    };
    let text = format!(
        "{}{}{}{}",
        FRONTIER.replace("seeds = 3", "seeds = 1"),
        claim("0us", "p99", "1000us"),
        claim("1000us", "p99", "0us"),
        // Switches are both cost and figure here.
        claim("0us", "switches_per_second", "1000us"),
    );
    let outcome = run_with(&text, 2);
    let holds: Vec<Option<bool>> = outcome.claims.iter().map(|claim| claim.holds).collect();
    assert_eq!(holds, [Some(true), Some(true), Some(false)], "{:#?}", outcome.claims);
    assert!(
        outcome.claims[2].measured.unwrap() > 1.0
            && outcome.claims[2].tolerance.contains("`1000/s: credit2, 1000us` has")
    );
    // A comparison with nothing is no claim.
    let typo = parse(&format!("{FRONTIER}{}", claim("0us", "p99", "1us"))).unwrap_err().to_string();
    assert!(typo.contains("no case has limit = \"1us\""), "{typo}");
    let wrong = claim("0us", "p99", "x").replace("limit =", "limits =");
    let wrong = parse(&format!("{FRONTIER}{wrong}")).unwrap_err().to_string();
    assert!(wrong.contains("no case has a variable `limits`; did you mean `limit`?"), "{wrong}");
}

/// Nine bounds between the least and the largest figure of ten seeds: each holds in as many seeds as have a figure below, and only one
/// that nine of them meet holds. The figure of each seed is that of a run with it alone.
#[test]
fn a_claim_holds_if_it_does_in_nine_of_ten_seeds() {
    let text = FRONTIER.replace("seeds = 3", "seeds = 1");
    let alone = |seed: u64| {
        let options = RunOptions { seed: Some(seed), jobs: 2, ..RunOptions::default() };
        let outcome = run(&parse(&text).unwrap(), &options, &|_| ()).unwrap();
        outcome.row("1000/s: credit2, 500us").and_then(|row| row.get("p99")).unwrap()
    };
    let mut each: Vec<f64> = (1..=10).map(alone).collect();
    each.sort_by(f64::total_cmp);
    assert!(each.windows(2).all(|pair| pair[0] < pair[1]), "{each:?}");
    let claims: String = (0..9)
        .map(|i| {
            let bound = (each[i] + each[i + 1]) / 2.0;
            format!(
                "[[claim]]\nid = 'as {i}'\ncase = '1000/s: credit2, 500us'\nmetric = 'p99'\nat_most = {bound}\n"
            )
        })
        .collect();
    let options = RunOptions { seeds: Some(10), jobs: 2, ..RunOptions::default() };
    let outcome = run(&parse(&format!("{text}{claims}")).unwrap(), &options, &|_| ()).unwrap();
    for (i, claim) in outcome.claims.iter().enumerate() {
        let seeds = claim.seeds.expect("ten seeds");
        assert_eq!((seeds.held, seeds.all), (i + 1, 10));
        assert_eq!(claim.holds, Some(i + 1 >= 9), "{claim:?}");
        assert!(seeds.half_width.unwrap() > 0.0);
    }
    let table = outcome.table(false);
    assert!(
        table.contains("holds (9 of 10)") && table.contains("falls short (8 of 10)"),
        "{table}"
    );
    assert!(table.contains(" ±"), "{table}");
}

/// A claim that is known to be missed does not make a run fall short, one that was fitted does not count; each is judged all the same.
#[test]
fn missed_and_fitted_claims_are_told_apart() {
    let claim = |id: &str, most: &str, more: &str| {
        format!(
            "[[claim]]\nid = '{id}'\ncase = '1000/s: credit2, 0us'\nmetric = 'p99'\nat_most = {most}\n{more}\n"
        )
    };
    let text = FRONTIER.replace("seeds = 3", "seeds = 1");
    let with = |claims: &[String]| run_with(&format!("{text}{}", claims.concat()), 2);
    let good = claim("good", "1e9", "");
    let missed = claim("gone", "0", "missed = 'nobody is that fast'");
    let outcome = with(&[good.clone(), missed, claim("fit", "1e9", "fitted = true")]);
    assert!(outcome.holds());
    assert_eq!((outcome.score().held, outcome.score().all), (1, 2));
    assert_eq!(outcome.verdict_line(), "1 of 2 claims hold, 1 missed, 1 fitted besides");
    let table = outcome.table(false);
    assert!(table.contains("missed, gone: nobody is that fast"), "{table}");
    let json = json(&[outcome]);
    let claims = &json["experiments"][0]["claims"];
    assert_eq!(
        (&claims[1]["holds"], &claims[1]["missed"]),
        (&false.into(), &"nobody is that fast".into())
    );
    assert_eq!((&claims[2]["holds"], &claims[2]["fitted"]), (&true.into(), &true.into()));
    // What was fitted and does not hold falls short.
    let outcome = with(&[good.clone(), claim("fit", "0", "fitted = true")]);
    assert!(!outcome.holds());
    assert_eq!(outcome.verdict_line(), "its one claim holds, 1 fitted besides, 1 fall short");
    // Who holds against expectation holds.
    let outcome = with(&[good, claim("back", "1e9", "missed = 'once'")]);
    assert_eq!(outcome.verdict_line(), "all 2 claims hold");
}

#[test]
fn a_picture_of_the_frontier() {
    let outcome = run_with(FRONTIER, 2);
    let picture = chart(&outcome).expect("drawn");
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"));
    // Three limits and one point without a loop, which has no cost and so no place; two metrics; and the legend of both series.
    assert_eq!(picture.matches("class=\"mark fill").count(), 3 * 2 + 2);
    assert_eq!(picture.matches("<polyline").count(), 2);
    assert!(picture.contains("1000/s: credit2, 500us: p99 "), "a mark says what it is");
    assert!(html(&[outcome]).contains("95 % confidence intervals over 3 seeds"));
    for (wrong, message) in [
        ("panels = \"rate\"", "no case has a variable `rates`"),
        ("metrics = [\"p50\", \"p99\"]", "unknown metric `p98`"),
        ("seeds = 3", "0 seeds: 1 to 100"),
    ] {
        let changed = wrong.replace("rate", "rates").replace("p99", "p98").replace("= 3", "= 0");
        let error = parse(&FRONTIER.replace(wrong, &changed)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
