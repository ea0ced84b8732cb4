//! Scripts that boot something: `scripts/guest`, `scripts/xen`, and `scripts/xen-build`, which makes what is booted.

use std::process::{Command, Output};

use crate::needs::skip;

/// What they return where nothing can be booted: no QEMU, nothing to be had from Debian's archive.
const NOTHING_TO_BOOT: i32 = 125;

/// Runs one. `None` where nothing can be booted, and why on standard error; in CI it has to be.
pub fn output(command: &mut Command) -> Option<Output> {
    let output = command.output().expect("a shell");
    let why = String::from_utf8_lossy(&output.stderr);
    let skipped = output.status.code() == Some(NOTHING_TO_BOOT) && skip(Some(&why));
    (!skipped).then_some(output)
}
