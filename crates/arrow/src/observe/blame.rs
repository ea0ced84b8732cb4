//! Who ran while threads of VMs waited.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Blame, Snapshot, ThreadSnapshot, VmSnapshot};
use lowtail_out::seconds::of_ns;

use super::histogram::whose;
use super::word::{role, runner};
use crate::column::{Column, Get};
use crate::table::{Once, batch};
use crate::word::reason;

/// Who ran while a thread waited.
struct Row<'a> {
    snapshot: &'a Snapshot,
    vm: &'a VmSnapshot,
    thread: &'a ThreadSnapshot,
    blame: &'a Blame,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns: Vec<Column<Row<'a>>> = whose!(Row<'_>).into();
    columns.extend([
        Column::new(
            "tid",
            "",
            "The thread that waited.",
            Get::U32(|row: &Row<'_>| row.thread.tid),
        ),
        Column::new(
            "role",
            "",
            "What it does, as in `threads`.",
            Get::Text(|row| role(row.thread.role).0),
        ),
        Column::new(
            "index",
            "",
            "Its number among those that do the same.",
            Get::SomeU16(|row| role(row.thread.role).1),
        ),
        Column::new(
            "runner",
            "",
            "Who ran: `vm`, `process`, `kernel`, `idle` (nobody yet), `quota` (the group was not let) or `others`.",
            Get::Text(|row| runner(&row.blame.runner).0),
        ),
        Column::new(
            "runner_name",
            "",
            "The name of that VM, process or thread of the kernel's.",
            Get::SomeText(|row| runner(&row.blame.runner).1),
        ),
        Column::new(
            "runner_pid",
            "",
            "The process of that VM, or that process.",
            Get::SomeU32(|row| runner(&row.blame.runner).2),
        ),
        Column::new(
            "ready_seconds",
            "s",
            "For how long the thread was ready meanwhile.",
            Get::F64(|row| of_ns(row.blame.ready_ns)),
        ),
        Column::new(
            "reason",
            "",
            "Why they ran and the thread did not, where the hypervisor's own records say so (Xen).",
            Get::SomeText(|row| row.blame.reason.map(reason)),
        ),
    ]);
    columns
}

/// The schema of [`blame`].
pub fn blame_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// Who ran while threads of VMs waited for a CPU, in each interval.
pub fn blame(snapshots: &[Snapshot]) -> RecordBatch {
    let mut rows = Vec::new();
    for snapshot in snapshots {
        for vm in &snapshot.vms {
            for thread in &vm.threads {
                let of = |blame| Row { snapshot, vm, thread, blame };
                rows.extend(thread.blame.iter().map(of));
            }
        }
    }
    batch(blame_schema(), &columns(), &rows)
}
