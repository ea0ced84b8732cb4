//! `lowtail predict`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lowtail_control::manage::parse_cpus;
use lowtail_control::policy::Policy;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{CpuSet, Pcpu, SchedulerConfig};
use lowtail_predict::{COPIES_MAX, Change, Error, Recording, Setup, predict, recorded_scheduler};

use crate::exit::{self, Fail};
use crate::global::Global;
use crate::trace::{self, TraceInput};

/// `lowtail predict`.
#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(crate) struct Predict {
    #[command(flatten)]
    input: TraceInput,
    /// Put this policy file in force, as `host apply --watch` would
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Another scheduler: eevdf-6.6, eevdf-6.12, eevdf-6.18, cfs-5.4, cfs-6.1 or small-first
    #[arg(long, value_name = "NAME", value_parser = scheduler)]
    scheduler: Option<SchedulerConfig>,
    /// Let the threads of a VM run on these CPUs only, such as web=0-3,8
    #[arg(long, value_name = "VM=CPUS", value_parser = pin)]
    pin: Vec<(String, CpuSet)>,
    /// So many CPUs, in place of those that were recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Option<u16>,
    /// Leave a VM out
    #[arg(long, value_name = "VM")]
    without: Vec<String>,
    /// Add so many VMs that do what this one does, at other times
    #[arg(long, value_name = "VM=N", value_parser = add)]
    add: Vec<(String, u32)>,
    /// Runs, each of which begins otherwise; the first one as the recording does
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The kernel under which it was recorded, where the file does not say, such as 6.12
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,
    /// Predict even if the simulator does not agree with the recording
    #[arg(long)]
    anyway: bool,
}

fn scheduler(text: &str) -> Result<SchedulerConfig, String> {
    let fair = |version| Ok(SchedulerConfig::Fair(FairConfig::new(version)));
    match text {
        "eevdf-6.6" => fair(FairVersion::Linux66),
        "eevdf-6.12" => fair(FairVersion::Linux612),
        "eevdf-6.18" => fair(FairVersion::Linux618),
        "cfs-5.4" => fair(FairVersion::Linux54),
        "cfs-6.1" => fair(FairVersion::Linux61),
        "small-first" => Ok(SchedulerConfig::SmallFirst(SmallFirstConfig::default())),
        _ => Err("eevdf-6.6, eevdf-6.12, eevdf-6.18, cfs-5.4, cfs-6.1 or small-first".to_owned()),
    }
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

fn add(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("`{text}`: a VM and a number up to {COPIES_MAX}, such as web=3");
    let (vm, count) = text.rsplit_once('=').filter(|(vm, _)| !vm.is_empty()).ok_or_else(wrong)?;
    let count = count.parse().ok().filter(|&n: &u32| (1..=COPIES_MAX).contains(&n));
    Ok((vm.to_owned(), count.ok_or_else(wrong)?))
}

pub(crate) fn run(command: &Predict, global: &Global) -> Result<ExitCode, Fail> {
    let policy = command.policy.as_deref().map(Policy::read).transpose();
    let policy = policy.map_err(|error| Fail::Input(error.to_string()))?;
    let file = lowtail_out::path(&command.input.file).to_string();
    let failed = |error: Error| match error {
        Error::NoVm { .. } | Error::Unsaid { .. } => Fail::Usage(error.to_string()),
        error => Fail::Input(format!("{file}: {error}")),
    };
    let recording = trace::read(&command.input, global, |input, options| {
        match Recording::read(input, options) {
            Err(Error::Trace(error)) => Err(error),
            other => Ok(other),
        }
    })?;
    let recording = recording.map_err(failed)?;
    let recorded = recorded_scheduler(&recording.host, command.kernel.as_deref());
    let as_it_was = Setup::new(recorded.map_err(failed)?);
    let setup = Setup {
        scheduler: command.scheduler.clone().unwrap_or_else(|| as_it_was.scheduler.clone()),
        cpus: command.cpus,
        without: command.without.clone(),
        add: command.add.clone(),
        pins: command.pin.clone(),
        seed: 0,
    };
    let changed = command.scheduler.is_some()
        || command.cpus.is_some()
        || !command.without.is_empty()
        || !command.add.is_empty()
        || !command.pin.is_empty();
    let change = Change { setup: changed.then_some(setup), policy: policy.as_ref() };
    let prediction = predict(&recording, &as_it_was, &change, command.seeds, command.anyway);
    let prediction = prediction.map_err(failed)?;
    trace::show(global, || prediction.table(), &prediction)?;
    Ok(if prediction.worse.is_empty() { ExitCode::SUCCESS } else { exit::SHORT.into() })
}
