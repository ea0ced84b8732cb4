//! The columns of a histogram of delays.

/// Six columns: what JSON has of a histogram. Their names and meanings begin with these; `$of` has the histogram of a row, if it has one.
macro_rules! histogram {
    ($row:ty, $name:literal, $what:literal, $of:expr) => {{
        use lowtail_out::seconds::{of_ns, of_us};

        use crate::column::{Column, Get};

        /// As one that is called by name: it has a lifetime for each row.
        fn of<'r, 'a>(row: &'r $row) -> Option<&'r lowtail_observe::Histogram> {
            let of: for<'b> fn(&'b $row) -> Option<&'b lowtail_observe::Histogram> = $of;
            of(row)
        }
        macro_rules! percentile {
            ($end:literal, $share:literal, $said:literal) => {
                Column::new(
                    concat!($name, $end),
                    "s",
                    concat!($what, ": ", $said),
                    Get::SomeF64(|row| of(row)?.percentile_us($share).map(of_us)),
                )
            };
        }
        [
            Column::new(
                concat!($name, "_count"),
                "",
                concat!($what, ": how many."),
                Get::SomeU64(|row| of(row).map(|all| all.count())),
            ),
            Column::new(
                concat!($name, "_sum_seconds"),
                "s",
                concat!($what, ": all together."),
                Get::SomeF64(|row| of(row).map(|all| of_ns(all.sum_ns()))),
            ),
            percentile!("_p50_seconds", 0.5, "median; null if there is none."),
            percentile!("_p99_seconds", 0.99, "99 % are at most this."),
            percentile!("_p99_9_seconds", 0.999, "99.9 % are at most this."),
            Column::new(
                concat!($name, "_max_seconds"),
                "s",
                concat!($what, ": the longest; 0 if there is none."),
                Get::SomeF64(|row| of(row).map(|all| of_ns(all.max_ns()))),
            ),
        ]
    }};
}

/// The columns by which a VM in an interval is known, of rows that have it as `snapshot` and `vm`.
macro_rules! whose {
    ($row:ty) => {{
        use crate::column::{Column, Get};
        [
            Column::new(
                "timestamp",
                "",
                "When the interval ended (UTC).",
                Get::Time(|row: &$row| row.snapshot.unix_ms),
            ),
            Column::new("vm", "", "The VM's name.", Get::Text(|row| row.vm.name.as_given())),
            Column::new(
                "pid",
                "",
                "Its process; with `started_ticks` unique. Of a Xen's domain its number.",
                Get::U32(|row| row.vm.pid),
            ),
            Column::new(
                "started_ticks",
                "",
                "When that process started, in clock ticks since boot. Of a Xen's domain 0.",
                Get::U64(|row| row.vm.started_ticks),
            ),
        ]
    }};
}

pub(super) use {histogram, whose};
