//! The policy headers inside the kernel: compiles a program of `bpf/`, loads it, runs it.

#![allow(dead_code, reason = "no test and no benchmark needs all of it")]

use std::path::PathBuf;
use std::process::Command;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};

/// The loaded programs and their variables.
pub(crate) struct Kernel {
    object: Object,
}

impl Kernel {
    /// Compiles and loads `bpf/policy_test.bpf.c`; `flags` go to the compiler.
    ///
    /// # Errors
    /// Why it cannot be done here: no compiler, no rights, a kernel without BPF.
    pub(crate) fn load(flags: &[&str]) -> Result<Self, String> {
        Self::load_program("policy_test", flags, &[])
    }

    /// Compiles and loads `bpf/<program>.bpf.c`, with so many entries in the maps named.
    ///
    /// # Errors
    /// As [`Kernel::load`].
    pub(crate) fn load_program(
        program: &str,
        flags: &[&str],
        entries: &[(&str, u32)],
    ) -> Result<Self, String> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let counts: String = entries.iter().map(|(_, count)| format!("-{count}")).collect();
        let name = format!("{program}-{}-{}{counts}.o", std::process::id(), flags.concat());
        let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let status = Command::new("clang-16")
            .args(["-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", &headers, "-I"])
            .arg(root.join("policy"))
            .args(flags)
            .arg("-c")
            .arg(root.join(format!("bpf/{program}.bpf.c")))
            .arg("-o")
            .arg(&output)
            .status()
            .map_err(|error| format!("clang-16: {error}"))?;
        if !status.success() {
            return Err(format!("clang-16 does not compile bpf/{program}.bpf.c"));
        }
        let loaded = ObjectBuilder::default().open_file(&output).and_then(|mut object| {
            for mut map in object.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if let Some((_, count)) = entries.iter().find(|(map, _)| *map == name) {
                    map.set_max_entries(*count)?;
                }
            }
            object.load()
        });
        // The kernel has it by now; a file left behind does no harm.
        let _ = std::fs::remove_file(&output);
        let object =
            loaded.map_err(|error| format!("the kernel loads no BPF program: {error:#}"))?;
        Ok(Kernel { object })
    }

    /// Its variables, as bytes.
    pub(crate) fn read(&self) -> Vec<u8> {
        let map = self.variables();
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).expect("variables are read");
        value.expect("there is one value")
    }

    /// Sets its variables.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let map = self.variables();
        map.update(&0u32.to_ne_bytes(), bytes, MapFlags::ANY).expect("variables are written");
    }

    fn variables(&self) -> libbpf_rs::Map<'_> {
        let bss = |map: &libbpf_rs::Map<'_>| map.name().to_string_lossy().ends_with(".bss");
        self.object.maps().find(bss).expect("the programs have variables")
    }

    /// An entry of an array map.
    pub(crate) fn entry(&self, map: &str, index: u32) -> Vec<u8> {
        let value = self.map(map).lookup(&index.to_ne_bytes(), MapFlags::ANY);
        value.expect("entries are read").expect("there is such an entry")
    }

    /// Sets an entry of an array map.
    pub(crate) fn set_entry(&self, map: &str, index: u32, value: &[u8]) {
        let map = self.map(map);
        map.update(&index.to_ne_bytes(), value, MapFlags::ANY).expect("entries are written");
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        let found = self.object.maps().find(|map| map.name().to_string_lossy() == name);
        found.expect("there is such a map")
    }

    /// Runs `program` so often (0 for programs that cannot be repeated); returns the mean
    /// duration of a run in ns, as the kernel measures it.
    pub(crate) fn run(&self, program: &str, repeat: u32) -> u128 {
        self.run_on(program, repeat, &[0; 64])
    }

    /// The same with `packet`.
    pub(crate) fn run_on(&self, program: &str, repeat: u32, packet: &[u8]) -> u128 {
        let mut input = ProgramInput { repeat, ..ProgramInput::default() };
        if repeat > 0 {
            input.data_in = Some(packet);
        }
        let output = self.program(program).test_run(input);
        output.expect("the program runs").duration.as_nanos()
    }

    /// Runs `program` once on `packet` with `context` (struct __sk_buff), in which the program
    /// may change what it likes; returns what it returned, and the packet after it.
    pub(crate) fn send(&self, program: &str, packet: &[u8], context: &mut [u8]) -> (u32, Vec<u8>) {
        let mut given = context.to_vec();
        let mut data = vec![0; packet.len() + 64];
        let input = ProgramInput {
            data_in: Some(packet),
            data_out: Some(&mut data),
            context_in: Some(&mut given),
            context_out: Some(context),
            ..ProgramInput::default()
        };
        let output = self.program(program).test_run(input).expect("the program runs");
        let after = output.data.expect("the packet comes back").to_vec();
        (output.return_value, after)
    }

    fn program(&self, name: &str) -> libbpf_rs::ProgramMut<'_> {
        let mut programs = self.object.progs_mut();
        programs.find(|p| p.name().to_string_lossy() == name).expect("the program is there")
    }
}

/// Whether a test that needs the kernel may skip for `reason`: not in CI.
///
/// # Panics
/// With the reason, in CI.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run in the kernel: {reason}");
    eprintln!("skipped: {reason}");
}
