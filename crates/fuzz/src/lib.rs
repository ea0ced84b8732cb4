//! Every reader of lowtail as a function of bytes.
//!
//! A [`Target`] is a reader with what holds of it whatever the bytes: it panics where that does not hold. `fuzz/` at the top
//! runs each under libFuzzer, `tests/replay.rs` runs what is kept in `fuzz/corpus` and `fuzz/regressions` on any toolchain.
//! [`run`] also counts what a reader allocates: as a bound of its memory, and in place of a clock as a bound of its time.

pub mod allocated;
pub mod mutate;
pub mod target;

use allocated::Use;
pub use target::TARGETS;

/// A reader.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called: the directory of its corpus, too.
    pub name: &'static str,
    /// Reads the bytes; panics if something does not hold.
    pub read: fn(&[u8]),
    /// Longest input that is worth a try, in bytes.
    pub bytes_max: usize,
    /// What it may allocate.
    pub most: Most,
    /// Words that mean something to it.
    pub words: &'static [&'static str],
}

/// What a reader may allocate for an input of `n` bytes: `fixed + each * n`.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// At once, in bytes.
    pub held: (u64, u64),
    /// All in all, in bytes, what was freed again as well.
    pub taken: (u64, u64),
}

impl Most {
    /// For readers of short texts, which may read each several times; a set of all CPUs takes 280 KiB.
    pub const TEXT: Most = Most { held: (1 << 20, 256), taken: (2 << 20, 4096) };
}

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
