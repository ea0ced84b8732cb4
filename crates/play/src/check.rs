//! The same scenario by the simulator and by a kernel, figure by figure.

use lowtail_engine::{Hist, Rng};
use lowtail_host::Config;
use lowtail_kernel::Error;
use lowtail_net::{Pattern, TrafficConfig};

use crate::figure::{Between, Figure, Kind, Range};
use crate::measured::Measured;
use crate::network::NetworkMeasured;
use crate::starts::{Starts, drawn, enough};
use crate::{Options, simulate};

/// Transfers, messages or round trips from which on a median is a figure, ...
const TRAFFIC_FROM: u64 = 12;
/// ... and a 95th percentile: the worst five, at least.
const P95_FROM: u64 = 100;
/// Other starts that are simulated, one at a time, ...
const SINGLES: u64 = 40;
/// ... with seeds that far from the first one's.
const OTHERS: u64 = 1 << 20;
/// Sets that are drawn from them: a real figure that is one of as many is outside of all in one of six cases.
const SETS: u64 = 10;
/// What is lost, in a network: chance alone makes fewer differ by more than a tenth.
const COUNT_FROM: u64 = 100;

/// What a check of a scenario has shown.
#[derive(Debug, Clone)]
pub struct Played {
    /// How often it was played.
    pub starts: u16,
    /// What both worlds have measured.
    pub figures: Vec<Figure>,
}

/// Plays `config` as many times as are [`enough`] in the simulator and by `real`, such as [`run()`](crate::run()), with a seed more each
/// time, so that threads start in other phases; all that was measured counts together. `twice`: by `real` once more, with other seeds, in
/// place of the simulator.
///
/// # Errors
/// What `real` says, or as [`simulate()`](crate::simulate()).
pub fn check(
    config: &Config,
    options: &Options,
    starts: Starts,
    twice: bool,
    mut real: impl FnMut(&Config, &Options) -> Result<Measured, Error>,
) -> Result<Played, Error> {
    let simulated = |seed| simulate(config, seed, options.warm_up, options.duration);
    let needed = if starts.vary() || !twice { SINGLES } else { 0 };
    let singles = (0..needed).map(|single| simulated(options.seed.wrapping_add(OTHERS + single)));
    let singles = singles.collect::<Result<Vec<_>, _>>()?;
    let starts = if starts.vary() { enough(&singles, starts, options.seed) } else { starts.least };
    let both = together(options.seed, u64::from(starts), Measured::merge, |seed| {
        let options = Options { seed, ..options.clone() };
        let measured = real(config, &options)?;
        let sim = if twice {
            real(config, &Options { seed: seed.wrapping_add(u64::from(starts)), ..options })?
        } else {
            simulated(seed)?
        };
        Ok((sim, measured))
    })?;
    let Some((sim, real)) = both else { return Ok(Played { starts, figures: Vec::new() }) };
    let mut figures = figures(&sim, &real);
    if !twice {
        let mut rng = Rng::new(options.seed, "other starts");
        ranges(&mut figures, &real, || {
            let set = drawn(&mut rng, singles.len(), starts);
            let mut all = singles[set[0]].clone();
            set[1..].iter().for_each(|&single| all.merge(&singles[single]));
            all
        });
    }
    Ok(Played { starts, figures })
}

/// What the simulator has for `figures` beside `real` with [`SETS`] other sets of starts, which `simulated` gives one after another.
fn ranges(all: &mut [Figure], real: &Measured, mut simulated: impl FnMut() -> Measured) {
    for _ in 0..SETS {
        let others = figures(&simulated(), real);
        for figure in all.iter_mut() {
            let same = |other: &&Figure| (&other.of, other.figure) == (&figure.of, figure.figure);
            let Some(other) = others.iter().find(same) else { continue };
            let first = Range { low: figure.simulated, high: figure.simulated };
            let range = figure.simulated_range.unwrap_or(first);
            figure.simulated_range = Some(range.with(other.simulated));
        }
    }
}

