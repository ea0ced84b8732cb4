//! A prediction for people: aligned columns, no colour.

use std::fmt::Write as _;

use crate::causes;
use crate::comparison::Figures;
use crate::prediction::{Prediction, Ranges, VmPrediction};
use crate::range::{Range, time};
use crate::waited::shown;
use lowtail_out::align;

/// Who has the figures of a row.
const KINDS: [&str; 3] = ["recorded", "replayed", "predicted"];

impl Prediction {
    /// What woke whom, as text.
    pub fn causes_table(&self) -> String {
        causes::table(&self.causes)
    }

    /// Whom each VM waited for, as text.
    pub fn blame_table(&self) -> String {
        blame_table(&self.vms)
    }

    /// The prediction as text.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "replay of the recording: {}", self.grade);
        let has = |kind: usize| self.vms.iter().any(|vm| row(vm, kind).is_some());
        let head = ["VM", "", "wake-up p50", "wake-up p99", "CPU"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        for vm in &self.vms {
            for kind in (0..KINDS.len()).filter(|&kind| has(kind)) {
                let name = if kind == 0 { vm.name.clone() } else { String::new() };
                let [p50, p99, cpu] =
                    row(vm, kind).unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned));
                rows.push(vec![name, KINDS[kind].to_owned(), p50, p99, cpu]);
            }
        }
        align(&mut out, "llrrr", &rows);
        if self.vms.is_empty() {
            out.push_str("no VMs in the recording: name them with `host record --vm`\n");
        }
        for worse in &self.worse {
            let _ = writeln!(out, "worse: {worse}");
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }
}

/// The rows that a VM has, each with who has its figures: median, 99th percentile and processor time for people.
pub fn figure_cells(vm: &VmPrediction) -> impl Iterator<Item = (&'static str, [String; 3])> {
    (0..KINDS.len()).filter_map(|kind| Some((KINDS[kind], row(vm, kind)?)))
}

fn row(vm: &VmPrediction, kind: usize) -> Option<[String; 3]> {
    let ranges = |ranges: &Ranges| {
        let percent = |value: f64| format!("{value:.1} %");
        [range(ranges.p50_us, time), range(ranges.p99_us, time), range(ranges.cpu_percent, percent)]
    };
    match kind {
        0 => vm.recorded.as_ref().map(figures),
        1 => vm.replayed.as_ref().map(ranges),
        _ => vm.predicted.as_ref().map(ranges),
    }
}

fn figures(of: &Figures) -> [String; 3] {
    let some = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), time);
    [some(of.p50_us), some(of.p99_us), format!("{:.1} %", of.cpu_percent)]
}

/// The middle, with least and greatest where they look otherwise.
pub(crate) fn range(range: Option<Range>, text: impl Fn(f64) -> String) -> String {
    range.map_or_else(|| "-".to_owned(), |range| range.text(text))
}

/// Whom all VMs waited for, as text.
fn blame_table(vms: &[VmPrediction]) -> String {
    let mut out = String::from("who ran while vCPUs waited:\n");
    let changed = vms.iter().any(|vm| vm.predicted.is_some());
    let head = ["VM", "behind", "recorded", "replayed", "predicted"];
    let (columns, shown_columns) = if changed { ("llrrr", 5) } else { ("llrr", 4) };
    let mut rows = vec![head[..shown_columns].iter().map(|&cell| cell.to_owned()).collect()];
    for vm in vms {
        let shown = shown(&vm.waited);
        for (n, row) in shown.iter().enumerate() {
            let name = if n == 0 { vm.name.clone() } else { String::new() };
            let figures = row.all_us().map(|us| us.map_or_else(|| "-".to_owned(), time));
            let cells = [name, row.ahead.words(&vm.name).to_owned()].into_iter().chain(figures);
            rows.push(cells.take(shown_columns).collect());
        }
        let more = vm.waited.len().saturating_sub(shown.len());
        if more > 0 {
            let mut cells = vec![String::new(), format!("and {more} more")];
            cells.resize(shown_columns, String::new());
            rows.push(cells);
        }
    }
    if rows.len() == 1 {
        let _ = writeln!(out, "  no vCPU of a VM waited");
        return out;
    }
    align(&mut out, columns, &rows);
    out
}
