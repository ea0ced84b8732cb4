//! What a policy has done to machines: figures from before and after, for `status`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::journal;
use crate::observe::{Histogram, Snapshot, VmSnapshot};

const FILE: &str = "host.effect";

/// A machine's figures over one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmEffect {
    /// Its name, as given: data.
    pub name: String,
    /// Half of its vCPUs' wake-ups were not later than this, in microseconds.
    pub wake_p50_us: Option<f64>,
    /// 99 in 100 were not.
    pub wake_p99_us: Option<f64>,
    /// CPU time of all its threads, in percent of one CPU.
    pub cpu_percent: f64,
    /// The part of the time that its vCPUs wanted a CPU and had none, in percent.
    pub waits_percent: Option<f64>,
}

/// What was observed before a policy was applied, and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Before.
    pub before: Vec<VmEffect>,
    /// After, the last time that somebody looked.
    pub after: Vec<VmEffect>,
}

impl Effect {
    /// The figures of an interval.
    pub fn figures(snapshot: &Snapshot) -> Vec<VmEffect> {
        snapshot.vms.iter().map(|vm| VmEffect::of(vm, snapshot.interval_ms)).collect()
    }

    /// What was kept in `dir`, if anything was.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(dir: &Path) -> io::Result<Option<Self>> {
        match fs::read(dir.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps it in `dir`, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        journal::save(dir, FILE, &serde_json::to_vec(self)?)
    }

    /// Forgets what was kept.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(dir: &Path) -> io::Result<()> {
        journal::forget(dir, FILE)
    }
}

impl VmEffect {
    fn of(vm: &VmSnapshot, interval_ms: f64) -> Self {
        let mut wakes = Histogram::default();
        vm.vcpus().for_each(|thread| wakes.merge(&thread.wake_to_run));
        let cpu_ns: u64 = vm.threads.iter().map(|thread| thread.cpu_ns).sum();
        VmEffect {
            name: vm.name.as_given().to_string(),
            wake_p50_us: wakes.percentile_us(0.5),
            wake_p99_us: wakes.percentile_us(0.99),
            cpu_percent: if interval_ms > 0.0 { cpu_ns as f64 / 1e4 / interval_ms } else { 0.0 },
            waits_percent: vm.waits_share().map(|share| 100.0 * share),
        }
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
            wake_p50_us: Some(1.5),
            wake_p99_us: None,
            cpu_percent: 12.5,
            waits_percent: None,
        };
        let effect = Effect { before: vec![vm.clone()], after: Vec::new() };
        effect.save(dir.path()).expect("kept");
        assert_eq!(Effect::load(dir.path()).expect("kept"), Some(effect));
        Effect::forget(dir.path()).expect("removed");
        Effect::forget(dir.path()).expect("nothing to remove");
        assert_eq!(Effect::load(dir.path()).expect("none"), None);
    }
}
