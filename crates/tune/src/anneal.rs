//! One search: argmin's simulated annealing from a good point on.
//!
//! Why that solver: values are choices and steps, not reals; there are no slopes; figures have noise; and a search has some dozen
//! evaluations. Annealing takes any moves, begins where it is told to, and its first steps may be wrong. Swarms draw their first points
//! anew, simplexes need a dimension of points before their first step.

use std::cell::RefCell;

use argmin::core::{CostFunction, Executor};
use argmin::solver::simulatedannealing::{Anneal, SimulatedAnnealing};
use lowtail_engine::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::error::Error;
use crate::evaluate::{Evaluator, Scores};
use crate::objective::Objective;
use crate::point::Point;
use crate::polish::polish;
use crate::problem::Effort;

/// The temperature at the beginning, in parts of the work: a step that loses so much more is taken nearly every second time.
const TEMPERATURE: f64 = 0.05;
/// A neighbour is sought so often that has not been looked at.
const TRIES: usize = 20;

/// This part of a walk's evaluations is kept for its last steps.
const LAST: f64 = 0.4;

/// What argmin walks on.
struct Landscape<'a> {
    evaluator: &'a Evaluator<'a>,
    objective: Objective,
    seed: u64,
    rng: RefCell<Rng>,
    seen: &'a RefCell<Scores>,
    failed: &'a RefCell<Option<Error>>,
}

impl CostFunction for Landscape<'_> {
    type Param = Point;
    type Output = f64;

    fn cost(&self, point: &Point) -> Result<f64, argmin::core::Error> {
        let known = self.seen.borrow().get(point).copied();
        let score = match known {
            Some(score) => score,
            // Whoever has no time left stays where he is.
            None if self.evaluator.is_late() => return Ok(f64::MAX),
            None => match self.evaluator.score(point, Effort::Short, &[self.seed]) {
                Ok(score) => score,
                Err(error) => {
                    let text = error.to_string();
                    *self.failed.borrow_mut() = Some(error);
                    return Err(argmin::core::Error::msg(text));
                }
            },
        };
        self.seen.borrow_mut().insert(point.clone(), score);
        Ok(self.objective.of(score.as_ref(), point.keys()))
    }
}

impl Anneal for Landscape<'_> {
    type Param = Point;
    type Output = Point;
    type Float = f64;

    fn anneal(&self, point: &Point, temperature: f64) -> Result<Point, argmin::core::Error> {
        let problem = self.evaluator.problem;
        let mut rng = self.rng.borrow_mut();
        let reach = (temperature / TEMPERATURE).clamp(0.05, 1.0);
        let mut neighbour = point.clone();
        for _ in 0..TRIES {
            let moved = point.neighbour(problem.parameters(), reach, &mut rng);
            neighbour = problem.canonical(moved);
            if !self.seen.borrow().contains_key(&neighbour) {
                break;
            }
        }
        Ok(neighbour)
    }
}

/// Walks from `start`, which is among those of `known`, in so many evaluations, and gives all points that were looked at.
pub(crate) fn walk(
    evaluator: &Evaluator<'_>,
    objective: Objective,
    start: &Point,
    known: &Scores,
    (evaluations, seed, stream): (u64, u64, &str),
) -> Result<Scores, Error> {
    let last = (evaluations as f64 * LAST) as u64;
    let steps = evaluations - last;
    let (seen, failed) = (RefCell::new(known.clone()), RefCell::new(None));
    let mut rng = Rng::new(seed, stream);
    let generator = Xoshiro256PlusPlus::seed_from_u64(rng.below(u64::MAX));
    let landscape = Landscape {
        evaluator,
        objective,
        seed: 0,
        rng: RefCell::new(rng),
        seen: &seen,
        failed: &failed,
    };
    let solver = SimulatedAnnealing::new_with_rng(TEMPERATURE, generator);
    let walked = solver.and_then(|solver| {
        let executor = Executor::new(landscape, solver).timer(false);
        executor.configure(|state| state.param(start.clone()).max_iters(steps)).run().map(|_| ())
    });
    match (failed.into_inner(), walked) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => Err(Error::Senseless(format!("the search failed: {error}"))),
        (None, Ok(())) => {
            let mut seen = seen.into_inner();
            polish(evaluator, objective, &mut seen, last)?;
            Ok(seen)
        }
    }
}
