//! `lowtail lab check`: random scenarios by a real kernel or Xen, beside the simulator.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use lowtail_host::Config;
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_play::calibrate::Calibration;
use lowtail_play::report::{Calibrated, NotPlayed};
use lowtail_play::tally::Tally;
use lowtail_play::{Options, Report};
use serde_json::{Value, json};

use super::args::{CheckOn, LabCheck};
use super::checked::Found;
use super::dom0;
use super::drawn::{Judge, bar, draw, file_name, one};
use super::guest::{self, Machine};
use super::kernel::release;
use super::networks;
use super::saved;
use super::table::table;
use crate::exit::Fail;
use crate::global::Global;
use crate::out::{self, TextFile};

/// Figures that the text shows, the worst first.
const WORST: usize = 15;

pub(super) fn run(args: &LabCheck, global: &Global) -> Result<ExitCode, Fail> {
    saved::prepare(args.save.as_deref())?;
    out::outputs(&[("--report", args.report.as_deref())], global)?;
    // A file that cannot be written is told before the work, not after.
    let file = args.report.as_deref().map(TextFile::new).transpose()?;
    let numbers: Vec<u32> = match args.only {
        Some(only) => vec![only],
        None => (args.first..args.first.saturating_add(args.scenarios)).collect(),
    };
    for (given, option) in [(args.networks, "--networks"), (args.small_first, "--small-first")] {
        if given && args.on.is_xen() {
            let why = format!("{option}: by a Linux, with --on guest or kernel");
            return Err(Fail::Usage(why));
        }
    }
    let began = Instant::now();
    let found = match &args.on {
        CheckOn::Kernel if args.networks => networks::check(args, &numbers, global)?,
        CheckOn::Kernel => on_kernel(args, &numbers, global)?,
        CheckOn::Guest(series) if args.networks => {
            guest::check(args, &Machine::linux_with_networks(series)?, &numbers, global)?
        }
        CheckOn::Guest(series) => guest::check(args, &Machine::linux(series), &numbers, global)?,
        CheckOn::Dom0 => dom0::check(args, &numbers, global)?,
        CheckOn::Xen(series) => guest::check(args, &Machine::xen(series), &numbers, global)?,
    };
    let judge = judge(args, &found.kernel)?;
    let report = Report {
        settings: args.settings(),
        pcpus: judge.pcpus(),
        kernel: found.kernel,
        version: lowtail_lab::VERSION.to_string(),
        elapsed_seconds: began.elapsed().as_secs_f64().round(),
        scenarios: found.scenarios,
        not_played: found.not_played,
        played_again: found.played_again,
        calibrated: found.calibrated,
    };
    if let Some(dir) = &args.save {
        save(args, judge, &report, dir)?;
    }
    if let Some(file) = file {
        let lines = report.lines();
        file.finish(&lines.map_err(|error| Fail::Bug(format!("JSON: {error}")))?)?;
    }
    if global.json {
        out::json(&json(&report)?)?;
    } else if !global.quiet {
        out::text(&text(args, &report))?;
    }
    // Told at the end, where it is seen, and by the exit code.
    if report.not_played.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let all: Vec<String> = report.not_played.iter().map(NotPlayed::to_string).collect();
    Err(Fail::Host(format!("not played: scenarios {}", all.join("; "))))
}

/// Checks by the kernel of this host, with costs that are measured first.
fn on_kernel(args: &LabCheck, numbers: &[u32], global: &Global) -> Result<Found, Fail> {
    let judge = judge(args, &release())?;
    let bar = bar(numbers, global);
    let costs = Calibration::measure(args.small_first, args.exact_clock)?.costs();
    let mut scenarios = Vec::new();
    for &number in numbers {
        let play = |config: &Config, options: &Options| lowtail_play::run(config, options, &|_| {});
        let mut drawn = draw(args, judge, number)?;
        drawn.config.costs = costs;
        scenarios.push(one(args, drawn, play)?);
        bar.step();
    }
    let first = numbers.first().copied().unwrap_or_default();
    let calibrated = vec![Calibrated::new(first, None, costs.named())];
    Ok(Found { kernel: release(), scenarios, calibrated, ..Found::default() })
}

