//! How long each vCPU waited and ran.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_out::seconds::of_us;
use lowtail_trace::{Latency, VcpuLatency};

use crate::column::{Column, Get};
use crate::table::{Once, batch};
use crate::word::recorded_role;

/// A vCPU, or a thread of a Linux host.
type Row<'a> = &'a VcpuLatency;

/// The columns of a distribution: their names and meanings begin with these, and `$of` has it of a row.
macro_rules! distribution {
    ($name:literal, $what:literal, $of:expr) => {{
        fn of<'a>(row: &Row<'a>) -> &'a lowtail_trace::Distribution {
            let of: for<'b> fn(&'b VcpuLatency) -> &'b lowtail_trace::Distribution = $of;
            of(row)
        }
        macro_rules! figure {
            ($end:literal, $field:ident, $said:literal) => {
                Column::new(
                    concat!($name, $end),
                    "s",
                    concat!($what, ": ", $said),
                    Get::SomeF64(|row| of(row).$field.map(of_us)),
                )
            };
        }
        [
            Column::new(
                concat!($name, "_count"),
                "",
                concat!($what, ": how many there are."),
                Get::U64(|row| of(row).n),
            ),
            figure!("_min_seconds", min, "the shortest; like the next ones null if there is none."),
            figure!("_p50_seconds", p50, "median."),
            figure!("_p90_seconds", p90, "90 % are at most this."),
            figure!("_p99_seconds", p99, "99 % are at most this."),
            figure!("_p99_9_seconds", p99_9, "99.9 % are at most this."),
            figure!("_max_seconds", max, "the longest."),
            Column::new(
                concat!($name, "_exact"),
                "",
                concat!($what, ": whether percentiles are exact; else they are within 0.1 %."),
                Get::Bool(|row| of(row).exact),
            ),
        ]
    }};
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let number =
        |name, meaning, get: fn(&Row<'a>) -> u64| Column::new(name, "", meaning, Get::U64(get));
    let mut columns = vec![
        Column::new(
            "vcpu",
            "",
            "The vCPU, such as `d1v0`; of a Linux host's thread `web-1 vcpu0` or `make[1234]`.",
            Get::Text(|row: &Row<'_>| &row.vcpu),
        ),
        Column::new(
            "tid",
            "",
            "The thread's number, of a Linux host.",
            Get::SomeU32(|row| row.thread.as_ref().map(|thread| thread.tid)),
        ),
        Column::new(
            "tgid",
            "",
            "Its process, if the recording names it.",
            Get::SomeU32(|row| row.thread.as_ref()?.tgid),
        ),
        Column::new(
            "comm",
            "",
            "Its name for itself.",
            Get::SomeText(|row| row.thread.as_ref()?.comm.as_deref()),
        ),
        Column::new(
            "vm",
            "",
            "The VM that it works for.",
            Get::SomeText(|row| row.thread.as_ref()?.vm.as_deref()),
        ),
        Column::new(
            "role",
            "",
            "What it does for that: `vcpu`, `vhost`, `io-thread`, `emulator` or `worker`.",
            Get::SomeText(|row| Some(recorded_role(row.thread.as_ref()?.role?).0)),
        ),
        Column::new(
            "index",
            "",
            "The number of the vCPU, vhost worker or I/O thread.",
            Get::SomeU16(|row| recorded_role(row.thread.as_ref()?.role?).1),
        ),
        Column::new(
            "cpu_ratio",
            "ratio",
            "Time running, of the span of the trace.",
            Get::F64(|row| row.cpu_ratio),
        ),
        Column::new(
            "switches_per_second",
            "1/s",
            "How often it was put on a pCPU.",
            Get::F64(|row| row.switches_per_second),
        ),
        number("wakeups", "How often it was woken from having blocked.", |row| row.wakeups),
        number(
            "raced_wakeups",
            "Those of them that came while it was being switched out.",
            |row| row.raced_wakeups,
        ),
    ];
    columns.extend(distribution!(
        "wakeup_latency",
        "From runnable to running, after having blocked",
        |row| &row.wakeup_latency
    ));
    columns.extend(distribution!(
        "preemption_latency",
        "From runnable to running, after having been taken off a pCPU",
        |row| &row.preemption_latency
    ));
    columns.extend(distribution!(
        "yield_latency",
        "From runnable to running, after having yielded",
        |row| &row.yield_latency
    ));
    columns.extend(distribution!("run_length", "Stays on a pCPU", |row| &row.run_length));
    columns.push(number(
        "passed_over_by_idle",
        "Waits in which an idle pCPU looked at it and stayed idle.",
        |row| row.passed_over_by_idle,
    ));
    columns.push(number("pauses", "How often it was paused.", |row| row.paused.pauses));
    columns.push(Column::new(
        "paused_seconds",
        "s",
        "For how long.",
        Get::F64(|row| of_us(row.paused.paused_us)),
    ));
    columns.push(number("waits_ended", "Waits that a pause ended.", |row| row.paused.waits_ended));
    columns.extend(distribution!("unpause_latency", "From the end of a pause to running", |row| {
        &row.paused.unpause_latency
    }));
    columns.push(number("excluded_lost", "Waits in no figure: they touch lost records.", |row| {
        row.excluded.lost
    }));
    columns.push(number(
        "excluded_inconsistent",
        "Waits in no figure: records contradict each other.",
        |row| row.excluded.inconsistent,
    ));
    columns.push(number(
        "excluded_at_end",
        "Waits in no figure: the trace ended before they did.",
        |row| row.excluded.at_end,
    ));
    columns
}

/// The schema of [`latency`].
pub fn latency_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// How long each vCPU of a trace waited and ran.
pub fn latency(latency: &Latency) -> RecordBatch {
    let rows: Vec<Row<'_>> = latency.vcpus.iter().collect();
    batch(latency_schema(), &columns(), &rows)
}
