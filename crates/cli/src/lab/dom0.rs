//! The Xen of which this is dom0: random scenarios and those of files by its guests.

use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::process::ExitCode;

use lowtail_engine::Duration;
use lowtail_host::{Config, SchedulerConfig, Workload};
use lowtail_lab::Experiment;
use lowtail_lab::case::Case;
use lowtail_play::report::{Calibrated, Checked, NotPlayed};
use lowtail_play::xen::{
    Guests, Images, XenCosts, calibrate, calibrate_requests, guests_for, suits,
};
use lowtail_play::{Comparison, Error, Judge as Claims, Options, scale};

use super::args::{LabCheck, LabRun};
use super::beside::{self, Chosen, Real};
use super::checked::Found;
use super::drawn::{Drawn, Judge, XEN_PCPUS, bar, draw, one};
use super::guest::first_line;
use crate::exit::Fail;
use crate::global::Global;

/// The first of the pCPUs on which scenarios are played: the one before is dom0's.
const FIRST_PCPU: u16 = 1;
/// vCPUs of the guests, of which each random scenario needs some.
const VCPUS: [u16; 6] = [1, 1, 1, 1, 2, 2];

/// Checks scenarios `numbers` by guests of this Xen.
pub(super) fn check(args: &LabCheck, numbers: &[u32], global: &Global) -> Result<Found, Fail> {
    let release = release()?;
    let judge = Judge::xen(&release)?;
    let bar = bar(numbers, global);
    let drawn = numbers.iter().map(|&number| draw(args, judge, number));
    let mut drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    // One scheduler after the other: each has a pool of its own.
    drawn.sort_by_key(|drawn| matches!(drawn.config.scheduler, SchedulerConfig::Credit(_)));
    let mut found = Found { kernel: release, ..Found::default() };
    let mut bench = None;
    for at in 0..drawn.len() {
        let number = drawn[at].number;
        let mut result = play(args, &drawn[at..], &mut bench, &mut found);
        // A guest may hang or end, which is no figure: once more, with new guests.
        if let Err(error) = &result {
            found.played_again.push(NotPlayed::one(number, first_line(error)));
            bench = None;
            result = play(args, &drawn[at..], &mut bench, &mut found);
        }
        bar.step();
        match result {
            Ok(checked) => found.scenarios.push(checked),
            // What was played stays, and the others are tried.
            Err(error) => {
                bench = None;
                found.not_played.push(NotPlayed::one(number, first_line(&error)));
            }
        }
    }
    found.scenarios.sort_by_key(|checked: &Checked| checked.scenario);
    Ok(found)
}

/// Plays the first of `drawn` with the guests of `bench`, or with new ones for all of them if there are none: after a failure who knows
/// in what state they are. What things cost new ones goes into `found`.
fn play(
    args: &LabCheck,
    drawn: &[Drawn],
    bench: &mut Option<Bench>,
    found: &mut Found,
) -> Result<Checked, Fail> {
    let failed = |error: Error| Fail::Host(error.to_string());
    let bench = match bench {
        Some(bench) => bench,
        none => {
            let configs = drawn.iter().map(|drawn| &drawn.config);
            let new = none.insert(Bench::new(XEN_PCPUS, &VCPUS, configs).map_err(failed)?);
            found.calibrated.extend(new.calibrated(drawn));
            new
        }
    };
    let config = bench.priced(&drawn[0].config);
    let priced = Drawn { config, ..drawn[0] };
    one(args, priced, |config: &Config, options: &Options| bench.guests.run(config, options))
}

/// Runs the cases that are chosen by guests of this Xen, one after another, and in the simulator.
pub(super) fn run(
    args: &LabRun,
    experiments: &[Experiment],
    global: &Global,
) -> Result<ExitCode, Fail> {
    let release = release()?;
    let all = chosen(args, experiments)?;
    let configs: Vec<Config> = hosts(&all).map(|config| scale(config, XEN_PCPUS)).collect();
    let mut bench = Bench::new(XEN_PCPUS, &guests_for(configs.iter()), configs.iter())?;
    let claims = Claims { exact_clock: args.exact_clock };
    let real = Real { name: "Xen", release, column: "XEN" };
    beside::run(args, all, global, &real, |case, options, progress| {
        let host = &case.hosts[0].config;
        let scaled = scale(host, XEN_PCPUS);
        let comparison = bench.beside(&scaled, options, claims, progress)?;
        Ok((comparison, Some((scaled.pcpus, scaled.pcpus != host.pcpus))))
    })
}

/// The cases of all `experiments` that guests of Xen can play; that each of them can is checked.
///
/// # Errors
/// If a case that is asked for has what Xen does not have, or all have.
pub(super) fn chosen<'e>(
    args: &LabRun,
    experiments: &'e [Experiment],
) -> Result<Vec<Chosen<'e>>, Fail> {
    let all = beside::chosen(args, experiments, "Xen", refused)?;
    for case in all.iter().flat_map(|(_, cases)| cases) {
        suits(&case.hosts[0].config).map_err(|error| beside::failed(error, case))?;
    }
    Ok(all)
}

