//! What a VM is to have, as it is said on the command line: `web p99 <= 1ms`, `batch cpu >= 60%`.

use std::fmt;
use std::str::FromStr;

use lowtail_config_text::{DurationText, PercentText};
use lowtail_control::policy::fits;
use serde::{Serialize, Serializer};

use crate::comparison::Figures;
use crate::range::time;

/// The figure of a VM that a goal is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GoalFigure {
    /// The median from a wake-up of a vCPU to running, at most so long.
    P50,
    /// The 90th percentile.
    P90,
    /// The 99th percentile.
    P99,
    /// Processor time, at least so much.
    Cpu,
}

/// What VMs are to have. Its text is `NAME FIGURE <= TIME` or `NAME cpu >= PERCENT`.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Which VMs; `*` stands for any characters or none.
    pub vm: String,
    /// Which of their figures.
    pub figure: GoalFigure,
    /// Its limit: microseconds, or percent of a CPU.
    pub limit: f64,
}

impl Goal {
    /// Whether it is a goal of the VM called so.
    pub fn is_of(&self, vm: &str) -> bool {
        fits(&self.vm, vm)
    }

    /// The figure that it is about. `None`: it has too few wake-ups to tell.
    pub fn figure(&self, figures: &Figures) -> Option<f64> {
        match self.figure {
            GoalFigure::P50 => figures.p50_us,
            GoalFigure::P90 => figures.p90_us,
            GoalFigure::P99 => figures.p99_us,
            GoalFigure::Cpu => Some(figures.cpu_percent),
        }
    }

    /// Whether a figure reaches it.
    pub fn is_reached(&self, figure: f64) -> bool {
        if self.is_latency() { figure <= self.limit } else { figure >= self.limit }
    }

    /// Whether it is an upper limit of a time, not a lower one of processor time.
    pub fn is_latency(&self) -> bool {
        self.figure != GoalFigure::Cpu
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "say it as `web p99 <= 500us` or `web cpu >= 60%`";
        let bad = |what: String| format!("{what}: {usage}");
        let (left, least, limit) = match (text.split_once("<="), text.split_once(">=")) {
            (Some((left, limit)), None) => (left, false, limit.trim()),
            (None, Some((left, limit))) => (left, true, limit.trim()),
            _ => return Err(bad(format!("`{text}` has no `<=` or `>=`"))),
        };
        // Names of VMs may have spaces.
        let Some((vm, figure)) = left.trim().rsplit_once(char::is_whitespace) else {
            return Err(bad(format!("`{}` is not a VM and its figure", left.trim())));
        };
        let figure = match figure {
            "p50" => GoalFigure::P50,
            "p90" => GoalFigure::P90,
            "p99" => GoalFigure::P99,
            "cpu" => GoalFigure::Cpu,
            other => return Err(bad(format!("`{other}` is none of p50, p90, p99 and cpu"))),
        };
        let limit = match (figure, least) {
            (GoalFigure::Cpu, true) => PercentText::<100_000>::parse(limit)?.0,
            (GoalFigure::Cpu, false) => return Err(bad("`cpu` has a lower limit".to_owned())),
            (_, false) => DurationText::<1000>::parse(limit)?.0.as_us_f64(),
            (_, true) => return Err(bad("a time has an upper limit".to_owned())),
        };
        Ok(Goal { vm: vm.trim_end().to_owned(), figure, limit })
    }
}

impl fmt::Display for GoalFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GoalFigure::P50 => "p50",
            GoalFigure::P90 => "p90",
            GoalFigure::P99 => "p99",
            GoalFigure::Cpu => "cpu",
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vm, figure) = (lowtail_out::name(&self.vm), self.figure);
        match figure {
            GoalFigure::Cpu => write!(f, "{vm} {figure} >= {} %", self.limit),
            _ => write!(f, "{vm} {figure} <= {}", time(self.limit)),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read() {
        let goal: Goal = "my web p99 <= 1.5ms".parse().unwrap();
        assert_eq!(goal, Goal { vm: "my web".into(), figure: GoalFigure::P99, limit: 1500.0 });
        assert!(goal.is_of("my web") && !goal.is_of("web"));
        assert!(goal.is_reached(1500.0) && !goal.is_reached(1500.1));
        let goal: Goal = "batch-* cpu>=60%".parse().unwrap();
        assert!(goal.is_of("batch-7") && goal.is_reached(60.0) && !goal.is_reached(59.9));
        assert_eq!(goal.to_string(), "batch-* cpu >= 60 %");
        for bad in [
            "",
            "web",
            "p99 <= 1ms",
            "web p98 <= 1ms",
            "web p99 < 1ms",
            "web p99 >= 1ms",
            "web cpu <= 5%",
            "web p99 <= 1",
            "web cpu >= 5",
            "web p99 <= 1ms <= 2ms",
        ] {
            assert!(bad.parse::<Goal>().is_err(), "{bad}");
        }
    }
}
