//! Uplinks.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Snapshot, Uplink};

use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// An uplink in an interval.
struct Row<'a>(&'a Snapshot, &'a Uplink);

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new(
            "timestamp",
            "",
            "When the interval ended (UTC).",
            Get::Time(|row: &Row<'_>| row.0.unix_ms),
        ),
        Column::new(
            "uplink",
            "",
            "The interface's name; its number and its namespace, where it is in another one.",
            Get::Text(|row| row.1.name.as_given()),
        ),
        Column::new(
            "transmitted_bytes",
            "bytes",
            "Bytes that its driver was given.",
            Get::U64(|row| row.1.transmitted_bytes),
        ),
        Column::new(
            "bits_per_second",
            "bit/s",
            "The same as a rate.",
            Get::F64(|row| row.1.bits_per_second(row.0.interval_ms)),
        ),
    ]
}

/// The schema of [`uplinks`].
pub fn uplinks_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The uplinks by which packets of VMs left, in each interval.
pub fn uplinks(snapshots: &[Snapshot]) -> RecordBatch {
    let of = |snapshot| move |uplink| Row(snapshot, uplink);
    let rows: Vec<Row<'_>> =
        snapshots.iter().flat_map(|snapshot| snapshot.uplinks.iter().map(of(snapshot))).collect();
    batch(uplinks_schema(), &columns(), &rows)
}
