//! BPF programs in the running kernel.

use std::io;

use libbpf_rs::{ErrorKind, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::Error;

/// Open files for the largest of our objects.
const FILES: usize = 64;

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
    if std::env::var_os("LOWTAIL_BPF_LOG").is_some() {
        libbpf_rs::set_print(Some((PrintLevel::Debug, |_, s: String| eprint!("{s}"))));
    } else {
        libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
    }
    let loaded = ObjectBuilder::default().open_memory(compiled).and_then(|mut object| {
        prepare(&mut object)?;
        object.load()
    });
    loaded.map_err(|source| match source.kind() {
        // Since Linux 5.11 the control group of whoever makes a map pays for it.
        ErrorKind::OutOfMemory => Error::Memory(what()),
        _ => Error::Bpf { what: "load a BPF program", source },
    })
}

/// Whether so many files can be opened as programs, maps and links are together, and what libbpf tries out before: where one
/// cannot, it gives other reasons.
fn room() -> io::Result<()> {
    let (end, _other) = io::pipe()?;
    let ends: io::Result<Vec<_>> = (0..FILES).map(|_| end.try_clone()).collect();
    ends.map(drop)
}
