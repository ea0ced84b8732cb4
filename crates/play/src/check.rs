//! How near the simulator's figures are to a kernel's: each figure with its error, and all of them together.

use lowtail_engine::{Duration, Hist};
use lowtail_host::Config;
use lowtail_kernel::Error;
use lowtail_net::{Pattern, TrafficConfig};
use serde::{Deserialize, Serialize};

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
/// What is lost, in a network: chance alone makes fewer differ by more than a tenth.
const COUNT_FROM: u64 = 100;
/// Counts of throttled periods as near as this are equal: both ends of the measured time cut through a period.
const PERIODS: f64 = 2.0;

/// What a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Median of a sleeper's lateness.
    P50Seconds,
    /// Its 90th percentile.
    P90Seconds,
    /// Its 95th percentile.
    P95Seconds,
    /// Its 99th percentile.
    P99Seconds,
    /// CPU time of a VM, in CPUs.
    CpuRatio,
    /// Periods in which a control group was throttled.
    ThrottledPeriods,
    /// Payload that a traffic has delivered.
    BitsPerSecond,
    /// Packets dropped by all queues of a network.
    DroppedPackets,
    /// TCP segments sent again in a network.
    ResentSegments,
}

impl Kind {
    /// All of them, in the order of tables.
    pub const ALL: [Kind; 9] = [
        Kind::P50Seconds,
        Kind::P90Seconds,
        Kind::P95Seconds,
        Kind::P99Seconds,
        Kind::CpuRatio,
        Kind::ThrottledPeriods,
        Kind::BitsPerSecond,
        Kind::DroppedPackets,
        Kind::ResentSegments,
    ];

    /// As tables name it, and how many of the unit there are in a second, or in a CPU.
    pub fn in_tables(self) -> (&'static str, f64) {
        match self {
            Kind::P50Seconds => ("p50_us", 1e6),
            Kind::P90Seconds => ("p90_us", 1e6),
            Kind::P95Seconds => ("p95_us", 1e6),
            Kind::P99Seconds => ("p99_us", 1e6),
            Kind::CpuRatio => ("cpu_percent", 100.0),
            Kind::ThrottledPeriods => ("throttled_periods", 1.0),
            Kind::BitsPerSecond => ("mbit_per_second", 1e-6),
            Kind::DroppedPackets => ("dropped_packets", 1.0),
            Kind::ResentSegments => ("resent_segments", 1.0),
        }
    }

    /// As people call it, and its unit there.
    pub fn in_words(self) -> (&'static str, &'static str) {
        match self {
            Kind::P50Seconds => ("p50", "us"),
            Kind::P90Seconds => ("p90", "us"),
            Kind::P95Seconds => ("p95", "us"),
            Kind::P99Seconds => ("p99", "us"),
            Kind::CpuRatio => ("CPU time", "%"),
            Kind::ThrottledPeriods => ("throttled periods", ""),
            Kind::BitsPerSecond => ("throughput", "Mbit/s"),
            Kind::DroppedPackets => ("packets dropped", ""),
            Kind::ResentSegments => ("segments sent again", ""),
        }
    }

    /// The part of a distribution that a latency of this kind is above.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Kind::P50Seconds => Some(0.5),
            Kind::P90Seconds => Some(0.9),
            Kind::P95Seconds => Some(0.95),
            Kind::P99Seconds => Some(0.99),
            _ => None,
        }
    }

    /// Three errors, each a step worse, within which figures are counted: in CPUs for CPU time, else as a ratio of
    /// the larger to the smaller.
    pub fn steps(self) -> [f64; 3] {
        match self {
            Kind::CpuRatio => [0.01, 0.03, 0.1],
            _ => [1.1, 1.25, 2.0],
        }
    }

    /// Step number `step` in words: 10 %, 1 point, 2 times.
    pub fn step_in_words(self, step: usize) -> String {
        let error = self.steps()[step];
        match self {
            Kind::CpuRatio => {
                let points = error * 100.0;
                format!("{points:.0} point{}", if points < 1.5 { "" } else { "s" })
            }
            _ if error < 2.0 => format!("{:.0} %", (error - 1.0) * 100.0),
            _ => format!("{error:.0} times"),
        }
    }
}

