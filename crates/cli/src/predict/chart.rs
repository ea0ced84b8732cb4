//! How a VM's wake-up latency is distributed, drawn as `lab run` draws distributions: each further nine has the same height.

use std::fmt::Write as _;

use lowtail_lab::report::svg::{Scale, escape, px};
use lowtail_lab::report::tails::{self, Frame};
use lowtail_predict::{Distribution, Range, VmPrediction};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 850.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 276.0;
const FRAME: Frame = Frame { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM };

/// A line of the chart: what it is called, its class and how it is dashed, its times from the shortest to the longest.
type Line<'a> = (&'static str, &'static str, &'static str, Vec<Range>);

/// The chart of `vm`; `None`: nobody has woken it, or too seldom.
pub(super) fn chart(vm: &VmPrediction) -> Option<String> {
    let Distribution { recorded, replayed, predicted } = &vm.distribution;
    let recorded = recorded.iter().map(|&us| Range { min: us, median: us, max: us }).collect();
    let lines: [Line<'_>; 3] = [
        ("recorded", "c7", "", recorded),
        ("replayed", "c0", " stroke-dasharray=\"6 4\"", replayed.clone()),
        ("predicted", "c1", "", predicted.clone()),
    ];
    let longest = lines.iter().map(|line| line.3.len()).max().filter(|&longest| longest > 1)?;
    // The shortest waits of all are those of chance, and would take most of the width.
    let all = lines.iter().flat_map(|line| line.3.iter().skip(1));
    let x = Scale::log(all.flat_map(|range| [range.min, range.max]), LEFT, RIGHT);
    let deepest = Distribution::tail(longest - 1);
    let y = |tail: f64| TOP + tail.log10() / deepest.log10() * (BOTTOM - TOP);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&format!("Distribution of wake-up latency of {}", vm.name))
    );
    tails::axes(&mut out, &FRAME, &x, &y, deepest, "from a wake-up to running, us");
    for (_, class, _, times) in &lines {
        let along = |of: fn(&Range) -> f64| points(times, &x, &y, of);
        let mut back: Vec<String> = along(|range| range.max);
        back.reverse();
        if times.iter().any(|range| range.max > range.min) {
            let area = [along(|range| range.min), back].concat().join("L");
            let _ = writeln!(
                out,
                "<path class=\"fill {class}\" fill-opacity=\"0.18\" d=\"M{area}Z\"/>"
            );
        }
    }
    for (name, class, dash, times) in &lines {
        if !times.is_empty() {
            let path = points(times, &x, &y, |range| range.median).join("L");
            let _ = writeln!(
                out,
                "<path class=\"curve stroke {class}\"{dash} d=\"M{path}\"><title>{name}</title></path>"
            );
        }
    }
    legend(&mut out, &lines);
    Some(out + "</svg>")
}

fn points(
    times: &[Range],
    x: &Scale,
    y: &dyn Fn(f64) -> f64,
    of: fn(&Range) -> f64,
) -> Vec<String> {
    let point = |(n, range): (usize, &Range)| {
        format!("{} {}", px(x.at(of(range))), px(y(Distribution::tail(n))))
    };
    times.iter().enumerate().map(point).collect()
}

fn legend(out: &mut String, lines: &[Line<'_>]) {
    let left = RIGHT + 20.0;
    let mut top = TOP + 12.0;
    for (name, class, dash, _) in lines.iter().filter(|line| !line.3.is_empty()) {
        let _ = writeln!(
            out,
            "<line class=\"curve stroke {class}\"{dash} x1=\"{left}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\
             <text x=\"{2}\" y=\"{top}\">{name}</text>",
            top - 4.0,
            left + 22.0,
            left + 30.0
        );
        top += 21.0;
    }
}
