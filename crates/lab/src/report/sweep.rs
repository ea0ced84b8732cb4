//! A metric against a variable, one line per combination of the other variables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lowtail_engine::Duration;

use super::svg::{Scale, cut, escape, label, px, tick};
use crate::figure::figure;
use crate::metric;
use crate::outcome::Outcome;
use crate::row::Row;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 760.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 276.0;
/// More lines than this cannot be told apart.
const SERIES_MAX: usize = 8;

/// A line of the chart: its name and its points (variable, figure).
type Series = (String, Vec<(f64, f64)>);

/// A chart for the first metrics of `show`, or for p99; none if no variable is a number.
pub(super) fn charts(outcome: &Outcome, rows: &[&Row]) -> String {
    let Some(variable) = abscissa(rows) else { return String::new() };
    let metrics: Vec<&str> = match &outcome.show[..] {
        [] => vec!["p99"],
        [first, ..] => vec![first.as_str(), "p99"],
    };
    metrics.iter().map(|metric| chart(outcome, rows, &variable, metric)).collect()
}

/// A variable's value as a number; spans of time count in microseconds.
fn number(text: &str) -> Option<f64> {
    let span = || text.parse::<Duration>().ok().map(Duration::as_us_f64);
    text.parse().ok().filter(|x: &f64| x.is_finite()).or_else(span)
}

/// The numeric variable with the most values, three at least.
fn abscissa(rows: &[&Row]) -> Option<String> {
    let names: BTreeSet<&String> =
        rows.iter().flat_map(|row| &row.variables).map(|(n, _)| n).collect();
    let count = |name: &String| {
        let values: Vec<&str> = rows.iter().filter_map(|row| row.variable(name)).collect();
        let numeric = values.iter().all(|value| number(value).is_some());
        let distinct = values.into_iter().collect::<BTreeSet<_>>().len();
        if numeric { distinct } else { 0 }
    };
    let best = names.into_iter().max_by_key(|name| count(name))?;
    // A few side cases with a variable are no sweep.
    let having = rows.iter().filter(|row| row.variable(best).is_some()).count();
    (count(best) >= 3 && having * 2 >= rows.len()).then(|| best.clone())
}

/// The rows that have the variable, by the values of the others.
fn series(rows: &[&Row], variable: &str, metric: &str) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows {
        let (Some(x), Some(y)) = (row.variable(variable).and_then(number), row.get(metric)) else {
            continue;
        };
        let others = row.variables.iter().filter(|(name, _)| name != variable);
        let name =
            others.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y)),
            None => all.push((name, vec![(x, y)])),
        }
    }
    for (_, points) in &mut all {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    all
}

fn chart(outcome: &Outcome, rows: &[&Row], variable: &str, metric: &str) -> String {
    let all = series(rows, variable, metric);
    if all.is_empty() || all.len() > SERIES_MAX {
        return String::new();
    }
    let points = || all.iter().flat_map(|(_, points)| points.iter().copied());
    let x = Scale::linear(points().map(|(x, _)| x), LEFT + 12.0, RIGHT - 8.0);
    let smallest = points().map(|(_, y)| y).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
    let largest = points().map(|(_, y)| y).fold(0.0, f64::max);
    let log = largest / smallest > 20.0;
    let has_zero = points().any(|(_, y)| y == 0.0);
    // On a logarithmic axis zero has no place; it gets one below a gap.
    let floor = if log && has_zero { BOTTOM - 26.0 } else { BOTTOM };
    let scale = if log {
        Scale::log(points().map(|(_, y)| y), floor, TOP)
    } else {
        Scale::linear(points().map(|(_, y)| y).chain([0.0, largest * 1.05]), floor, TOP)
    };
    let y = |value: f64| if log && value == 0.0 { BOTTOM } else { scale.at(value) };
    let unit = metric::unit(metric, outcome.unit);
    let mut out = format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{} against {}\">\n",
        label(metric),
        escape(variable)
    );
    axes(&mut out, &x, &scale, (variable, &points().map(|(x, _)| x).collect::<Vec<_>>()));
    if log && has_zero {
        zero_line(&mut out);
    }
    for (i, (name, points)) in all.iter().enumerate() {
        let line: Vec<String> =
            points.iter().map(|(a, b)| format!("{},{}", px(x.at(*a)), px(y(*b)))).collect();
        let _ =
            writeln!(out, "<polyline class=\"curve stroke c{i}\" points=\"{}\"/>", line.join(" "));
        for (a, b) in points {
            let text = format!("{name}: {variable} {}: {} {unit}", tick(*a), figure(*b));
            let _ = writeln!(
                out,
                "<circle class=\"mark fill c{i}\" cx=\"{}\" cy=\"{}\" r=\"4.5\">\
                 <title>{}</title></circle>",
                px(x.at(*a)),
                px(y(*b)),
                escape(&text)
            );
        }
        let top = TOP + 12.0 + 21.0 * i as f64;
        let name = if name.is_empty() { metric } else { name };
        let _ = writeln!(
            out,
            "<line class=\"curve stroke c{i}\" x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\"/>\
             <text x=\"{3}\" y=\"{top}\">{4}</text>",
            RIGHT + 24.0,
            top - 4.0,
            RIGHT + 46.0,
            RIGHT + 54.0,
            escape(&cut(name, 26))
        );
    }
    let scale_name = if log { ", logarithmic" } else { "" };
    let _ = writeln!(
        out,
        "</svg><figcaption>{} ({unit}{scale_name}) against {}.</figcaption></figure>",
        label(metric),
        escape(variable)
    );
    out
}

fn axes(out: &mut String, x: &Scale, y: &Scale, (variable, values): (&str, &[f64])) {
    for value in y.ticks() {
        let at = px(y.at(value));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at}\" x2=\"{RIGHT}\" y2=\"{at}\"/>\
             <text class=\"dim\" x=\"{}\" y=\"{at}\" dy=\"4\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            tick(value)
        );
    }
    // The values themselves are the best ticks, as long as they leave room for labels.
    let mut last = f64::NEG_INFINITY;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    for value in sorted {
        let at = x.at(value);
        if at - last < 34.0 {
            continue;
        }
        last = at;
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{0}\" y1=\"{BOTTOM}\" x2=\"{0}\" y2=\"{1}\"/>\
             <text class=\"dim\" x=\"{0}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>",
            px(at),
            BOTTOM + 5.0,
            BOTTOM + 20.0,
            tick(value)
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>\
         <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 42.0,
        escape(variable)
    );
}

/// Where zero is drawn below a logarithmic axis.
fn zero_line(out: &mut String) {
    let _ = writeln!(
        out,
        "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\
         <text class=\"dim\" x=\"{}\" y=\"{BOTTOM}\" dy=\"4\" text-anchor=\"end\">0</text>",
        LEFT - 8.0
    );
}
