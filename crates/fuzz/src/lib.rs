//! Every reader of lowtail as a function of bytes.
//!
//! A [`Target`] is a reader with what holds of it whatever the bytes: it panics where that does not hold. `fuzz/` at the top
//! runs each under libFuzzer, `tests/replay.rs` runs what is kept in `fuzz/corpus` and `fuzz/regressions` on any toolchain.
//! [`run`] also counts what a reader allocates: as a bound of its memory, and in place of a clock as a bound of its time.

pub mod allocated;
pub mod mutate;
mod reader;
pub mod target;

use allocated::Use;
pub use reader::{Most, Target};
pub use target::TARGETS;

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs a target on an input, of which no more than [`Target::bytes_max`] is read.
///
/// # Panics
/// If something does not hold, or more was allocated than the target may.
pub fn run(target: &Target, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(target.bytes_max)];
    let used = allocated::measure(|| (target.read)(bytes));
    let length = bytes.len() as u64;
    let Use { held, taken } = used;
    let at_most = |(fixed, each): (u64, u64)| fixed + each * length;
    assert!(held <= at_most(target.most.held), "{held} bytes at once for {length}");
    assert!(taken <= at_most(target.most.taken), "{taken} bytes allocated for {length}");
}

/// Runs the target `name`, for `fuzz/fuzz_targets`.
///
/// # Panics
/// As [`run`], and if there is no such target.
pub fn run_named(name: &str, bytes: &[u8]) {
    run(find(name).expect("a target of this name"), bytes);
}
