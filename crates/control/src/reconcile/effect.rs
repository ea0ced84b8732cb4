//! What a policy has done to VMs: figures from before and after, for `status`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kept::KeptFile;
use lowtail_kernel::VmEffect;

const FILE: KeptFile = KeptFile("host.effect");

/// What was observed before a policy was applied, and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Before.
    pub before: Vec<VmEffect>,
    /// After, the last time that somebody looked.
    pub after: Vec<VmEffect>,
}

impl Effect {
    /// What was kept in `dir`, if anything was.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(dir: &Path) -> io::Result<Option<Self>> {
        FILE.load(dir)
    }

    /// Keeps it in `dir`, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        FILE.save(dir, self)
    }

    /// Forgets what was kept.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(dir: &Path) -> io::Result<()> {
        FILE.forget(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Effect::load(dir.path()).expect("none"), None);
        let vm = VmEffect {
            name: "a\x1b".into(),
            pid: 7,
            wakeup_latency_p50_seconds: Some(1.5e-6),
            wakeup_latency_p99_seconds: None,
            cpus_used: 0.125,
            ready_ratio: None,
        };
        let effect = Effect { before: vec![vm.clone()], after: Vec::new() };
        effect.save(dir.path()).expect("kept");
        assert_eq!(Effect::load(dir.path()).expect("kept"), Some(effect));
        Effect::forget(dir.path()).expect("removed");
        Effect::forget(dir.path()).expect("nothing to remove");
        assert_eq!(Effect::load(dir.path()).expect("none"), None);
    }
}
