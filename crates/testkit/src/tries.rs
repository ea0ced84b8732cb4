//! Tries of a test that measures time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

/// How often a test is tried.
const TRIES: usize = 3;

/// Tries a test until it holds, three times at most, and says of each try that failed what the hypervisor had taken.
///
/// Below a hypervisor a CPU may be gone for tens of milliseconds, a timer may come late, and a process may be slow to
/// start. All that makes delays longer, shares other than they were set, and rounds fewer; it never makes a wrong figure right,
/// and what is wrong is wrong in each try. So this is for tests of figures. A test that counts what was lost or left
/// behind has to hold at once.
pub fn tries(test: impl Fn()) {
    for number in 1..=TRIES {
        let (begin, before) = (Instant::now(), stolen_ms());
        match catch_unwind(AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(panic) if number == TRIES => resume_unwind(panic),
            Err(_) => {
                let (stolen, took) = (stolen_ms() - before, begin.elapsed().as_millis());
                eprintln!(
                    "try {number} of {TRIES} failed; {stolen} ms of CPUs were stolen in {took} ms"
                );
            }
        }
    }
}

/// What hypervisors have taken of all CPUs: the eighth number of `cpu` in `/proc/stat`, `proc_stat(5)`, in
/// hundredths of a second.
pub fn stolen_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpus = stat.lines().next().unwrap_or_default();
    10 * cpus.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}
