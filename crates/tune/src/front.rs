//! Which points are worth a look: those that no other is better than.

use crate::evaluate::Score;
use crate::point::Point;

/// Differences of latency, in parts of it, and of work, in parts of it, that are none.
const EQUAL: (f64, f64) = (0.03, 0.003);

/// A point with its score.
pub(crate) type Scored = (Point, Score);

/// Whether a point that has the score `a` may stand for one that has `b`.
pub(crate) fn as_good(a: &Score, b: &Score) -> bool {
    a.strain <= b.strain * (1.0 + EQUAL.0) && a.lost <= b.lost + EQUAL.1
}

/// Whether a latency is so much shorter than another that it is worth a choice.
pub(crate) fn is_shorter(strain: f64, than: f64) -> bool {
    strain * (1.0 + EQUAL.0) < than
}

/// The points of `all` that none is better than in one and as good as in the other, by growing loss. In place of each stands the one with the fewest
/// keys that is as good.
pub(crate) fn front(all: &[Scored]) -> Vec<Scored> {
    let mut sorted: Vec<&Scored> =
        all.iter().filter(|(_, score)| score.strain.is_finite()).collect();
    sorted.sort_by(|(a, x), (b, y)| {
        x.lost.total_cmp(&y.lost).then(x.strain.total_cmp(&y.strain)).then(a.cmp(b))
    });
    let mut best = f64::INFINITY;
    let mut front: Vec<Scored> = Vec::new();
    for (point, score) in &sorted {
        if score.strain < best {
            best = score.strain;
            front.push((point.clone(), *score));
        }
    }
    let simplest = |(point, score): Scored| {
        let as_good = sorted.iter().filter(|(_, other)| as_good(other, &score));
        let fewest = as_good.min_by_key(|(other, _)| other.keys());
        match fewest {
            Some((other, of)) if other.keys() < point.keys() => (other.clone(), *of),
            _ => (point, score),
        }
    };
    let mut simple: Vec<Scored> = Vec::new();
    for scored in front.into_iter().map(simplest) {
        if !simple.iter().any(|(point, _)| *point == scored.0) {
            simple.push(scored);
        }
    }
    simple
}

/// At most so many of a front: the one that loses least of those that use at most `target` of their limits, the shortest, and those between that differ
/// most.
pub(crate) fn thinned(front: Vec<Scored>, most: usize, target: f64) -> Vec<Scored> {
    let mut left = front;
    let mut chosen: Vec<Scored> = Vec::new();
    let reaches = |(_, score): &Scored| score.strain <= target;
    let cheapest = left.iter().position(reaches);
    let shortest = |left: &[Scored]| {
        let by_strain = |a: &usize, b: &usize| left[*a].1.strain.total_cmp(&left[*b].1.strain);
        (0..left.len()).min_by(by_strain)
    };
    if let Some(at) = cheapest.or_else(|| shortest(&left)) {
        chosen.push(left.remove(at));
    }
    if let Some(at) = shortest(&left) {
        chosen.push(left.remove(at));
    }
    while chosen.len() < most && !left.is_empty() {
        let apart = |scored: &Scored| {
            let to = |other: &Scored| {
                let by_latency = (scored.1.strain.max(1e-9) / other.1.strain.max(1e-9)).ln().abs();
                by_latency + 5.0 * (scored.1.lost - other.1.lost).abs()
            };
            chosen.iter().map(to).fold(f64::INFINITY, f64::min)
        };
        let farthest = (0..left.len()).max_by(|&a, &b| apart(&left[a]).total_cmp(&apart(&left[b])));
        let Some(at) = farthest else { break };
        // What looks the same is no choice.
        if apart(&left[at]) < 0.05 {
            break;
        }
        chosen.push(left.remove(at));
    }
    chosen.sort_by(|a, b| a.1.lost.total_cmp(&b.1.lost));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(keys: &[u16], strain: f64, lost: f64) -> Scored {
        let mut point = Point(vec![None; 4]);
        keys.iter().for_each(|&key| point.0[usize::from(key)] = Some(0));
        (point, Score { strain, lost })
    }

    #[test]
    fn a_front_has_no_dominated_point_and_no_needless_key() {
        let all = [
            scored(&[0], 2.0, 0.0),
            scored(&[0, 1], 1.0, 0.05),
            // As good as the one before, with a key less.
            scored(&[2], 1.02, 0.052),
            // Worse in both.
            scored(&[3], 1.5, 0.06),
            scored(&[0, 1, 2], 0.5, 0.2),
            scored(&[1, 2], f64::INFINITY, -0.1),
        ];
        let keys: Vec<usize> = front(&all).iter().map(|(point, _)| point.keys()).collect();
        assert_eq!(keys, [1, 1, 3]);
        let strains: Vec<f64> = front(&all).iter().map(|(_, score)| score.strain).collect();
        assert_eq!(strains, [2.0, 1.02, 0.5]);
    }

    #[test]
    fn thinning_keeps_the_cheapest_that_reaches_and_the_shortest() {
        let all: Vec<Scored> =
            (1..40).map(|n| scored(&[0], 4.0 / f64::from(n), 0.01 * f64::from(n))).collect();
        let few = thinned(all, 4, 1.0);
        assert_eq!(few.len(), 4);
        // 4/4 is the first that reaches 1, 4/39 the shortest.
        assert!(few.iter().any(|(_, score)| score.strain == 1.0));
        assert!(few.iter().any(|(_, score)| score.strain == 4.0 / 39.0));
    }
}
