//! `lowtail lab run`.

use std::cell::Cell;
use std::path::Path;
use std::process::ExitCode;

use lowtail_lab::{Case, Error, Experiment, Outcome, Progress, RunOptions, as_options};

use super::args::{LabRun, On, processors};
use super::failure::{bug, failed};
use super::parquet::Tables;
use super::pcap::Frames;
use super::perfetto::Schedules;
use super::{booted, catalogue, dom0, domains, kernel};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out::{self, TextFile};
use crate::progress::{self, Bar};

pub(super) fn run(args: &LabRun, global: &Global) -> Result<ExitCode, Fail> {
    domains::check(args)?;
    if args.print_toml {
        out::text(&domains::text(args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let machines = !args.domain_xml.is_empty();
    let names: Vec<&str> = if machines {
        vec!["machines"]
    } else if args.all {
        lowtail_lab::catalogue().iter().map(|embedded| embedded.name).collect()
    } else {
        args.experiments.iter().map(String::as_str).collect()
    };
    // All files are read before the first run: a mistake in the last shows at once. So does
    // a place that cannot be written to.
    let read = |name: &&str| match machines {
        true => domains::load(args),
        false => catalogue::load_with(name, &args.set),
    };
    let experiments = names.iter().map(read).collect::<Result<Vec<_>, Fail>>()?;
    if args.on != On::Simulator {
        if args.seeds.is_some() {
            let on = &args.on;
            return Err(Fail::Usage(format!(
                "--seeds is for the simulator; with --on {on} run it again with another --seed"
            )));
        }
        if args.parquet.is_some() {
            return Err(Fail::Usage("--parquet is for the simulator; leave out --on".to_string()));
        }
        check_choice(args, &experiments, &args.options(1))?;
    }
    match &args.on {
        On::Simulator => experiments.iter().for_each(|experiment| warn(args, experiment, global)),
        On::Kernel => return kernel::run(args, &experiments, global),
        On::Dom0 => return dom0::run(args, &experiments, global),
        On::Xen(series) => return booted::run(args, &experiments, series, global),
    }
    let report = (!args.no_report).then_some(args.report.as_path());
    let (markdown, chart) = (args.markdown.as_deref(), args.chart.as_deref());
    let (schedules, frames) = (args.perfetto.as_deref(), args.pcap.as_deref());
    let (completions, claims) = (args.completions.as_deref(), args.claims.as_deref());
    let outputs = [
        ("--report", report),
        ("--markdown", markdown),
        ("--claims", claims),
        ("--chart", chart),
        ("--perfetto", schedules),
        ("--pcap", frames),
        ("--completions", completions),
    ];
    out::outputs(&outputs, global)?;
    // Whoever cannot be written to is told before the run.
    let report = report.map(TextFile::new).transpose()?;
    let markdown = markdown.map(TextFile::new).transpose()?;
    let claims = claims.map(TextFile::new).transpose()?;
    let chart = chart.map(TextFile::new).transpose()?;
    let completions = completions.map(TextFile::new).transpose()?;
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let options = args.options(jobs);
    check_choice(args, &experiments, &options)?;
    let mut schedules = schedules.map(Schedules::new).transpose()?;
    let mut frames = frames.map(Frames::new).transpose()?;
    let mut tables = args.parquet.as_deref().map(Tables::new).transpose()?;
    let runs = |e: &Experiment| {
        let chosen = e.cases(args.full).iter().filter(|c| options.chosen(c)).count();
        chosen * usize::from(options.seeds.unwrap_or(e.file.seeds))
    };
    let total: usize = experiments.iter().map(runs).sum();
    let width = progress::width(experiments.iter().map(|e| e.name.as_str()));
    let style = format!("{{msg:{width}}} {{wide_bar}} {{pos}}/{{len}} runs, {{eta}} left");
    let bar = Bar::new(global, total as u64, &style);
    let before = Cell::new(0);
    let mut outcomes = Vec::new();
    for (name, experiment) in names.iter().zip(&experiments) {
        let report = |progress: Progress| {
            bar.set((before.get() + progress.done) as u64, &experiment.name);
        };
        let outcome = lowtail_lab::run(experiment, &options, &report);
        let mut outcome = outcome.map_err(|error| match (machines, &error) {
            (true, &Error::Simulator { seed, .. }) => bug(&error, &domains::command(args, seed)),
            _ => failed(error, &format!("{name}{}", as_options(&args.set)), args.full),
        })?;
        if machines {
            outcome.command = domains::command(args, outcome.seed);
        }
        before.set(before.get() + runs(experiment));
        if let Some(tables) = &mut tables {
            tables.take(&outcome)?;
        }
        if let Some(schedules) = &mut schedules {
            schedules.take(&outcome)?;
        }
        outcome.forget_recordings();
        if let Some(frames) = &mut frames {
            frames.take(&mut outcome)?;
        }
        outcomes.push(outcome);
    }
    drop(bar);
    match (&experiments[..], &outcomes[..]) {
        ([experiment], [outcome]) if machines && !global.json => {
            print_machines(experiment, outcome, global)?;
        }
        _ => print(&outcomes, global)?,
    }
    if let Some(schedules) = schedules {
        let path = schedules.path;
        schedules.finish()?;
        out::remark(global, &format!("schedules for ui.perfetto.dev: {}", lowtail_out::path(path)));
    }
    if let Some(frames) = frames {
        let text = frames.finish()?;
        out::remark(global, &text);
    }
    if let Some(markdown) = markdown {
        let path = lowtail_out::path(markdown.path);
        let command = command(args, "--markdown");
        markdown.finish(&lowtail_lab::markdown::document(&outcomes, &command))?;
        out::remark(global, &format!("tables: {path}"));
    }
    if let Some(claims) = claims {
        let path = lowtail_out::path(claims.path);
        claims.finish(&lowtail_lab::markdown::claims(&outcomes, &command(args, "--claims")))?;
        out::remark(global, &format!("claims: {path}"));
    }
    if let Some(completions) = completions {
        let path = lowtail_out::path(completions.path);
        let cases = outcomes.iter().flat_map(|outcome| &outcome.cases);
        let cases = cases.map(|case| (case.name.as_str(), &case.completions[..]));
        completions.finish(&lowtail_lab::completions(cases))?;
        out::remark(global, &format!("completion times: {path}"));
    }
    if let Some(tables) = tables {
        let path = lowtail_out::path(tables.dir);
        tables.finish(&outcomes)?;
        out::remark(global, &format!("tables as Parquet files: {path}"));
    }
    if let (Some(chart), [outcome]) = (chart, &outcomes[..]) {
        let path = lowtail_out::path(chart.path);
        let drawn = lowtail_lab::report::chart(outcome).ok_or_else(|| {
            Fail::Usage(
                "--chart draws latencies of one to eight cases; choose them by --case".into(),
            )
        })?;
        chart.finish(&drawn)?;
        out::remark(global, &format!("chart: {path}"));
    }
    if let Some(report) = report {
        let path = lowtail_out::path(report.path);
        report.finish(&lowtail_lab::report::html(&outcomes))?;
        out::remark(global, &format!("report: {path}"));
    }
    let holds = outcomes.iter().all(Outcome::holds);
    Ok(if holds { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

/// Says of the first case whose loads stay in step that they do.
fn warn(args: &LabRun, experiment: &Experiment, global: &Global) {
    let options = args.options(1);
    let mut chosen = experiment.cases(args.full).iter().filter(|case| options.chosen(case));
    if let Some((case, said)) = chosen.find_map(|case| Some((case, lowtail_lab::in_step(case)?))) {
        let (path, name) =
            (lowtail_out::path(Path::new(&experiment.path)), lowtail_out::line(&case.name));
        out::remark(global, &format!("{path}: case `{name}`: {said}"));
    }
}

/// The command that writes the same tables, by its `option`.
fn command(args: &LabRun, option: &str) -> String {
    let names = if args.all { "--all".to_string() } else { args.experiments.join(" ") };
    let full = if args.full { " --full" } else { "" };
    let seed = args.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
    let seeds = args.seeds.map(|seeds| format!(" --seeds {seeds}")).unwrap_or_default();
    let set = as_options(&args.set);
    format!("lowtail lab run {names}{full}{seed}{seeds}{set} {option} FILE")
}

/// Whether the cases and links that are asked for exist and fit together.
fn check_choice(
    args: &LabRun,
    experiments: &[Experiment],
    options: &RunOptions,
) -> Result<(), Fail> {
    let usage = |message: String| Err(Fail::Usage(message));
    if !args.case.is_empty() && experiments.len() > 1 {
        return usage("--case chooses among the cases of one experiment; give one".to_string());
    }
    if args.chart.is_some() && experiments.len() != 1 {
        return usage("--chart draws one experiment; give one".to_string());
    }
    if args.exact_clock && !matches!(args.on, On::Kernel | On::Dom0) {
        return usage("--exact-clock is about --on kernel and --on dom0".to_string());
    }
    if !args.link.is_empty() && args.pcap.is_none() && args.perfetto.is_none() && !args.schedules {
        return usage(
            "--link says where to look; give --pcap FILE or --perfetto FILE, or --schedules, too"
                .into(),
        );
    }
    let mut cases = Vec::new();
    for experiment in experiments {
        cases.extend(experiment.chosen(options)?);
    }
    // The picture of a frontier has room for any number.
    let frontier = experiments.iter().all(|experiment| experiment.file.frontier.is_some());
    if args.chart.is_some() && cases.len() > 8 && !frontier {
        let all = cases.len();
        return usage(format!(
            "--chart draws eight cases at most, here are {all}; choose some by --case"
        ));
    }
    let networks = cases.iter().filter(|case| case.network.is_some()).count();
    if networks == 0 && (args.pcap.is_some() || !args.link.is_empty()) {
        let which = if args.pcap.is_some() { "--pcap" } else { "--link" };
        return usage(format!("{which}: there are no links, since there is no `[network]`"));
    }
    let has_links = |case: &&Case| case.hosts.iter().any(|host| !host.links.is_empty());
    if args.blame && networks == 0 && !cases.iter().any(has_links) {
        return usage("--blame: there are no queues, since there is no `[network]`".into());
    }
    let has_list = |case: &&Case| {
        let network = case.network.as_ref();
        network.is_some_and(|n| n.config().traffic.iter().any(|t| !t.flows.is_empty()))
    };
    if args.completions.is_some() && !cases.iter().any(has_list) {
        return usage("--completions: there is no list of transfers (`flows`)".into());
    }
    if args.pcap.is_some() && cases.len() > 1 {
        let mut names: Vec<String> = cases.iter().map(|case| format!("`{}`", case.name)).collect();
        if names.len() > 12 {
            names.truncate(12);
            names.push("…".to_string());
        }
        let names = names.join(", ");
        return usage(format!("--pcap writes the frames of one case; give --case: {names}"));
    }
    Ok(())
}

/// One line for each VM.
fn print_machines(experiment: &Experiment, outcome: &Outcome, global: &Global) -> Result<(), Fail> {
    if global.quiet {
        return Ok(());
    }
    let color = out::color(global);
    let tables = experiment.cases(false).iter();
    let tables = tables.map(|case| lowtail_lab::kvm::table::vms(case, outcome, color));
    out::coloured(&tables.collect::<String>(), color)
}

fn print(outcomes: &[Outcome], global: &Global) -> Result<(), Fail> {
    if global.json {
        return out::json(&lowtail_lab::json(outcomes));
    }
    if global.quiet {
        return Ok(());
    }
    let color = out::color(global);
    let tables: Vec<String> =
        outcomes.iter().map(|outcome| outcome.table(color) + &outcome.blame_table(color)).collect();
    let mut text = tables.join("\n");
    if outcomes.len() > 1 {
        text += "\n";
        let width = outcomes.iter().map(|outcome| outcome.name.chars().count()).max().unwrap_or(0);
        for outcome in outcomes {
            let (name, verdict) = (lowtail_out::line(&outcome.name), outcome.verdict_line());
            let (on, off) = if color && !outcome.holds() { out::RED } else { ("", "") };
            text += &format!("{name:width$}  {on}{verdict}{off}\n");
        }
    }
    out::coloured(&text, color)
}
