//! `lowtail predict`.

mod chart;
mod perfetto;
mod recorded;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lowtail_control::manage::parse_cpus;
use lowtail_control::policy::Policy;
use lowtail_engine::Duration;
use lowtail_host::{CpuSet, Pcpu, SchedulerConfig};
use lowtail_predict::{
    COPIES_MAX, Change, Error, FIT_MAX, Goal, Interrupts, Question, Recording, Setup, Wanted, fit,
    predict, ratelimit, scheduler, slice,
};

use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;
use crate::trace::{self, TraceInput};

pub(crate) use recorded::Recorded;

/// `lowtail predict`.
#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(crate) struct Predict {
    #[command(flatten)]
    input: TraceInput,
    /// Put this policy file in force, as `host apply --watch` would
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Another scheduler: eevdf-6.6, eevdf-6.12, eevdf-6.18, cfs-5.4, cfs-6.1 or small-first; of Xen also credit, credit2 or
    /// null, or those of another release: credit2-4.21, credit2-mended
    #[arg(long, value_name = "NAME", value_parser = scheduler)]
    scheduler: Option<SchedulerConfig>,
    /// Xen's rate limit (sched_ratelimit_us), such as 100us, or 0us for none
    #[arg(long, value_name = "SPAN", value_parser = ratelimit)]
    ratelimit: Option<Duration>,
    /// Time slice of Xen's credit (sched_credit_tslice_ms), such as 5ms
    #[arg(long, value_name = "SPAN", value_parser = slice)]
    slice: Option<Duration>,
    /// Let the threads of a VM run on these CPUs only, such as web=0-3,8
    #[arg(long, value_name = "VM=CPUS", value_parser = pin)]
    pin: Vec<(String, CpuSet)>,
    /// So many CPUs, in place of those that were recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Option<u16>,
    /// Leave a VM out
    #[arg(long, value_name = "VM")]
    without: Vec<String>,
    /// Add so many VMs that do what this one does, at other times; with --until, N is the most that is tried
    /// and can be left out
    #[arg(long, value_name = "VM=N", value_parser = add)]
    add: Vec<(String, Option<u32>)>,
    /// Say how many more of the VM of --add fit while this holds, such as 'web p99 <= 1ms' or 'web cpu >= 60%'
    #[arg(long, value_name = "GOAL", requires = "add")]
    until: Option<Goal>,
    /// Runs, each of which begins otherwise; the first one as the recording does
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    #[command(flatten)]
    recorded: Recorded,
    /// Show whom the vCPUs of each VM waited for
    #[arg(long, conflicts_with = "until")]
    blame: bool,
    /// Show what woke each thread, and how lowtail tells timers from arrivals
    #[arg(long, conflicts_with = "until")]
    causes: bool,
    /// Take interrupts that woke this thread for its own timer; `*` stands for any characters
    #[arg(long, value_name = "THREAD")]
    timer: Vec<String>,
    /// Take interrupts that woke this thread for something from outside, such as requests
    #[arg(long, value_name = "THREAD")]
    arrivals: Vec<String>,
    /// Write a report with distributions into this file, in HTML
    #[arg(long, value_name = "FILE", conflicts_with = "until")]
    report: Option<PathBuf>,
    /// Write the first replayed schedule as a Perfetto trace into this file (open it at ui.perfetto.dev)
    #[arg(long, value_name = "FILE", conflicts_with = "until")]
    perfetto_replayed: Option<PathBuf>,
    /// Write the first predicted schedule as a Perfetto trace into this file
    #[arg(long, value_name = "FILE", conflicts_with = "until")]
    perfetto_predicted: Option<PathBuf>,
    /// Predict even if the simulator does not agree with the recording
    #[arg(long)]
    anyway: bool,
}

fn pin(text: &str) -> Result<(String, CpuSet), String> {
    let wrong = || format!("`{text}`: a VM and CPUs, such as web=0-3,8");
    let (vm, list) = text.rsplit_once('=').filter(|(vm, _)| !vm.is_empty()).ok_or_else(wrong)?;
    let cpus = parse_cpus(list).map_err(|_| wrong())?;
    let known = |cpu: usize| u16::try_from(cpu).ok().filter(|&cpu| cpu < CpuSet::MAX_PCPUS);
    let cpus: Option<CpuSet> = cpus.into_iter().map(|cpu| known(cpu).map(Pcpu)).collect();
    let cpus = cpus.filter(|cpus| !cpus.is_empty()).ok_or_else(wrong)?;
    Ok((vm.to_owned(), cpus))
}

fn add(text: &str) -> Result<(String, Option<u32>), String> {
    let wrong = || format!("`{text}`: a VM and a number up to {COPIES_MAX}, such as web=3");
    let Some((vm, count)) = text.rsplit_once('=') else { return Ok((text.to_owned(), None)) };
    let count = count.parse().ok().filter(|&n: &u32| (1..=COPIES_MAX).contains(&n));
    let count = count.filter(|_| !vm.is_empty()).ok_or_else(wrong)?;
    Ok((vm.to_owned(), Some(count)))
}

/// VMs that are added, each with its number.
type Added = Vec<(String, u32)>;