/// A figure of both worlds, in seconds, CPUs or periods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The VM, control group, or traffic of a network; `all` of it.
    #[serde(rename = "vm")]
    pub of: String,
    /// What it is.
    pub figure: Kind,
    /// The simulator's.
    pub simulated: f64,
    /// The kernel's.
    pub kernel: f64,
    /// Of a latency, what both distributions are between the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Between>,
}

/// How much of both distributions is above the middle of two figures, their geometric mean. Where a distribution has a step, its
/// quantiles are on one side of it or the other, and far apart although hardly more wake-ups are late in one world than in the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The middle.
    pub middle_seconds: f64,
    /// Simulated latencies from there on, as a part of all.
    pub simulated_later_ratio: f64,
    /// The real ones.
    pub kernel_later_ratio: f64,
}

impl Between {
    /// A step, if the parts of a median differ by no more; of other quantiles less, in proportion to the standard error of such a part,
    /// which of a thousand wake-ups is half of this.
    const STEP: f64 = 0.03;

    /// Whether about as many are above the middle in both worlds as where the figure is the quantile `q`.
    fn is_step(&self, q: f64) -> bool {
        let error = (q * (1.0 - q)).sqrt() / 0.5;
        (self.simulated_later_ratio - self.kernel_later_ratio).abs() <= Self::STEP * error
    }

    fn of(sim: &Hist, real: &Hist, (simulated, kernel): (f64, f64)) -> Option<Self> {
        let middle_seconds = (simulated * kernel).sqrt();
        let middle = Duration::from_ns((middle_seconds * 1e9) as u64);
        let later = |hist: &Hist| hist.at_least(middle) as f64 / hist.n().max(1) as f64;
        (middle_seconds > 0.0).then(|| Between {
            middle_seconds,
            simulated_later_ratio: later(sim),
            kernel_later_ratio: later(real),
        })
    }

    /// In words.
    fn in_words(&self) -> String {
        let Between { middle_seconds, simulated_later_ratio: sim, kernel_later_ratio: real } =
            *self;
        let (sim, real, us) = (sim * 100.0, real * 100.0, middle_seconds * 1e6);
        format!(
            "{sim:.1} % of the simulated ones and {real:.1} % of the real ones take longer than {us:.0} us"
        )
    }
}

impl Figure {
    /// How far apart they are: in CPUs, or the ratio of the larger to the smaller.
    pub fn error(&self) -> f64 {
        let (low, high) = (self.simulated.min(self.kernel), self.simulated.max(self.kernel));
        match self.figure {
            Kind::CpuRatio => high - low,
            Kind::ThrottledPeriods if high - low <= PERIODS => 1.0,
            _ if low == high => 1.0,
            _ if low > 0.0 => high / low,
            _ => f64::INFINITY,
        }
    }

    /// Whether it is a latency where both distributions have a step between the figures of both worlds: hardly more wake-ups take longer
    /// in one than in the other. Such figures can be far apart by chance.
    pub fn is_on_step(&self) -> bool {
        let both = self.between.zip(self.figure.quantile());
        both.is_some_and(|(between, q)| between.is_step(q))
    }

    /// What both distributions are between the figures of both worlds, in words.
    pub fn between_in_words(&self) -> Option<String> {
        let step = if self.is_on_step() { "a step: " } else { "" };
        Some(format!("{step}{}", self.between?.in_words()))
    }

    /// The error in words: 1.23 times, 0.45 points, or that one is 0.
    pub fn error_in_words(&self) -> String {
        match self.figure {
            Kind::CpuRatio => format!("{:.2} points", self.error() * 100.0),
            _ if self.error().is_finite() => format!("{:.2} times", self.error()),
            _ => "one is 0".to_string(),
        }
    }

    /// The error with its direction: the simulator's figure over the kernel's, 1 where both count as equal; of CPU time how much more
    /// it is in the simulator, in CPUs.
    pub fn signed_error(&self) -> f64 {
        match self.figure {
            Kind::CpuRatio => self.simulated - self.kernel,
            Kind::ThrottledPeriods if self.error() == 1.0 => 1.0,
            _ => self.simulated / self.kernel,
        }
    }

