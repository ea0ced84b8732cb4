//! BPF programs in the running kernel.

use libbpf_rs::{ErrorKind, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::Error;

/// Opens a compiled program, lets `prepare` set its sizes and constants, and loads it. Nothing is attached, nothing
/// is pinned: when the process ends, however it does, the kernel removes it all. `what` says what the kernel needs memory
/// for, how much, and how that could be less.
///
/// # Errors
/// If the kernel has no BPF, no BTF, no memory for it, or does not let this user load programs.
pub(crate) fn load(
    compiled: &[u8],
    what: impl FnOnce() -> String,
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    // What libbpf says goes into the error, not to the terminal.
    libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
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
