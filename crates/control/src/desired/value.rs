//! What one place shall have.

use std::path::PathBuf;

use crate::manage::Key;

/// What one place shall have, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Where.
    pub target: Target,
    /// What, as [`manage`](crate::manage) has it.
    pub to: String,
    /// In words to people.
    pub why: String,
    /// Whether libvirt owns the place: it may put its own value there when it changes the VM.
    pub libvirts: bool,
}

/// A place that is yet to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file of a control group, below the mount point.
    Group(PathBuf, Key),
    /// Policy, nice value and slice of a thread.
    Thread(u32),
}
