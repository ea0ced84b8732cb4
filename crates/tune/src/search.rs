//! The search: beginnings, walks, the best of them whole, what is left of those measured by other seeds.

use std::time::{Duration, Instant};

use lowtail_control::guard;
use lowtail_predict::{Goal, Range, hardly_sleeps};

use crate::anneal::walk;
use crate::error::Error;
use crate::evaluate::{Evaluator, Score, Scores};
use crate::front::{Scored, front, is_shorter, thinned};
use crate::objective::Objective;
use crate::parallel;
use crate::point::Point;
use crate::problem::{Effort, Measured, Problem, Run, VmMeasured};
use crate::progress::Progress;
use crate::prune::pruned;
use crate::table::time;
use crate::tuned::{GoalOutcome, Tuned, TunedPoint};

/// Limits are to be used up to here while points are chosen: what is chosen by its luck is a bit worse when it is measured anew.
const RESERVE: f64 = 0.9;
/// Targets of the walks, in parts of the limits. Two walks have the same one, and begin at points that have nothing in common.
const TARGETS: [f64; 4] = [RESERVE, RESERVE, 0.45 * RESERVE, 1.8 * RESERVE];
/// So many of the short runs' points are run whole, and so many of these are measured.
const PROMOTED: usize = 8;
/// See [`PROMOTED`].
const SHOWN: usize = 6;
/// Seeds by which points are chosen, whole: 0 is as it was recorded.
const CHOOSING: u64 = 2;
/// Each seed of the search has so many of its own.
const APART: u64 = 10_000;

/// How to search.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of all that is drawn.
    pub seed: u64,
    /// How many runs each point that is shown is measured by. None of them was looked at when it was chosen.
    pub seeds: u64,
    /// How many short runs the search has; what is usual for the problem if it is not said.
    pub budget: Option<u64>,
    /// Threads. They change no figure.
    pub threads: usize,
    /// The search ends after so long, if it is not done sooner; points are measured after that.
    pub max_time: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options { seed: 1, seeds: 5, budget: None, threads: 1, max_time: None }
    }
}

