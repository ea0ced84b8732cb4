//! Who sends to whom: payload delivered, host by host, as a heat map.

use std::fmt::Write as _;

use super::svg::{cut, escape, px};
use crate::figure::figure;
use crate::network::outcome::{Matrix, NetworkOutcome};
use crate::outcome::Outcome;

const LEFT: f64 = 110.0;
/// Room for names above; more for those that are turned.
const TOP: f64 = 24.0;
const TOP_TURNED: f64 = 92.0;
/// Narrower columns have their names turned.
const NAME_PX: f64 = 48.0;
const SIDE_MAX: f64 = 420.0;
const CELL_MAX: f64 = 56.0;
/// More names than this do not fit beside the map.
const NAMES_MAX: usize = 24;
/// Most cases whose maps are shown.
const CASES_MAX: usize = 12;
/// Figures nearer to each other than this share of the largest are alike.
const ALIKE: f64 = 0.05;

/// The maps of all cases; a single one if they are alike.
pub(super) fn maps(outcome: &Outcome) -> String {
    let all = outcome.cases.iter().filter_map(|case| Some((&case.name, case.network.as_ref()?)));
    let all: Vec<_> = all.filter(|(_, network)| !network.matrix.cells.is_empty()).collect();
    let Some(&(first, network)) = all.first() else { return String::new() };
    let most = all.iter().map(|(_, network)| network.matrix.most()).fold(0.0, f64::max);
    let mut out = "<h3>Who sends to whom</h3>\n".to_string();
    if all.iter().all(|(_, other)| network.matrix.is_like(&other.matrix, most * ALIKE)) {
        let cases = if all.len() > 1 {
            format!("Case {first}; the others are alike. ")
        } else {
            String::new()
        };
        return out + &map(network, most, &cases);
    }
    for (i, (name, network)) in all.iter().take(CASES_MAX).enumerate() {
        let open = if i == 0 { " open=\"open\"" } else { "" };
        let _ = writeln!(
            out,
            "<details{open}><summary>{}</summary>\n{}</details>",
            escape(name),
            map(network, most, "")
        );
    }
    if all.len() > CASES_MAX {
        let _ = writeln!(out, "<p class=\"source\">And {} more cases.</p>", all.len() - CASES_MAX);
    }
    out
}

impl Matrix {
    fn most(&self) -> f64 {
        self.cells.iter().map(|cell| cell.2).fold(0.0, f64::max)
    }

    /// Whether no cell differs by more than `near`.
    fn is_like(&self, other: &Matrix, near: f64) -> bool {
        let at = |matrix: &Matrix, from: u32, to: u32| {
            let found = matrix.cells.iter().find(|cell| (cell.0, cell.1) == (from, to));
            found.map_or(0.0, |cell| cell.2)
        };
        let one_way = |a: &Matrix, b: &Matrix| {
            a.cells.iter().all(|&(from, to, x)| (x - at(b, from, to)).abs() <= near)
        };
        (self.side, self.per) == (other.side, other.per)
            && one_way(self, other)
            && one_way(other, self)
    }
}

