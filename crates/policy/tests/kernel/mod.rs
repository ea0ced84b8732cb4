//! The policy headers inside the kernel: compiles `bpf/policy_test.bpf.c`, loads it, runs it.

use std::path::PathBuf;
use std::process::Command;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};

/// The loaded programs and their variables.
pub(crate) struct Kernel {
    object: Object,
}

impl Kernel {
    /// Compiles and loads the programs; `flags` go to the compiler.
    ///
    /// # Errors
    /// Why it cannot be done here: no compiler, no rights, a kernel without BPF.
    pub(crate) fn load(flags: &[&str]) -> Result<Self, String> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
        let name = format!("policy_test-{}-{}.o", std::process::id(), flags.concat());
        let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let headers = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
        let status = Command::new("clang-16")
            .args(["-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", &headers, "-I"])
            .arg(root.join("policy"))
            .args(flags)
            .arg("-c")
            .arg(root.join("bpf/policy_test.bpf.c"))
            .arg("-o")
            .arg(&output)
            .status()
            .map_err(|error| format!("clang-16: {error}"))?;
        if !status.success() {
            return Err("clang-16 does not compile bpf/policy_test.bpf.c".to_string());
        }
        let opened = ObjectBuilder::default().open_file(&output);
        let loaded = opened.and_then(|object| object.load());
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

    /// Runs `program` so often (0 for programs that cannot be repeated); returns the mean
    /// duration of a run in ns, as the kernel measures it.
    pub(crate) fn run(&self, program: &str, repeat: u32) -> u128 {
        let mut programs = self.object.progs_mut();
        let found = programs.find(|p| p.name().to_string_lossy() == program);
        let packet = [0u8; 64];
        let mut input = ProgramInput { repeat, ..ProgramInput::default() };
        if repeat > 0 {
            input.data_in = Some(&packet);
        }
        let output = found.expect("the program is there").test_run(input);
        output.expect("the program runs").duration.as_nanos()
    }
}

/// Whether a test that needs the kernel may skip for `reason`: not in CI.
///
/// # Panics
/// With the reason, in CI.
#[allow(dead_code, reason = "benchmarks do not skip")]
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run in the kernel: {reason}");
    eprintln!("skipped: {reason}");
}
