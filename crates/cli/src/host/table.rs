//! One interval of `lowtail host observe` as text.

use std::fmt::Write;

use lowtail_observe::{Finding, Snapshot};

use super::uplinks::{self, Wait};
use super::wording::{COLUMNS, cells, dark, next_steps, sentence, unseen};

/// What hurts, and a line for each VM.
pub(crate) fn text(snapshot: &Snapshot, findings: &[Finding]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} VMs, {:.1} s", snapshot.vms.len(), snapshot.interval_ms / 1e3);
    match findings {
        [] if snapshot.incomplete || dark(snapshot).next().is_some() => {}
        [] => text.push_str("  no findings\n"),
        _ => {
            for finding in findings {
                let _ = writeln!(text, "  {}", sentence(finding));
            }
            for step in next_steps(findings) {
                let _ = writeln!(text, "  {step}");
            }
        }
    }
    for line in dark(snapshot).chain(unseen(snapshot)) {
        let _ = writeln!(text, "  {line}");
    }
    let lost = &snapshot.lost;
    if *lost != Default::default() {
        let _ = writeln!(
            text,
            "  lost events: {} waits, {} of blame, {} packets, {} threads",
            lost.waits, lost.blame, lost.packets, lost.threads
        );
    }
    for why in &snapshot.coverage_gaps {
        let _ = writeln!(text, "  cannot see {why}");
    }
    if !snapshot.vms.is_empty() {
        let rows: Vec<Vec<String>> =
            snapshot.vms.iter().map(|vm| cells(vm, snapshot.interval_ms)).collect();
        text += &aligned(&COLUMNS, 1, &rows);
    }
    let matrices = Wait::BOTH.map(|wait| (wait, uplinks::matrix(snapshot, wait)));
    for (wait, matrix) in matrices.into_iter().filter(|(_, matrix)| !matrix.rows.is_empty()) {
        let _ = writeln!(text, "  {}", wait.title());
        let titles: Vec<&str> = matrix.titles.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> = matrix.rows.into_iter().map(|(cells, _)| cells).collect();
        text += &aligned(&titles, 1, &rows);
    }
    let rates: Vec<Vec<String>> = uplinks::rates(snapshot).into_iter().map(Vec::from).collect();
    if !rates.is_empty() {
        text += &aligned(&uplinks::RATES, 2, &rates);
    }
    text.push('\n');
    text
}

/// Columns that stand below each other: the first `names` to the left, the others to the right.
fn aligned(head: &[&str], names: usize, rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([head[i].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match i < names {
                true => write!(line, "  {cell:<width$}"),
                false => write!(line, "  {cell:>width$}"),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use lowtail_observe::Diagnosis;

    use super::*;
    use crate::host::example::snapshot;

    #[test]
    fn columns_stand_below_each_other_and_names_stay_data() {
        let snapshot = snapshot();
        let text = text(&snapshot, &Diagnosis::default().update(&snapshot));
        assert!(
            text.contains(
                "web\\u{1b}[2J: wake-up latency p99 4.00 ms (limit 1.00 ms); cause: batch ran on its CPU 100 % of the wait; for 1 s"
            ),
            "{text}"
        );
        assert!(text.contains("next: set weights or caps in a policy"), "{text}");
        assert!(!text.contains('\x1b'));
        let table: Vec<&str> =
            text.lines().filter(|line| line.contains("vCPUs") || line.ends_with("300")).collect();
        assert_eq!(table.len(), 2, "{text}");
        assert!(text.contains("mean ahead kB"), "{text}");
        assert_eq!(table[0].chars().count(), table[1].chars().count(), "{text}");
    }

    #[test]
    fn where_vcpus_are_not_seen_nothing_is_called_well() {
        let mut snapshot = snapshot();
        assert!(text(&snapshot, &[]).contains("no findings"));
        snapshot.vms[0].unseen_threads.vcpus = 1;
        let said = text(&snapshot, &[]);
        assert!(!said.contains("no findings"), "{said}");
        assert!(said.contains("batch: unknown; 1 of 2 vCPUs are not tracked"), "{said}");
        assert!(said.contains("batch: not tracked: 1 vCPUs"), "{said}");
        snapshot.vms[0].unseen_threads = Default::default();
        snapshot.incomplete = true;
        assert!(!text(&snapshot, &[]).contains("no findings"));
        snapshot.incomplete = false;
        snapshot.vms[0].threads.clear();
        assert!(!text(&snapshot, &[]).contains("no findings"));
    }
}
