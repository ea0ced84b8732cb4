//! Many rows at a glance: for each a bar from its median to its 99.9th percentile.

use std::fmt::Write as _;

use super::svg::{Scale, cut, escape, px, tick};
use crate::figure::figure;
use crate::outcome::Outcome;
use crate::row::Row;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 270.0;
const RIGHT: f64 = 970.0;
const TOP: f64 = 30.0;
const ROW: f64 = 18.0;
/// More rows than this make no picture; the table has them.
const ROWS_MAX: usize = 100;

/// One chart with a line per row.
pub(super) fn chart(outcome: &Outcome, rows: &[&Row]) -> String {
    if rows.len() > ROWS_MAX {
        return String::new();
    }
    let get = |row: &Row, name: &str| row.get(name).unwrap_or(0.0);
    let values = rows.iter().flat_map(|row| [get(row, "p50"), get(row, "p99_9")]);
    let x = Scale::log(values, LEFT, RIGHT);
    let bottom = TOP + ROW * rows.len() as f64;
    let mut out = format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Median to p99.9 of \
         each row\">\n",
        bottom + 10.0
    );
    for value in x.ticks() {
        let at = px(x.at(value));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{at}\" y1=\"{TOP}\" x2=\"{at}\" y2=\"{bottom}\"/>\
             <text class=\"dim\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            TOP - 8.0,
            tick(value)
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">latency, {}</text>",
        LEFT - 14.0,
        TOP - 8.0,
        outcome.unit.name()
    );
    for (i, row) in rows.iter().enumerate() {
        let middle = TOP + ROW * (i as f64 + 0.5);
        let [p50, p99, p99_9] = ["p50", "p99", "p99_9"].map(|name| x.at(get(row, name)));
        let unit = row.unit.name();
        let figures = ["p50", "p99", "p99_9"].map(|name| figure(get(row, name)));
        let text = format!(
            "{}: p50 {}, p99 {}, p99.9 {} {unit}",
            row.name, figures[0], figures[1], figures[2]
        );
        let _ = writeln!(
            out,
            "<g><title>{}</title><text x=\"{}\" y=\"{middle}\" dy=\"4\" \
             text-anchor=\"end\">{}</text>\
             <line class=\"curve stroke c0\" x1=\"{}\" y1=\"{middle}\" x2=\"{}\" y2=\"{middle}\"/>\
             <circle class=\"mark fill c0\" cx=\"{}\" cy=\"{middle}\" r=\"5\"/>\
             <circle class=\"mark fill c4\" cx=\"{}\" cy=\"{middle}\" r=\"4\"/>\
             <path class=\"curve stroke c1\" d=\"M{} {}v10\"/></g>",
            escape(&text),
            LEFT - 14.0,
            escape(&cut(&row.name, 40)),
            px(p50),
            px(p99_9),
            px(p50),
            px(p99),
            px(p99_9),
            middle - 5.0
        );
    }
    let _ = writeln!(
        out,
        "</svg><figcaption>Of each row the median (large dot), p99 (small dot) and p99.9 \
         (tick).</figcaption></figure>"
    );
    out
}
