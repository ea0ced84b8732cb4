//! The kernel's description of its own types.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Where it is, below `/sys`.
pub const VMLINUX: &str = "kernel/btf/vmlinux";
/// A description that is larger is not read to its end.
const SIZE_MAX: u64 = 256 << 20;
/// The first two bytes, and how many there are before the types (`struct btf_header`, `linux/btf.h`).
const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;

/// Calls `each` with every name in it: of functions, types, fields. A name ends with a zero byte, whatever surrounds
/// it (the kernel's `Documentation/bpf/btf.rst`).
///
/// # Errors
/// If it cannot be read.
pub fn names(path: &Path, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut header = Vec::new();
    file.by_ref().take(HEADER as u64).read_to_end(&mut header)?;
    // Where there is no such header, all of it may be names.
    file.seek(SeekFrom::Start(strings(&header).unwrap_or(0)))?;
    let mut file = BufReader::with_capacity(1 << 20, file.take(SIZE_MAX));
    let mut name = Vec::new();
    while file.read_until(0, &mut name)? > 0 {
        each(name.strip_suffix(b"\0").unwrap_or(&name));
        name.clear();
    }
    Ok(())
}

/// Where the names begin, behind the types, which are three quarters of it.
fn strings(header: &[u8]) -> Option<u64> {
    let header: &[u8; HEADER] = header.try_into().ok()?;
    let word = |at: usize| {
        let bytes = header[at..at + 4].try_into().expect("four bytes");
        u64::from(u32::from_ne_bytes(bytes))
    };
    let (length, strings) = (word(4), word(16));
    (u16::from_ne_bytes([header[0], header[1]]) == MAGIC).then_some(length + strings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("vmlinux");
        std::fs::write(&path, bytes).expect("a file");
        let mut found = Vec::new();
        names(&path, |name| found.push(String::from_utf8_lossy(name).into_owned())).expect("read");
        found
    }

    /// Types are full of zeros, and of bytes that could be names.
    #[test]
    fn only_names() {
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        // Header, types at 0 of 6 bytes, names at 6.
        for word in [24_u32, 0, 6, 6, 9] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(b"x\0y\0zz\0a_t\0int\0");
        assert_eq!(all(&bytes), ["", "a_t", "int"]);
    }

    #[test]
    fn what_has_no_header() {
        assert_eq!(all(b"a_t\0int\0"), ["a_t", "int"]);
        let behind_the_end = [&MAGIC.to_ne_bytes()[..], &[0xff; 22]].concat();
        assert!(all(&behind_the_end).is_empty());
    }
}
