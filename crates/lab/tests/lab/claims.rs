//! Claims, checked with the figures of a run and numbers computed by hand from them.

use lowtail_lab::Verdict;

use crate::{SMALL, run_with};

/// The verdict on one claim about a sweep over the hog's duty.
fn verdict(claim: &str) -> Verdict {
    let cases = "[[case]]\nname = '{duty}'\nrows = ['nap']\nfor = { duty = [10, 50, 90] }\n\
                 set = { 'vm.hog.workload.busy_percent' = '{duty}', 'vm.nap.workload.late_limit' = '{duty}00us', \
                 'host.costs' = { wake_to_tickle = '0.9us', tickle_to_schedule_idle = '2.1us', schedule = '1us' } }\n";
    let outcome = run_with(&format!("{SMALL}{cases}[[claim]]\n{claim}\n"), 2);
    assert_eq!(outcome.holds(), outcome.claims[0].holds == Some(true));
    outcome.claims[0].clone()
}

/// Under `null` the sleeper is always 4 us late: wake to tickle 0.9, tickle to schedule on
/// an idle pCPU 2.1, schedule 1. The minimum is exact, percentiles only to a bin.
#[test]
fn published_with_tolerance() {
    let base = "case = '10'\nmetric = 'min'\n";
    for (rest, holds) in [
        ("published = 4.4\ntolerance = '10%'", true),
        ("published = 4.5\ntolerance = '10%'", false),
        ("published = 4.5\ntolerance = '500ns'", true),
        ("published = 4.5\ntolerance = '499ns'", false),
        ("published = 4.5\ntolerance = 0.5", true),
        ("published = 0.0045\nunit = 'ms'\ntolerance = '1us'", true),
        ("at_most = 4", true),
        ("at_most = 3.9", false),
        ("at_least = 4000\nunit = 'ns'", true),
        ("at_least = 4.1", false),
    ] {
        let verdict = verdict(&format!("{base}{rest}"));
        assert_eq!(verdict.holds, Some(holds), "{rest}: {verdict:?}");
        assert_eq!(verdict.id, "10/min");
    }
}

/// Late from 1, 5 and 9 ms; a turn takes 1.004 ms: all but the first, none, none.
#[test]
fn figures_of_other_rows() {
    for (claim, holds, bound) in [
        (
            "case = '10'\nat_least = { where = { duty = [50, 90] }, times = 10, plus = 1 }",
            true,
            1.0,
        ),
        ("case = '50'\nat_least = { case = '10', times = 0.5 }", false, 298_500.0),
        ("where = { duty = { from = 20 } }\nat_most = { case = '10' }", true, 597_000.0),
        ("pick = 'sum'\nat_most = { case = '10' }", true, 597_000.0),
        ("pick = 'mean'\nat_most = { case = '10', plus = -398000 }", true, 199_000.0),
        ("pick = 'min'\nat_least = { case = '10', metric = 'late' }", false, 199.0),
    ] {
        let verdict = verdict(&format!("metric = 'late_per_600k'\n{claim}"));
        assert_eq!(
            (verdict.holds, verdict.bound),
            (Some(holds), Some(bound)),
            "{claim}: {verdict:?}"
        );
    }
}

#[test]
fn where_it_is_largest_and_in_what_order() {
    let largest = |from, to| {
        let range = format!("{{ variable = 'duty', from = {from}, to = {to} }}");
        verdict(&format!("metric = 'late'\nlargest_within = {range}"))
    };
    assert_eq!((largest(5, 10).holds, largest(5, 10).measured), (Some(true), Some(10.0)));
    assert_eq!(largest(30, 90).holds, Some(false));
    let order = |names: &str| verdict(&format!("metric = 'late'\nascending = [{names}]"));
    assert_eq!(order("'50', '90', '10'").holds, Some(true));
    let wrong = order("'10', '50', '90'");
    assert_eq!((wrong.holds, wrong.measured), (Some(false), Some(1.0)));
}
