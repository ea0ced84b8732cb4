//! Who ran while a vCPU waited.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_out::seconds::of_us;
use lowtail_trace::{Blame, Latency, VcpuLatency};

use crate::column::{Column, Get};
use crate::table::{Once, batch};
use crate::word::reason;

/// Who waited, and who ran.
struct Row<'a>(&'a VcpuLatency, &'a Blame);

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("vcpu", "", "The vCPU that waited.", Get::Text(|row| &row.0.vcpu)),
        Column::new(
            "runner",
            "",
            "The vCPU that ran meanwhile; `idle`, `xen` for switching, or `unknown`.",
            Get::Text(|row| &row.1.vcpu),
        ),
        Column::new(
            "reason",
            "",
            "Why that one ran and not the one that waited.",
            Get::Text(|row| reason(row.1.reason)),
        ),
        Column::new("ratio", "ratio", "Its part of the waiting time.", Get::F64(|row| row.1.share)),
        Column::new(
            "ready_seconds",
            "s",
            "The waiting time itself.",
            Get::F64(|row| of_us(row.1.waited_us)),
        ),
    ]
}

/// The schema of [`blame`].
pub fn blame_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The vCPUs that ran while others of a trace waited, and why.
pub fn blame(latency: &Latency) -> RecordBatch {
    let of = |vcpu| move |blame| Row(vcpu, blame);
    let rows: Vec<Row<'_>> =
        latency.vcpus.iter().flat_map(|vcpu| vcpu.blame.iter().map(of(vcpu))).collect();
    batch(blame_schema(), &columns(), &rows)
}
