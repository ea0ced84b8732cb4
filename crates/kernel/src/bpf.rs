//! BPF programs in the running kernel.

use libbpf_rs::{Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::Error;

/// Opens a compiled program, lets `prepare` set its sizes and constants, and loads it. Nothing is attached, nothing
/// is pinned: when the process ends, however it does, the kernel removes it all.
///
/// # Errors
/// If the kernel has no BPF, no BTF, or does not let this user load programs.
pub fn load(
    compiled: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<Object, Error> {
    // What libbpf says goes into the error, not to the terminal.
    libbpf_rs::set_print(None::<(PrintLevel, fn(PrintLevel, String))>);
    let loaded = ObjectBuilder::default().open_memory(compiled).and_then(|mut object| {
        prepare(&mut object)?;
        object.load()
    });
    loaded.map_err(|source| Error::Bpf { what: "load a BPF program", source })
}