/// What `play` measures in both worlds with `starts` seeds in a row, `merge`d; `None` without a start.
///
/// # Errors
/// What `play` says.
pub fn together<M>(
    seed: u64,
    starts: u64,
    merge: impl Fn(&mut M, &M),
    mut play: impl FnMut(u64) -> Result<(M, M), Error>,
) -> Result<Option<(M, M)>, Error> {
    let mut all: Option<(M, M)> = None;
    for start in 0..starts {
        let both = play(seed.wrapping_add(start))?;
        match &mut all {
            None => all = Some(both),
            Some((sim, real)) => {
                merge(sim, &both.0);
                merge(real, &both.1);
            }
        }
    }
    Ok(all)
}

/// The figures that both have measured often enough.
pub fn figures(sim: &Measured, real: &Measured) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (sim_vm, real_vm) in sim.vms.iter().zip(&real.vms) {
        let figure =
            |figure, simulated, kernel| Figure::new(&sim_vm.name, figure, simulated, kernel);
        let (simulated, kernel) =
            (sim_vm.share_percent(sim.wall) / 100.0, real_vm.share_percent(real.wall) / 100.0);
        figures.push(figure(Kind::CpuRatio, simulated, kernel));
        let Some((sim, real)) = sim_vm.latency.as_ref().zip(real_vm.latency.as_ref()) else {
            continue;
        };
        for kind in [Kind::P50Seconds, Kind::P90Seconds, Kind::P99Seconds] {
            let Some((q, least)) = kind.quantile().zip(kind.least_wakeups()) else { continue };
            if sim.n().min(real.n()) >= least {
                let at = |hist: &Hist| hist.quantile(q).as_s_f64();
                let between = Between::of(sim, real, (at(sim), at(real)));
                figures.push(Figure { between, ..figure(kind, at(sim), at(real)) });
            }
        }
    }
    for (sim, real) in sim.groups.iter().zip(&real.groups) {
        if let Some((sim_stats, real_stats)) = sim.stats.zip(real.stats) {
            let (simulated, kernel) = (sim_stats.throttled_periods, real_stats.throttled_periods);
            let (simulated, kernel) = (simulated as f64, kernel as f64);
            figures.push(Figure::new(&sim.name, Kind::ThrottledPeriods, simulated, kernel));
        }
    }
    figures
}

/// The figures of a network that both have measured often enough: latencies of each traffic, or its rate where it has as much
/// to send as there is room for; and what all of it has lost.
pub fn network_figures(
    traffic: &[TrafficConfig],
    sim: &NetworkMeasured,
    real: &NetworkMeasured,
) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (config, (sim, real)) in traffic.iter().zip(sim.traffic.iter().zip(&real.traffic)) {
        let of = &config.name;
        let mut figure = |figure, simulated, kernel, between| {
            figures.push(Figure { between, ..Figure::new(of, figure, simulated, kernel) });
        };
        if config.pattern == Pattern::Bulk {
            figure(Kind::BitsPerSecond, sim.bits_per_second(), real.bits_per_second(), None);
        }
        for (kind, q, from) in
            [(Kind::P50Seconds, 0.5, TRAFFIC_FROM), (Kind::P95Seconds, 0.95, P95_FROM)]
        {
            if sim.latency.n().min(real.latency.n()) >= from {
                let at = |hist: &Hist| hist.quantile(q).as_s_f64();
                let both = (at(&sim.latency), at(&real.latency));
                figure(kind, both.0, both.1, Between::of(&sim.latency, &real.latency, both));
            }
        }
    }
    let mut count = |figure, simulated: u64, kernel: u64| {
        if simulated.max(kernel) >= COUNT_FROM {
            let (simulated, kernel) = (simulated as f64, kernel as f64);
            figures.push(Figure::new("all", figure, simulated, kernel));
        }
    };
    count(Kind::DroppedPackets, sim.dropped, real.dropped);
    if let Some((sim, real)) = sim.resent.zip(real.resent) {
        count(Kind::ResentSegments, sim, real);
    }
    figures
}
