//! Latency against cost: for each metric a line of panels, in each panel a curve for each scheduler. Whoever is nearer to the
//! corner at the lower left is better.

use std::fmt::Write as _;

use super::svg::{Scale, cut, escape, label, px, tick};
use crate::figure::figure;
use crate::file::FrontierFile;
use crate::metric;
use crate::outcome::Outcome;
use crate::row::Row;

const WIDTH: f64 = 1060.0;
const LEFT: f64 = 62.0;
/// Height of a line of panels, and the room below it for numbers.
const LINE: f64 = 210.0;
const BELOW: f64 = 34.0;
/// Room above the first line for the names of the panels.
const ABOVE: f64 = 26.0;
const GAP: f64 = 14.0;
/// Columns of the legend, and the height of one of its lines.
const LEGEND_COLUMNS: usize = 4;
const LEGEND_LINE: f64 = 20.0;
/// More curves than this cannot be told apart.
const SERIES_MAX: usize = 9;

/// A row as a point: cost and latency, each with half of its interval.
struct Point<'r> {
    row: &'r Row,
    cost: (f64, f64),
    latency: (f64, f64),
}

/// The chart and what it shows, or nothing if there is nothing to draw.
pub(super) fn chart(outcome: &Outcome) -> String {
    let Some(svg) = svg(outcome, "") else { return String::new() };
    let bars = if outcome.seeds > 1 {
        format!(" Bars are 95 % confidence intervals over {} seeds.", outcome.seeds)
    } else {
        String::new()
    };
    format!(
        "<figure>{svg}<figcaption>Latency against cost; what is nearer to the lower left corner of a \
         panel is better.{bars}</figcaption></figure>\n"
    )
}

/// The chart itself, with this style.
pub(super) fn svg(outcome: &Outcome, style: &str) -> Option<String> {
    let file = outcome.frontier.as_ref()?;
    let (panels, series) = (values(outcome, &file.panels), values(outcome, &file.series));
    if panels.is_empty()
        || series.is_empty()
        || series.len() > SERIES_MAX
        || file.metrics.is_empty()
    {
        return None;
    }
    let legend_lines = series.len().div_ceil(LEGEND_COLUMNS) as f64;
    let top = |line: usize| ABOVE + line as f64 * (LINE + BELOW);
    let bottom = top(file.metrics.len()) + 12.0;
    let height = bottom + legend_lines * LEGEND_LINE + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">\n{style}",
        escape(&format!("Latency against cost: {}", outcome.title))
    );
    let width = (WIDTH - LEFT - GAP * panels.len() as f64) / panels.len() as f64;
    let left = |panel: usize| LEFT + panel as f64 * (width + GAP);
    for (line, metric) in file.metrics.iter().enumerate() {
        let all = points(outcome, file, metric, None);
        let y = Scale::log(all.iter().map(|p| p.latency.0), top(line) + LINE, top(line));
        let unit = metric::unit(metric, outcome.unit);
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"14\" y=\"{0}\" transform=\"rotate(-90 14 {0})\" text-anchor=\"middle\">{1} ({unit})</text>",
            px(top(line) + LINE / 2.0),
            label(metric)
        );
        for (i, panel) in panels.iter().enumerate() {
            let of_panel = points(outcome, file, metric, Some(panel));
            let costs = of_panel.iter().map(|p| p.cost.0);
            let x = Scale::linear(costs.chain([0.0]), left(i) + 8.0, left(i) + width - 8.0);
            frame(&mut out, &x, &y, (left(i), width, top(line)), i == 0);
            if line == 0 {
                let _ = writeln!(
                    out,
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} {}</text>",
                    px(left(i) + width / 2.0),
                    top(0) - 10.0,
                    escape(&file.panels),
                    escape(&cut(panel, 20))
                );
            }
            // The first is on top.
            for (n, name) in series.iter().enumerate().rev() {
                let own: Vec<&Point<'_>> = of_panel
                    .iter()
                    .filter(|p| p.row.variable(&file.series) == Some(name))
                    .collect();
                curve(&mut out, &own, (n, &x, &y), (metric, file));
            }
        }
    }
    let _ = writeln!(
        out,
        "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} ({})</text>",
        px(LEFT + (WIDTH - LEFT) / 2.0),
        px(bottom - 10.0),
        escape(&file.cost),
        metric::unit(&file.cost, outcome.unit)
    );
    for (n, name) in series.iter().enumerate() {
        let x = LEFT + (n % LEGEND_COLUMNS) as f64 * (WIDTH - LEFT) / LEGEND_COLUMNS as f64;
        let y = bottom + 12.0 + (n / LEGEND_COLUMNS) as f64 * LEGEND_LINE;
        out += &mark(n, x + 6.0, y - 4.0, name);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            px(x + 18.0),
            px(y),
            escape(&cut(name, 34))
        );
    }
    Some(out + "</svg>")
}

