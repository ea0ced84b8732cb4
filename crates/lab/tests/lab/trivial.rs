//! Claims beside a trivial model, with figures that follow from the scenario.
//!
//! Under `null` the sleeper is always 4 us late: wake to tickle 0.9, tickle to schedule on an idle pCPU 2.1, schedule 1. A turn takes
//! 1.004 ms, so that all but the first of 200 are late by a limit of 1 ms, and none by 5 ms: 597,000 of 600,000, and 0.

use lowtail_lab::{Outcome, Verdict};

use crate::{SMALL, parse, run_with};

const CASES: &str = "[[case]]\nname = '{limit}'\nrows = ['nap']\nfor = { limit = [1, 5] }\n\
                     set = { 'vm.nap.workload.late_limit' = '{limit}ms', \
                     'host.costs' = { wake_to_tickle = '0.9us', tickle_to_schedule_idle = '2.1us', schedule = '1us' } }\n";

fn text(head: &str, claims: &str) -> String {
    format!("{head}\n{SMALL}{CASES}{claims}\n")
}

fn outcome(claim: &str) -> Outcome {
    run_with(&text("", &format!("[[claim]]\n{claim}")), 2)
}

fn verdict(claim: &str) -> Verdict {
    outcome(claim).claims[0].clone()
}

/// The figure of the trivial model, and whether the claim holds for it.
fn trivial(verdict: &Verdict) -> Option<(f64, bool)> {
    verdict.trivial.as_ref().map(|trivial| (trivial.figure, trivial.holds))
}

/// At most 1.5 times the figure of another row holds for what does not change; at least 10 times and one more does not.
#[test]
fn a_bound_that_holds_if_nothing_changes_is_weak() {
    let weak = outcome("case = '5'\nmetric = 'min'\nat_most = { case = '1', times = 1.5 }");
    assert_eq!(weak.claims[0].bound, Some(6.0));
    assert_eq!(trivial(&weak.claims[0]), Some((4.0, true)));
    assert!(weak.claims[0].is_weak() && weak.holds());
    assert_eq!(weak.verdict_line(), "no claim that counts, 1 weak besides");
    let counts =
        "case = '1'\nmetric = 'late_per_600k'\nat_least = { case = '5', times = 10, plus = 1 }";
    let counts = outcome(counts);
    assert_eq!(trivial(&counts.claims[0]), Some((0.0, false)));
    assert!(!counts.claims[0].is_weak());
    assert_eq!(counts.verdict_line(), "its one claim holds");
}

/// Two figures of one row: the trivial model is that they are equal, 199 late ones and 199 of 597,000.
#[test]
fn within_a_row_both_figures_are_equal() {
    let bound = "case = '1'\nmetric = 'late'\nat_most = { case = '1', metric = 'late_per_600k', times = 0.5 }";
    let bound = verdict(bound);
    assert_eq!((bound.measured, bound.bound), (Some(199.0), Some(298_500.0)));
    assert_eq!(trivial(&bound), Some((597_000.0, false)));
    let relative =
        "case = '1'\nmetric = 'late_per_600k'\nrelative_to = { case = '1', metric = 'late' }\n";
    let holds = verdict(&format!("{relative}published = 2500\ntolerance = '20%'"));
    assert_eq!((holds.measured, holds.holds), (Some(3000.0), Some(true)));
    assert_eq!((trivial(&holds), holds.is_weak()), (Some((1.0, false)), false));
    let short = verdict(&format!("{relative}published = 2500\ntolerance = '19%'"));
    assert_eq!((short.holds, short.unit.as_str()), (Some(false), "ratio"));
    let near = "trivial = { case = '1', times = 3100, metric = 'late' }\ntrivial_model = 'a guess'";
    let near = verdict(&format!("{relative}published = 2500\ntolerance = '20%'\n{near}"));
    assert_eq!(trivial(&near), Some((3100.0, false)));
}

