//! Fidelity as a page of Markdown.

use std::path::Path;

use lowtail_lab::figure::figure as rounded;
use lowtail_lab::markdown::{plain, table};
use lowtail_play::fidelity::{Causes, Judged, JudgedKind};
use lowtail_play::figure::Figure;
use lowtail_play::report::NotPlayed;
use lowtail_play::tally::Tally;

use super::picture;

/// What stands above all.
const HEAD: &str = "# Fidelity in figures\n\n\
    How near is the simulator to real systems? `lowtail lab check` draws random scenarios, plays each in the simulator and on the real system, and compares \
    the figures of both. This page has the reports. `make truth` makes them and this page anew.\n\n\
    A figure is within 10 % if the larger of both is at most 1.1 times the smaller. CPU time is within a point if both differ by at most 1 % of a CPU. \
    Each share has its 95 % confidence interval in parentheses. Each picture counts errors: left of 1, or of 0 points, the simulator has less than the \
    real system; `less` and `more` are errors beyond the ends. [Fidelity: simulator and kernel](explanation/fidelity.md) says how figures are measured, \
    and what is known of the differences.\n\n\
    Sleeps and bursts fall into step with ticks and with each other, in one way or another by when threads start. The last column has the share of figures \
    that are as near to what the simulator has with some other start: it has ten more sets of starts. What is not near there, either, is an error of the \
    model. Goals are judged without it. A latency is on a step if hardly more wake-ups take longer than the middle of both figures in one world than in the \
    other: of a median, 3 % at most; of a 90th percentile 1.8 %, of a 95th 1.3 %, of a 99th 0.6 %.\n\n\
    ## Goals\n\n";

/// The page; pictures are in the directory `pictures`, if there are any.
pub(super) fn markdown(all: &[Judged], causes: &Causes, pictures: Option<&Path>) -> String {
    let mut out = HEAD.to_string() + &goals(all);
    for judged in all {
        out += &format!("\n## {}\n\n{}\n", judged.system, conditions(judged));
        out += &format!("\n{}", summary(judged));
        if let Some(dir) = pictures {
            let path = plain(&dir.join(picture::file_name(judged)).display().to_string());
            let what = "simulated figures over real ones, by kind";
            out += &format!("\n![Errors of {}: {what}]({path})\n", judged.system);
        }
        out += &format!("\nThe worst figures:\n\n{}", worst(judged, causes));
    }
    out
}

/// A line for each goal.
fn goals(all: &[Judged]) -> String {
    let kinds = all.iter().flat_map(|judged| judged.kinds.iter().map(move |kind| (judged, kind)));
    let row = |(judged, kind): (&Judged, &JudgedKind)| {
        let goal = kind.goal?;
        Some(vec![
            judged.system.to_string(),
            kind.tally.figure.in_words().0.to_string(),
            kind.tally.n.to_string(),
            Tally::in_words(kind.tally.share(goal.step)),
            goal.in_words(),
            met(kind).to_string(),
            of_range(judged, kind, goal.step),
        ])
    };
    let header = ["system", "figure", "count", "measured", "goal", "", "with some start"];
    table(&header, kinds.filter_map(row).collect(), 4)
}

/// The share of figures within step number `step` of what the simulator has with some start; nothing where other starts are not known.
fn of_range(judged: &Judged, kind: &JudgedKind, step: usize) -> String {
    let mut figures = judged.report.scenarios.iter().flat_map(|checked| &checked.figures);
    let of_kind = |figure: &Figure| figure.figure == kind.tally.figure;
    let known = figures.any(|figure| of_kind(figure) && figure.simulated_range.is_some());
    if known { Tally::in_words(kind.tally.share_of_range(step)) } else { String::new() }
}

/// In which conditions the figures were measured.
fn conditions(judged: &Judged) -> String {
    let report = &judged.report;
    let (met, all) = judged.goals();
    let list = |what: &str, all: &[NotPlayed]| match all {
        [] => String::new(),
        all => {
            let all: Vec<_> = all.iter().map(|not| plain(&not.to_string())).collect();
            format!("\n\n{what}: scenarios {}.", all.join("; "))
        }
    };
    let not = list("Not played", &report.not_played);
    let again = list("Played a second time", &report.played_again);
    format!(
        "Goals met: {met} of {all}. {} scenarios on {}, {}, {}, by lowtail {}, in {}:\n\n```sh slow\n{}\n```{not}{again}",
        report.scenarios.len(),
        plain(&report.kernel),
        report.pcpus_in_words(),
        report.starts_in_words(),
        plain(&report.version),
        span(report.elapsed_seconds),
        lowtail_out::line(&report.command()),
    )
}

/// The tally of each kind of figure, with its goal.
fn summary(judged: &Judged) -> String {
    let row = |kind: &JudgedKind| {
        let tally = &kind.tally;
        let mut row = vec![tally.figure.in_words().0.to_string(), tally.n.to_string()];
        for step in 0..tally.within.len() {
            let (within, share) =
                (tally.figure.step_in_words(step), Tally::in_words(tally.share(step)));
            row.push(format!("{within}: {share}"));
        }
        row.push(kind.goal.map_or_else(String::new, |goal| goal.in_words()));
        row.push(met(kind).to_string());
        row
    };
    let header = ["figure", "count", "within", "", "", "goal", ""];
    table(&header, judged.kinds.iter().map(row).collect(), 5)
}

fn met(kind: &JudgedKind) -> &'static str {
    match (kind.goal, kind.met) {
        (None, _) => "",
        (Some(_), Some(true)) => "met",
        (Some(_), Some(false)) => "not met",
        (Some(_), None) => "no figures",
    }
}

/// The worst figures, with their causes.
fn worst(judged: &Judged, causes: &Causes) -> String {
    let system = judged.system.id();
    let row = |(scenario, figure): (u32, &Figure)| {
        let (name, unit) = figure.figure.in_words();
        let scale = figure.figure.in_tables().1;
        let value = |x: f64| format!("{} {unit}", rounded(x * scale)).trim_end().to_string();
        let cause = causes.of(&system, scenario, &figure.of, figure.figure);
        vec![
            format!("{scenario}, {}, {name}", figure.of),
            value(figure.simulated),
            value(figure.kernel),
            figure.error_in_words(),
            match (cause, figure.error_explained()) {
                (Some(cause), _) => cause.to_string(),
                (None, Some(why)) => why,
                (None, None) => "not known".to_string(),
            },
            format!("`{}`", judged.report.settings.only(scenario)),
        ]
    };
    let header = ["scenario, VM, figure", "simulated", "real", "error", "cause", "again"];
    table(&header, judged.worst().into_iter().map(row).collect(), 4)
}

/// A span in minutes and seconds.
fn span(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}
