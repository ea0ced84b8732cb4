//! Distribution functions: the share of values that are longer, on logarithmic axes, so
//! that each further nine of the tail has the same height. Published figures are dots.

use std::fmt::Write as _;

use super::svg::{Scale, cut, escape, px};
use super::tails::{self, Frame};
use crate::figure::figure;
use crate::metric;
use crate::outcome::Outcome;
use crate::row::Row;

const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 790.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 366.0;
const FRAME: Frame = Frame { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };

/// Published figures that are points of a distribution function: name and tail.
const POINTS: [(&str, f64); 6] =
    [("p25", 0.75), ("p50", 0.5), ("p75", 0.25), ("p90", 0.1), ("p99", 0.01), ("p99_9", 1e-3)];

/// One chart with a line per row, and what it shows.
pub(super) fn chart(outcome: &Outcome, rows: &[&Row]) -> String {
    let any = rows.iter().any(|row| !published(outcome, row).is_empty());
    let dots = if any { " Dots are published figures." } else { "" };
    format!(
        "<figure>{}<figcaption>Share of values up to each latency; every further nine has the same \
         height.{dots}</figcaption></figure>\n",
        svg(outcome, rows, "")
    )
}

/// The chart itself, with this style.
pub(super) fn svg(outcome: &Outcome, rows: &[&Row], style: &str) -> String {
    let published = |row: &Row| published(outcome, row);
    let values = rows.iter().flat_map(|row| {
        let ours = row.tail.iter().map(|(x, _)| *x);
        ours.chain(published(row).into_iter().map(|(_, x, _)| x))
    });
    let x = Scale::log(values, LEFT, RIGHT);
    let longest = rows.iter().map(|row| row.n).max().unwrap_or(1) as f64;
    // The last line is that of the last percentile with ten values above it.
    let deepest = (5.0 / longest).clamp(1e-7, 1e-3);
    let y = |tail: f64| TOP + (tail.clamp(deepest, 1.0).log10() / deepest.log10()) * (BOTTOM - TOP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{}\">\n{style}",
        escape(&format!("Distribution of latency: {}", outcome.title))
    );
    let label = format!("latency, {}", metric::unit("p50", outcome.unit));
    tails::axes(&mut out, &FRAME, &x, &y, deepest, &label);
    for (i, row) in rows.iter().enumerate() {
        let mut path = String::new();
        for (n, (span, tail)) in row.tail.iter().enumerate() {
            let _ = write!(
                path,
                "{}{} {}",
                if n == 0 { "M" } else { "L" },
                px(x.at(*span)),
                px(y(*tail))
            );
        }
        let _ = writeln!(
            out,
            "<path class=\"curve stroke c{i}\" d=\"{path}\"><title>{}</title></path>",
            escape(&row.name)
        );
    }
    for (i, row) in rows.iter().enumerate() {
        for (name, value, tail) in published(row) {
            let text =
                format!("{}: published {name} {} {}", row.name, figure(value), row.unit.name());
            let _ = writeln!(
                out,
                "<circle class=\"mark fill c{i}\" cx=\"{}\" cy=\"{}\" r=\"5\">\
                 <title>{}</title></circle>",
                px(x.at(value)),
                px(y(tail)),
                escape(&text)
            );
        }
    }
    let any = rows.iter().any(|row| !published(row).is_empty());
    legend(&mut out, rows, any);
    out + "</svg>"
}

/// The published points of a row: name, value in the row's unit, tail.
fn published(outcome: &Outcome, row: &Row) -> Vec<(&'static str, f64, f64)> {
    let claims = outcome.claims.iter().filter(|claim| claim.case.as_ref() == Some(&row.name));
    let points = claims.filter_map(|claim| {
        let (name, tail) = POINTS.iter().find(|(name, _)| *name == claim.metric)?;
        // Claims may have a unit of their own; the row's figure tells how they relate.
        let factor = match (row.get(&claim.metric), claim.measured) {
            (Some(own), Some(measured)) if measured > 0.0 => own / measured,
            _ => 1.0,
        };
        Some((*name, claim.published? * factor, *tail))
    });
    points.collect()
}

fn legend(out: &mut String, rows: &[&Row], published: bool) {
    let left = RIGHT + 24.0;
    let mut top = TOP + 12.0;
    for (i, row) in rows.iter().enumerate() {
        let _ = writeln!(
            out,
            "<line class=\"curve stroke c{i}\" x1=\"{left}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\
             <text x=\"{2}\" y=\"{top}\">{3}<title>{4}</title></text>",
            top - 4.0,
            left + 22.0,
            left + 30.0,
            escape(&cut(&row.name, 34)),
            escape(&row.name)
        );
        top += 21.0;
    }
    if published {
        let _ = writeln!(
            out,
            "<circle class=\"dim\" cx=\"{}\" cy=\"{}\" r=\"5\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{top}\">published</text>",
            left + 11.0,
            top - 4.0,
            left + 30.0
        );
    }
}