    /// The same for all kinds: 1 at the first step of [`Kind::steps`].
    pub fn badness(&self) -> f64 {
        let first = self.figure.steps()[0];
        match self.figure {
            Kind::CpuRatio => self.error() / first,
            _ => self.error().ln() / first.ln(),
        }
    }
}

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
    Ok(both.map_or_else(Vec::new, |(sim, real)| figures(&sim, &real)))
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
        let figure = |figure, simulated, kernel| Figure {
            of: sim_vm.name.clone(),
            figure,
            simulated,
            kernel,
            between: None,
        };
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
            figures.push(Figure {
                of: sim.name.clone(),
                figure: Kind::ThrottledPeriods,
                simulated: sim_stats.throttled_periods as f64,
                kernel: real_stats.throttled_periods as f64,
                between: None,
            });
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
            figures.push(Figure { of: of.clone(), figure, simulated, kernel, between });
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
            let of = "all".to_string();
            figures.push(Figure { of, figure, simulated, kernel, between: None });
        }
    };
    count(Kind::DroppedPackets, sim.dropped, real.dropped);
    if let Some((sim, real)) = sim.resent.zip(real.resent) {
        count(Kind::ResentSegments, sim, real);
    }
    figures
}

/// How many figures of a kind are how near.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// The kind.
    pub figure: Kind,
    /// All of them.
    pub n: usize,
    /// Of them within each of [`Kind::steps`].
    pub within: [usize; 3],
    /// Of those beyond each, where both distributions have a step: [`Figure::is_on_step()`].
    pub beyond_on_step: [usize; 3],
}

impl Tally {
    /// Of all `figures` of a kind; kinds that there are not are left out.
    pub fn all<'a>(figures: impl Iterator<Item = &'a Figure> + Clone) -> Vec<Tally> {
        let tally = |figure: Kind| {
            let of = figures.clone().filter(|other| other.figure == figure);
            let within =
                figure.steps().map(|step| of.clone().filter(|f| f.error() <= step).count());
            let on_step = of.clone().filter(|f| f.is_on_step());
            let beyond_on_step =
                figure.steps().map(|step| on_step.clone().filter(|f| f.error() > step).count());
            Tally { figure, n: of.count(), within, beyond_on_step }
        };
        Kind::ALL.into_iter().map(tally).filter(|tally| tally.n > 0).collect()
    }

    /// Of no figure of this kind.
    pub fn none(figure: Kind) -> Self {
        Tally { figure, n: 0, within: [0; 3], beyond_on_step: [0; 3] }
    }

    /// The share within step number `step`, and its 95 % confidence interval (Wilson's), all from 0 to 1.
    pub fn share(&self, step: usize) -> (f64, f64, f64) {
        wilson(self.within[step], self.n)
    }

    /// The same in words, in percent: `82 % (73 to 89)`.
    pub fn share_in_words(&self, step: usize) -> String {
        let (share, low, high) = self.share(step);
        format!("{:.0} % ({:.0} to {:.0})", share * 100.0, low * 100.0, high * 100.0)
    }
}

