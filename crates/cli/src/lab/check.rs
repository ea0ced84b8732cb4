//! `lowtail lab check`: random scenarios by a real kernel or Xen, beside the simulator.

use std::path::Path;
use std::process::ExitCode;

use lowtail_engine::Duration;
use lowtail_host::{Config, Costs};
use lowtail_lab::Experiment;
use lowtail_lab::check::{LinuxHost, XenHost, linux_scenario, xen_scenario};
use lowtail_play::calibrate::Calibration;
use lowtail_play::check::{Figure, Kind, Tally};
use lowtail_play::measured::Measured;
use lowtail_play::{Error, Options};
use serde_json::json;

use super::args::{CheckOn, LabCheck};
use super::checked::{Checked, Report};
use super::dom0;
use super::guest::{self, Machine};
use super::kernel::{end_if_interrupted, release};
use super::saved;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;
use crate::progress::Bar;

/// Figures that the text shows, the worst first.
const WORST: usize = 15;

pub(super) fn run(args: &LabCheck, global: &Global) -> Result<ExitCode, Fail> {
    saved::prepare(args.save.as_deref())?;
    let numbers: Vec<u32> = match args.only {
        Some(only) => vec![only],
        None => (args.first..args.first.saturating_add(args.scenarios)).collect(),
    };
    let report = match &args.on {
        CheckOn::Kernel => on_kernel(args, &numbers, global)?,
        CheckOn::Guest(series) => guest::check(args, &Machine::linux(series), &numbers, global)?,
        CheckOn::Dom0 => dom0::check(args, &numbers, global)?,
        CheckOn::Xen(series) => guest::check(args, &Machine::xen(series), &numbers, global)?,
    };
    if let Some(dir) = &args.save {
        save(args, &report, dir)?;
    }
    if global.json {
        out::json(&json(args, &report))?;
    } else if !global.quiet {
        out::text(&text(args, &report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks by the kernel of this host, with costs that are measured first.
fn on_kernel(args: &LabCheck, numbers: &[u32], global: &Global) -> Result<Report, Fail> {
    let host = Judge::Linux(this_host()?);
    let bar = bar(args, numbers, global);
    let costs = Calibration::measure(false, args.exact_clock)?.costs();
    let mut scenarios = Vec::new();
    for &number in numbers {
        let play = |config: &Config, options: &Options| {
            let measured = lowtail_play::run(config, options, &|_| {});
            bar.step();
            measured
        };
        scenarios.push(one(args, draw(args, host, number)?, costs, play)?);
    }
    Ok(Report { kernel: release(), scenarios })
}

/// A bar of all runs.
pub(super) fn bar(args: &LabCheck, numbers: &[u32], global: &Global) -> Bar {
    let each = u64::from(args.starts) * (1 + u64::from(args.twice));
    Bar::new(global, numbers.len() as u64 * each, "{wide_bar} {pos}/{len} runs, {eta} left")
}

/// Who judges.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    /// A Linux host.
    Linux(LinuxHost),
    /// A Xen host.
    Xen(XenHost),
}

impl Judge {
    /// Scenario number `number` for it.
    fn scenario(self, args: &LabCheck, number: u32) -> String {
        let command = command(args, number);
        match self {
            Judge::Linux(host) => linux_scenario(host, args.seed, number, &command),
            Judge::Xen(host) => xen_scenario(host, args.seed, number, &command),
        }
    }
}

/// A scenario to be played.
#[derive(Debug)]
pub(super) struct Drawn {
    number: u32,
    pub(super) config: Config,
    seed: u64,
}

/// Draws scenario number `number`.
pub(super) fn draw(args: &LabCheck, judge: Judge, number: u32) -> Result<Drawn, Fail> {
    let (text, name) = (judge.scenario(args, number), file_name(args.seed, number));
    let experiment = Experiment::parse(&name, &text, None)
        .map_err(|error| Fail::Bug(format!("a drawn scenario is none: {error}\n{text}")))?;
    let config = experiment.cases(false)[0].hosts[0].config.clone();
    Ok(Drawn { number, config, seed: experiment.file.seed })
}

/// Checks one scenario by what `play` does with it.
pub(super) fn one(
    args: &LabCheck,
    drawn: Drawn,
    costs: Costs,
    play: impl FnMut(&Config, &Options) -> Result<Measured, Error>,
) -> Result<Checked, Fail> {
    let config = Config { costs, ..drawn.config };
    let duration = Duration::from_ms(u64::from(args.seconds) * 1_000);
    let mut options = Options::new(duration, drawn.seed);
    options.exact_clock = args.exact_clock;
    let starts = u64::from(args.starts);
    let figures = lowtail_play::check::check(&config, &options, starts, args.twice, play);
    let figures = figures.map_err(|error| {
        end_if_interrupted(&error);
        Fail::Host(format!("scenario {}: {error}", drawn.number))
    })?;
    Ok(Checked { scenario: drawn.number, figures })
}

/// What scenarios are drawn for here: the kernel, and two CPUs at most.
fn this_host() -> Result<LinuxHost, Fail> {
    let cpus = lowtail_kernel::thread::own_cpus();
    let cpus = cpus.map_err(|error| Fail::Host(format!("the CPUs of this host: {error}")))?;
    linux_host(&release(), cpus.len().min(2) as u16)
}

/// What they are drawn for where the kernel calls itself `release`.
fn linux_host(release: &str, pcpus: u16) -> Result<LinuxHost, Fail> {
    version(release).map(|release| LinuxHost { release, pcpus }).ok_or_else(|| {
        Fail::Host(format!("the kernel calls itself `{release}`, which is no version"))
    })
}

/// The first two numbers of a version's name.
pub(super) fn version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    Some((next()?, next()?))
}

/// What repeats one scenario.
fn command(args: &LabCheck, number: u32) -> String {
    let twice = args.twice_option();
    format!("lowtail lab check --on {} --seed {} --only {number}{twice}", args.on, args.seed)
}

fn file_name(seed: u64, number: u32) -> String {
    format!("check-{seed}-{number}.toml")
}

/// Writes each scenario into a file of its own.
fn save(args: &LabCheck, report: &Report, dir: &Path) -> Result<(), Fail> {
    let judge = match args.on {
        CheckOn::Kernel => Judge::Linux(this_host()?),
        CheckOn::Guest(_) => Judge::Linux(linux_host(&report.kernel, 1)?),
        CheckOn::Dom0 | CheckOn::Xen(_) => Judge::Xen(dom0::xen_host(&report.kernel)?),
    };
    for checked in &report.scenarios {
        let number = checked.scenario;
        let text = judge.scenario(args, number);
        saved::write(dir, &file_name(args.seed, number), &text)?;
    }
    Ok(())
}

/// All figures with their scenarios, the worst first.
fn worst(report: &Report) -> Vec<(u32, &Figure)> {
    let all = report
        .scenarios
        .iter()
        .flat_map(|checked| checked.figures.iter().map(move |figure| (checked.scenario, figure)));
    let mut all: Vec<(u32, &Figure)> = all.collect();
    all.sort_by(|a, b| b.1.badness().total_cmp(&a.1.badness()));
    all
}

fn tallies(report: &Report) -> Vec<Tally> {
    Tally::all(report.scenarios.iter().flat_map(|checked| &checked.figures))
}

fn json(args: &LabCheck, report: &Report) -> serde_json::Value {
    let share = |tally: &Tally, step: usize| {
        let (ratio, low, high) = tally.share(step);
        let error = tally.figure.steps()[step];
        json!({ "error": error, "ratio": ratio, "low_ratio": low, "high_ratio": high })
    };
    let tallies = tallies(report).into_iter().map(|tally| {
        json!({
            "figure": tally.figure,
            "count": tally.n,
            "within": [share(&tally, 0), share(&tally, 1), share(&tally, 2)],
        })
    });
    json!({
        "kernel": report.kernel,
        "seed": args.seed,
        "starts": args.starts,
        "measured_seconds": args.seconds,
        "twice": args.twice,
        "summary": tallies.collect::<Vec<_>>(),
        "scenarios": report.scenarios,
    })
}

fn text(args: &LabCheck, report: &Report) -> String {
    let what = if args.on.is_xen() { "Xen" } else { "Linux" };
    let mut text = format!(
        "{what} {}: {} scenarios of seed {}, {} starts of {} s each\n\n",
        report.kernel,
        report.scenarios.len(),
        args.seed,
        args.starts,
        args.seconds,
    );
    let head = ["FIGURE", "N", "WITHIN", "", "", "", "", ""].map(String::from);
    let mut rows = vec![head];
    for tally in tallies(report) {
        let unit = |step: f64| match tally.figure {
            Kind::CpuRatio => format!("{:.0} points", step * 100.0),
            _ if step < 2.0 => format!("{:.0} %", (step - 1.0) * 100.0),
            _ => format!("{step:.0} times"),
        };
        let mut row = vec![tally.figure.in_tables().0.to_string(), tally.n.to_string()];
        for (step, limit) in tally.figure.steps().into_iter().enumerate() {
            let (share, low, high) = tally.share(step);
            row.push(format!("{}:", unit(limit)));
            row.push(format!("{:.0} % ({:.0} to {:.0})", share * 100.0, low * 100.0, high * 100.0));
        }
        rows.push(row.try_into().expect("eight columns"));
    }
    text += &table(&rows);
    let real = if args.on.is_xen() { "XEN" } else { "KERNEL" };
    let first = if args.twice { real } else { "SIMULATED" };
    let head = ["SCENARIO", "OF", "FIGURE", first, real, "ERROR"].map(String::from);
    let mut rows = vec![head];
    for (scenario, figure) in worst(report).into_iter().take(WORST) {
        let error = match figure.figure {
            Kind::CpuRatio => format!("{:.2} points", figure.error() * 100.0),
            _ => format!("{:.2} times", figure.error()),
        };
        let (name, scale) = figure.figure.in_tables();
        rows.push([
            scenario.to_string(),
            lowtail_out::line(&figure.of).into_owned(),
            name.to_string(),
            format!("{:.2}", figure.simulated * scale),
            format!("{:.2}", figure.kernel * scale),
            error,
        ]);
    }
    text += &format!("\nThe worst figures:\n\n{}", table(&rows));
    if let Some((scenario, _)) = worst(report).first() {
        text += &format!("\nThe worst again: {}\n", command(args, *scenario));
    }
    text
}

/// Columns as wide as they have to be.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}
