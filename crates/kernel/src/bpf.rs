//! BPF programs in the running kernel.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libbpf_rs::{ErrorExt, ErrorKind, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::Error;

/// Open files for the largest of our objects.
const FILES: usize = 64;

/// What libbpf has said since the last program was opened: the log of the kernel's check of a program that it refuses, among others.
static SAID: Mutex<String> = Mutex::new(String::new());
/// So many bytes of it are kept, the last ones: a check may have said megabytes.
const SAID_MOST: usize = 1 << 14;
/// So many lines of that log are in the error.
const REASON_LINES: usize = 3;

/// Opens a compiled program, lets `prepare` set its sizes and constants, and loads it. Nothing is attached, nothing
/// is pinned: when the process ends, however it does, the kernel removes it all. `what` says what the kernel needs memory
/// for, how much, and how that could be less.
///
/// # Errors
/// If the kernel has no BPF, no BTF, no memory for it, or does not let this user load programs.
pub fn load(
    compiled: &[u8],
    what: impl FnOnce() -> String,
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    room().map_err(Error::Files)?;
    // What libbpf says goes into the error, not to the terminal.
    said().clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| hear(&mut said(), &text))));
    let loaded = ObjectBuilder::default().open_memory(compiled).and_then(|mut object| {
        prepare(&mut object)?;
        object.load()
    });
    loaded.map_err(|source| match source.kind() {
        // Since Linux 5.11 the control group of whoever makes a map pays for it.
        ErrorKind::OutOfMemory => Error::Memory(what()),
        _ => {
            let reason = reason(&said());
            let source = if reason.is_empty() { source } else { source.context(reason) };
            Error::Bpf { what: "load a BPF program", source }
        }
    })
}

fn said() -> MutexGuard<'static, String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds what libbpf says, and forgets what is too old.
fn hear(said: &mut String, text: &str) {
    said.push_str(text);
    let mut first = said.len().saturating_sub(SAID_MOST);
    while !said.is_char_boundary(first) {
        first += 1;
    }
    said.drain(..first);
}

/// Why the kernel has refused a program: the end of the log of its check, without the statistics. Empty if there is no such log.
fn reason(said: &str) -> String {
    let Some((log, _)) = said.split_once("-- END PROG LOAD LOG --") else { return String::new() };
    let lines = log.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("processed "));
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(REASON_LINES)..].join("; ")
}

/// Whether so many files can be opened as programs, maps and links are together, and what libbpf tries out before: where one
/// cannot, it gives other reasons.
fn room() -> io::Result<()> {
    let (end, _other) = io::pipe()?;
    let ends: io::Result<Vec<_>> = (0..FILES).map(|_| end.try_clone()).collect();
    ends.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_end_of_the_kernels_log() {
        let log = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\n3041: (61) r0 = *(u32 *)(r6 +24)\n\
                   3042: (95) exit\nAt callback return R0 should have been in [0, 1]\n\
                   processed 27843 insns (limit 1000000)\n-- END PROG LOAD LOG --\nlibbpf: prog 'x': failed to load\n";
        let expected = "3041: (61) r0 = *(u32 *)(r6 +24); 3042: (95) exit; At callback return R0 should have been in [0, 1]";
        assert_eq!(reason(log), expected);
        assert_eq!(reason("libbpf: failed to find BTF\n"), "");
        let mut said = "é".repeat(SAID_MOST);
        hear(&mut said, log);
        assert!(said.len() <= SAID_MOST);
        assert_eq!(reason(&said), expected);
    }
}
