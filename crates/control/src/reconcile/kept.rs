//! A value that is kept as JSON in the directory of what is changed on this host.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use lowtail_kernel::journal;

/// Its file's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptFile(pub(super) &'static str);

impl KeptFile {
    /// What was kept in `dir`, if anything was.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn load<T: DeserializeOwned>(self, dir: &Path) -> io::Result<Option<T>> {
        match fs::read(dir.join(self.0)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a value in `dir`, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn save<T: Serialize>(self, dir: &Path, value: &T) -> io::Result<()> {
        journal::save(dir, self.0, &serde_json::to_vec(value)?)
    }

    /// Forgets what was kept.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn forget(self, dir: &Path) -> io::Result<()> {
        journal::forget(dir, self.0)
    }
}
