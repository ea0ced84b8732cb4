//! A random scenario of `lowtail lab check`: drawn, played, compared.

use lowtail_engine::Duration;
use lowtail_host::Config;
use lowtail_kernel::cgroup::Version;
use lowtail_lab::Experiment;
use lowtail_lab::check::{
    LinuxHost, XenHost, linux_scenario, network_scenario, small_first_scenario, xen_scenario,
};
use lowtail_play::check::Played;
use lowtail_play::measured::Measured;
use lowtail_play::report::{Checked, version};
use lowtail_play::starts::Starts;
use lowtail_play::{Error, Options};

use super::args::LabCheck;
use super::beside::end_if_interrupted;
use crate::exit::Fail;
use crate::global::Global;
use crate::progress::Bar;

/// A bar of all scenarios.
pub(super) fn bar(numbers: &[u32], global: &Global) -> Bar {
    Bar::new(global, numbers.len() as u64, "{wide_bar} {pos}/{len} scenarios, {eta} left")
}

/// Who judges.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    /// A Linux host.
    Linux(LinuxHost),
    /// A Xen host.
    Xen(XenHost),
    /// A Linux host, of networks.
    Network,
    /// A Linux host with small-first.
    SmallFirst,
}

/// pCPUs of a scenario for Xen. A Xen 4.20 with guests in a pool of two panicked when they were destroyed (a fault in
/// `csched2_free_domdata`).
pub(super) const XEN_PCPUS: u16 = 1;

impl Judge {
    /// The Xen that calls itself `release`.
    pub(super) fn xen(release: &str) -> Result<Self, Fail> {
        version(release)
            .map(|version| Judge::Xen(XenHost { version, pcpus: XEN_PCPUS }))
            .ok_or_else(|| Fail::Host(format!("Xen calls itself `{release}`, which is no version")))
    }

    /// The Linux that calls itself `release`, with so many CPUs and such control groups.
    pub(super) fn linux(release: &str, pcpus: u16, groups: Version) -> Result<Self, Fail> {
        let limits_above_parents = groups == Version::V2;
        version(release)
            .map(|release| Judge::Linux(LinuxHost { release, pcpus, limits_above_parents }))
            .ok_or_else(|| {
                Fail::Host(format!("the kernel calls itself `{release}`, which is no version"))
            })
    }

    /// pCPUs of its scenarios.
    pub(super) fn pcpus(self) -> u16 {
        match self {
            Judge::Linux(host) => host.pcpus,
            Judge::Xen(host) => host.pcpus,
            Judge::Network | Judge::SmallFirst => 1,
        }
    }

    /// Scenario number `number` for it.
    pub(super) fn scenario(self, args: &LabCheck, number: u32) -> String {
        let command = args.settings().only(number);
        match self {
            Judge::Linux(host) => linux_scenario(host, args.seed, number, &command),
            Judge::Xen(host) => xen_scenario(host, args.seed, number, &command),
            Judge::Network => network_scenario(args.seed, number, &command),
            Judge::SmallFirst => small_first_scenario(args.seed, number, &command),
        }
    }
}

/// A scenario to be played.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) number: u32,
    pub(super) config: Config,
    pub(super) seed: u64,
}

/// Draws scenario number `number`.
pub(super) fn experiment(args: &LabCheck, judge: Judge, number: u32) -> Result<Experiment, Fail> {
    let (text, name) = (judge.scenario(args, number), file_name(args.seed, number));
    Experiment::parse(&name, &text, None)
        .map_err(|error| Fail::Bug(format!("a drawn scenario is none: {error}\n{text}")))
}

/// The host of scenario number `number`.
pub(super) fn draw(args: &LabCheck, judge: Judge, number: u32) -> Result<Drawn, Fail> {
    let experiment = experiment(args, judge, number)?;
    let config = experiment.cases(false)[0].hosts[0].config.clone();
    Ok(Drawn { number, config, seed: experiment.file.seed })
}

/// Checks one scenario by what `play` does with it.
pub(super) fn one(
    args: &LabCheck,
    drawn: Drawn,
    play: impl FnMut(&Config, &Options) -> Result<Measured, Error>,
) -> Result<Checked, Fail> {
    let duration = Duration::from_ms(u64::from(args.seconds) * 1_000);
    let mut options = Options::new(duration, drawn.seed);
    options.exact_clock = args.exact_clock;
    let starts = Starts { least: args.starts, most: args.most_starts() };
    let played = lowtail_play::check::check(&drawn.config, &options, starts, args.twice, play);
    let Played { starts, figures } = played.map_err(|error| {
        end_if_interrupted(&error);
        Fail::Host(format!("scenario {}: {error}", drawn.number))
    })?;
    Ok(Checked { scenario: drawn.number, starts: Some(starts), figures })
}

/// The name of its file.
pub(super) fn file_name(seed: u64, number: u32) -> String {
    format!("check-{seed}-{number}.toml")
}
