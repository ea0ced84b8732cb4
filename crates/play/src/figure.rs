//! A figure of both worlds, and how far apart they are.

use lowtail_engine::{Duration, Hist};
use serde::{Deserialize, Serialize};

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

    /// Of a quantile of wake-ups: how many there have to be; those above a 99th percentile are the worst five, at least.
    pub fn least_wakeups(self) -> Option<u64> {
        match self {
            Kind::P50Seconds => Some(50),
            Kind::P90Seconds => Some(200),
            Kind::P99Seconds => Some(500),
            _ => None,
        }
    }

    /// Three errors, each a step worse, within which figures are counted: in CPUs for CPU time, else as a ratio of
    /// the larger to the smaller.
    pub fn steps(self) -> [f64; 3] {
        match self {
            Kind::CpuRatio => [0.005, 0.01, 0.03],
            _ => [1.1, 1.25, 2.0],
        }
    }

    /// Step number `step` in words: 10 %, 1 point, 2 times.
    pub fn step_in_words(self, step: usize) -> String {
        let error = self.steps()[step];
        match self {
            Kind::CpuRatio => {
                let points = error * 100.0;
                if points < 0.9 {
                    return "half a point".to_string();
                }
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
    /// The simulator's with these starts, and where threads start in other phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_range: Option<Range>,
}

/// The least and the largest of a figure, in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Range {
    /// With `figure` in it.
    pub fn with(self, figure: f64) -> Self {
        Range { low: self.low.min(figure), high: self.high.max(figure) }
    }
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

    pub(crate) fn of(sim: &Hist, real: &Hist, (simulated, kernel): (f64, f64)) -> Option<Self> {
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
    /// Without more than both figures.
    pub fn new(of: &str, figure: Kind, simulated: f64, kernel: f64) -> Self {
        let of = of.to_string();
        Figure { of, figure, simulated, kernel, between: None, simulated_range: None }
    }

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

    /// What is known of the error, in words: that other starts give the simulator the kernel's figure, too, to the first of [`Kind::steps`];
    /// or else what both distributions are between both figures.
    pub fn error_explained(&self) -> Option<String> {
        let first = self.figure.steps()[0];
        let by_chance = self.error() > first && self.error_from_range() <= first;
        match self.simulated_range {
            Some(Range { low, high }) if by_chance => {
                let (scale, unit) = (self.figure.in_tables().1, self.figure.in_words().1);
                let span = format!("{:.0} to {:.0} {unit}", low * scale, high * scale);
                Some(format!("by chance: other starts give the simulator {}", span.trim_end()))
            }
            _ => self.between_in_words(),
        }
    }

    /// What both distributions are between the figures of both worlds, in words.
    pub fn between_in_words(&self) -> Option<String> {
        let step = if self.is_on_step() { "a step: " } else { "" };
        Some(format!("{step}{}", self.between?.in_words()))
    }

    /// How far the kernel's is from the nearest of those that the simulator has with some start: with other starts threads fall into step
    /// with the tick and each other in other ways. [`Figure::error()`] where others are not known.
    pub fn error_from_range(&self) -> f64 {
        let Some(Range { low, high }) = self.simulated_range else { return self.error() };
        Figure { simulated: self.kernel.clamp(low, high), ..self.clone() }.error()
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

    /// The same for all kinds: 1 at a tenth, or at a point.
    pub fn badness(&self) -> f64 {
        let steps = self.figure.steps();
        match self.figure {
            Kind::CpuRatio => self.error() / steps[1],
            _ => self.error().ln() / steps[0].ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(figure: Kind, simulated: f64, kernel: f64) -> Figure {
        Figure::new("vm", figure, simulated, kernel)
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
        // Two in a hundred are not chance where the figure is what one in a hundred is above.
        let p99 = Figure { figure: Kind::P99Seconds, ..median.clone() };
        assert!(!p99.is_on_step());
        let between = Some(Between { kernel_later_ratio: 0.9, ..between });
        let words = Figure { between, ..median }.between_in_words().expect("a latency");
        assert!(words.starts_with("49.0 %"), "{words}");
    }

    /// Where the simulator has 10 to 30 us by its starts, a kernel's 20 us are no error, and 36 us are a fifth too many.
    #[test]
    fn a_figure_that_other_starts_have_is_no_error() {
        let ranged = |kernel: f64| {
            let simulated_range = Some(Range { low: 10e-6, high: 30e-6 });
            Figure { simulated_range, ..figure(Kind::P50Seconds, 10e-6, kernel) }
        };
        let (near, far) = (ranged(20e-6), ranged(36e-6));
        assert_eq!((near.error(), near.error_from_range()), (2.0, 1.0));
        assert_eq!(
            near.error_explained().unwrap(),
            "by chance: other starts give the simulator 10 to 30 us"
        );
        assert!((far.error_from_range() - 1.2).abs() < 1e-9);
        assert_eq!(far.error_explained(), None);
        assert_eq!(figure(Kind::P50Seconds, 10.0, 20.0).error_from_range(), 2.0);
    }
}
