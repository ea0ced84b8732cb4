//! The kernel's description of its own types.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Where it is, below `/sys`.
pub const VMLINUX: &str = "kernel/btf/vmlinux";
/// A description that is larger is not read to its end.
const SIZE_MAX: u64 = 256 << 20;

/// Calls `each` with every name in it: of functions, types, fields. A name ends with a zero byte, whatever surrounds
/// it (the kernel's `Documentation/bpf/btf.rst`).
///
/// # Errors
/// If it cannot be read.
pub fn names(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?.take(SIZE_MAX));
    let mut name = Vec::new();
    while file.read_until(0, &mut name)? > 0 {
        each(name.strip_suffix(b"\0").unwrap_or(&name));
        name.clear();
    }
    Ok(())
}
