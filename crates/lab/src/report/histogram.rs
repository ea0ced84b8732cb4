//! Histograms below each other: how many values lie in each part of an axis, and how many beyond its ends.

use std::fmt::Write as _;

use super::svg::{escape, px};

const WIDTH: f64 = 1000.0;
/// Names stand left of the bars.
const LEFT: f64 = 236.0;
const RIGHT: f64 = 924.0;
/// Width of the bars for what is beyond an end, and how far those are from it.
const BEYOND: f64 = 34.0;
const GAP: f64 = 22.0;
const TOP: f64 = 18.0;
const BARS: f64 = 74.0;
/// A panel with the numbers below its bars.
const PANEL: f64 = 132.0;

/// Equal parts of a stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    /// Where the first part begins.
    pub low: f64,
    /// Where the last one ends; it is not in it.
    pub high: f64,
    /// How many there are.
    pub parts: usize,
    /// Whether they have equal ratios, not equal widths.
    pub logarithmic: bool,
}

impl Axis {
    /// Where `x` is, from 0 to 1 between the ends.
    fn share(&self, x: f64) -> f64 {
        let scaled = |x: f64| if self.logarithmic { x.ln() } else { x };
        (scaled(x) - scaled(self.low)) / (scaled(self.high) - scaled(self.low))
    }
}

/// How many values are in each part of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    axis: Axis,
    /// Below its lower end.
    pub below: usize,
    /// In each part.
    pub counts: Vec<usize>,
    /// At its upper end and above.
    pub above: usize,
}

impl Histogram {
    /// Of `values`.
    pub fn new(axis: Axis, values: impl Iterator<Item = f64>) -> Self {
        let mut histogram = Histogram { axis, below: 0, counts: vec![0; axis.parts], above: 0 };
        for x in values {
            if x < axis.low {
                histogram.below += 1;
            } else if x < axis.high {
                let part = (axis.share(x) * axis.parts as f64) as usize;
                histogram.counts[part.min(axis.parts - 1)] += 1;
            } else {
                // What is no number, too: of nothing in nothing there is no ratio.
                histogram.above += 1;
            }
        }
        histogram
    }

    /// How many values there are.
    pub fn n(&self) -> usize {
        self.below + self.counts.iter().sum::<usize>() + self.above
    }

    /// All bars from left to right: where each begins and ends, in pixels, how many values it has, and whether they are beyond an end.
    fn bars(&self) -> impl Iterator<Item = (f64, f64, usize, bool)> {
        let width = (RIGHT - LEFT) / self.counts.len() as f64;
        let part = move |(i, &count): (usize, &usize)| {
            let from = LEFT + width * i as f64;
            (from, from + width, count, false)
        };
        let below = (LEFT - GAP - BEYOND, LEFT - GAP, self.below, true);
        let above = (RIGHT + GAP, RIGHT + GAP + BEYOND, self.above, true);
        [below].into_iter().chain(self.counts.iter().enumerate().map(part)).chain([above])
    }
}

/// A histogram, and what stands beside it.
#[derive(Debug, Clone)]
pub struct Panel {
    /// What the values are.
    pub name: String,
    /// Of what, in one word each: of one, of several.
    pub values: [&'static str; 2],
    /// What the axis is.
    pub axis_name: &'static str,
    /// The values.
    pub histogram: Histogram,
    /// Where it has a line, with its label.
    pub marks: Vec<(f64, String)>,
}

/// All of `panels` below each other, called `title`; in this style.
pub(super) fn svg(title: &str, panels: &[Panel], style: &str) -> String {
    let height = TOP + PANEL * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">\n{style}",
        escape(title)
    );
    for (i, panel) in panels.iter().enumerate() {
        panel.draw(&mut out, TOP + PANEL * i as f64);
    }
    out + "</svg>"
}

