//! Who ran on the other thread of a vCPU's core.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_out::seconds::of_us;
use lowtail_trace::{Latency, SmtSibling, VcpuLatency};

use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// Whose core it is, and who ran beside it.
struct Row<'a>(&'a VcpuLatency, &'a SmtSibling);

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::new("vcpu", "", "A vCPU.", Get::Text(|row| &row.0.vcpu)),
        Column::new(
            "sibling",
            "",
            "The vCPU that ran beside it on its core (SMT).",
            Get::Text(|row| &row.1.vcpu),
        ),
        Column::new(
            "ratio",
            "ratio",
            "For how long both ran, of the run time of the first one.",
            Get::F64(|row| row.1.share),
        ),
        Column::new(
            "run_time_seconds",
            "s",
            "That time itself.",
            Get::F64(|row| of_us(row.1.ran_us)),
        ),
    ]
}

/// The schema of [`smt_siblings`].
pub fn smt_siblings_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// Which vCPUs shared their cores while they ran, of traces that say which CPUs are of one core.
pub fn smt_siblings(latency: &Latency) -> RecordBatch {
    let of = |vcpu| move |sibling| Row(vcpu, sibling);
    let rows: Vec<Row<'_>> =
        latency.vcpus.iter().flat_map(|vcpu| vcpu.smt_siblings.iter().map(of(vcpu))).collect();
    batch(smt_siblings_schema(), &columns(), &rows)
}
