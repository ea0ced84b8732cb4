//! How busy the pCPUs were.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_trace::{Latency, PcpuUse};

use crate::column::{Column, Get};
use crate::table::{Once, batch};

fn columns() -> Vec<Column<PcpuUse>> {
    let ratio = |name, meaning, get: fn(&PcpuUse) -> f64| {
        Column::new(name, "ratio", meaning, Get::F64(get))
    };
    vec![
        Column::new("pcpu", "", "The number of the pCPU.", Get::U16(|row: &PcpuUse| row.pcpu)),
        ratio("busy_ratio", "Time in which a vCPU ran, of the span of the trace.", |row| {
            row.busy_ratio
        }),
        ratio("idle_ratio", "Time in which none did, of the same.", |row| row.idle_ratio),
        Column::new(
            "switches_per_second",
            "1/s",
            "How often a vCPU, idle included, was put on it.",
            Get::F64(|row| row.switches_per_second),
        ),
    ]
}

/// The schema of [`pcpus`].
pub fn pcpus_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// How busy the pCPUs of a trace were.
pub fn pcpus(latency: &Latency) -> RecordBatch {
    batch(pcpus_schema(), &columns(), &latency.pcpus)
}
