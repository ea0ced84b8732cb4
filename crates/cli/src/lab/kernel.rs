//! `lowtail lab run --on kernel`: scenarios with real threads, beside the simulated ones.

use std::fs;
use std::process::ExitCode;

use lowtail_engine::Duration;
use lowtail_host::{Config, SchedulerConfig};
use lowtail_kernel::Error;
use lowtail_lab::Experiment;
use lowtail_lab::case::Case;
use lowtail_play::{Comparison, Judge, Options};

use super::args::LabRun;
use super::beside::{self, Real};
use super::namespaces;
use crate::exit::Fail;
use crate::global::Global;

/// Runs the cases that are chosen on this host, one after another, and in the simulator.
pub(super) fn run(
    args: &LabRun,
    experiments: &[Experiment],
    global: &Global,
) -> Result<ExitCode, Fail> {
    let all = beside::chosen(args, experiments, "a kernel", refused)?;
    let cpus = lowtail_kernel::thread::own_cpus();
    let cpus = cpus.map_err(|error| Fail::Host(format!("the CPUs of this host: {error}")))?.len();
    let judge = Judge { exact_clock: args.exact_clock };
    let real = Real { name: "Linux", release: release(), column: "KERNEL" };
    beside::run(args, all, global, &real, |case, options, progress| {
        if let Some(comparison) = namespaces::compare(case, options, judge) {
            return Ok((comparison?, None));
        }
        let host = &case.hosts[0].config;
        let scaled = lowtail_play::scale(host, u16::try_from(cpus).unwrap_or(u16::MAX));
        let pcpus = (scaled.pcpus, scaled.pcpus != host.pcpus);
        Ok((compare(&scaled, options, judge, progress)?, Some(pcpus)))
    })
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

/// The kernel's release, as `uname -r` says it.
pub(super) fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}
