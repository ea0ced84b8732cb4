//! Stand-ins for tests.

use std::fs;
use std::io::{self, BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::report::{Begun, Report};

/// A stand-in that runs. It is killed when this is dropped, and when the test ends.
#[derive(Debug)]
pub struct Standin {
    /// What it said when it had begun.
    pub begun: Begun,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// The command `lowtail-standin`, of the profile of the running test. Cargo does not build commands of other packages
/// for a test, so it is asked to, where there is none that is newer than its sources.
///
/// # Panics
/// If it cannot be built.
pub fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().expect("this test");
        // target/PROFILE/deps/TEST
        let profile = test.ancestors().nth(2).expect("a directory of a profile").to_path_buf();
        let binary = profile.join("lowtail-standin");
        if is_newer(&binary) {
            return binary;
        }
        if let Some(cargo) = std::env::var_os("CARGO") {
            let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
            let name = if name == "debug" { "test" } else { name };
            let status = Command::new(cargo)
                .args(["build", "--quiet", "-p", "lowtail-standin", "--profile", name])
                .arg("--target-dir")
                .arg(profile.parent().expect("a directory of all profiles"))
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(status.is_ok_and(|status| status.success()), "lowtail-standin does not build");
        }
        binary
    };
    BINARY.get_or_init(build).clone()
}

/// Whether the command is newer than all of its sources.
fn is_newer(binary: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let Some(built) = changed(binary) else { return false };
    let sources = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).into_iter().flatten();
    let mut sources = sources.flatten().filter_map(|entry| changed(&entry.path()));
    sources.all(|source| source < built)
}

/// Starts a stand-in with these arguments, words separated by blanks, and waits until it has begun.
///
/// # Errors
/// If it does not begin; why is on standard error.
pub fn start(args: &str) -> io::Result<Standin> {
    let mut command = Command::new(binary());
    command.args(args.split_whitespace());
    Standin::spawn(command)
}

impl Standin {
    /// Starts what `command` says, such as one in a network namespace, and waits until it has begun.
    ///
    /// # Errors
    /// If it does not begin; why is on standard error.
    pub fn spawn(mut command: Command) -> io::Result<Standin> {
        command.arg("--with-parent").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let mut lines = BufReader::new(stdout).lines();
        let begun = lines.next().ok_or_else(|| io::Error::other("it did not begin"))??;
        Ok(Standin { begun: serde_json::from_str(&begun)?, child, lines })
    }

    /// Lets it end, and gives what it has measured.
    ///
    /// # Errors
    /// If it does not tell.
    pub fn end(mut self) -> io::Result<Report> {
        kill(Pid::from_raw(self.begun.pid as i32), Signal::SIGTERM)?;
        self.report()
    }

    /// Waits until it ends by itself, and gives what it has measured.
    ///
    /// # Errors
    /// If it does not tell.
    pub fn report(&mut self) -> io::Result<Report> {
        let line = self.lines.next().ok_or_else(|| io::Error::other("it did not report"))??;
        self.child.wait()?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        // A clean end removes its control groups; it is given the time for that.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
