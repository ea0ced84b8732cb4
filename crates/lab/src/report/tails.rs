//! The axes of distribution functions: times to the right, tails down, so that each further nine has the same height.

use std::fmt::Write as _;

use super::svg::{Scale, px, tick};

/// Where the lines of a chart are, in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The vertical axis.
    pub left: f64,
    /// Where lines of percentiles end.
    pub right: f64,
    /// The shortest value.
    pub top: f64,
    /// The horizontal axis.
    pub bottom: f64,
}

/// Percentiles that have a line, and which part of all is beyond them.
const LINES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p90", 0.1),
    ("p99", 0.01),
    ("p99.9", 1e-3),
    ("p99.99", 1e-4),
    ("p99.999", 1e-5),
    ("p99.9999", 1e-6),
];

/// Draws the axes, a line for each tick of `x`, and one for each percentile up to the tail `deepest`, of which `y` says how far down it is. `label`
/// says what the times are.
pub fn axes(
    out: &mut String,
    frame: &Frame,
    x: &Scale,
    y: &dyn Fn(f64) -> f64,
    deepest: f64,
    label: &str,
) {
    let Frame { left, right, top, bottom } = *frame;
    for value in x.ticks() {
        let at = px(x.at(value));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{at}\" y1=\"{top}\" x2=\"{at}\" y2=\"{bottom}\"/>\
             <text class=\"dim\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 17.0,
            tick(value)
        );
    }
    for (name, tail) in LINES.iter().filter(|(_, tail)| *tail >= deepest) {
        let at = px(y(*tail));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{at}\" x2=\"{right}\" y2=\"{at}\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{at}\" dy=\"4\" text-anchor=\"end\">{name}</text>",
            left - 8.0
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"dim\" x=\"{}\" y=\"{top}\" dy=\"4\" text-anchor=\"end\">min</text>\
         <path class=\"axis\" fill=\"none\" d=\"M{left} {top}V{bottom}H{right}\"/>\
         <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
        left - 8.0,
        (left + right) / 2.0,
        bottom + 40.0
    );
}
