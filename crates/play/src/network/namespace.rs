//! Network namespaces without names.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;

use lowtail_kernel::Error;
use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace. It is gone when this is, with all that is in it.
#[derive(Debug)]
pub(super) struct Namespace(File);

impl Namespace {
    /// A new one, empty and without IPv6, which would send by itself.
    pub(super) fn new() -> Result<Self, Error> {
        let failed = |why: String| Error::network("cannot make a network namespace", why);
        let made = thread::scope(|scope| {
            let make = || {
                unshare(CloneFlags::CLONE_NEWNET).map_err(|error| failed(error.to_string()))?;
                File::open("/proc/thread-self/ns/net").map_err(|error| failed(error.to_string()))
            };
            let spawned = thread::Builder::new().spawn_scoped(scope, make);
            spawned
                .map_err(|error| failed(error.to_string()))?
                .join()
                .unwrap_or_else(|_| Err(failed("its thread has panicked".into())))
        });
        let namespace = Namespace(made?);
        for of in ["all", "default"] {
            let file = format!("net/ipv6/conf/{of}/disable_ipv6");
            // A kernel without IPv6 has no such file.
            namespace.within(|| Ok(fs::write(format!("/proc/sys/{file}"), "1").is_ok()))?;
        }
        namespace.batch("ip", &["link set lo up".to_string()])?;
        Ok(namespace)
    }

    /// Moves the calling thread into it. Sockets that it makes from then on are there.
    pub(super) fn enter(&self) -> Result<(), Error> {
        setns(&self.0, CloneFlags::CLONE_NEWNET)
            .map_err(|error| Error::network("cannot enter a network namespace", error))
    }

    /// Does it in a thread that is in the namespace.
    pub(super) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        thread::scope(|scope| {
            let inside = || {
                self.enter()?;
                work()
            };
            let spawned = thread::Builder::new().spawn_scoped(scope, inside);
            let thread = spawned.map_err(|error| Error::network("cannot start a thread", error))?;
            thread.join().unwrap_or_else(|_| Err(Error::network("a thread", "it has panicked")))
        })
    }

    /// Sets a value below `/proc/sys`.
    pub(super) fn set(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = format!("/proc/sys/{file}");
        let write = || {
            fs::write(&path, value)
                .map_err(|error| Error::network(format!("{path} = {value}"), error))
        };
        self.within(write)
    }

    /// Runs `program` of iproute2 on all `lines`.
    pub(super) fn batch(&self, program: &str, lines: &[String]) -> Result<(), Error> {
        self.output(program, &["-batch", "-"], &lines.join("\n")).map(|_| ())
    }

    /// What `program` of iproute2 prints when it reads `input`.
    pub(super) fn output(
        &self,
        program: &str,
        words: &[&str],
        input: &str,
    ) -> Result<String, Error> {
        let failed = |why: String| Error::network(format!("{program} {}", words.join(" ")), why);
        let run = || {
            let mut command = Command::new(program);
            command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().map_err(|error| match error.kind() {
                ErrorKind::NotFound => failed("it is not there; install iproute2".into()),
                _ => failed(error.to_string()),
            })?;
            if let Some(mut stdin) = child.stdin.take() {
                // It says what was wrong when it ends before it has read all.
                let _ = stdin.write_all(input.as_bytes());
            }
            let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(failed(format!("{}; it was told:\n{input}", said.trim())));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        self.within(run)
    }

    /// The path that stands for it while this process has it open.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}
