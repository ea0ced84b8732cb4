//! One at a time changes a host.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::ledger::{self, Ledger};
use super::{Error, Plan, Setting, Wanted, plan};

const FILE: &str = "host.lock";

/// Who has it may change the host, and nobody else: a lock on a file (`flock(2)`), which the kernel takes back when the
/// process ends, however it ends.
#[derive(Debug)]
pub struct HostLock {
    pub(super) dir: PathBuf,
    pub(super) ledger: Ledger,
    lock: File,
}

impl HostLock {
    /// Takes hold of this host, with what earlier processes have left in the ledger in `dir`, which is
    /// [`journal::directory`](lowtail_kernel::journal::directory) but for tests.
    ///
    /// # Errors
    /// [`Error::Held`] if another process has it, and if lock or ledger cannot be read or written.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let (path, mut lock) = ledger::open(dir, FILE)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Held { pid: holder_pid(&mut lock) });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::File { what: "cannot lock", path, source });
            }
        }
        // For people: the lock is what counts, and where there is no room for a number it holds as well.
        let _ = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
        let ledger = Ledger::load(dir)?;
        Ok(HostLock { dir: dir.to_path_buf(), ledger, lock })
    }

    /// What has been changed and not been restored.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// As [`plan()`](super::plan()), with what will be there until somebody else changes it: nobody of us can.
    ///
    /// # Errors
    /// See there.
    pub fn plan(&self, settings: &[Setting], force: bool) -> Result<Plan, Error> {
        self.plan_wanted(&settings.to_vec().into(), force)
    }

    /// The same, where not all is known.
    ///
    /// # Errors
    /// See there.
    pub fn plan_wanted(&self, wanted: &Wanted, force: bool) -> Result<Plan, Error> {
        Ok(plan::with(&self.ledger, wanted, force))
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // Closing it would do but for a moment: a child that another thread has just begun has it open, too, until it
        // becomes another program.
        let _ = self.lock.unlock();
    }
}

/// The process that changes the host now, and has said so; `None` if nobody does.
pub fn holder(dir: &Path) -> Option<u32> {
    let mut lock = File::open(dir.join(FILE)).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => holder_pid(&mut lock),
        _ => None,
    }
}

fn holder_pid(lock: &mut File) -> Option<u32> {
    let mut text = String::new();
    lock.rewind().ok()?;
    lock.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