/// VMs that are added, and what is searched, if anything is.
fn added(command: &Predict) -> Result<(Added, Option<Question>), Fail> {
    if let Some(goal) = &command.until {
        let [(vm, max)] = &command.add[..] else {
            let why = "--until says how many more of one VM fit: give one --add";
            return Err(Fail::Usage(why.to_owned()));
        };
        let (vm, max, goal) = (vm.clone(), max.unwrap_or(FIT_MAX), goal.clone());
        return Ok((Vec::new(), Some(Question { vm, max, goal })));
    }
    let known = |(vm, count): &(String, Option<u32>)| -> Result<(String, u32), Fail> {
        let wrong = || {
            let vm = lowtail_out::name(vm);
            let why =
                "a VM and a number, such as web=3; the number can be left out with --until only";
            Fail::Usage(format!("--add {vm}: {why}"))
        };
        Ok((vm.clone(), count.ok_or_else(wrong)?))
    };
    Ok((command.add.iter().map(known).collect::<Result<_, _>>()?, None))
}

/// An argument as a shell would have it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}

/// Writes the schedules that are asked for.
fn export(
    command: &Predict,
    recording: &Recording,
    as_it_was: &Setup,
    change: &Change<'_>,
) -> Result<(), Fail> {
    let name = command.input.file.file_name().unwrap_or_default().to_string_lossy();
    if let Some(to) = &command.perfetto_replayed {
        perfetto::export(recording, as_it_was, None, to, &format!("{name}, replayed"))?;
    }
    if let Some(to) = &command.perfetto_predicted {
        let setup = change.setup.as_ref().unwrap_or(as_it_was);
        perfetto::export(recording, setup, change.policy, to, &format!("{name}, predicted"))?;
    }
    Ok(())
}

/// What is taken for what, as the command line says it.
fn said(command: &Predict) -> Vec<(String, Interrupts)> {
    let timers = command.timer.iter().map(|name| (name.clone(), Interrupts::Timer));
    let arrivals = command.arrivals.iter().map(|name| (name.clone(), Interrupts::Arrivals));
    timers.chain(arrivals).collect()
}

/// Reads a recording whole. What is wrong with the file itself is an error at once; what cannot be predicted from it is the caller's to name.
pub(crate) fn recording(
    input: &TraceInput,
    global: &Global,
) -> Result<Result<Recording, Error>, Fail> {
    trace::read(input, global, |input, options| match Recording::read(input, options) {
        Err(Error::Trace(error)) => Err(error),
        other => Ok(other),
    })
}

pub(crate) fn run(command: &Predict, global: &Global) -> Result<ExitCode, Fail> {
    let (add, question) = added(command)?;
    let outputs = [
        ("--report", command.report.as_deref()),
        ("--perfetto-replayed", command.perfetto_replayed.as_deref()),
        ("--perfetto-predicted", command.perfetto_predicted.as_deref()),
    ];
    out::outputs(&outputs, global)?;
    // Where it cannot be written is said before the work is done.
    let report = command.report.as_deref().map(out::TextFile::new).transpose()?;
    let policy = command.policy.as_deref().map(Policy::read).transpose();
    let policy = policy.map_err(|error| Fail::Input(error.to_string()))?;
    let terms = command.recorded.terms()?;
    let file = lowtail_out::path(&command.input.file).to_string();
    let failed = |error: Error| match error {
        Error::NoVm { .. }
        | Error::NoThread { .. }
        | Error::SameName { .. }
        | Error::NotXen { .. }
        | Error::Unsaid { .. }
        | Error::Senseless(_)
        | Error::FewWakeups { .. } => Fail::Usage(error.to_string()),
        error => Fail::Input(format!("{file}: {error}")),
    };
    let mut recording = recording(&command.input, global)?.map_err(failed)?;
    let as_it_was = terms.setup(&mut recording).map_err(failed)?;
    recording.set_interrupts(&said(command)).map_err(failed)?;
    let wanted = Wanted {
        policy,
        scheduler: command.scheduler.clone(),
        ratelimit: command.ratelimit,
        slice: command.slice,
        cpus: command.cpus,
        without: command.without.clone(),
        add,
        pins: command.pin.clone(),
    };
    // What the command line says goes before the file.
    let wanted = wanted.before_policy();
    let change = wanted.change(&recording, &as_it_was).map_err(failed)?;
    let is_changed = change.setup.is_some() || change.policy.is_some();
    if command.perfetto_predicted.is_some() && !is_changed {
        let why = "--perfetto-predicted: nothing is changed, so that nothing is predicted";
        return Err(Fail::Usage(why.to_owned()));
    }
    if let Some(question) = question {
        let fit = fit(&recording, &as_it_was, &change, &question, command.seeds, command.anyway);
        let fit = fit.map_err(failed)?;
        trace::show(global, || fit.table(), &fit)?;
        let fits = fit.fitting.is_some();
        return Ok(if fits { ExitCode::SUCCESS } else { exit::SHORT.into() });
    }
    let prediction = predict(&recording, &as_it_was, &change, command.seeds, command.anyway);
    let prediction = prediction.map_err(failed)?;
    let table = || {
        let mut table = prediction.table();
        if command.blame {
            table += &prediction.blame_table();
        }
        if command.causes {
            table += &prediction.causes_table();
        }
        table
    };
    if let Some(report) = report {
        let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
        let repeat = format!("lowtail {}", words.collect::<Vec<_>>().join(" "));
        let about = report::About { file: &file, command: &repeat, seeds: command.seeds };
        report.finish(&report::html(&prediction, &about))?;
    }
    export(command, &recording, &as_it_was, &change)?;
    trace::show(global, table, &prediction)?;
    Ok(if prediction.worse.is_empty() { ExitCode::SUCCESS } else { exit::SHORT.into() })
}
