//! How long the kernel takes to load the scheduler, and what it checks meanwhile.

use std::time::Instant;

use libbpf_rs::query::ProgInfoIter;
use lowtail_control::vcpu::{Options, Scheduler};
use serde_json::{Value, json};

/// Seconds of a load, and of each callback how many instructions the kernel has looked at, and how many there are.
pub(crate) fn verified() -> Value {
    let begin = Instant::now();
    let scheduler = Scheduler::load(&Options::default()).expect("a kernel with sched_ext");
    let load_s = begin.elapsed().as_secs_f64();
    let mut programs = json!({});
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy().into_owned();
        if name.starts_with("lowtail_") {
            programs[name] = json!({ "verified": program.verified_insns });
        }
    }
    drop(scheduler);
    json!({ "load_seconds": load_s, "programs": programs })
}
