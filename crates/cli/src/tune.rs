//! `lowtail tune`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use lowtail_predict::{Error as PredictError, Goal};
use lowtail_tune::{Cost, Error, Options, Progress, RecordedProblem, ScenarioProblem, Tuned, tune};

use crate::exit::{self, Fail};
use crate::frequency;
use crate::global::Global;
use crate::out::TextFile;
use crate::predict::{self, Recorded};
use crate::progress::Bar;
use crate::span;
use crate::trace::{self, TraceInput};

/// `lowtail tune`.
#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(crate) struct Tune {
    /// A recording of `lowtail host record`, `perf sched record` or xentrace; or a network scenario: a file that ends in `.toml`, or the name of
    /// an experiment
    file: PathBuf,
    /// What is to be reached, such as 'web p99 <= 500us' or 'batch cpu >= 60%'; figures: p50, p90, p99 and cpu. Several are reached together
    #[arg(long, value_name = "GOAL", required = true)]
    goal: Vec<Goal>,
    /// What is to be lost least, such as 'batch work'; of a scenario's traffic also 'large avg', p50 or p99 [default: the work of
    /// all without a goal]
    #[arg(long, value_name = "COST")]
    cost: Option<Cost>,
    /// The case of the scenario, if it has several
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs by which each point that is shown is measured, of which none was looked at when it was chosen
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Short runs of the search [default: 120 to 600, the fewer the longer the recording; 80 for a scenario]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    budget: Option<u64>,
    /// End the search after so long; then the points depend on how fast this machine is
    #[arg(long, value_name = "SPAN", value_parser = span::wall)]
    max_time: Option<Duration>,
    /// Threads; they change no figure [default: as many as there are CPUs]
    #[arg(long, short, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write the policy of each point into this directory: point-1.toml, point-2.toml and so on
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Ticks per second of xentrace's time stamp counter [default: measured in the trace]
    #[arg(long, value_name = "HZ", value_parser = frequency::hz)]
    cpu_hz: Option<u64>,
    #[command(flatten)]
    recorded: Recorded,
    /// Search even if the simulator does not agree with the recording
    #[arg(long)]
    anyway: bool,
}

pub(crate) fn run(command: &Tune, global: &Global) -> Result<ExitCode, Fail> {
    if let Some(dir) = &command.out {
        let made = fs::create_dir_all(dir);
        made.map_err(|error| Fail::Host(format!("{}: {error}", lowtail_out::path(dir))))?;
    }
    let tuned = match scenario(&command.file)? {
        Some((path, text, base)) => of_scenario(command, global, (&path, &text, base.as_deref()))?,
        None => of_recording(command, global)?,
    };
    if let Some(dir) = &command.out {
        for (number, point) in (1..).zip(&tuned.points) {
            let path = dir.join(format!("point-{number}.toml"));
            TextFile::new(&path)?.finish(&point.policy)?;
        }
    }
    trace::show(global, || tuned.table(), &tuned)?;
    Ok(if tuned.chosen.is_some() { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

/// Path, text and directory of a scenario, if it is one: what ends in `.toml`, or the name of an experiment and of no file.
fn scenario(file: &Path) -> Result<Option<(String, String, Option<PathBuf>)>, Fail> {
    let shown = file.display().to_string();
    if file.extension().is_some_and(|extension| extension == "toml") {
        let text = lowtail_lab::read_scenario(file)?;
        return Ok(Some((shown, text, file.parent().map(Path::to_path_buf))));
    }
    let known = lowtail_lab::catalogue().iter().find(|experiment| experiment.name == shown);
    Ok(known.filter(|_| !file.exists()).map(|known| (known.path(), known.text.to_owned(), None)))
}

fn of_scenario(
    command: &Tune,
    global: &Global,
    (path, text, base): (&str, &str, Option<&Path>),
) -> Result<Tuned, Fail> {
    let given = [("--anyway", command.anyway), ("--cpu-hz", command.cpu_hz.is_some())];
    let given = given.into_iter().find_map(|(option, given)| given.then_some(option));
    if let Some(option) = command.recorded.given().or(given) {
        return Err(Fail::Usage(format!("{option} is about recordings; this is a scenario")));
    }
    let (goals, cost) = (command.goal.clone(), command.cost.clone());
    let problem = ScenarioProblem::new(path, text, base, command.case.as_deref(), goals, cost);
    let problem = problem.map_err(|error| failed(error, path))?;
    search(command, global, &problem).map_err(|error| failed(error, path))
}

fn of_recording(command: &Tune, global: &Global) -> Result<Tuned, Fail> {
    if command.case.is_some() {
        return Err(Fail::Usage("--case is about scenarios; this is a recording".to_owned()));
    }
    let file = lowtail_out::path(&command.file).to_string();
    let failed = |error: Error| failed(error, &file);
    let input = TraceInput::with_cpu_hz(command.file.clone(), command.cpu_hz);
    let recording = predict::recording(&input, global)?;
    let mut recording = recording.map_err(|error| failed(error.into()))?;
    let terms = command.recorded.terms()?;
    let as_it_was = terms.setup(&mut recording).map_err(|error| failed(error.into()))?;
    let (goals, cost) = (command.goal.clone(), command.cost.clone());
    let problem = RecordedProblem::new(&recording, as_it_was, goals, cost, command.anyway);
    let problem = problem.map_err(failed)?;
    let tuned = search(command, global, &problem).map_err(failed)?;
    Ok(Tuned { grade: Some(problem.grade), ..tuned })
}

fn search(
    command: &Tune,
    global: &Global,
    problem: &dyn lowtail_tune::Problem,
) -> Result<Tuned, Error> {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        seed: command.seed,
        seeds: command.seeds,
        budget: command.budget,
        threads: command.jobs.map_or_else(all, usize::from),
        max_time: command.max_time,
    };
    let bar = Bar::new(global, 1, "{msg} {wide_bar} {pos}/{len} runs, {eta} left");
    tune(problem, &options, &|progress: Progress| bar.of(progress.done, progress.total, "tuning"))
}

/// Names what is at fault: the input, the command line, or lowtail.
fn failed(error: Error, file: &str) -> Fail {
    match error {
        Error::NoSuch { .. } | Error::TooFew { .. } | Error::Senseless(_) => {
            Fail::Usage(error.to_string())
        }
        Error::Predict(
            PredictError::Unsaid { .. }
            | PredictError::NoVm { .. }
            | PredictError::SameName { .. }
            | PredictError::Senseless(_)
            | PredictError::NotXen { .. },
        ) => Fail::Usage(error.to_string()),
        Error::Predict(error) => Fail::Input(format!("{file}: {error}")),
        Error::Lab(error) => error.into(),
        Error::Scenario(message) => Fail::Input(message),
    }
}
