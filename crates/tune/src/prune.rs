//! Leaves out what makes no difference.

use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::front::as_good;
use crate::point::Point;
use crate::problem::Effort;

/// The same point without keys that can be left out: its figures are as good without each of them.
pub(crate) fn pruned(evaluator: &Evaluator<'_>, point: &Point, seed: u64) -> Result<Point, Error> {
    let problem = evaluator.problem;
    let mut point = point.clone();
    let Some(score) = evaluator.score(&point, Effort::Short, &[seed])? else { return Ok(point) };
    for number in 0..problem.parameters().len() {
        if point.0[number].is_none() || evaluator.is_late() {
            continue;
        }
        let less = problem.canonical(point.with(number, None));
        if less.keys() >= point.keys() {
            continue;
        }
        // Against the point as it was found: small losses would add up.
        if let Some(other) = evaluator.score(&less, Effort::Short, &[seed])?
            && as_good(&other, &score)
        {
            point = less;
        }
    }
    Ok(point)
}
