//! Tries of a test that measures time, and a record of them.

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::time::Instant;

/// How often a test is tried at most.
const TRIES: usize = 3;

/// The file to which [`tries()`] adds a line for each test; without it nothing is recorded.
const RECORD: &str = "LOWTAIL_TRIES";

/// Tries a test until it holds, three times at most. A test that failed is tried again only if a hypervisor took CPU time from
/// this host meanwhile.
///
/// Below a hypervisor a CPU may be gone for tens of milliseconds, a timer may come late, and a process may be slow to
/// start. All that makes delays longer, shares other than they were set, and rounds fewer; it never makes a wrong figure right.
/// A test that fails while nothing was taken has found something, a race perhaps, and further tries would hide it. This is
/// for tests of figures: a test that counts what was lost or left behind has to hold at once.
///
/// With `LOWTAIL_TRIES=FILE` each test adds a line to that file: where it is, how many tries it took, whether it held, and how
/// many milliseconds were stolen during the tries that failed. `scripts/tries` makes a table of it.
#[track_caller]
pub fn tries(test: impl Fn()) {
    let place = Location::caller();
    let mut stolen_all = 0;
    for number in 1..=TRIES {
        let (begin, before) = (Instant::now(), stolen_ms());
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else {
            return record(place, number, true, stolen_all);
        };
        let (stolen, took) = (stolen_ms() - before, begin.elapsed().as_millis());
        stolen_all += stolen;
        eprintln!("try {number} of {TRIES} failed; {stolen} ms of CPUs were stolen in {took} ms");
        if number == TRIES || stolen == 0 {
            record(place, number, false, stolen_all);
            resume_unwind(panic);
        }
    }
}

/// Adds a line to the record of tries, if there shall be one. One write a line, so that tests may do it at one time.
fn record(place: &Location<'_>, tries: usize, held: bool, stolen_ms: u64) {
    let Some(path) = std::env::var_os(RECORD) else { return };
    let held = if held { "held" } else { "failed" };
    let test = std::thread::current().name().unwrap_or("?").to_string();
    let (file, line) = (place.file(), place.line());
    let line = format!("{file}:{line}\t{test}\t{tries}\t{held}\t{stolen_ms}\n");
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// What hypervisors have taken of all CPUs: the eighth number of `cpu` in `/proc/stat`, `proc_stat(5)`, in
/// hundredths of a second.
pub fn stolen_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpus = stat.lines().next().unwrap_or_default();
    10 * cpus.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}