/// `most` is the darkest.
fn map(network: &NetworkOutcome, most: f64, cases: &str) -> String {
    let Matrix { side, per, cells } = &network.matrix;
    let cell = (SIDE_MAX / f64::from(*side)).min(CELL_MAX);
    let length = cell * f64::from(*side);
    let name = |i: u32| match per {
        1 => network.machines.get(i as usize).cloned().unwrap_or_else(|| i.to_string()),
        _ => format!("{}–{}", i * per, (i + 1) * per - 1),
    };
    let every = (*side as usize).div_ceil(NAMES_MAX).max(1);
    let turned = cell * (every as f64) < NAME_PX;
    let top = if turned { TOP_TURNED } else { TOP };
    let (right, bottom) = (LEFT + length, top + length);
    let height = bottom + 14.0;
    let mut out = format!(
        "<figure class=\"matrix\"><svg viewBox=\"0 0 1000 {}\" role=\"img\" \
         aria-label=\"Payload delivered from host to host\">\n\
         <rect class=\"lane\" x=\"{LEFT}\" y=\"{top}\" width=\"{1}\" height=\"{1}\"/>\n",
        px(height),
        px(length)
    );
    for &(from, to, mbit_per_second) in cells {
        let share = if most > 0.0 { mbit_per_second / most } else { 0.0 };
        let text = format!("{} to {}: {} Mbit/s", name(from), name(to), figure(mbit_per_second));
        let (x, y) = (LEFT + cell * f64::from(to), top + cell * f64::from(from));
        let _ = writeln!(
            out,
            "<rect class=\"fill c0\" x=\"{}\" y=\"{}\" width=\"{2}\" height=\"{2}\" \
             fill-opacity=\"{3:.3}\"><title>{4}</title></rect>",
            px(x),
            px(y),
            px(cell),
            0.12 + 0.88 * share,
            escape(&text)
        );
        if cell >= 36.0 {
            let class = if share > 0.55 { "on" } else { "" };
            let _ = writeln!(
                out,
                "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(x + cell / 2.0),
                px(y + cell / 2.0 + 4.0),
                figure(mbit_per_second)
            );
        }
    }
    for i in (0..*side).step_by(every) {
        let at = cell * (f64::from(i) + 0.5);
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            px(top + at + 4.0),
            escape(&cut(&name(i), 14))
        );
        let (x, y) = (px(LEFT + at), px(top - 8.0));
        let turn = match turned {
            true => format!("transform=\"rotate(-60 {x} {y})\""),
            false => "text-anchor=\"middle\"".to_string(),
        };
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{x}\" y=\"{y}\" {turn}>{}</text>",
            escape(&cut(&name(i), if turned { 12 } else { 8 }))
        );
    }
    for (i, share) in [1.0, 0.75, 0.5, 0.25, 0.0].into_iter().enumerate() {
        let y = top + 20.0 * i as f64;
        let _ = writeln!(
            out,
            "<rect class=\"fill c0\" x=\"{}\" y=\"{}\" width=\"20\" height=\"20\" \
             fill-opacity=\"{:.3}\"/><text class=\"dim\" x=\"{}\" y=\"{}\">{} Mbit/s</text>",
            px(right + 30.0),
            px(y),
            0.12 + 0.88 * share,
            px(right + 58.0),
            px(y + 14.0),
            figure(most * share)
        );
    }
    let bins = match per {
        1 => String::new(),
        n => format!(" A square is {n} by {n} hosts."),
    };
    let _ = writeln!(
        out,
        "</svg><figcaption>{}Payload delivered, in Mbit/s: from the host at the left to the one above.{bins}\
         </figcaption></figure>",
        escape(cases)
    );
    out
}

#[cfg(test)]
mod tests {
    use lowtail_net::Shape;

    use super::*;

    fn network(side: u32, per: u32, cells: Vec<(u32, u32, f64)>) -> NetworkOutcome {
        NetworkOutcome {
            shape: Shape::Star { hosts: side * per },
            machines: Vec::new(),
            link: String::new(),
            fabric: String::new(),
            matrix: Matrix { side, per, cells },
        }
    }

    /// A square for each pair that has had anything, and five in the key.
    #[test]
    fn a_square_for_each_pair() {
        let map = super::map(&network(3, 1, vec![(0, 1, 8.0), (2, 0, 2.0)]), 8.0, "");
        assert_eq!(map.matches("class=\"fill c0\"").count(), 2 + 5);
        assert!(map.contains("<title>0 to 1: 8"), "{map}");
        let binned = super::map(&network(64, 2, vec![(63, 0, 1.0)]), 1.0, "");
        assert!(binned.contains("126–127 to 0–1") && binned.contains("2 by 2 hosts"));
    }

    #[test]
    fn alike_is_within_a_share_of_the_largest() {
        let one = network(3, 1, vec![(0, 1, 100.0)]).matrix;
        assert!(one.is_like(&network(3, 1, vec![(0, 1, 96.0), (1, 2, 3.0)]).matrix, 5.0));
        assert!(!one.is_like(&network(3, 1, vec![(0, 1, 96.0), (1, 2, 6.0)]).matrix, 5.0));
        assert!(!one.is_like(&network(4, 1, vec![(0, 1, 100.0)]).matrix, 5.0));
    }
}
