//! The simulator's figures beside the kernel's, and whether they agree.

use lowtail_engine::{Duration, Hist};
use lowtail_net::TrafficConfig;

use crate::check::network_figures;
use crate::figure::Kind;
use crate::measured::Measured;
use crate::network::NetworkMeasured;

/// Shares of processors agree when they differ by no more than so much of themselves, in percent ...
const SHARE_PERCENT: f64 = 3.0;
/// ... or, small ones, by no more than so many percent of one CPU.
const SHARE_POINTS: f64 = 1.0;
/// Counts of throttled periods agree when they differ by no more than so much, in percent ...
const PERIODS_PERCENT: f64 = 10.0;
/// ... or by no more than the periods that both ends of the measured time cut through.
const PERIODS: f64 = 2.0;
/// Medians of latencies agree when they differ by no more than so much of the kernel's, in percent.
const MEDIAN_PERCENT: f64 = 15.0;
/// 99th percentiles agree when neither is more than so many times the other.
const TAIL_FACTOR: f64 = 1.5;

/// Figures of networks agree when they differ by no more than so much of the kernel's, in percent.
const NETWORK_PERCENT: f64 = 25.0;

/// What is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Judge {
    /// The host's clock counts instructions and nobody else is on the host, so that latencies
    /// are claimed, too. Elsewhere they are shown.
    pub exact_clock: bool,
}

/// A figure of both.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What has it: a machine or a control group.
    pub of: String,
    /// Its name, with its unit last.
    pub figure: &'static str,
    /// The simulator's, if it has one.
    pub sim: Option<f64>,
    /// The kernel's, if it has one.
    pub real: Option<f64>,
    /// What is claimed about it, if something is.
    pub claim: Option<Claim>,
}

/// What is claimed about a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// How near they have to be, in words.
    pub tolerance: String,
    /// Whether they are.
    pub holds: bool,
}

/// One case, both ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All figures.
    pub lines: Vec<Line>,
    /// What the host has done besides, in percent of all its CPUs: the reason, perhaps, if the
    /// kernel's figures are off. Of networks, all of it is the host's, and this is not known.
    pub others_percent: Option<f64>,
}

impl Line {
    /// By how much the kernel's is more, in percent of the simulator's.
    pub fn difference_percent(&self) -> Option<f64> {
        let (sim, real) = self.sim.zip(self.real)?;
        (sim != 0.0).then(|| 100.0 * (real - sim) / sim)
    }

    /// With a claim that holds if both have the figure and `near` says so.
    fn claim(mut self, tolerance: String, near: impl Fn(f64, f64) -> bool) -> Self {
        let holds = self.sim.zip(self.real).is_some_and(|(sim, real)| near(sim, real));
        self.claim = Some(Claim { tolerance, holds });
        self
    }
}

impl Comparison {
    /// Whether all claims hold.
    pub fn holds(&self) -> bool {
        self.claims().all(|claim| claim.holds)
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.lines.iter().filter_map(|line| line.claim.as_ref())
    }
}

/// Puts the two measurements of one scenario that runs on `pcpus` CPUs side by side.
pub fn compare(sim: &Measured, real: &Measured, pcpus: u16, judge: Judge) -> Comparison {
    let mut lines = Vec::new();
    for (sim_vm, real_vm) in sim.vms.iter().zip(&real.vms) {
        let line = |figure, sim: Option<f64>, real: Option<f64>| Line {
            of: sim_vm.name.clone(),
            figure,
            sim,
            real,
            claim: None,
        };
        let (a, b) = (sim_vm.share_percent(sim.wall), real_vm.share_percent(real.wall));
        lines.push(
            line("cpu_percent", Some(a), Some(b))
                .claim(format!("{SHARE_PERCENT} % or {SHARE_POINTS} point"), |sim, real| {
                    within(sim, real, SHARE_PERCENT, SHARE_POINTS)
                }),
        );
        if sim_vm.latency.is_none() && real_vm.latency.is_none() {
            continue;
        }
        let of = |hist: &Option<Hist>, q: f64| {
            let hist = hist.as_ref().filter(|hist| hist.n() > 0)?;
            Some(hist.quantile(q).as_us_f64())
        };
        let both = |q| (of(&sim_vm.latency, q), of(&real_vm.latency, q));
        let ((a50, b50), (a99, b99), (a999, b999)) = (both(0.50), both(0.99), both(0.999));
        let (mut p50, mut p99) = (line("p50_us", a50, b50), line("p99_us", a99, b99));
        if judge.exact_clock {
            p50 = p50.claim(format!("{MEDIAN_PERCENT} %"), |sim, real| {
                within(real, sim, MEDIAN_PERCENT, 0.0)
            });
            p99 = p99.claim(format!("factor {TAIL_FACTOR}"), |sim, real| {
                sim <= TAIL_FACTOR * real && real <= TAIL_FACTOR * sim
            });
        }
        // Of 10 s beside hogs that is the worst ten of some thousand: shown.
        lines.extend([p50, p99, line("p99_9_us", a999, b999)]);
    }
    for (sim_group, real_group) in sim.groups.iter().zip(&real.groups) {
        if real_group.stats.is_none() && sim_group.stats.is_none() {
            continue;
        }
        let throttled = |stats: Option<lowtail_host::cgroup::CgroupStats>| {
            stats.map(|stats| stats.throttled_periods as f64)
        };
        let line = Line {
            of: sim_group.name.clone(),
            figure: "throttled_periods",
            sim: throttled(sim_group.stats),
            real: throttled(real_group.stats),
            claim: None,
        };
        lines.push(line.claim(format!("{PERIODS_PERCENT} % or {PERIODS}"), |sim, real| {
            within(sim, real, PERIODS_PERCENT, PERIODS)
        }));
    }
    let all = real.wall.as_s_f64() * f64::from(pcpus);
    let percent = |others: Duration| if all > 0.0 { 100.0 * others.as_s_f64() / all } else { 0.0 };
    Comparison { lines, others_percent: real.others.map(percent) }
}

