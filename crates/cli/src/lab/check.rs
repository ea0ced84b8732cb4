//! `lowtail lab check`: random scenarios by a real kernel or Xen, beside the simulator.

use std::path::Path;
use std::process::ExitCode;

use lowtail_host::Config;
use lowtail_play::Options;
use lowtail_play::calibrate::Calibration;
use lowtail_play::check::{Figure, Kind, Tally};
use serde_json::json;

use super::args::{CheckOn, LabCheck};
use super::checked::Report;
use super::dom0;
use super::drawn::{Judge, bar, command, draw, file_name, one};
use super::guest::{self, Machine};
use super::kernel::release;
use super::networks;
use super::saved;
use super::table::table;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;

/// Figures that the text shows, the worst first.
const WORST: usize = 15;

pub(super) fn run(args: &LabCheck, global: &Global) -> Result<ExitCode, Fail> {
    saved::prepare(args.save.as_deref())?;
    let numbers: Vec<u32> = match args.only {
        Some(only) => vec![only],
        None => (args.first..args.first.saturating_add(args.scenarios)).collect(),
    };
    if args.networks && args.on.is_xen() {
        return Err(Fail::Usage("--networks: by a Linux, with --on guest or kernel".into()));
    }
    let report = match &args.on {
        CheckOn::Kernel if args.networks => networks::check(args, &numbers, global)?,
        CheckOn::Kernel => on_kernel(args, &numbers, global)?,
        CheckOn::Guest(series) if args.networks => {
            guest::check(args, &Machine::linux_with_networks(series)?, &numbers, global)?
        }
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
    let judge = this_host()?;
    let bar = bar(args, numbers, global);
    let costs = Calibration::measure(false, args.exact_clock)?.costs();
    let mut scenarios = Vec::new();
    for &number in numbers {
        let play = |config: &Config, options: &Options| {
            let measured = lowtail_play::run(config, options, &|_| {});
            bar.step();
            measured
        };
        scenarios.push(one(args, draw(args, judge, number)?, costs, play)?);
    }
    Ok(Report { kernel: release(), scenarios })
}

/// What scenarios are drawn for here: the kernel, and two CPUs at most.
fn this_host() -> Result<Judge, Fail> {
    let cpus = lowtail_kernel::thread::own_cpus();
    let cpus = cpus.map_err(|error| Fail::Host(format!("the CPUs of this host: {error}")))?;
    Judge::linux(&release(), cpus.len().min(2) as u16)
}

/// Writes each scenario into a file of its own.
fn save(args: &LabCheck, report: &Report, dir: &Path) -> Result<(), Fail> {
    let judge = match args.on {
        _ if args.networks => Judge::Network,
        CheckOn::Kernel => this_host()?,
        CheckOn::Guest(_) => Judge::linux(&report.kernel, 1)?,
        CheckOn::Dom0 | CheckOn::Xen(_) => Judge::xen(&report.kernel)?,
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
