//! Threads of VMs.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Snapshot, ThreadSnapshot, VmSnapshot};
use lowtail_out::seconds::of_ns;

use super::histogram::{histogram, whose};
use super::word::role;
use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// A thread of a VM in an interval.
struct Row<'a> {
    snapshot: &'a Snapshot,
    vm: &'a VmSnapshot,
    thread: &'a ThreadSnapshot,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let seconds =
        |name, meaning, get: fn(&Row<'a>) -> f64| Column::new(name, "s", meaning, Get::F64(get));
    let mut columns: Vec<Column<Row<'a>>> = whose!(Row<'_>).into();
    columns.extend([
        Column::new("tid", "", "The thread's number.", Get::U32(|row: &Row<'_>| row.thread.tid)),
        Column::new(
            "role",
            "",
            "What it does: `vcpu`, `vhost`, `io-thread`, `emulator` or `worker`.",
            Get::Text(|row| role(row.thread.role).0),
        ),
        Column::new(
            "index",
            "",
            "The number of the vCPU, vhost worker or I/O thread.",
            Get::SomeU16(|row| role(row.thread.role).1),
        ),
        Column::new(
            "comm",
            "",
            "Its name for itself.",
            Get::Text(|row| row.thread.comm.as_given()),
        ),
        seconds("run_time_seconds", "Run time in the interval.", |row| {
            of_ns(row.thread.run_time_ns)
        }),
        seconds(
            "ready_after_wakeup_seconds",
            "Time of the interval in which it was woken and did not run yet.",
            |row| of_ns(row.thread.ready_after_wakeup_ns),
        ),
        seconds(
            "ready_after_preemption_seconds",
            "Time of the interval in which it was preempted and did not run again yet.",
            |row| of_ns(row.thread.ready_after_preemption_ns),
        ),
    ]);
    columns.extend(histogram!(
        Row<'a>,
        "wakeup_latency",
        "Waits after a wake-up that ended in the interval",
        |row| Some(&row.thread.wakeup_latency)
    ));
    columns.extend(histogram!(
        Row<'a>,
        "preemption_latency",
        "Waits after a preemption that ended in the interval",
        |row| Some(&row.thread.preemption_latency)
    ));
    columns.push(seconds(
        "current_wait_seconds",
        "For how long it had been waiting when the interval ended; 0 if it was not.",
        |row| of_ns(row.thread.current_wait_ns),
    ));
    columns
}

/// The schema of [`threads`].
pub fn threads_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The threads of all VMs of each interval.
pub fn threads(snapshots: &[Snapshot]) -> RecordBatch {
    let mut rows = Vec::new();
    for snapshot in snapshots {
        for vm in &snapshot.vms {
            rows.extend(vm.threads.iter().map(|thread| Row { snapshot, vm, thread }));
        }
    }
    batch(threads_schema(), &columns(), &rows)
}
