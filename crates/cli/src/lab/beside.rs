//! Cases of scenarios by a real system, beside the simulated ones: `lowtail lab run --on ...`.

use std::process::ExitCode;

use lowtail_engine::Duration;
use lowtail_kernel::Error;
use lowtail_lab::Experiment;
use lowtail_lab::case::Case;
use lowtail_lab::metric::{TimeUnit, in_base_unit};
use lowtail_out::line;
use lowtail_play::compare::Line;
use lowtail_play::{Comparison, Options};
use serde_json::{Value, json};

use super::args::LabRun;
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;
use crate::progress::Bar;

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        if error.is_scenario() { Fail::Input(message) } else { Fail::Host(message) }
    }
}

/// What plays a case beside the simulator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Real {
    /// In words: Linux, Xen.
    pub(super) name: &'static str,
    /// What it calls its version.
    pub(super) release: String,
    /// The head of its column.
    pub(super) column: &'static str,
}

/// An experiment, and those of its cases that are played.
pub(super) type Chosen<'e> = (&'e Experiment, Vec<&'e Case>);

/// What playing a case shows: both beside each other, and how many CPUs, and whether it was made smaller for that; of networks neither.
pub(super) type Shown = (Comparison, Option<(u16, bool)>);

/// A case, both ways.
struct Compared<'e> {
    case: &'e Case,
    pcpus: Option<(u16, bool)>,
    measured: Duration,
    comparison: Comparison,
}

/// An experiment, both ways.
struct Compareds<'e> {
    experiment: &'e Experiment,
    seed: u64,
    cases: Vec<Compared<'e>>,
}

/// The cases of all `experiments` that `what` can play: `refused` says why it cannot play one.
///
/// # Errors
/// If options ask for what is simulated only, or a case that is asked for by name is refused, or all of an experiment are.
pub(super) fn chosen<'e>(
    args: &LabRun,
    experiments: &'e [Experiment],
    what: &str,
    refused: impl Fn(&Case) -> Option<String>,
) -> Result<Vec<Chosen<'e>>, Fail> {
    if args.pcap.is_some() || args.perfetto.is_some() || args.completions.is_some() || args.blame {
        return Err(Fail::Usage(format!(
            "--pcap, --perfetto, --completions and --blame show what is simulated; leave out --on {}",
            args.on
        )));
    }
    let all = experiments.iter().map(|experiment| {
        let name = &experiment.name;
        let mut cases = experiment.chosen(&args.options(1))?;
        let why_not = cases.iter().find_map(|case| Some((case.name.clone(), refused(case)?)));
        if args.case.is_empty() {
            cases.retain(|case| refused(case).is_none());
        }
        match why_not {
            Some((case, why)) if cases.is_empty() || !args.case.is_empty() => {
                Err(Fail::Usage(format!("case `{case}` of {name} is not for {what}: {why}")))
            }
            _ => Ok((experiment, cases)),
        }
    });
    all.collect()
}

/// How long a case is measured.
pub(super) fn measured(args: &LabRun, case: &Case) -> Duration {
    case.duration.min(Duration::from_s(args.seconds.into()))
}

