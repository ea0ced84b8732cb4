//! The Xen of which this is dom0: random scenarios and those of files by its guests.

use std::mem::{Discriminant, discriminant};
use std::path::PathBuf;
use std::process::ExitCode;

use lowtail_engine::Duration;
use lowtail_host::{Config, SchedulerConfig, VmConfig, Workload};
use lowtail_lab::Experiment;
use lowtail_lab::case::Case;
use lowtail_play::report::{Checked, NotPlayed};
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
use crate::progress::Bar;

/// The first of the pCPUs on which scenarios are played: the one before is dom0's.
const FIRST_PCPU: u16 = 1;
/// vCPUs of the guests, of which each random scenario needs some.
const VCPUS: [u16; 6] = [1, 1, 1, 1, 2, 2];

/// Checks scenarios `numbers` by guests of this Xen.
pub(super) fn check(args: &LabCheck, numbers: &[u32], global: &Global) -> Result<Found, Fail> {
    let release = release()?;
    let judge = Judge::xen(&release)?;
    let bar = bar(args, numbers, global);
    let failed = |error: Error| Fail::Host(error.to_string());
    let drawn = numbers.iter().map(|&number| draw(args, judge, number));
    let mut drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    // One scheduler after the other: each has a pool of its own.
    drawn.sort_by_key(|drawn| matches!(drawn.config.scheduler, SchedulerConfig::Credit(_)));
    let mut bench = Some(Bench::new(XEN_PCPUS, &VCPUS).map_err(failed)?);
    let (mut scenarios, mut not_played, mut played_again) = (Vec::new(), Vec::new(), Vec::new());
    for drawn in drawn {
        let number = drawn.number;
        let mut result = play(args, drawn, &mut bench, &bar);
        // A guest may hang or end, which is no figure: once more, with new guests.
        if let Err(error) = &result {
            played_again.push(NotPlayed::one(number, first_line(error)));
            bench = None;
            result = play(args, draw(args, judge, number)?, &mut bench, &bar);
        }
        match result {
            Ok(checked) => scenarios.push(checked),
            // What was played stays, and the others are tried.
            Err(error) => {
                bench = None;
                not_played.push(NotPlayed::one(number, first_line(&error)));
            }
        }
    }
    scenarios.sort_by_key(|checked: &Checked| checked.scenario);
    Ok(Found { kernel: release, scenarios, not_played, played_again })
}

/// Plays one scenario with the guests of `bench`, or with new ones if there are none: after a failure who knows in what state they are.
fn play(
    args: &LabCheck,
    drawn: Drawn,
    bench: &mut Option<Bench>,
    bar: &Bar,
) -> Result<Checked, Fail> {
    let failed = |error: Error| Fail::Host(error.to_string());
    let bench = match bench {
        Some(bench) => bench,
        none => none.insert(Bench::new(XEN_PCPUS, &VCPUS).map_err(failed)?),
    };
    let config = bench.priced(&drawn.config).map_err(failed)?;
    one(args, Drawn { config, ..drawn }, |config: &Config, options: &Options| {
        let measured = bench.guests.run(config, options);
        bar.step();
        measured
    })
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
    let mut bench = Bench::new(XEN_PCPUS, &guests_for(configs.iter()))?;
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
    /// For each scheduler, measured once.
    costs: Vec<(Discriminant<SchedulerConfig>, XenCosts)>,
}

impl Bench {
    /// Makes guests with so many `vcpus` each, for pools of `pcpus`.
    fn new(pcpus: u16, vcpus: &[u16]) -> Result<Self, Error> {
        let images = Images {
            kernel: PathBuf::from("/guest/vmlinux"),
            ramdisk: PathBuf::from("/guest/initrd"),
            arguments: ["lab", "xen-guest"].map(String::from).to_vec(),
        };
        let guests = Guests::new(&images, (FIRST_PCPU, pcpus), vcpus, &|| {})?;
        Ok(Bench { guests, costs: Vec::new() })
    }

    /// `config` with what things cost under a scheduler of that kind, here.
    fn priced(&mut self, config: &Config) -> Result<Config, Error> {
        let (scheduler, guests) = (&config.scheduler, &mut self.guests);
        let kind = discriminant(scheduler);
        let at = match self.costs.iter().position(|(of, _)| *of == kind) {
            Some(at) => at,
            None => {
                self.costs.push((kind, calibrate(guests, scheduler)?));
                self.costs.len() - 1
            }
        };
        let costs = &mut self.costs[at].1;
        let asked = |vm: &VmConfig| matches!(vm.workload, Workload::RequestServer(_));
        if costs.requests.is_none() && config.vms.iter().any(asked) {
            costs.requests = Some(calibrate_requests(guests, scheduler, costs)?);
        }
        Ok(costs.of(config))
    }

    /// Plays `config` once by both, the simulator with what things cost here.
    fn beside(
        &mut self,
        config: &Config,
        options: &Options,
        claims: Claims,
        progress: &dyn Fn(Duration),
    ) -> Result<Comparison, Error> {
        let config = self.priced(config)?;
        let real = self.guests.run(&config, options)?;
        progress(options.warm_up + options.duration);
        let Options { seed, warm_up, duration, .. } = *options;
        let sim = lowtail_play::simulate(&config, seed, warm_up, duration)?;
        let mut comparison = lowtail_play::compare(&sim, &real, config.pcpus, claims);
        // What dom0 and Xen do on these pCPUs is not counted.
        comparison.others_percent = None;
        Ok(comparison)
    }
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
