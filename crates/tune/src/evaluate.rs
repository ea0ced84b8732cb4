//! Evaluates points, each once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Instant;

use crate::error::Error;
use crate::parallel;
use crate::point::Point;
use crate::problem::{Effort, Measured, Problem, Run};
use crate::progress::Progress;

/// What a point is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    /// By how much of their limits the goals are used, the worst of them: 1 is just reached.
    pub(crate) strain: f64,
    /// The part of the work that is lost, from 0 on.
    pub(crate) lost: f64,
}

/// Points with their scores; `None`: it is no choice.
pub(crate) type Scores = BTreeMap<Point, Option<Score>>;

/// Evaluates the points of a problem.
pub(crate) struct Evaluator<'a> {
    pub(crate) problem: &'a dyn Problem,
    pub(crate) threads: usize,
    deadline: Option<Instant>,
    progress: &'a (dyn Fn(Progress) + Sync),
    expected: u64,
    known: Mutex<HashMap<(Point, Run), Option<Measured>>>,
}

impl<'a> Evaluator<'a> {
    /// For about so many evaluations.
    pub(crate) fn new(
        problem: &'a dyn Problem,
        threads: usize,
        deadline: Option<Instant>,
        expected: u64,
        progress: &'a (dyn Fn(Progress) + Sync),
    ) -> Self {
        let known = Mutex::new(HashMap::new());
        Evaluator { problem, threads, deadline, progress, expected, known }
    }

    /// Whether there is no time for more searching.
    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// How many evaluations there were.
    pub(crate) fn count(&self) -> u64 {
        self.known.lock().expect("nobody panics with it").len() as u64
    }

    /// What a run of a point gives.
    pub(crate) fn measure(&self, point: &Point, run: Run) -> Result<Option<Measured>, Error> {
        let key = (point.clone(), run);
        let found = self.known.lock().expect("nobody panics with it").get(&key).cloned();
        if let Some(found) = found {
            return Ok(found);
        }
        let measured = self.problem.evaluate(point, run)?;
        let mut known = self.known.lock().expect("nobody panics with it");
        known.insert(key, measured.clone());
        let done = known.len() as u64;
        drop(known);
        (self.progress)(Progress { done, total: self.expected.max(done) });
        Ok(measured)
    }

    /// The score of a point over some runs: means. `None`: it is no choice.
    pub(crate) fn score(
        &self,
        point: &Point,
        effort: Effort,
        seeds: &[u64],
    ) -> Result<Option<Score>, Error> {
        let none = Point::empty(self.problem.parameters());
        let (mut strains, mut lost) = (vec![0.0; self.problem.goals().len()], 0.0);
        for &seed in seeds {
            let run = Run { effort, seed };
            let Some(before) = self.measure(&none, run)? else { return Ok(None) };
            let Some(measured) = self.measure(point, run)? else { return Ok(None) };
            for (sum, strain) in strains.iter_mut().zip(self.problem.strains(&measured)) {
                *sum += strain;
            }
            lost += self.problem.lost(&before, &measured);
        }
        let n = seeds.len().max(1) as f64;
        let strain = strains.into_iter().fold(0.0_f64, f64::max) / n;
        // More than there was is as good as all of it: else a search would trade keys for chance.
        Ok(Some(Score { strain, lost: (lost / n).max(0.0) }))
    }

    /// The scores of several, on all threads.
    pub(crate) fn scores(
        &self,
        points: &[Point],
        effort: Effort,
        seeds: &[u64],
    ) -> Result<Vec<Option<Score>>, Error> {
        // Each run is a piece of work of its own, so that one point with several seeds has several threads, too.
        let none = Point::empty(self.problem.parameters());
        let all = std::iter::once(&none).chain(points);
        let runs: Vec<(&Point, Run)> = all
            .flat_map(|point| seeds.iter().map(move |&seed| (point, Run { effort, seed })))
            .collect();
        let measured = parallel::map(&runs, self.threads, |(point, run)| self.measure(point, *run));
        measured.into_iter().collect::<Result<Vec<_>, _>>()?;
        points.iter().map(|point| self.score(point, effort, seeds)).collect()
    }
}