impl Panel {
    fn draw(&self, out: &mut String, top: f64) {
        let (n, bottom) = (self.histogram.n(), top + BARS);
        let highest = self.histogram.bars().map(|(_, _, count, _)| count).max().unwrap_or(0);
        let values = format!("{n} {}", self.values[usize::from(n != 1)]);
        let lines =
            [("", &*self.name), ("dim", &values), ("dim", &format!("highest bar: {highest}"))];
        for (i, (class, text)) in lines.into_iter().enumerate() {
            let at = px(top + 28.0 + 18.0 * i as f64);
            let _ = writeln!(
                out,
                "<text class=\"{class}\" x=\"16\" y=\"{at}\">{}</text>",
                escape(text)
            );
        }
        self.marks(out, top, bottom);
        for (from, to, count, beyond) in self.histogram.bars() {
            if count > 0 {
                let height = BARS * count as f64 / highest as f64;
                let share = 100.0 * count as f64 / n as f64;
                let _ = writeln!(
                    out,
                    "<rect class=\"fill c{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">\
                     <title>{count} of {n}, {share:.1} %</title></rect>",
                    usize::from(beyond),
                    px(from + 1.0),
                    px(bottom - height),
                    px(to - from - 2.0),
                    px(height)
                );
            }
            if beyond {
                let _ = writeln!(
                    out,
                    "<path class=\"axis\" d=\"M{} {bottom}H{}\"/>\
                     <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    px(from),
                    px(to),
                    px((from + to) / 2.0),
                    px(bottom + 17.0),
                    if from < LEFT { "less" } else { "more" }
                );
            }
        }
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{RIGHT}\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            px((LEFT + RIGHT) / 2.0),
            px(bottom + 35.0),
            self.axis_name
        );
    }

    fn marks(&self, out: &mut String, top: f64, bottom: f64) {
        for (x, label) in &self.marks {
            let at = px(LEFT + self.histogram.axis.share(*x) * (RIGHT - LEFT));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{at} {top}V{}\"/>\
                 <text class=\"dim\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(bottom + 4.0),
                px(bottom + 17.0),
                escape(label)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four parts from 1/4 to 4: each doubles, the ends are 1/4, 1/2, 1, 2 and 4.
    #[test]
    fn values_are_counted_where_they_are() {
        let axis = Axis { low: 0.25, high: 4.0, parts: 4, logarithmic: true };
        let values = [0.2, 0.25, 0.4, 0.9, 1.1, 1.9, 2.1, 4.0, 5.0, f64::INFINITY, f64::NAN];
        let histogram = Histogram::new(axis, values.into_iter());
        assert_eq!((histogram.below, histogram.above), (1, 4));
        assert_eq!(histogram.counts, [2, 1, 2, 1]);
        assert_eq!(histogram.n(), values.len());
        let axis = Axis { low: -2.0, high: 2.0, parts: 4, logarithmic: false };
        let histogram = Histogram::new(axis, [-2.5, -1.5, 0.5, 0.6, 1.5, 2.0].into_iter());
        assert_eq!((histogram.below, histogram.counts, histogram.above), (1, vec![1, 0, 2, 1], 1));
    }

    /// The largest bar has all of the height, one with half of its values half of it; a mark stands in the middle.
    #[test]
    fn bars_are_as_high_as_their_shares() {
        let axis = Axis { low: 0.5, high: 2.0, parts: 21, logarithmic: true };
        let panel = Panel {
            name: "p<50>".to_string(),
            values: ["figure", "figures"],
            axis_name: "simulated / real",
            histogram: Histogram::new(axis, [1.0, 1.0, 3.0].into_iter()),
            marks: vec![(1.0, "1".to_string())],
        };
        let drawn = svg("all", &[panel], "");
        let bar = |class: &str| {
            let (_, rest) =
                drawn.split_once(&format!("<rect class=\"fill {class}\"")).expect("a bar");
            let (_, rest) = rest.split_once("height=\"").expect("a height");
            rest.split('"').next().expect("a number").parse::<f64>().expect("a number")
        };
        assert_eq!((bar("c0"), bar("c1")), (BARS, BARS / 2.0));
        assert!(drawn.contains(&format!("M{} {TOP}V", px((LEFT + RIGHT) / 2.0))), "{drawn}");
        assert!(drawn.contains("p&lt;50&gt;") && drawn.contains("3 figures"), "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 2);
    }
}
