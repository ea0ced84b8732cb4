//! Causes of findings.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Cause, Culprit, Finding, Snapshot};

use super::word::{Who, runner, sender};
use crate::column::{Column, Get};
use crate::table::{Once, batch};
use crate::word::reason;

/// Who causes a trouble of a VM in an interval.
struct Row<'a> {
    snapshot: &'a Snapshot,
    finding: &'a Finding,
    cause: &'a Cause,
    /// From 1 on.
    place: u16,
}

impl Row<'_> {
    fn who(&self) -> Who<'_> {
        match &self.cause.culprit {
            Culprit::Runner(who) => runner(who),
            Culprit::Sender(who) => sender(who),
        }
    }
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new(
            "timestamp",
            "",
            "When the interval ended (UTC).",
            Get::Time(|row: &Row<'_>| row.snapshot.unix_ms),
        ),
        Column::new("vm", "", "The VM's name.", Get::Text(|row| row.finding.vm.as_given())),
        Column::new("pid", "", "Its process.", Get::U32(|row| row.finding.pid)),
        Column::new(
            "started_ticks",
            "",
            "When that started, in clock ticks since boot.",
            Get::U64(|row| row.finding.started_ticks),
        ),
        Column::new(
            "symptom",
            "",
            "What is wrong, as in `findings`.",
            Get::Text(|row| row.finding.symptom.name()),
        ),
        Column::new(
            "place",
            "",
            "The place among the causes of the finding, from 1 on.",
            Get::U16(|row| row.place),
        ),
        Column::new(
            "culprit",
            "",
            "`runner`: who ran on its CPU; `sender`: whose packets were before its own.",
            Get::Text(|row| match row.cause.culprit {
                Culprit::Runner(_) => "runner",
                Culprit::Sender(_) => "sender",
            }),
        ),
        Column::new(
            "who",
            "",
            "What that is: a word of `runner` in `blame`, or of `sender` in `senders`.",
            Get::Text(|row| row.who().0),
        ),
        Column::new("who_name", "", "Its name, if it has one.", Get::SomeText(|row| row.who().1)),
        Column::new("who_pid", "", "Its process, if it has one.", Get::SomeU32(|row| row.who().2)),
        Column::new(
            "ratio",
            "ratio",
            "Its part of the ready time, or of the bytes that left before the VM's packets.",
            Get::F64(|row| row.cause.ratio),
        ),
        Column::new(
            "reason",
            "",
            "Why it ran most of that time and the VM did not, where the hypervisor's own records say so (Xen).",
            Get::SomeText(|row| row.cause.reason.map(reason)),
        ),
        Column::new(
            "bits_per_second",
            "bit/s",
            "What a sender sends, through the uplink where it sends most.",
            Get::SomeF64(|row| row.cause.bits_per_second),
        ),
    ]
}

/// The schema of [`causes`].
pub fn causes_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// Who causes the findings of intervals, most first.
pub fn causes(found: &[(&Snapshot, &[Finding])]) -> RecordBatch {
    let mut rows = Vec::new();
    for (snapshot, found) in found {
        for finding in *found {
            let places = finding.causes.iter().zip(1..);
            rows.extend(places.map(|(cause, place)| Row { snapshot, finding, cause, place }));
        }
    }
    batch(causes_schema(), &columns(), &rows)
}