/// The hosts of cases that were chosen.
pub(super) fn hosts<'a>(all: &'a [Chosen<'a>]) -> impl Iterator<Item = &'a Config> {
    all.iter().flat_map(|(_, cases)| cases).map(|case| &case.hosts[0].config)
}

/// Why no Xen can play a case: it plays one host with a scheduler of Xen's.
fn refused(case: &Case) -> Option<String> {
    let there = case.network.is_none()
        && match &case.hosts[..] {
            [host] => {
                let scheduler = &host.config.scheduler;
                matches!(scheduler, SchedulerConfig::Credit(_) | SchedulerConfig::Credit2(_))
            }
            _ => false,
        };
    let what = "it plays one host with the scheduler credit or credit2, and no network";
    (!there).then(|| what.to_string())
}

/// Guests, and what things cost them.
struct Bench {
    guests: Guests,
    /// For each scheduler.
    costs: Vec<(Discriminant<SchedulerConfig>, XenCosts)>,
}

impl Bench {
    /// Makes guests with so many `vcpus` each, for pools of `pcpus`, and has them measure what `configs` cost here, before anything else.
    fn new<'a>(
        pcpus: u16,
        vcpus: &[u16],
        configs: impl Iterator<Item = &'a Config> + Clone,
    ) -> Result<Self, Error> {
        let images = Images {
            kernel: PathBuf::from("/guest/vmlinux"),
            ramdisk: PathBuf::from("/guest/initrd"),
            arguments: ["lab", "xen-guest"].map(String::from).to_vec(),
        };
        let mut guests = Guests::new(&images, (FIRST_PCPU, pcpus), vcpus, &|| {})?;
        let mut costs: Vec<(Discriminant<SchedulerConfig>, XenCosts)> = Vec::new();
        for Config { scheduler, .. } in configs.clone() {
            let kind = discriminant(scheduler);
            if costs.iter().any(|(of, _)| *of == kind) {
                continue;
            }
            let mut measured = calibrate(&mut guests, scheduler)?;
            let of_kind = |config: &&Config| discriminant(&config.scheduler) == kind;
            if configs.clone().filter(of_kind).any(asked) {
                measured.requests = Some(calibrate_requests(&mut guests, scheduler, &measured)?);
            }
            costs.push((kind, measured));
        }
        Ok(Bench { guests, costs })
    }

    fn of(&self, config: &Config) -> &XenCosts {
        let kind = discriminant(&config.scheduler);
        let measured = self.costs.iter().find(|(of, _)| *of == kind);
        &measured.expect("measured for all that are played").1
    }

    /// `config` with what things cost under a scheduler of that kind, here.
    fn priced(&self, config: &Config) -> Config {
        self.of(config).of(config)
    }

    /// What was measured for `drawn`, each scheduler with its first scenario.
    fn calibrated(&self, drawn: &[Drawn]) -> Vec<Calibrated> {
        let first = |scheduler: &str, like: fn(&SchedulerConfig) -> bool| {
            let first = drawn.iter().find(|drawn| like(&drawn.config.scheduler))?;
            let costs = self.of(&first.config);
            let told = costs.requests.map(|requests| requests.tx_completion_percent);
            let calibrated = Calibrated::new(first.number, Some(scheduler), costs.named());
            Some(Calibrated { tx_completion_percent: told, ..calibrated })
        };
        let credit = first("credit", |of| matches!(of, SchedulerConfig::Credit(_)));
        let credit2 = first("credit2", |of| matches!(of, SchedulerConfig::Credit2(_)));
        credit2.into_iter().chain(credit).collect()
    }

    /// Plays `config` once by both, the simulator with what things cost here.
    fn beside(
        &mut self,
        config: &Config,
        options: &Options,
        claims: Claims,
        progress: &dyn Fn(Duration),
    ) -> Result<Comparison, Error> {
        let config = self.priced(config);
        let real = self.guests.run(&config, options)?;
        progress(options.warm_up + options.duration);
        let Options { seed, warm_up, duration, .. } = *options;
        let sim = lowtail_play::simulate(&config, seed, warm_up, duration)?;
        Ok(lowtail_play::compare(&sim, &real, config.pcpus, claims))
    }
}

/// Whether there is a server that somebody asks.
fn asked(config: &Config) -> bool {
    config.vms.iter().any(|vm| matches!(vm.workload, Workload::RequestServer(_)))
}

/// What this Xen calls itself.
fn release() -> Result<String, Fail> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/hypervisor/version/{name}"));
    let all = ["major", "minor", "extra"].map(read);
    match all {
        [Ok(major), Ok(minor), Ok(extra)] => {
            Ok(format!("{}.{}{}", major.trim(), minor.trim(), extra.trim()))
        }
        _ => Err(Fail::Host("no /sys/hypervisor/version: this is no domain of a Xen host".into())),
    }
}
