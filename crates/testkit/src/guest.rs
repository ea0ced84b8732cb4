//! Guests: kernels that `scripts/guest` boots under QEMU, with a clock that counts instructions.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::boot;

/// Seconds of ours after which a guest counts as hung. Those of tests take minutes at most; how many more they take beside other work,
/// or on a slower machine, is no finding.
const HUNG_SECONDS: u64 = 1800;

/// A guest to be booted, with a program in it. Guests beside each other do not disturb each other: their clocks count
/// instructions.
#[derive(Debug)]
pub struct Guest {
    command: Command,
    also: Vec<PathBuf>,
}

impl Guest {
    /// A guest with `program` in it, under its own name and as `/bin/lowtail`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest");
        let mut command = Command::new(script);
        command.arg("run").arg(program);
        Guest { command, also: Vec::new() }.set("SECONDS", HUNG_SECONDS)
    }

    /// With the program of this test.
    pub fn of_this_test() -> Self {
        Guest::new(std::env::current_exe().expect("this test"))
    }

    /// With the command that runs there.
    pub fn command<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.command.args(words);
        self
    }

    /// With another program or file, under its own name in `/bin`.
    pub fn also(mut self, path: impl Into<PathBuf>) -> Self {
        self.also.push(path.into());
        self
    }

    /// With a setting of the script's, without its `LOWTAIL_GUEST_`: `CPUS`, `SECONDS`; `scripts/guest` lists them.
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.command.env(format!("LOWTAIL_GUEST_{name}"), value.to_string());
        self
    }

    /// Boots it, and returns how its command ended. `None` where no guest can be booted, and why on standard error; in CI one
    /// has to be.
    pub fn output(mut self) -> Option<Output> {
        let also: Vec<_> = self.also.iter().map(|path| path.display().to_string()).collect();
        if !also.is_empty() {
            self.command.env("LOWTAIL_GUEST_ALSO", also.join(":"));
        }
        boot::output(&mut self.command)
    }

    /// As [`output()`](Guest::output), of a command that has to succeed: what it printed on standard output.
    ///
    /// # Panics
    /// If the command in the guest failed.
    pub fn run(self) -> Option<String> {
        let Output { status, stdout, stderr } = self.output()?;
        let out = String::from_utf8_lossy(&stdout).into_owned();
        // So that a test that fails shows all.
        println!("{out}{}", String::from_utf8_lossy(&stderr));
        assert!(status.success(), "in the guest: {status}");
        Some(out)
    }
}