/// What scenarios are drawn for here: the kernel, and two CPUs at most.
fn this_host() -> Result<Judge, Fail> {
    let cpus = lowtail_kernel::thread::own_cpus();
    let cpus = cpus.map_err(|error| Fail::Host(format!("the CPUs of this host: {error}")))?;
    let groups = Hierarchy::find().map_err(|error| Fail::Host(error.to_string()))?;
    Judge::linux(&release(), cpus.len().min(2) as u16, groups.version)
}

/// What scenarios are drawn for where `args` say, where the kernel or Xen calls itself `release`.
fn judge(args: &LabCheck, release: &str) -> Result<Judge, Fail> {
    match args.on {
        _ if args.networks => Ok(Judge::Network),
        _ if args.small_first => Ok(Judge::SmallFirst),
        CheckOn::Kernel => this_host(),
        CheckOn::Guest(_) => Judge::linux(release, 1, Version::V2),
        CheckOn::Dom0 | CheckOn::Xen(_) => Judge::xen(release),
    }
}

/// Writes each scenario into a file of its own.
fn save(args: &LabCheck, judge: Judge, report: &Report, dir: &Path) -> Result<(), Fail> {
    for checked in &report.scenarios {
        let number = checked.scenario;
        let text = judge.scenario(args, number);
        saved::write(dir, &file_name(args.seed, number), &text)?;
    }
    Ok(())
}

fn json(report: &Report) -> Result<Value, Fail> {
    let mut value = out::to_json(report)?;
    let tally = |tally: &Tally| json!({ "figure": tally.figure, "count": tally.n, "within": within(tally) });
    value["summary"] = report.tallies().iter().map(tally).collect();
    Ok(value)
}

/// How many figures of a kind are how near, for `--json`.
pub(super) fn within(tally: &Tally) -> Vec<Value> {
    let share = |(step, error): (usize, f64)| {
        let (ratio, low, high) = tally.share(step);
        json!({ "error": error, "ratio": ratio, "low_ratio": low, "high_ratio": high, "range_ratio": tally.share_of_range(step).0 })
    };
    tally.figure.steps().into_iter().enumerate().map(share).collect()
}

fn text(args: &LabCheck, report: &Report) -> String {
    let what = if args.on.is_xen() { "Xen" } else { "Linux" };
    let mut text = format!(
        "{what} {}, {}: {} scenarios of seed {}, {}\n\n",
        report.kernel,
        report.pcpus_in_words(),
        report.scenarios.len(),
        args.seed,
        report.starts_in_words(),
    );
    let head = ["FIGURE", "N", "WITHIN", "", "", "", "", ""].map(String::from);
    let mut rows = vec![head];
    for tally in report.tallies() {
        let mut row = vec![tally.figure.in_tables().0.to_string(), tally.n.to_string()];
        for step in 0..tally.within.len() {
            row.push(format!("{}:", tally.figure.step_in_words(step)));
            row.push(Tally::in_words(tally.share(step)));
        }
        rows.push(row.try_into().expect("eight columns"));
    }
    text += &table(&rows);
    let real = if args.on.is_xen() { "XEN" } else { "KERNEL" };
    let first = if args.twice { real } else { "SIMULATED" };
    let head = ["SCENARIO", "OF", "FIGURE", first, real, "ERROR"].map(String::from);
    let mut rows = vec![head];
    let worst = report.worst();
    for (scenario, figure) in worst.iter().take(WORST) {
        let (name, scale) = figure.figure.in_tables();
        rows.push([
            scenario.to_string(),
            lowtail_out::line(&figure.of).into_owned(),
            name.to_string(),
            format!("{:.2}", figure.simulated * scale),
            format!("{:.2}", figure.kernel * scale),
            figure.error_in_words(),
        ]);
    }
    text += &format!("\nThe worst figures:\n\n{}", table(&rows));
    for again in &report.played_again {
        text += &format!("\nPlayed a second time: scenario {again}\n");
    }
    if let Some((scenario, _)) = worst.first() {
        text += &format!("\nThe worst again: {}\n", report.settings.only(*scenario));
    }
    text
}
