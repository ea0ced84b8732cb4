//! Control groups that their quotas held up.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Snapshot, Throttled, VmSnapshot};
use lowtail_out::seconds::of_ns;

use super::histogram::whose;
use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// A group of a VM in an interval.
struct Row<'a> {
    snapshot: &'a Snapshot,
    vm: &'a VmSnapshot,
    group: &'a Throttled,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns: Vec<Column<Row<'a>>> = whose!(Row<'_>).into();
    columns.extend([
        Column::new(
            "group",
            "",
            "Which part of the VM: all of it, or a thread's group, such as `vcpu0`.",
            Get::Text(|row: &Row<'_>| row.group.group.as_given()),
        ),
        Column::new(
            "periods",
            "",
            "Periods in which it wanted to run.",
            Get::U64(|row| row.group.periods),
        ),
        Column::new(
            "throttled_periods",
            "",
            "Those in which its quota ran out.",
            Get::U64(|row| row.group.throttled_periods),
        ),
        Column::new(
            "throttled_seconds",
            "s",
            "For how long it was held up, in all its CPUs together.",
            Get::F64(|row| of_ns(row.group.throttled_ns)),
        ),
    ]);
    columns
}

/// The schema of [`throttled`].
pub fn throttled_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The control groups of VMs that have a quota, in each interval.
pub fn throttled(snapshots: &[Snapshot]) -> RecordBatch {
    let mut rows = Vec::new();
    for snapshot in snapshots {
        for vm in &snapshot.vms {
            rows.extend(vm.throttled.iter().map(|group| Row { snapshot, vm, group }));
        }
    }
    batch(throttled_schema(), &columns(), &rows)
}
