//! Network namespaces without names, and threads that are in one.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::Error;

/// A network namespace. One without a name is gone when the last of its files is closed, with all that is in it, however this
/// process ends.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// A new one, empty.
    ///
    /// # Errors
    /// What the kernel says, usually because we are not root.
    pub fn new() -> Result<Self, Error> {
        let failed = |why: String| Error::network("cannot make a network namespace", why);
        in_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| failed(error.to_string()))?;
            let file = File::open("/proc/thread-self/ns/net");
            file.map(Namespace).map_err(|error| failed(error.to_string()))
        })
    }

    /// That for which a file stands, such as `/run/netns/<name>`.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        File::open(path).map(Namespace)
    }

    /// Moves the calling thread into it. Sockets that it makes from then on are there; those that it has stay where they are.
    ///
    /// # Errors
    /// What the kernel says: it is no network namespace, or not ours to enter.
    pub fn enter(&self) -> Result<(), Error> {
        setns(&self.0, CloneFlags::CLONE_NEWNET)
            .map_err(|error| Error::network("cannot enter a network namespace", error))
    }

    /// Does it in a thread that is in the namespace.
    ///
    /// # Errors
    /// As [`enter()`](Self::enter), or what `work` says; if it panics, that.
    pub fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        in_a_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// The path that stands for it while this process has it open.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Does it in a thread of its own, which takes its namespace with it.
fn in_a_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let spawned = thread::Builder::new().spawn_scoped(scope, work);
        let thread = spawned.map_err(|error| Error::network("cannot start a thread", error))?;
        thread.join().unwrap_or_else(|_| Err(Error::network("a thread", "it has panicked")))
    })
}