/// The values of a variable, in the order of the rows.
fn values(outcome: &Outcome, variable: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in outcome.rows.iter().filter_map(|row| row.variable(variable)) {
        if !values.iter().any(|known| known == value) {
            values.push(value.to_string());
        }
    }
    values
}

/// The points of a metric, of all panels or of one.
fn points<'o>(
    outcome: &'o Outcome,
    file: &FrontierFile,
    metric: &str,
    panel: Option<&str>,
) -> Vec<Point<'o>> {
    let point = |row: &'o Row| {
        let with_interval = |name: &str| Some((row.get(name)?, row.interval(name).unwrap_or(0.0)));
        Some(Point { row, cost: with_interval(&file.cost)?, latency: with_interval(metric)? })
    };
    let rows = outcome.rows.iter().filter(|row| {
        row.variable(&file.series).is_some()
            && row
                .variable(&file.panels)
                .is_some_and(|value| panel.is_none_or(|panel| panel == value))
    });
    rows.filter_map(point).collect()
}

/// Grid and axes of a panel, with numbers at its left if it is the first.
fn frame(out: &mut String, x: &Scale, y: &Scale, (left, width, top): (f64, f64, f64), first: bool) {
    let (right, bottom) = (px(left + width), px(top + LINE));
    for value in y.ticks() {
        let at = px(y.at(value));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{}\" y1=\"{at}\" x2=\"{right}\" y2=\"{at}\"/>",
            px(left)
        );
        if first {
            let _ = writeln!(
                out,
                "<text class=\"dim\" x=\"{}\" y=\"{at}\" dy=\"4\" text-anchor=\"end\">{}</text>",
                px(left - 6.0),
                tick(value)
            );
        }
    }
    // Every other number: panels are narrow.
    for value in x.ticks().into_iter().step_by(2) {
        let at = px(x.at(value));
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{at}\" y1=\"{bottom}\" x2=\"{at}\" y2=\"{}\"/>\
             <text class=\"dim\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            px(top + LINE + 4.0),
            px(top + LINE + 18.0),
            tick(value)
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" fill=\"none\" d=\"M{0} {1}V{bottom}H{right}\"/>",
        px(left),
        px(top)
    );
}

/// A curve with its marks and bars.
fn curve(
    out: &mut String,
    points: &[&Point<'_>],
    (n, x, y): (usize, &Scale, &Scale),
    (metric, file): (&str, &FrontierFile),
) {
    let color = n % 8;
    if points.len() > 1 {
        let line: Vec<String> = points
            .iter()
            .map(|p| format!("{},{}", px(x.at(p.cost.0)), px(y.at(p.latency.0))))
            .collect();
        let _ = writeln!(
            out,
            "<polyline class=\"curve thin stroke c{color}\" points=\"{}\"/>",
            line.join(" ")
        );
    }
    for p in points {
        let ((cost, cost_half), (latency, half)) = (p.cost, p.latency);
        let (at_x, at_y) = (x.at(cost), y.at(latency));
        if half > 0.0 || cost_half > 0.0 {
            let _ = writeln!(
                out,
                "<path class=\"thin stroke c{color}\" d=\"M{0} {1}V{2}M{3} {4}H{5}\"/>",
                px(at_x),
                px(y.at(latency - half)),
                px(y.at(latency + half)),
                px(x.at(cost - cost_half)),
                px(at_y),
                px(x.at(cost + cost_half))
            );
        }
        let title = format!(
            "{}: {metric} {} {}, {} {}",
            p.row.name,
            figure(latency),
            p.row.unit.name(),
            file.cost,
            figure(cost)
        );
        *out += &mark(n, at_x, at_y, &title);
    }
}

/// The mark of a series: the first is the largest, and no two shapes of one colour are the same.
fn mark(n: usize, x: f64, y: f64, title: &str) -> String {
    let r = if n == 0 { 6.0 } else { 4.2 };
    let at = |dx: f64, dy: f64| format!("{} {}", px(x + dx * r), px(y + dy * r));
    let closed = |corners: &[(f64, f64)]| {
        let corners: Vec<String> = corners.iter().map(|(dx, dy)| at(*dx, *dy)).collect();
        format!("M{}Z", corners.join("L"))
    };
    let path = match n % 5 {
        0 => format!(
            "M{}A{r} {r} 0 1 1 {}A{r} {r} 0 1 1 {}Z",
            at(-1.0, 0.0),
            at(1.0, 0.0),
            at(-1.0, 0.0)
        ),
        1 => closed(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => closed(&[(0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)]),
        3 => closed(&[(0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)]),
        _ => closed(&[(-1.1, -0.9), (1.1, -0.9), (0.0, 1.1)]),
    };
    format!(
        "<path class=\"mark fill c{}\" d=\"{path}\"><title>{}</title></path>\n",
        n % 8,
        escape(title)
    )
}
