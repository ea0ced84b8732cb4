//! `lowtail lab`.

use std::cell::Cell;
use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lowtail_lab::{Error, Experiment, Outcome, Progress, Recording, RunOptions};
use lowtail_trace::ReplaceFile;
use serde_json::{Value, json};

use crate::args::{Global, Lab, LabRun};
use crate::exit::{self, Fail};
use crate::progress::Bar;
use crate::{out, perfetto, show};

/// Records kept of each case's schedule for `--perfetto`: 16 MB.
const RECORDS: usize = 1 << 20;

pub(crate) fn run(command: &Lab, global: &Global) -> Result<ExitCode, Fail> {
    match command {
        Lab::List => list(global),
        Lab::Show { experiment, toml } => show(experiment, *toml, global),
        Lab::Run(args) => run_all(args, global),
        Lab::Schema => {
            out::text(&lowtail_lab::schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NoSuchExperiment { .. } => Fail::Usage(message),
            Error::At { .. } | Error::File { .. } => Fail::Input(message),
            Error::Simulator { .. } | Error::Write { .. } => Fail::Host(message),
        }
    }
}

/// What ends in `.toml` or contains a `/` is a path, all else a name of the catalogue.
fn load(name: &str) -> Result<Experiment, Fail> {
    if name.ends_with(".toml") || name.contains('/') {
        return Ok(lowtail_lab::load(Path::new(name))?);
    }
    Ok(lowtail_lab::find(name)?.load()?)
}

fn list(global: &Global) -> Result<ExitCode, Fail> {
    let mut rows = Vec::new();
    for embedded in lowtail_lab::catalogue() {
        let experiment = embedded.load()?;
        let cases = experiment.cases(false).len();
        rows.push((embedded.name, cases, experiment.file.title.clone()));
    }
    if global.json {
        let entry = |(name, cases, title): &(&str, usize, String)| {
            json!({ "name": name, "cases": cases, "title": title })
        };
        out::json(&json!({ "experiments": rows.iter().map(entry).collect::<Vec<Value>>() }))?;
    } else {
        let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}  {:>5}  TITLE\n", "NAME", "CASES");
        for (name, cases, title) in rows {
            text += &format!("{name:width$}  {cases:>5}  {title}\n");
        }
        out::text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, toml: bool, global: &Global) -> Result<ExitCode, Fail> {
    let experiment = load(name)?;
    if toml {
        let text = match lowtail_lab::find(name) {
            Ok(embedded) => embedded.text.to_string(),
            Err(_) => fs::read_to_string(name).map_err(|e| Fail::Input(format!("{name}: {e}")))?,
        };
        out::text(&text)?;
    } else if global.json {
        out::json(&show::json(&experiment))?;
    } else {
        out::text(&show::text(&experiment))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_all(args: &LabRun, global: &Global) -> Result<ExitCode, Fail> {
    // All files are read before the first run: a mistake in the last shows at once.
    let experiments = if args.all {
        lowtail_lab::catalogue().iter().map(|e| Ok(e.load()?)).collect::<Result<Vec<_>, Fail>>()?
    } else {
        args.experiments.iter().map(|name| load(name)).collect::<Result<Vec<_>, Fail>>()?
    };
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let record = if args.perfetto.is_some() { RECORDS } else { 0 };
    let options = RunOptions { seed: args.seed, jobs, full: args.full, record };
    let total: usize = experiments.iter().map(|e| e.cases(args.full).len()).sum();
    let bar = Bar::new(global, total as u64, "{msg} {wide_bar} {pos}/{len} cases {eta}");
    let before = Cell::new(0);
    let mut outcomes = Vec::new();
    for experiment in &experiments {
        let report = |progress: Progress| {
            bar.set((before.get() + progress.done) as u64, &experiment.name);
        };
        outcomes.push(lowtail_lab::run(experiment, &options, &report)?);
        before.set(before.get() + experiment.cases(args.full).len());
    }
    drop(bar);
    print(&outcomes, global)?;
    if let Some(dir) = &args.perfetto {
        write_recordings(&outcomes, dir, global)?;
    }
    if !args.no_report {
        let html = lowtail_lab::report::html(&outcomes);
        lowtail_lab::report::write(&args.report, &html)?;
        note(global, &format!("report: {}", args.report.display()));
    }
    let holds = outcomes.iter().all(Outcome::holds);
    Ok(if holds { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Says something beside the result, where it does not get into a pipe.
fn note(global: &Global, text: &str) {
    if !global.quiet && !global.json {
        eprintln!("{text}");
    }
}

fn print(outcomes: &[Outcome], global: &Global) -> Result<(), Fail> {
    if global.json {
        return out::json(&lowtail_lab::json(outcomes));
    }
    if global.quiet {
        return Ok(());
    }
    let color = out::color(global);
    let tables: Vec<String> = outcomes.iter().map(|outcome| outcome.table(color)).collect();
    out::text(&tables.join("\n"))?;
    if outcomes.len() > 1 {
        let lines: Vec<String> = outcomes.iter().map(|o| o.verdict_line() + "\n").collect();
        out::text(&format!("\n{}", lines.concat()))?;
    }
    Ok(())
}

/// One file for each case.
fn write_recordings(outcomes: &[Outcome], dir: &Path, global: &Global) -> Result<(), Fail> {
    fs::create_dir_all(dir).map_err(|e| Fail::Host(format!("{}: {e}", dir.display())))?;
    for outcome in outcomes {
        for recording in outcome.recordings() {
            let path = dir.join(file_name(&outcome.name, &recording.case));
            let title = format!("{}, case {}, seed {}", outcome.name, recording.case, outcome.seed);
            write_recording(recording, &title, &path)
                .map_err(|error| Fail::Host(format!("{}: {error}", path.display())))?;
        }
    }
    note(global, &format!("schedules for ui.perfetto.dev: {}", dir.display()));
    Ok(())
}

fn write_recording(recording: &Recording, title: &str, path: &PathBuf) -> std::io::Result<()> {
    let file = BufWriter::new(ReplaceFile::new(path)?);
    let file = perfetto::write(recording, title, file)?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?.commit()
}

/// A file name without anything that a file system could mind.
fn file_name(experiment: &str, case: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let case: String = case.chars().map(plain).collect();
    let name: String = experiment.chars().map(plain).collect();
    format!("{name}.{case}.perfetto-trace")
}
