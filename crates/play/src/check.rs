//! The same scenario by the simulator and by a kernel, figure by figure.

use lowtail_engine::Hist;
use lowtail_host::Config;
use lowtail_kernel::Error;
use lowtail_net::{Pattern, TrafficConfig};

use crate::figure::{Between, Figure, Kind, Range};
use crate::measured::Measured;
use crate::network::NetworkMeasured;
use crate::{Options, simulate};

/// Wake-ups from which on a median is a figure, ...
const MEDIAN_FROM: u64 = 50;
/// ... a 90th percentile, ...
const P90_FROM: u64 = 200;
/// ... and a 99th: the worst five, at least.
const P99_FROM: u64 = 500;
/// Transfers, messages or round trips from which on a median is a figure, ...
const TRAFFIC_FROM: u64 = 12;
/// ... and a 95th percentile: the worst five, at least.
const P95_FROM: u64 = 100;
/// Sets of other starts that are simulated: a real figure that is one of as many is outside of all in one of six cases.
const SETS: u64 = 10;
/// What is lost, in a network: chance alone makes fewer differ by more than a tenth.
const COUNT_FROM: u64 = 100;

/// Plays `config` `starts` times in the simulator and by `real`, such as [`run()`](crate::run()), with a seed more each time, so that
/// threads start in other phases; all that was measured counts together. `twice`: by `real` once more, with other seeds, in place of
/// the simulator.
///
/// # Errors
/// What `real` says, or as [`simulate()`](crate::simulate()).
pub fn check(
    config: &Config,
    options: &Options,
    starts: u64,
    twice: bool,
    mut real: impl FnMut(&Config, &Options) -> Result<Measured, Error>,
) -> Result<Vec<Figure>, Error> {
    let both = together(options.seed, starts, Measured::merge, |seed| {
        let options = Options { seed, ..options.clone() };
        let measured = real(config, &options)?;
        let sim = if twice {
            real(config, &Options { seed: seed.wrapping_add(starts), ..options })?
        } else {
            simulate(config, seed, options.warm_up, options.duration)?
        };
        Ok((sim, measured))
    })?;
    let Some((sim, real)) = both else { return Ok(Vec::new()) };
    let mut figures = figures(&sim, &real);
    if !twice {
        ranges(&mut figures, &real, |set| {
            let seed = options.seed.wrapping_add((set + 1) * starts);
            let play = |start| {
                let seed = seed.wrapping_add(start);
                simulate(config, seed, options.warm_up, options.duration)
            };
            (1..starts).try_fold(play(0)?, |mut all, start| {
                all.merge(&play(start)?);
                Ok(all)
            })
        })?;
    }
    Ok(figures)
}

/// What the simulator has for `figures` beside `real` with [`SETS`] other sets of starts, each of which `simulate` gives by its number.
fn ranges(
    all: &mut [Figure],
    real: &Measured,
    simulate: impl Fn(u64) -> Result<Measured, Error>,
) -> Result<(), Error> {
    for set in 0..SETS {
        let others = figures(&simulate(set)?, real);
        for figure in all.iter_mut() {
            let same = |other: &&Figure| (&other.of, other.figure) == (&figure.of, figure.figure);
            let Some(other) = others.iter().find(same) else { continue };
            let first = Range { low: figure.simulated, high: figure.simulated };
            let range = figure.simulated_range.unwrap_or(first);
            figure.simulated_range = Some(range.with(other.simulated));
        }
    }
    Ok(())
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
        for (kind, q, from) in [
            (Kind::P50Seconds, 0.5, MEDIAN_FROM),
            (Kind::P90Seconds, 0.9, P90_FROM),
            (Kind::P99Seconds, 0.99, P99_FROM),
        ] {
            if sim.n().min(real.n()) >= from {
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
