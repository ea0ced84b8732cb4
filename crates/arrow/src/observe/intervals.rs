//! Intervals.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::Snapshot;
use lowtail_out::seconds::of_ms;

use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// An interval, and what cannot be seen, as one text.
type Row<'a> = (&'a Snapshot, String);

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let number =
        |name, meaning, get: fn(&Row<'a>) -> u64| Column::new(name, "", meaning, Get::U64(get));
    vec![
        Column::new(
            "timestamp",
            "",
            "When the interval ended (UTC).",
            Get::Time(|row: &Row<'_>| row.0.unix_ms),
        ),
        Column::new(
            "interval_seconds",
            "s",
            "How long it was, by a clock that nobody sets.",
            Get::F64(|row| of_ms(row.0.interval_ms)),
        ),
        number("vms", "How many VMs there were.", |row| row.0.vms.len() as u64),
        number(
            "lost_waits",
            "Waits that the figures lack, as their beginning or end was not kept.",
            |row| row.0.lost.waits,
        ),
        number("lost_blame", "Waits that the blame lacks.", |row| row.0.lost.blame),
        number("lost_packets", "Packets whose way was not followed.", |row| row.0.lost.packets),
        number("lost_threads", "Threads of VMs that did not fit.", |row| row.0.lost.threads),
        Column::new(
            "incomplete",
            "",
            "There may be other VMs, and more threads of these.",
            Get::Bool(|row| row.0.incomplete),
        ),
        Column::new(
            "coverage_gaps",
            "",
            "What cannot be seen on this host, and why, a line for each; null if that is nothing.",
            Get::SomeText(|row| Some(row.1.as_str()).filter(|gaps| !gaps.is_empty())),
        ),
    ]
}

/// The schema of [`intervals`].
pub fn intervals_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The intervals, and what is not known of them.
pub fn intervals(snapshots: &[Snapshot]) -> RecordBatch {
    let rows: Vec<Row<'_>> =
        snapshots.iter().map(|snapshot| (snapshot, snapshot.coverage_gaps.join("\n"))).collect();
    batch(intervals_schema(), &columns(), &rows)
}
