//! Packets that the host dropped.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_observe::{Drop, Snapshot, VmSnapshot};

use super::histogram::whose;
use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// Packets of a VM that were dropped in an interval for one reason.
struct Row<'a> {
    snapshot: &'a Snapshot,
    vm: &'a VmSnapshot,
    drop: &'a Drop,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let mut columns: Vec<Column<Row<'a>>> = whose!(Row<'_>).into();
    columns.extend([
        Column::new(
            "reason",
            "",
            "The kernel's name for why, such as `QDISC_DROP`, or its number.",
            Get::Text(|row: &Row<'_>| &row.drop.reason),
        ),
        Column::new("packets", "packets", "How many.", Get::U64(|row| row.drop.packets)),
    ]);
    columns
}

/// The schema of [`drops`].
pub fn drops_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// Packets of VMs that the host dropped in each interval, by why.
pub fn drops(snapshots: &[Snapshot]) -> RecordBatch {
    let mut rows = Vec::new();
    for snapshot in snapshots {
        for vm in &snapshot.vms {
            let drops = vm.network.iter().flat_map(|network| &network.drops);
            rows.extend(drops.map(|drop| Row { snapshot, vm, drop }));
        }
    }
    batch(drops_schema(), &columns(), &rows)
}