/// Searches the points of `problem`. The same options give the same points, with any number of threads, unless time runs out.
///
/// # Errors
/// If a point cannot be simulated.
pub fn tune(
    problem: &dyn Problem,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Tuned, Error> {
    let deadline = options.max_time.map(|most| Instant::now() + most);
    let seeds = options.seeds.max(1);
    let budget = options.budget.unwrap_or_else(|| problem.usual_budget());
    let expected = budget + (PROMOTED as u64 + 1) * CHOOSING + (SHOWN as u64 + 1) * seeds;
    let evaluator = Evaluator::new(problem, options.threads.max(1), deadline, expected, progress);
    let none = Point::empty(problem.parameters());
    let of_seed = |n: u64| options.seed.wrapping_mul(APART).wrapping_add(n);
    let choosing: Vec<u64> = std::iter::once(0).chain((1..CHOOSING).map(of_seed)).collect();
    let measuring: Vec<u64> = (CHOOSING..CHOOSING + seeds).map(of_seed).collect();

    let mut scores = starts(&evaluator, &none)?;
    let left = budget.saturating_sub(scores.len() as u64);
    let targets = TARGETS.map(|target| Objective { target });
    // A quarter is kept for a second round.
    walks(&evaluator, &targets, &mut scores, (left * 3 / 4, options.seed, "first"))?;
    let mut whole = promoted(&evaluator, &scores, &choosing)?;
    if !whole.iter().any(|(_, score)| score.strain <= RESERVE) {
        // What is enough in a part of it may not be in all of it.
        let known: Vec<f64> = whole
            .iter()
            .filter_map(|(point, of)| Some(of.strain / scores.get(point)?.as_ref()?.strain))
            .collect();
        let more = known
            .into_iter()
            .filter(|more| more.is_finite())
            .fold(f64::INFINITY, f64::min)
            .clamp(1.0, 4.0);
        let tighter =
            [Objective { target: RESERVE / more }, Objective { target: RESERVE / more / 1.5 }];
        walks(&evaluator, &tighter, &mut scores, (left / 4, options.seed, "second"))?;
        whole.extend(promoted(&evaluator, &scores, &choosing)?);
    }
    let stopped = evaluator.is_late();
    let chosen = thinned(front(&whole), SHOWN, RESERVE);
    let points: Vec<Point> =
        chosen.into_iter().map(|(point, _)| point).filter(|point| *point != none).collect();
    report(&evaluator, &none, points, &measuring, stopped)
}

/// The scores of the points to begin with, short.
fn starts(evaluator: &Evaluator<'_>, none: &Point) -> Result<Scores, Error> {
    let problem = evaluator.problem;
    let mut points: Vec<Point> =
        problem.starts().into_iter().map(|point| problem.canonical(point)).collect();
    points.push(none.clone());
    points.sort();
    points.dedup();
    let scores = evaluator.scores(&points, Effort::Short, &[0])?;
    Ok(points.into_iter().zip(scores).collect())
}

/// Walks for each objective, with so many steps in all, at the same time.
fn walks(
    evaluator: &Evaluator<'_>,
    objectives: &[Objective],
    scores: &mut Scores,
    (steps, seed, round): (u64, u64, &str),
) -> Result<(), Error> {
    let mut begins: Vec<(usize, Objective, Point)> = Vec::new();
    for (number, &objective) in objectives.iter().enumerate() {
        let worth =
            |point: &Point, score: &Option<Score>| objective.of(score.as_ref(), point.keys());
        let apart = |point: &Point| {
            let same = begins.iter().filter(|(_, other, _)| other.target == objective.target);
            same.into_iter().all(|(_, _, other)| {
                other.0.iter().zip(&point.0).all(|(a, b)| a.is_none() || b.is_none())
            })
        };
        let best = |only_apart: bool| {
            let fit = scores.iter().filter(|(point, _)| !only_apart || apart(point));
            fit.min_by(|(p, a), (q, b)| worth(p, a).total_cmp(&worth(q, b)))
                .map(|(point, _)| point.clone())
        };
        if let Some(point) = best(true).or_else(|| best(false)) {
            begins.push((number, objective, point));
        }
    }
    let each = steps / objectives.len().max(1) as u64;
    let found = parallel::map(&begins, evaluator.threads, |(number, objective, start)| {
        walk(evaluator, *objective, start, scores, (each, seed, &format!("{round} walk {number}")))
    });
    for of_walk in found {
        scores.extend(of_walk?);
    }
    Ok(())
}

/// The best points of short runs, without what makes no difference, with their scores when they are run whole.
fn promoted(
    evaluator: &Evaluator<'_>,
    scores: &Scores,
    seeds: &[u64],
) -> Result<Vec<Scored>, Error> {
    let all: Vec<Scored> =
        scores.iter().filter_map(|(point, score)| Some((point.clone(), (*score)?))).collect();
    let best = thinned(front(&all), PROMOTED, RESERVE);
    let pruned = parallel::map(&best, evaluator.threads, |(point, _)| pruned(evaluator, point, 0));
    let mut points = pruned.into_iter().collect::<Result<Vec<Point>, _>>()?;
    points.sort();
    points.dedup();
    let whole = evaluator.scores(&points, Effort::Whole, seeds)?;
    Ok(points.into_iter().zip(whole).filter_map(|(point, score)| Some((point, score?))).collect())
}

/// What was found, measured by seeds that nothing was chosen by.
fn report(
    evaluator: &Evaluator<'_>,
    none: &Point,
    points: Vec<Point>,
    seeds: &[u64],
    stopped: bool,
) -> Result<Tuned, Error> {
    let problem = evaluator.problem;
    evaluator.scores(&points, Effort::Whole, seeds)?;
    let mut notes: Vec<String> = Vec::new();
    let mut measured = |point: &Point| -> Result<TunedPoint, Error> {
        let mut runs = Vec::new();
        for &seed in seeds {
            let run = Run { effort: Effort::Whole, seed };
            let (Some(before), Some(after)) =
                (evaluator.measure(none, run)?, evaluator.measure(point, run)?)
            else {
                continue;
            };
            runs.push((before, after));
        }
        notes.extend(runs.iter().flat_map(|(_, after)| after.notes.clone()));
        Ok(of_runs(problem, point, &runs))
    };
    let before = measured(none)?;
    let mut points = points.iter().map(&mut measured).collect::<Result<Vec<TunedPoint>, _>>()?;
    let lost = |point: &TunedPoint| point.lost.median.max(0.0);
    points.sort_by(|a, b| {
        lost(a).total_cmp(&lost(b)).then(worst(&b.figures).total_cmp(&worst(&a.figures)))
    });
    // By these seeds one may be worse than another in both.
    let strain = |point: &TunedPoint| worst(&point.figures);
    let mut best = f64::INFINITY;
    points.retain(|point| {
        let better = is_shorter(strain(point), best.min(strain(&before)));
        if better {
            best = strain(point);
        }
        better
    });
    let reaches = points.iter().position(|point| point.reached).map(|at| at + 1);
    let chosen = if before.reached { Some(0) } else { reaches };
    let limits = match chosen {
        Some(_) => Vec::new(),
        None => {
            let of = |goal: usize| {
                let all = points.iter().chain([&before]).map(|point| point.figures[goal].strain);
                all.fold(f64::INFINITY, f64::min)
            };
            // The shortest point tells which goals are missed together.
            let best = points.last().unwrap_or(&before);
            let missed = |goal: usize| {
                if best.figures[goal].strain > 1.0 { best.figures[goal].strain } else { of(goal) }
            };
            problem.limits(&(0..problem.goals().len()).map(missed).collect::<Vec<_>>())?
        }
    };
    notes.sort();
    notes.dedup();
    Ok(Tuned {
        goals: problem.goals().to_vec(),
        cost: problem.cost(),
        grade: None,
        before,
        points,
        chosen,
        limits,
        notes,
        evaluations: evaluator.count(),
        stopped,
    })
}

fn worst(figures: &[GoalOutcome]) -> f64 {
    figures.iter().map(|outcome| outcome.strain).fold(0.0, f64::max)
}

fn range(values: impl Iterator<Item = f64>) -> Range {
    let none = Range { min: f64::INFINITY, median: f64::INFINITY, max: f64::INFINITY };
    Range::of(values.map(Some)).unwrap_or(none)
}

/// A point by its runs, each beside the one of the same seed in which nothing is changed.
fn of_runs(problem: &dyn Problem, point: &Point, runs: &[(Measured, Measured)]) -> TunedPoint {
    let goals = problem.goals().iter().enumerate();
    let figures: Vec<GoalOutcome> = goals
        .map(|(n, goal)| {
            let figure = range(runs.iter().map(|(_, after)| after.goals[n]));
            let strain = range(runs.iter().map(|(_, after)| problem.strains(after)[n])).median;
            GoalOutcome { is_latency: goal.is_latency(), figure, strain }
        })
        .collect();
    TunedPoint {
        changes: point.describe(problem.parameters()),
        keys: point.keys(),
        reached: worst(&figures) <= 1.0,
        figures,
        lost: range(runs.iter().map(|(before, after)| problem.lost(before, after))),
        worse: worse(problem.goals(), runs),
        policy: problem.policy(point),
    }
}

/// VMs without a goal whose latency gets worse, by as much as the guard of `host apply` would not have it.
fn worse(goals: &[Goal], runs: &[(Measured, Measured)]) -> Vec<String> {
    let Some((first, _)) = runs.first() else { return Vec::new() };
    let middle = |vm: usize, of: fn(&VmMeasured) -> Option<f64>| {
        let of = |run: &Measured| run.vms.get(vm).and_then(of);
        let median = |values: Option<Range>| values.map(|range| range.median);
        let [before, after] = [
            Range::of(runs.iter().map(|(before, _)| of(before))),
            Range::of(runs.iter().map(|(_, after)| of(after))),
        ];
        (median(before), median(after))
    };
    let mut said = Vec::new();
    for (n, vm) in first.vms.iter().enumerate() {
        if goals.iter().any(|goal| goal.is_of(&vm.name)) {
            continue;
        }
        let p99_us = middle(n, |vm| vm.p99_us);
        if let (Some(from), Some(to)) = p99_us
            && 1e3 * to > guard::worse(1e3 * from)
        {
            said.push(format!("{} p99 from {} to {}", vm.name, time(from), time(to)));
        }
        if let (Some(from), Some(to)) = middle(n, |vm| Some(vm.wakeups))
            && hardly_sleeps((from, to), p99_us)
        {
            said.push(format!("{} wake-ups from {from} to {to}: it hardly gets to sleep", vm.name));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(p99_us: Option<f64>, wakeups: f64) -> Measured {
        let vm = VmMeasured { name: "web".to_string(), p99_us, wakeups, work: 50.0 };
        Measured { goals: Vec::new(), cost: 1.0, vms: vec![vm], notes: Vec::new() }
    }

    /// Who hardly gets to sleep has too few wake-ups for a percentile: that is worse, and not unknown.
    #[test]
    fn who_never_sleeps_is_worse_off() {
        let said = |before, after| worse(&[], &[(before, after)]);
        let before = || run(Some(50.0), 1000.0);
        assert_eq!(
            said(before(), run(None, 12.0)),
            ["web wake-ups from 1000 to 12: it hardly gets to sleep"]
        );
        assert_eq!(said(before(), run(Some(5000.0), 900.0)), ["web p99 from 50.0 us to 5.00 ms"]);
        assert!(said(before(), run(Some(60.0), 900.0)).is_empty(), "by less than the guard minds");
        assert!(said(run(None, 12.0), run(None, 2.0)).is_empty(), "it had no percentile before");
        let web: Goal = "web p99 <= 1ms".parse().expect("a goal");
        assert!(worse(&[web], &[(before(), run(None, 12.0))]).is_empty(), "its goal says that");
    }
}
