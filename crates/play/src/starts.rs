//! How often a scenario has to be played until its figures tell more of the scenario than of when its threads happened to start.
//!
//! Strictly periodic work falls into step with ticks and with each other, in one way or another by when threads start. All starts of a
//! scenario count together; where a figure depends on them, a few are too few for two worlds to have the same figure by more than luck.
//! The simulator alone decides how many are played, so that what the kernel shows has no part in it.

use lowtail_engine::{Duration, Rng};

use crate::fidelity::{Goal, SystemKind};
use crate::figure::{Figure, Kind};
use crate::measured::{Measured, VmMeasured};

/// Pairs of sets of starts that are compared.
const PAIRS: u32 = 100;
/// Pairs that may have figures further apart than the goal of fidelity allows.
const APART: u32 = 5;

/// How often a scenario is played, threads starting in other phases each time.
#[derive(Debug, Clone, Copy)]
pub struct Starts {
    /// At least, ...
    pub least: u16,
    /// ... and at most, where the simulator's figures depend on them.
    pub most: u16,
}

impl Starts {
    /// Whether there is a choice.
    pub fn vary(self) -> bool {
        self.least < self.most
    }
}

/// How many starts are enough: the least, or twice, four times as many, and so on. Pairs of sets of so many are drawn from `singles`,
/// simulated runs with one start each. So many are enough if 95 % of the pairs have the CPU time of a VM, and 95 % its latencies, as near
/// to each other as the goals for Linux allow, for each VM. The most if no number below is enough.
pub fn enough(singles: &[Measured], Starts { least, most }: Starts, seed: u64) -> u16 {
    let vms = singles.first().map_or(0, |first| first.vms.len());
    let all: Vec<Samples> = (0..vms).flat_map(|vm| Samples::of(singles, vm)).collect();
    let mut starts = least;
    while starts < most && !are_enough(&all, singles.len(), starts, seed) {
        starts = starts.saturating_mul(2).min(most);
    }
    starts
}

/// Draws `n` of `of` with replacement.
pub fn drawn(rng: &mut Rng, of: usize, n: u16) -> Vec<usize> {
    (0..n).map(|_| rng.below(of as u64) as usize).collect()
}

fn are_enough(all: &[Samples], of: usize, starts: u16, seed: u64) -> bool {
    let mut apart = vec![0; all.len()];
    let mut rng = Rng::new(seed, "starts");
    for _ in 0..PAIRS {
        let (a, b) = (drawn(&mut rng, of, starts), drawn(&mut rng, of, starts));
        for (samples, apart) in all.iter().zip(&mut apart) {
            *apart += u32::from(!samples.are_near(&a, &b));
        }
    }
    apart.iter().all(|&apart| apart <= APART)
}

/// What single starts have of a VM.
enum Samples {
    /// CPU time, in CPUs.
    Cpu(Vec<f64>),
    /// A latency: how often each start has each of the spans that occur, and the figures that goals are about. Spans are some hundreds,
    /// the bins of a histogram thirty thousand, and thousands of sets are added up, in a guest that is emulated.
    Latency { spans: Vec<Duration>, counts: Vec<Vec<u32>>, goals: Vec<Goal> },
}

impl Samples {
    /// Of VM number `vm`.
    fn of(singles: &[Measured], vm: usize) -> Vec<Samples> {
        let cpu = |run: &Measured| run.vms[vm].share_percent(run.wall) / 100.0;
        let mut all = vec![Samples::Cpu(singles.iter().map(cpu).collect())];
        let counts = |VmMeasured { latency, .. }: &VmMeasured| -> Vec<(Duration, u32)> {
            latency.iter().flat_map(|latency| latency.counts()).collect()
        };
        let runs: Vec<_> = singles.iter().map(|run| counts(&run.vms[vm])).collect();
        let mut spans: Vec<Duration> = runs.iter().flatten().map(|&(span, _)| span).collect();
        spans.sort_unstable();
        spans.dedup();
        let dense = |run: &Vec<(Duration, u32)>| {
            let mut counts = vec![0; spans.len()];
            for (span, times) in run {
                counts[spans.partition_point(|other| other < span)] += times;
            }
            counts
        };
        let goals = [Kind::P50Seconds, Kind::P99Seconds];
        let goals = goals.iter().filter_map(|&kind| Goal::of(SystemKind::Linux, kind)).collect();
        if !spans.is_empty() {
            all.push(Samples::Latency { counts: runs.iter().map(dense).collect(), spans, goals });
        }
        all
    }