/// Puts the two measurements of one network with this `traffic` side by side. What is lost is shown only.
pub fn compare_networks(
    traffic: &[TrafficConfig],
    sim: &NetworkMeasured,
    real: &NetworkMeasured,
    judge: Judge,
) -> Comparison {
    let lines = network_figures(traffic, sim, real).into_iter().map(|figure| {
        let (name, scale) = figure.figure.in_tables();
        let line = Line {
            of: figure.of,
            figure: name,
            sim: Some(figure.simulated * scale),
            real: Some(figure.kernel * scale),
            claim: None,
        };
        let lost = matches!(figure.figure, Kind::DroppedPackets | Kind::ResentSegments);
        match judge.exact_clock && !lost {
            true => line.claim(format!("{NETWORK_PERCENT} %"), |sim, real| {
                within(real, sim, NETWORK_PERCENT, 0.0)
            }),
            false => line,
        }
    });
    Comparison { lines: lines.collect(), others_percent: None }
}

/// Whether `is` is at most `percent` of `wanted` away from it, or `points`.
fn within(wanted: f64, is: f64, percent: f64, points: f64) -> bool {
    (is - wanted).abs() <= (wanted * percent / 100.0).max(points)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{GroupMeasured, VmMeasured};
    use lowtail_host::cgroup::CgroupStats;

    /// One machine with a share of a second, `late` wake-ups, and a group.
    fn measured(cpu_ms: u64, late_us: &[u64], throttled: Option<u64>) -> Measured {
        let mut latency = Hist::new();
        late_us.iter().for_each(|&us| latency.record(Duration::from_us(us)));
        let cpu = vec![Duration::from_ms(cpu_ms / 2), Duration::from_ms(cpu_ms - cpu_ms / 2)];
        let stats =
            throttled.map(|n| CgroupStats { throttled_periods: n, ..CgroupStats::default() });
        let (name, others) = ("vm".to_string(), Some(Duration::from_ms(20)));
        Measured {
            wall: Duration::from_s(1),
            vms: vec![VmMeasured { name, cpu, latency: Some(latency) }],
            groups: vec![GroupMeasured { name: "group".to_string(), stats }],
            others,
        }
    }

    fn verdicts(sim: &Measured, real: &Measured, exact_clock: bool) -> Vec<(&'static str, bool)> {
        let comparison = compare(sim, real, 2, Judge { exact_clock });
        let judged = comparison.lines.iter();
        judged.filter_map(|line| Some((line.figure, line.claim.as_ref()?.holds))).collect()
    }

    #[test]
    fn shares_and_periods_are_claimed_everywhere() {
        let sim = measured(1000, &[10], Some(100));
        for (cpu, throttled, holds) in [
            (1030, 110, (true, true)),
            (1031, 111, (false, false)),
            (970, 90, (true, true)),
            (969, 89, (false, false)),
        ] {
            // Latency is ten times the simulator's, which is shown only.
            let real = measured(cpu, &[100], Some(throttled));
            let wanted = [("cpu_percent", holds.0), ("throttled_periods", holds.1)];
            assert_eq!(verdicts(&sim, &real, false), wanted, "{cpu} {throttled}");
        }
    }

    /// Small figures are not judged by their own size.
    #[test]
    fn a_point_and_two_periods_are_nothing() {
        let (sim, real) = (measured(2, &[1], Some(0)), measured(10, &[1], Some(2)));
        assert!(compare(&sim, &real, 2, Judge::default()).holds());
        let real = measured(14, &[1], Some(3));
        assert_eq!(
            verdicts(&sim, &real, false),
            [("cpu_percent", false), ("throttled_periods", false)]
        );
    }

    #[test]
    fn latencies_are_claimed_by_an_exact_clock() {
        let late = |us| measured(100, &[us], None);
        for (sim, real, holds) in [
            (85, 100, (true, true)),
            (84, 100, (false, true)),
            (115, 100, (true, true)),
            (116, 100, (false, true)),
            (150, 100, (false, true)),
            (151, 100, (false, false)),
            (66, 100, (false, false)),
        ] {
            let wanted = [("cpu_percent", true), ("p50_us", holds.0), ("p99_us", holds.1)];
            assert_eq!(verdicts(&late(sim), &late(real), true), wanted, "{sim} {real}");
        }
    }

    /// What one side has not measured does not agree with anything.
    #[test]
    fn nothing_is_not_near() {
        let (sim, real) = (measured(100, &[5], Some(4)), measured(100, &[], None));
        let comparison = compare(&sim, &real, 2, Judge { exact_clock: true });
        assert_eq!(comparison.claims().filter(|claim| !claim.holds).count(), 3);
        assert_eq!(comparison.lines[1].difference_percent(), None);
        assert!(comparison.others_percent.is_some_and(|percent| (percent - 1.0).abs() < 1e-9));
    }
}