/// 4 measured where 4.4 was published: a ratio of 1.1. The rival has a ratio of 1.114, then 1.095, which is nearer, then 1.0227, which
/// is within the tolerance; and one that is farther away than 4 and within the tolerance all the same.
#[test]
fn a_published_figure_counts_if_a_stated_rival_is_farther_and_does_not_reach_it() {
    for (published, tolerance, rival, holds, nearer) in [
        (4.4, "0.41", 4.9, false, false),
        (4.4, "0.41", 4.82, false, true),
        (4.4, "0.41", 4.5, true, true),
        (4.1, "0.41", 4.4, true, false),
    ] {
        let claim = format!(
            "case = '1'\nmetric = 'min'\npublished = {published}\ntolerance = {tolerance}\n\
             trivial = {rival}\ntrivial_model = 'a rule of three'"
        );
        let outcome = outcome(&claim);
        let verdict = &outcome.claims[0];
        assert_eq!((verdict.measured, verdict.holds), (Some(4.0), Some(true)));
        let trivial = verdict.trivial.as_ref().expect("a rival");
        assert_eq!((trivial.figure, trivial.holds, trivial.nearer), (rival, holds, nearer));
        assert_eq!(verdict.is_weak(), holds || nearer, "{rival}");
        let word = if holds || nearer { "weak" } else { "holds" };
        for table in
            [outcome.table(false), outcome.markdown(), lowtail_lab::report::html(&[outcome])]
        {
            assert!(table.contains(&rival.to_string()) && table.contains(word), "{table}");
            assert!(table.contains("(trivial: a rule of three)"), "{table}");
        }
    }
}

/// A number is compared with the base, if the file names one; the base itself with nothing.
#[test]
fn numbers_are_compared_with_the_base() {
    let claims = "[[claim]]\ncase = '5'\nmetric = 'late_per_600k'\nat_most = 1000\n\
                  [[claim]]\ncase = '1'\nmetric = 'late_per_600k'\nat_least = 1000\n\
                  [[claim]]\nid = 'soon'\ncase = '5'\nmetric = 'min'\nat_most = 5\n\
                  [[published]]\ncase = '5'\ntolerance = '10%'\nmin = 4\n";
    let outcome = run_with(&text("base = '1'", claims), 2);
    // Published figures come first.
    let all: Vec<_> = outcome.claims.iter().map(trivial).collect();
    assert_eq!(all, [Some((4.0, true)), Some((597_000.0, false)), None, Some((4.0, true))]);
    assert_eq!(outcome.verdict_line(), "all 2 claims hold, 2 weak besides");
    assert_eq!(outcome.score().alone, 1);
    assert_eq!(outcome.claims[1].wanted(), "at most 1000 (trivial: unchanged from `1`)");
    let json = lowtail_lab::json(&[outcome]);
    let claims = &json["experiments"][0]["claims"];
    assert_eq!((&claims[0]["weak"], &claims[0]["trivial_nearer"]), (&true.into(), &true.into()));
    assert_eq!(
        (claims[1]["trivial"].as_f64(), &claims[1]["trivial_holds"]),
        (Some(597_000.0), &false.into())
    );
    assert!(claims[1]["weak"].is_null() && claims[2]["trivial"].is_null());
    let without = run_with(&text("", claims_of_one()), 2);
    assert_eq!(trivial(&without.claims[0]), None);
}

fn claims_of_one() -> &'static str {
    "[[claim]]\ncase = '5'\nmetric = 'min'\nat_most = 5\n"
}

/// A uniform wait of up to 8 us adds nothing to the minimum, 2 us to p25, 6 us to p75, 7.2 us to p90, 4 us on average.
#[test]
fn a_uniform_wait_adds_its_quantiles() {
    let claims = "[[published]]\ncase = '1'\ntolerance = 1\nmin = 4\np25 = 6\np90 = 11.2\navg = 8\np75 = 10\n\
                  trivial = { case = '5', plus_uniform = 8 }\ntrivial_model = 'and a wait'\n";
    let outcome = run_with(&text("", claims), 2);
    let row = outcome.row("5").expect("the other row").clone();
    for (metric, part) in [("min", 0.0), ("p25", 0.25), ("p90", 0.9), ("avg", 0.5), ("p75", 0.75)] {
        let claim = outcome.claims.iter().find(|claim| claim.metric == metric).expect(metric);
        let figure = row.get(metric).expect(metric) + 8.0 * part;
        assert_eq!(trivial(claim), Some((figure, true)), "{metric}");
    }
}

/// Variances add up: that of a wait of up to 12 us is a twelfth of 144. The sleeper's own spread is less than 3.
#[test]
fn a_uniform_wait_adds_its_variance() {
    let claims = "[[published]]\ncase = '1'\ntolerance = '10%'\nstd_dev = 3.6\n\
                  trivial = { case = '5', plus_uniform = 12 }\ntrivial_model = 'and a wait'\n";
    let outcome = run_with(&text("", claims), 2);
    let claim = &outcome.claims[0];
    let own_us = outcome.row("5").and_then(|row| row.get("std_dev")).expect("a spread");
    let (figure_us, holds) = trivial(claim).expect("a model");
    assert!((figure_us - (own_us * own_us + 12.0).sqrt()).abs() < 1e-9 && holds, "{figure_us}");
    assert!(own_us < 3.0 && claim.holds == Some(false), "{own_us} {claim:?}");
}

