//! The threads that the events of a trace are about.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_trace::ThreadInfo;
use lowtail_trace::events::RecordedHost;

use crate::column::{Column, Get};
use crate::table::{Once, batch};
use crate::word::recorded_role;

/// A thread, and its name in tables.
type Row = (ThreadInfo, String);

fn columns() -> Vec<Column<Row>> {
    let text = |name, meaning, get: for<'r> fn(&'r Row) -> Option<&'r str>| {
        Column::new(name, "", meaning, Get::SomeText(get))
    };
    vec![
        Column::new(
            "tid",
            "",
            "The thread's number, as in `events`; of a Xen's vCPU one that stands for it.",
            Get::U32(|row: &Row| row.0.tid),
        ),
        Column::new(
            "vcpu",
            "",
            "Its name in tables, as in `latency`.",
            Get::Text(|row: &Row| &row.1),
        ),
        Column::new(
            "tgid",
            "",
            "Its process, if the trace names it.",
            Get::SomeU32(|row| row.0.tgid),
        ),
        text("comm", "Its name for itself, if the trace has it.", |row| row.0.comm.as_deref()),
        text("vm", "The VM that it works for.", |row| row.0.vm.as_deref()),
        text("role", "What it does for that, as in `latency`.", |row| {
            Some(recorded_role(row.0.role?).0)
        }),
        Column::new(
            "index",
            "",
            "The number of the vCPU, vhost worker or I/O thread.",
            Get::SomeU16(|row| recorded_role(row.0.role?).1),
        ),
    ]
}

/// The schema of [`threads`].
pub fn threads_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// What is known at the end of a trace of the threads with these numbers.
pub fn threads(host: &RecordedHost, tids: impl IntoIterator<Item = u32>) -> RecordBatch {
    let names = host.names();
    let rows: Vec<Row> = tids.into_iter().map(|tid| (names.thread(tid), names.name(tid))).collect();
    batch(threads_schema(), &columns(), &rows)
}
