//! Goals: what VMs shall keep while a policy is in force.

use lowtail_config_text::{DurationText, KeyError, PercentText};
use lowtail_discover::{Users, Vm};
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use super::patterns::Patterns;
use super::selector;

/// Shorter is below what a switch of threads takes.
const LEAST: Duration = Duration::from_us(1);
/// Longer is no latency any more.
const MOST: Duration = Duration::from_s(10);

/// Entries `[[goal]]`, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Goals(Vec<(Patterns, Goal)>);

/// What a VM shall keep. `None` is the default, which compares with the time before the change.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Goal {
    /// Median wake-up latency of its vCPUs, at most.
    pub p50: Option<Duration>,
    /// p99 of it, at most.
    pub p99: Option<Duration>,
    /// The part of its run time that it may lose by a change, 0 to 1.
    pub cpu_loss: Option<f64>,
}

/// A goal of VMs. The first entry that fits a VM is its own; what that does not say has the default.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GoalFile {
    /// The VMs' names.
    vm: Patterns,
    /// Median wake-up latency of a VM's vCPUs, at most: 1us to 10s. Absent, none.
    p50: Option<DurationText>,
    /// p99 of it, at most: 1us to 10s. Absent, no more than 25 % and 100us above what it was before a change.
    p99: Option<DurationText>,
    /// The part of its run time that it may lose by a change; default 5%.
    cpu_loss: Option<PercentText<100>>,
}

impl Goals {
    pub(super) fn new(files: &[GoalFile]) -> Result<Self, KeyError> {
        let goal = |(i, file): (usize, &GoalFile)| {
            let goal = file.goal().map_err(|bad| bad.under(&["goal", &i.to_string()]))?;
            Ok((file.vm.clone(), goal))
        };
        Ok(Goals(files.iter().enumerate().map(goal).collect::<Result<_, KeyError>>()?))
    }

    /// The goal of a VM, if an entry names it. Names count that somebody has chosen who may.
    pub fn of(&self, vm: &Vm, users: &Users) -> Option<Goal> {
        let name = selector::is_named(vm, users).then(|| vm.name.as_given())?;
        self.0.iter().find(|(patterns, _)| patterns.fit(name)).map(|(_, goal)| *goal)
    }
}

impl GoalFile {
    fn goal(&self) -> Result<Goal, KeyError> {
        let latency = |key: &str, text: Option<DurationText>| match text {
            Some(DurationText(span)) if !(LEAST..=MOST).contains(&span) => {
                Err(KeyError::new(key, format!("{key} {span}: {LEAST} to {MOST}")))
            }
            text => Ok(text.map(|DurationText(span)| span)),
        };
        let goal = Goal {
            p50: latency("p50", self.p50)?,
            p99: latency("p99", self.p99)?,
            cpu_loss: self.cpu_loss.map(|PercentText(percent)| percent / 100.0),
        };
        if goal == Goal::default() {
            let message = "no goal: `p99`, `p50` or `cpu_loss` is missing";
            return Err(KeyError::new("vm", message));
        }
        if let (Some(p50), Some(p99)) = (goal.p50, goal.p99)
            && p50 > p99
        {
            let message = format!("p50 {p50} is more than p99, {p99}");
            return Err(KeyError::new("p50", message));
        }
        Ok(goal)
    }
}
