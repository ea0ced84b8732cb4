//! What was predicted of a policy: kept by `plan --predict`, for `status` beside what is measured.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::memory::{GoalState, sum};
use crate::policy::Policy;
use lowtail_kernel::{Name, journal};

const FILE: &str = "host.predicted";

/// A prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// A sum of the policy that it is of.
    policy: String,
    vms: Vec<VmPredicted>,
}

/// What was predicted of a VM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmPredicted {
    /// Its name, safe to print.
    pub vm: String,
    /// The 99th percentile of its wake-up latency.
    pub p99_seconds: f64,
}

impl Predicted {
    /// What was predicted of `policy`.
    pub fn new(policy: &Policy, vms: Vec<VmPredicted>) -> Self {
        Predicted { policy: sum(policy), vms }
    }

    /// What is kept in `dir` of this policy: nothing if it is of another one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(policy: &Policy, dir: &Path) -> io::Result<Self> {
        let kept = match fs::read(dir.join(FILE)) {
            Ok(bytes) => Some(serde_json::from_slice::<Self>(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(kept.filter(|kept| kept.policy == sum(policy)).unwrap_or_default())
    }

    /// Keeps it in `dir`, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        journal::save(dir, FILE, &serde_json::to_vec(self)?)
    }

    /// Puts it beside the goals of VMs. A recording knows VMs by name alone: of two with the same name nothing is said.
    pub fn put(&self, goals: &mut [GoalState]) {
        let names: Vec<String> = goals.iter().map(|goal| Name::new(&goal.vm).to_string()).collect();
        for (goal, name) in goals.iter_mut().zip(&names) {
            let mut of_name = self.vms.iter().filter(|of| of.vm == *name);
            let only = of_name.next().filter(|_| of_name.next().is_none());
            let is_only = names.iter().filter(|other| *other == name).count() == 1;
            goal.predicted_p99_seconds = only.filter(|_| is_only).map(|of| of.p99_seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn policy(text: &str) -> Policy {
        Policy::parse("p", text).expect("a policy")
    }

    fn goal(vm: &str, pid: u32) -> GoalState {
        GoalState {
            vm: vm.to_string(),
            pid,
            goal_p99_seconds: None,
            limit_p99_seconds: None,
            before_p99_seconds: None,
            predicted_p99_seconds: Some(9.0),
            measured_p99_seconds: None,
            state: State::Kept,
            reason: None,
        }
    }

    fn of(vm: &str, p99_seconds: f64) -> VmPredicted {
        VmPredicted { vm: vm.to_string(), p99_seconds }
    }

    fn put(predicted: &Predicted, vms: &[&str]) -> Vec<Option<f64>> {
        let mut goals: Vec<GoalState> =
            vms.iter().zip(1..).map(|(vm, pid)| goal(vm, pid)).collect();
        predicted.put(&mut goals);
        goals.iter().map(|goal| goal.predicted_p99_seconds).collect()
    }

    #[test]
    fn of_two_with_one_name_nothing_is_said() {
        let vms =
            vec![of("web", 0.001), of("twin", 0.002), of("twin", 0.003), of("a\\u{1b}", 0.004)];
        let predicted = Predicted::new(&policy(""), vms);
        assert_eq!(put(&predicted, &["web", "twin", "other"]), [Some(0.001), None, None]);
        assert_eq!(put(&predicted, &["web", "web"]), [None, None], "one of them was not recorded");
        assert_eq!(
            put(&predicted, &["a\u{1b}"]),
            [Some(0.004)],
            "names are compared as they are printed"
        );
    }

    #[test]
    fn another_policy_has_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let none = policy("");
        assert_eq!(Predicted::of(&none, dir.path()).expect("readable"), Predicted::default());
        let predicted = Predicted::new(&none, vec![of("web", 0.001)]);
        predicted.save(dir.path()).expect("writable");
        assert_eq!(Predicted::of(&none, dir.path()).expect("readable"), predicted);
        let other = policy("scheduler = \"fair\"");
        assert_eq!(put(&Predicted::of(&other, dir.path()).expect("readable"), &["web"]), [None]);
    }
}
