//! What the scheduler's callbacks cost, by the kernel's own count.

use std::fs;

use libbpf_rs::query::ProgInfoIter;
use serde_json::{Value, json};

/// From now on the kernel counts calls of all BPF programs and their time, until the guest ends.
pub(crate) fn count() {
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").expect("root, and Linux since 5.1");
}

/// Mean time in nanoseconds and number of the calls of each callback that was called since it was loaded; empty if nobody counts.
pub(crate) fn costs() -> Value {
    let mut costs = json!({});
    for program in ProgInfoIter::default().filter(|program| program.run_cnt > 0) {
        // The kernel keeps 15 characters of a name.
        let name = program.name.to_string_lossy().into_owned();
        if name.starts_with("lowtail_") {
            let mean_ns = program.run_time_ns / program.run_cnt;
            costs[name] = json!({ "calls": program.run_cnt, "mean_ns": mean_ns });
        }
    }
    costs
}