/// All equal is in any order, and nobody is better; where something is largest is told by a rival alone.
#[test]
fn orders_are_weak() {
    let order = verdict("metric = 'min'\nascending = ['1', '5']");
    assert_eq!(
        (order.holds, trivial(&order), order.is_weak()),
        (Some(true), Some((0.0, true)), true)
    );
    let inside =
        "case = '1'\nmetric = 'min'\nnever_inside = { cost = 'late', where = { limit = 5 } }";
    assert!(verdict(inside).is_weak());
    let largest = "metric = 'late'\nlargest_within = { variable = 'limit', from = 1, to = 2 }\n";
    assert_eq!(trivial(&verdict(largest)), None);
    let most = verdict(&format!("{largest}trivial = 5\ntrivial_model = 'the more the worse'"));
    assert_eq!((most.measured, trivial(&most)), (Some(1.0), Some((5.0, false))));
}

/// What does not hold is not weak, whatever the rival does, and counts; what was fitted is fitted.
#[test]
fn what_is_missed_counts() {
    let claim = |id: &str, bound: &str| {
        format!("[[claim]]\nid = '{id}'\ncase = '5'\nmetric = 'late_per_600k'\n{bound}\n")
    };
    let rival = "at_least = 1000\ntrivial = { case = '1' }\ntrivial_model = 'no limit'\n";
    let claims = [
        claim("missed", &format!("{rival}missed = 'none is late'")),
        claim("short", rival),
        claim("fitted", "at_most = { case = '1' }\nfitted = true"),
        claim("weak", "at_most = { case = '1' }"),
        claim("counts", "at_most = { case = '1', times = 0.1 }"),
    ];
    let outcome = run_with(&text("", &claims.concat()), 2);
    assert_eq!(trivial(&outcome.claims[0]), Some((597_000.0, true)));
    let weak: Vec<bool> = outcome.claims.iter().map(Verdict::is_weak).collect();
    assert_eq!(weak, [false, false, false, true, false]);
    let line = "1 of 3 claims hold, 1 missed, 1 fitted and 1 weak besides, 1 fall short";
    assert_eq!(outcome.verdict_line(), line);
}

/// The line above all experiments adds up what their own lines say.
#[test]
fn the_results_say_how_many_count() {
    let counts = outcome("case = '5'\nmetric = 'min'\nat_most = 5");
    let weak = outcome("case = '5'\nmetric = 'min'\nat_most = { case = '1' }");
    let document = lowtail_lab::markdown::document(&[counts.clone(), weak, counts], "lowtail");
    let line = "Of 2 claims that count, 2 hold and 0 are missed. 2 of these have no trivial model beside them. \
                0 more were fitted, and 1 more are weak";
    assert!(document.contains(line), "{document}");
}

#[test]
fn what_a_file_may_not_say() {
    let base = "case = '1'\nmetric = 'min'\n";
    for (rest, wanted) in [
        ("at_most = 5\ntrivial = 4", "which model says so? give `trivial_model`"),
        ("at_most = 5\ntrivial_model = 'x'", "what does it say? give `trivial`"),
        ("at_most = 5\ntrivial = { case = '2' }\ntrivial_model = 'x'", "no row is called `2`"),
        ("at_most = 5\nrelative_to = { case = '5' }", "give `published` and `tolerance`"),
        ("published = 1\ntolerance = '1us'\nrelative_to = { case = '5' }", "of a ratio: `10%`"),
        ("ascending = ['1', '5']\ntrivial = 1\ntrivial_model = 'x'", "that all are equal"),
        (
            "at_most = { case = '5', metric = 'late', plus_uniform = 1 }",
            "plus_uniform is a wait, late is none",
        ),
    ] {
        let error =
            parse(&text("", &format!("[[claim]]\n{base}{rest}"))).expect_err(rest).to_string();
        assert!(error.contains(wanted), "{error}\n{wanted}");
    }
    let error = parse(&text("base = '2'", "")).expect_err("no such row").to_string();
    assert!(error.contains("no row is called `2`"), "{error}");
    let published = "[[published]]\ncase = '1'\ntolerance = 1\nmin = 4\ntrivial = { case = '5' }";
    let error = parse(&text("", published)).expect_err("no words").to_string();
    assert!(error.contains("give `trivial_model`"), "{error}");
    let published = "[[published]]\ncase = '1'\ntolerance = 1\nmin = 4\nmax = 4\ntrivial = 4\ntrivial_model = 'x'";
    let error = parse(&text("", published)).expect_err("two figures").to_string();
    assert!(error.contains("a number for several figures"), "{error}");
}