    /// Whether two sets of starts, by their numbers, have these figures as near as goals allow.
    fn are_near(&self, a: &[usize], b: &[usize]) -> bool {
        match self {
            Samples::Cpu(cpu) => {
                let mean = |set: &[usize]| {
                    set.iter().map(|&start| cpu[start]).sum::<f64>() / set.len() as f64
                };
                let goal = Goal::of(SystemKind::Linux, Kind::CpuRatio);
                goal.is_none_or(|goal| is_near(goal, mean(a), mean(b)))
            }
            Samples::Latency { spans, counts, goals } => {
                let [a, b] = [a, b].map(|set| {
                    let mut sum = vec![0u64; spans.len()];
                    for &start in set {
                        sum.iter_mut()
                            .zip(&counts[start])
                            .for_each(|(sum, n)| *sum += u64::from(*n));
                    }
                    sum
                });
                goals.iter().all(|&goal| {
                    let at = |sum: &[u64]| quantile(spans, sum, goal.figure);
                    at(&a).zip(at(&b)).is_none_or(|(a, b)| is_near(goal, a, b))
                })
            }
        }
    }
}

fn is_near(goal: Goal, a: f64, b: f64) -> bool {
    Figure::new("", goal.figure, a, b).error() <= goal.figure.steps()[goal.step]
}

/// The figure of spans that are there so often, in seconds, by nearest rank; none of too few.
fn quantile(spans: &[Duration], counts: &[u64], figure: Kind) -> Option<f64> {
    let (q, least) = figure.quantile().zip(figure.least_wakeups())?;
    let n = counts.iter().sum::<u64>();
    let rank = (q * n as f64).ceil();
    let mut seen = 0;
    let at = counts.iter().position(|n| {
        seen += n;
        seen as f64 >= rank
    });
    at.filter(|_| n >= least).map(|at| spans[at].as_s_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_engine::Hist;

    /// A run whose one VM has been woken a hundred times, so many microseconds late.
    fn run(late_us: u64) -> Measured {
        let mut latency = Hist::new();
        latency.record_n(Duration::from_us(late_us), 100);
        let (name, cpu) = ("vm".to_string(), vec![Duration::from_ms(500)]);
        let vms = vec![VmMeasured { name, cpu, latency: Some(latency) }];
        Measured { wall: Duration::from_s(1), vms, groups: Vec::new(), others: None }
    }

    #[test]
    fn what_all_starts_have_needs_no_more_of_them() {
        let singles: Vec<_> = (0..40).map(|_| run(20)).collect();
        assert_eq!(enough(&singles, Starts { least: 3, most: 64 }, 1), 3);
    }

    /// A median that one start in four makes ten times as late is that of three in four: of 4 starts half are late with a probability of
    /// a quarter (binomial), of 16 with 3 %, so that 16 are enough.
    #[test]
    fn what_depends_on_starts_is_played_until_it_does_not() {
        let singles: Vec<_> = (0..40).map(|n| run(if n % 4 == 0 { 200 } else { 20 })).collect();
        assert_eq!(enough(&singles, Starts { least: 4, most: 64 }, 1), 16);
        assert_eq!(enough(&singles, Starts { least: 4, most: 10 }, 1), 10);
    }

    /// A median that half of all starts have can be either however many are played.
    #[test]
    fn no_number_is_enough_for_a_step() {
        let singles: Vec<_> = (0..40).map(|n| run(if n % 2 == 0 { 200 } else { 20 })).collect();
        assert_eq!(enough(&singles, Starts { least: 4, most: 50 }, 1), 50);
    }

    #[test]
    fn differences_within_the_goals_need_no_more_starts() {
        let singles: Vec<_> = (0..40).map(|n| run(if n % 2 == 0 { 210 } else { 200 })).collect();
        assert_eq!(enough(&singles, Starts { least: 3, most: 64 }, 1), 3);
    }
}
