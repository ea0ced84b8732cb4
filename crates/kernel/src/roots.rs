//! Where the kernel tells about itself.

use std::path::{Path, PathBuf};

/// The mounted `proc` and `sys`. Tests give trees of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// In place of `/proc`.
    pub proc: PathBuf,
    /// In place of `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { proc: PathBuf::from("/proc"), sys: PathBuf::from("/sys") }
    }
}

impl Roots {
    /// Where a path that the kernel has told, such as a mount point, is below these roots.
    pub fn place(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("/sys"), path.strip_prefix("/proc")) {
            (Ok(rest), _) => self.sys.join(rest),
            (_, Ok(rest)) => self.proc.join(rest),
            _ => path.to_path_buf(),
        }
    }
}