/// Has `play` play all cases, one after another, and prints what it has shown; `play` tells how much of the time of a case is over.
///
/// # Errors
/// What `play` says, with the name of the case if it is about that.
pub(super) fn run(
    args: &LabRun,
    all: Vec<Chosen<'_>>,
    global: &Global,
    real: &Real,
    mut play: impl FnMut(&Case, &Options, &dyn Fn(Duration)) -> Result<Shown, Error>,
) -> Result<ExitCode, Fail> {
    let ms = |span: Duration| span.as_ns() / 1_000_000;
    let total = all.iter().flat_map(|(_, cases)| cases).map(|case| ms(measured(args, case))).sum();
    let bar = Bar::new(global, total, "{msg} {wide_bar} {eta} left");
    let (mut done, mut results) = (0, Vec::new());
    for (experiment, cases) in all {
        let seed = args.seed.unwrap_or(experiment.file.seed);
        let mut compareds = Vec::new();
        for case in cases {
            let mut options = Options::new(measured(args, case), seed);
            options.exact_clock = args.exact_clock;
            // What is short is not measured for less time than it has to settle.
            options.warm_up = options.warm_up.min(options.duration);
            let progress = |over: Duration| {
                bar.set(done + ms(over.saturating_sub(options.warm_up)), &experiment.name);
            };
            let shown = play(case, &options, &progress);
            let (comparison, pcpus) = shown.map_err(|error| failed(error, case))?;
            done += ms(options.duration);
            compareds.push(Compared { case, pcpus, measured: options.duration, comparison });
        }
        results.push(Compareds { experiment, seed, cases: compareds });
    }
    drop(bar);
    print(real, &results, global)?;
    let mut cases = results.iter().flat_map(|result| &result.cases);
    let holds = cases.all(|case| case.comparison.holds());
    Ok(if holds { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

/// Ends this program by the signal, if one has ended the run.
pub(super) fn end_if_interrupted(error: &Error) {
    if let Error::Interrupted(signal) = *error {
        // Everything is removed; whoever waits for us is told by what we ended.
        lowtail_kernel::signals::die_of(signal);
    }
}

/// What went wrong with a case.
pub(super) fn failed(error: Error, case: &Case) -> Fail {
    end_if_interrupted(&error);
    match error.into() {
        Fail::Input(message) => Fail::Input(format!("case `{}`: {message}", case.name)),
        fail => fail,
    }
}

fn print(real: &Real, results: &[Compareds<'_>], global: &Global) -> Result<(), Fail> {
    if global.json {
        let experiments: Vec<Value> = results.iter().map(json).collect();
        return out::json(&json!({ "kernel": real.release, "experiments": experiments }));
    }
    if global.quiet {
        return Ok(());
    }
    let color = out::color(global);
    let texts: Vec<String> = results.iter().map(|result| text(real, result, color)).collect();
    out::coloured(&texts.join("\n"), color)
}

fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_string(),
        Some(value) if value == value.trunc() && value.abs() < 1e9 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// What is said of a line: its columns, and whether a claim about it falls short.
fn columns(line: &Line) -> ([String; 6], bool) {
    let difference = line.difference_percent();
    let (claim, short) = match &line.claim {
        None => ("shown".to_string(), false),
        Some(claim) if claim.holds => (format!("holds ({})", claim.tolerance), false),
        Some(claim) => (format!("SHORT ({})", claim.tolerance), true),
    };
    let columns = [
        lowtail_out::line(&line.of).into_owned(),
        line.figure.to_string(),
        figure(line.sim),
        figure(line.real),
        difference.map_or_else(|| "-".to_string(), |percent| format!("{percent:+.1} %")),
        claim,
    ];
    (columns, short)
}

fn text(real: &Real, result: &Compareds<'_>, color: bool) -> String {
    let experiment = result.experiment;
    let (name, title) = (line(&experiment.name), line(&experiment.file.title));
    let Real { name: system, release, column } = real;
    let mut text = format!("{name}: {title}\n{system} {release}, seed {}\n", result.seed);
    let head = ["", "", "SIMULATED", column, "DIFFERENCE", "CLAIM"].map(String::from);
    let (mut claims, mut hold) = (0, 0);
    for case in &result.cases {
        let Compared { case: Case { name, .. }, pcpus, measured, comparison } = case;
        text += &format!("\n{}: {}; ", line(name), line(&case.case.describe()));
        if let Some((pcpus, scaled)) = pcpus {
            let scaled = if *scaled { ", scaled to this host" } else { "" };
            text += &format!("{pcpus} CPUs{scaled}, ");
        }
        text += &measured.to_string();
        if let Some(percent) = comparison.others_percent {
            text += &format!("; others took {percent:.1} % of them");
        }
        text.push('\n');
        let rows: Vec<_> = comparison.lines.iter().map(columns).collect();
        let all = || rows.iter().map(|(columns, _)| columns).chain([&head]);
        let width = |i: usize| all().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for (row, short) in [(&head, false)].into_iter().chain(rows.iter().map(|(r, s)| (r, *s))) {
            let [a, b, c, d, e, _] = widths;
            let (on, off) = if short && color { out::RED } else { ("", "") };
            let line = format!(
                "  {:a$}  {:b$}  {:>c$}  {:>d$}  {:>e$}  {on}{}{off}",
                row[0], row[1], row[2], row[3], row[4], row[5]
            );
            text += &format!("{}\n", line.trim_end());
        }
        claims += comparison.claims().count();
        hold += comparison.claims().filter(|claim| claim.holds).count();
    }
    text + &format!("\n{hold} of {claims} claims hold\n")
}

fn json(result: &Compareds<'_>) -> Value {
    let line = |line: &Line| {
        let in_base_unit = |value| in_base_unit(line.figure, value, TimeUnit::Us);
        json!({
            "vm": line.of,
            "figure": in_base_unit(0.0).0,
            "simulated": line.sim.map(|value| in_base_unit(value).1),
            "kernel": line.real.map(|value| in_base_unit(value).1),
            "difference_ratio": line.difference_percent().map(|percent| percent / 100.0),
            "tolerance": line.claim.as_ref().map(|claim| &claim.tolerance),
            "holds": line.claim.as_ref().map(|claim| claim.holds),
        })
    };
    let case = |compared: &Compared<'_>| {
        json!({
            "case": compared.case.name,
            "scheduler": compared.case.describe(),
            "cpus": compared.pcpus.map(|(cpus, _)| cpus),
            "scaled": compared.pcpus.map(|(_, scaled)| scaled),
            "measured_seconds": compared.measured.as_s_f64(),
            "others_ratio": compared.comparison.others_percent.map(|percent| percent / 100.0),
            "figures": compared.comparison.lines.iter().map(line).collect::<Vec<Value>>(),
            "holds": compared.comparison.holds(),
        })
    };
    json!({
        "name": result.experiment.name,
        "seed": result.seed,
        "cases": result.cases.iter().map(case).collect::<Vec<Value>>(),
    })
}
