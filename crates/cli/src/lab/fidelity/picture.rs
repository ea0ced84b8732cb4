//! Errors of a system's figures as a picture.

use lowtail_lab::report::histogram::{Axis, Histogram, Panel};
use lowtail_lab::report::histograms;
use lowtail_play::fidelity::Judged;
use lowtail_play::figure::Kind;

/// Ratios from half to double. Of 21 parts one has 1 in its middle, the three around it end at 1.104, the seven around it at 1.26: nearly
/// the first two steps of ratios.
const RATIOS: Axis = Axis { low: 0.5, high: 2.0, parts: 21, logarithmic: true };
/// Parts of a point each.
const POINTS: Axis = Axis { low: -10.0, high: 10.0, parts: 20, logarithmic: false };

/// The name of its file.
pub(super) fn file_name(judged: &Judged) -> String {
    format!("fidelity-{}.svg", judged.system.id())
}

/// The picture.
pub(super) fn svg(judged: &Judged) -> String {
    let panels: Vec<Panel> =
        judged.kinds.iter().map(|kind| panel(judged, kind.tally.figure)).collect();
    histograms(&format!("Errors of figures, {}", judged.system), &panels)
}

/// The errors of figures of a kind: ratios, or points of CPU time.
pub(super) fn histogram(judged: &Judged, kind: Kind) -> Histogram {
    let figures = judged.report.figures().map(|(_, figure)| figure);
    let errors = figures.filter(|figure| figure.figure == kind).map(|figure| figure.signed_error());
    match kind {
        Kind::CpuRatio => Histogram::new(POINTS, errors.map(|cpus| cpus * 100.0)),
        _ => Histogram::new(RATIOS, errors),
    }
}

fn panel(judged: &Judged, kind: Kind) -> Panel {
    let (axis_name, marks) = match kind {
        Kind::CpuRatio => {
            let points = [-10.0, -3.0, -1.0, 1.0, 3.0, 10.0];
            ("simulated minus real, points", points.map(|x| (x, format!("{x}"))).to_vec())
        }
        _ => {
            let ratios = [0.5, 1.0 / 1.25, 1.0 / 1.1, 1.1, 1.25, 2.0];
            let label = |x: f64| format!("{}", (x * 100.0).round() / 100.0);
            ("simulated / real", ratios.map(|x| (x, label(x))).to_vec())
        }
    };
    Panel {
        name: kind.in_words().0.to_string(),
        values: ["figure", "figures"],
        axis_name,
        histogram: histogram(judged, kind),
        marks,
    }
}
