//! `lowtail lab run --on kernel`: scenarios with real threads, beside the simulated ones.

use std::fs;

use lowtail_engine::Duration;
use lowtail_host::{Config, SchedulerConfig};
use lowtail_kernel::Error;
use lowtail_lab::Experiment;
use lowtail_lab::case::Case;
use lowtail_lab::metric::{TimeUnit, in_base_unit};
use lowtail_out::line;
use lowtail_play::Comparison;
use lowtail_play::Judge;
use lowtail_play::Options;
use lowtail_play::compare::Line;
use serde_json::{Value, json};
use std::process::ExitCode;

use super::args::LabRun;
use super::namespaces;
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

/// A case, both ways.
struct Compared<'e> {
    case: &'e Case,
    /// CPUs, and whether it was made smaller for this host; of networks neither.
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

/// Runs the cases that are chosen on this host, one after another, and in the simulator.
pub(super) fn run(
    args: &LabRun,
    experiments: &[Experiment],
    global: &Global,
) -> Result<ExitCode, Fail> {
    if args.pcap.is_some() || args.perfetto.is_some() || args.completions.is_some() {
        let why =
            "--pcap, --perfetto and --completions write what is simulated; leave out --on kernel";
        return Err(Fail::Usage(why.to_string()));
    }
    let cpus = lowtail_kernel::thread::own_cpus();
    let cpus = cpus.map_err(|error| Fail::Host(format!("the CPUs of this host: {error}")))?.len();
    let longest = Duration::from_s(args.seconds.into());
    let mut all = Vec::new();
    for experiment in experiments {
        all.push((experiment, chosen(args, experiment)?));
    }
    let measured = |case: &Case| case.duration.min(longest);
    let ms = |span: Duration| span.as_ns() / 1_000_000;
    let total = all.iter().flat_map(|(_, cases)| cases).map(|case| ms(measured(case))).sum();
    let bar = Bar::new(global, total, "{msg} {wide_bar} {eta} left");
    let (mut done, mut results) = (0, Vec::new());
    for (experiment, cases) in all {
        let seed = args.seed.unwrap_or(experiment.file.seed);
        let mut compareds = Vec::new();
        for case in cases {
            let mut options = Options::new(measured(case), seed);
            options.exact_clock = args.exact_clock;
            // What is short is not measured for less time than it has to settle.
            options.warm_up = options.warm_up.min(options.duration);
            let progress = |over: Duration| {
                bar.set(done + ms(over.saturating_sub(options.warm_up)), &experiment.name);
            };
            let judge = Judge { exact_clock: args.exact_clock };
            let (comparison, pcpus) = match namespaces::compare(case, &options, judge) {
                Some(comparison) => (comparison, None),
                None => {
                    let host = &case.hosts[0].config;
                    let scaled = lowtail_play::scale(host, u16::try_from(cpus).unwrap_or(u16::MAX));
                    let pcpus = Some((scaled.pcpus, scaled.pcpus != host.pcpus));
                    (compare(&scaled, &options, judge, &progress), pcpus)
                }
            };
            let comparison = comparison.map_err(|error| failed(error, case))?;
            done += ms(options.duration);
            compareds.push(Compared { case, pcpus, measured: options.duration, comparison });
        }
        results.push(Compareds { experiment, seed, cases: compareds });
    }
    drop(bar);
    print(&results, global)?;
    let mut cases = results.iter().flat_map(|result| &result.cases);
    let holds = cases.all(|case| case.comparison.holds());
    Ok(if holds { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

fn compare(
    config: &Config,
    options: &Options,
    judge: Judge,
    progress: &dyn Fn(Duration),
) -> Result<Comparison, Error> {
    // The host first: what it lacks shows at once.
    let real = lowtail_play::run(config, options, progress)?;
    let sim = lowtail_play::simulate(config, options.seed, options.warm_up, options.duration)?;
    Ok(lowtail_play::compare(&sim, &real, config.pcpus, judge))
}

/// Ends this program by the signal, if one has ended the run.
pub(super) fn end_if_interrupted(error: &Error) {
    if let Error::Interrupted(signal) = *error {
        // Everything is removed; whoever waits for us is told by what we ended.
        lowtail_kernel::signals::die_of(signal);
    }
}

fn failed(error: Error, case: &Case) -> Fail {
    end_if_interrupted(&error);
    match error.into() {
        Fail::Input(message) => Fail::Input(format!("case `{}`: {message}", case.name)),
        fail => fail,
    }
}

/// Why a kernel cannot play a case: it plays one host with a scheduler of Linux or one that we can give it, or a network of
/// namespaces.
fn refused(case: &Case) -> Option<String> {
    if let Some(network) = &case.network {
        return network.on_kernel().err();
    }
    let there = match &case.hosts[..] {
        [host] => {
            let scheduler = &host.config.scheduler;
            matches!(scheduler, SchedulerConfig::Fair(_) | SchedulerConfig::SmallFirst(_))
        }
        _ => false,
    };
    let what =
        "it plays one host with the scheduler eevdf or cfs, or small-first where it has sched_ext";
    (!there).then(|| what.to_string())
}

/// The cases that a kernel can play.
fn chosen<'e>(args: &LabRun, experiment: &'e Experiment) -> Result<Vec<&'e Case>, Fail> {
    let name = &experiment.name;
    let mut cases = experiment.chosen(&args.options(1))?;
    let why_not = cases.iter().find_map(|case| Some((case.name.clone(), refused(case)?)));
    if args.case.is_empty() {
        cases.retain(|case| refused(case).is_none());
    }
    match why_not {
        Some((case, why)) if cases.is_empty() || !args.case.is_empty() => {
            Err(Fail::Usage(format!("case `{case}` of {name} is not for a kernel: {why}")))
        }
        _ => Ok(cases),
    }
}

/// The kernel's release, as `uname -r` says it.
pub(super) fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

fn print(results: &[Compareds<'_>], global: &Global) -> Result<(), Fail> {
    if global.json {
        let experiments: Vec<Value> = results.iter().map(json).collect();
        return out::json(&json!({ "kernel": release(), "experiments": experiments }));
    }
    if global.quiet {
        return Ok(());
    }
    let color = out::color(global);
    let texts: Vec<String> = results.iter().map(|result| text(result, color)).collect();
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

fn text(result: &Compareds<'_>, color: bool) -> String {
    let experiment = result.experiment;
    let (name, title) = (line(&experiment.name), line(&experiment.file.title));
    let mut text = format!("{name}: {title}\nLinux {}, seed {}\n", release(), result.seed);
    let head = ["", "", "SIMULATED", "KERNEL", "DIFFERENCE", "CLAIM"].map(String::from);
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
