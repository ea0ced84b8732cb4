//! Findings.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Finding, Snapshot};
use lowtail_out::seconds::of_ms;

use super::word::{queue, unit};
use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// A trouble of a VM in an interval.
struct Row<'a>(&'a Snapshot, &'a Finding);

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let figure =
        |name, meaning, get: fn(&Row<'a>) -> f64| Column::new(name, "", meaning, Get::F64(get));
    vec![
        Column::new(
            "timestamp",
            "",
            "When the interval ended (UTC).",
            Get::Time(|row: &Row<'_>| row.0.unix_ms),
        ),
        Column::new("vm", "", "The VM's name.", Get::Text(|row| row.1.vm.as_given())),
        Column::new("pid", "", "Its process.", Get::U32(|row| row.1.pid)),
        Column::new(
            "started_ticks",
            "",
            "When that started, in clock ticks since boot.",
            Get::U64(|row| row.1.started_ticks),
        ),
        Column::new(
            "queue",
            "",
            "Where its requests wait: `run-queue`, `host` or `network`.",
            Get::Text(|row| queue(row.1.queue)),
        ),
        Column::new(
            "symptom",
            "",
            "What is wrong: `wakeup-latency`, `ready-time`, `throttling`, `backend-latency`, `queueing-delay`, `receive-queueing-delay`, `drops` or `round-trip`.",
            Get::Text(|row| row.1.symptom.name()),
        ),
        figure("value", "How large it is, in `unit`: of delays the p99.", |row| row.1.value),
        figure("limit", "From which value on it is a finding.", |row| row.1.limit),
        Column::new(
            "unit",
            "",
            "The unit of both: `seconds`, `ratio` or `packets`.",
            Get::Text(|row| unit(row.1.unit)),
        ),
        Column::new(
            "duration_seconds",
            "s",
            "For how long it has been there.",
            Get::F64(|row| of_ms(row.1.duration_ms)),
        ),
    ]
}

/// The schema of [`findings`].
pub fn findings_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The findings of intervals.
pub fn findings(found: &[(&Snapshot, &[Finding])]) -> RecordBatch {
    let mut rows = Vec::new();
    for (snapshot, found) in found {
        rows.extend(found.iter().map(|finding| Row(snapshot, finding)));
    }
    batch(findings_schema(), &columns(), &rows)
}
