//! The last steps of a search: the best point's values, one at a time.

use crate::error::Error;
use crate::evaluate::{Evaluator, Scores};
use crate::objective::Objective;
use crate::point::Point;
use crate::problem::Effort;

/// Steps along the values of a parameter: large ones first, which find the way.
const STEPS: [i32; 6] = [-4, 4, -2, 2, -1, 1];

/// Moves each value of the best of `seen` up and down as long as that is better, in so many evaluations at most.
pub(crate) fn polish(
    evaluator: &Evaluator<'_>,
    objective: Objective,
    seen: &mut Scores,
    evaluations: u64,
) -> Result<(), Error> {
    let worth = |seen: &Scores, point: &Point| objective.of(seen[point].as_ref(), point.keys());
    let best = seen.keys().min_by(|a, b| worth(seen, a).total_cmp(&worth(seen, b)));
    let Some(mut best) = best.cloned() else { return Ok(()) };
    let mut left = evaluations;
    let (mut number, mut unmoved) = (0, 0);
    let parameters = evaluator.problem.parameters();
    while unmoved < parameters.len() && left > 0 && !evaluator.is_late() {
        let moved = step(evaluator, objective, seen, (&best, number), &mut left)?;
        unmoved = if moved.is_some() { 0 } else { unmoved + 1 };
        // As long as it helps it is moved on.
        number = if moved.is_some() { number } else { (number + 1) % parameters.len() };
        best = moved.unwrap_or(best);
    }
    Ok(())
}

/// The first better point along one parameter.
fn step(
    evaluator: &Evaluator<'_>,
    objective: Objective,
    seen: &mut Scores,
    (from, number): (&Point, usize),
    left: &mut u64,
) -> Result<Option<Point>, Error> {
    let problem = evaluator.problem;
    let parameter = &problem.parameters()[number];
    let Some(level) = from.0[number].filter(|_| parameter.ordered) else { return Ok(None) };
    let worth = objective.of(seen[from].as_ref(), from.keys());
    for by in STEPS {
        let to = (i32::from(level) + by).clamp(0, parameter.levels.len() as i32 - 1) as u16;
        let point = problem.canonical(from.with(number, Some(to)));
        if !seen.contains_key(&point) {
            if *left == 0 {
                return Ok(None);
            }
            *left -= 1;
            let score = evaluator.score(&point, Effort::Short, &[0])?;
            seen.insert(point.clone(), score);
        }
        if objective.of(seen[&point].as_ref(), point.keys()) < worth {
            return Ok(Some(point));
        }
    }
    Ok(None)
}