/// The share of `k` in `n`, and its 95 % confidence interval by E. B. Wilson (1927), which holds for few and for shares
/// near 0 and 1, too.
fn wilson(k: usize, n: usize) -> (f64, f64, f64) {
    if n == 0 {
        return (0.0, 0.0, 1.0);
    }
    let (n, share, z) = (n as f64, k as f64 / n as f64, 1.96_f64);
    let (zz, scale) = (z * z, 1.0 + z * z / n);
    let middle = (share + zz / (2.0 * n)) / scale;
    let half = z / scale * (share * (1.0 - share) / n + zz / (4.0 * n * n)).sqrt();
    (share, (middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(figure: Kind, simulated: f64, kernel: f64) -> Figure {
        Figure { of: "vm".into(), figure, simulated, kernel, between: None }
    }

    #[test]
    fn errors_and_which_is_worse() {
        assert_eq!(figure(Kind::P50Seconds, 20.0, 10.0).error(), 2.0);
        assert_eq!(figure(Kind::P50Seconds, 10.0, 20.0).error(), 2.0);
        assert_eq!(figure(Kind::CpuRatio, 0.5, 0.75).error(), 0.25);
        assert_eq!(figure(Kind::ThrottledPeriods, 2.0, 0.0).error(), 1.0);
        assert_eq!(figure(Kind::ThrottledPeriods, 3.0, 0.0).error(), f64::INFINITY);
        assert_eq!(figure(Kind::P50Seconds, 5.0, 10.0).signed_error(), 0.5);
        assert_eq!(figure(Kind::CpuRatio, 0.5, 0.75).signed_error(), -0.25);
        assert_eq!(figure(Kind::ThrottledPeriods, 0.0, 2.0).signed_error(), 1.0);
        assert_eq!(figure(Kind::ThrottledPeriods, 10.0, 5.0).signed_error(), 2.0);
        let bad = |kind, simulated, kernel| figure(kind, simulated, kernel).badness();
        assert!((bad(Kind::P99Seconds, 11.0, 10.0) - 1.0).abs() < 1e-9);
        assert!((bad(Kind::CpuRatio, 0.03, 0.02) - 1.0).abs() < 1e-9);
        assert!(bad(Kind::P99Seconds, 20.0, 10.0) > bad(Kind::CpuRatio, 0.07, 0.0));
    }

    /// 49 and 51 of a hundred wake-ups wait for 1 ms, the others for 10 us: the medians are a factor of 100 apart, the worlds two in a
    /// hundred.
    #[test]
    fn a_step_between_two_quantiles_is_said() {
        let world = |late: u32| {
            let mut hist = Hist::new();
            hist.record_n(Duration::from_us(10), 100 - late);
            hist.record_n(Duration::from_us(1_000), late);
            hist
        };
        let (sim, real) = (world(49), world(51));
        let at = |hist: &Hist| hist.quantile(0.5).as_s_f64();
        let both = (at(&sim), at(&real));
        let median = Figure {
            between: Between::of(&sim, &real, both),
            ..figure(Kind::P50Seconds, both.0, both.1)
        };
        let between = median.between.expect("a middle");
        assert_eq!((between.simulated_later_ratio, between.kernel_later_ratio), (0.49, 0.51));
        let words = median.between_in_words().expect("a latency");
        assert!(words.starts_with("a step: 49.0 %") && words.contains("100 us"), "{words}");
        let tally = &Tally::all([&median].into_iter())[0];
        assert_eq!((tally.within, tally.beyond_on_step), ([0; 3], [1; 3]));
        // Two in a hundred are not chance where the figure is what one in a hundred is above.
        let p99 = Figure { figure: Kind::P99Seconds, ..median.clone() };
        assert!(!p99.is_on_step());
        let between = Some(Between { kernel_later_ratio: 0.9, ..between });
        let words = Figure { between, ..median }.between_in_words().expect("a latency");
        assert!(words.starts_with("49.0 %"), "{words}");
    }

    #[test]
    fn a_tally_counts_each_step() {
        let ratios = [1.0, 1.05, 1.2, 1.9, 3.0];
        let all: Vec<_> =
            ratios.iter().map(|ratio| figure(Kind::P90Seconds, 10.0 * ratio, 10.0)).collect();
        let tallies = Tally::all(all.iter());
        assert_eq!(
            tallies,
            [Tally { figure: Kind::P90Seconds, n: 5, within: [2, 3, 4], beyond_on_step: [0; 3] }]
        );
    }

    /// Against published values: 0 of 10, 5 of 10 (Newcombe 1998 gives such tables), and all of many.
    #[test]
    fn intervals_are_wilsons() {
        let near = |(_, low, high): (f64, f64, f64), wanted: (f64, f64)| {
            assert!(
                (low - wanted.0).abs() < 5e-4 && (high - wanted.1).abs() < 5e-4,
                "{low} {high}"
            );
        };
        near(wilson(0, 10), (0.0, 0.2775));
        near(wilson(5, 10), (0.2366, 0.7634));
        near(wilson(81, 263), (0.2553, 0.3662));
        near(wilson(0, 0), (0.0, 1.0));
    }
}
