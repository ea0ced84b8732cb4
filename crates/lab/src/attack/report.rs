//! The findings of a search, as text and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::finding::Finding;
use super::options::AttackOptions;
use crate::figure;
use crate::row::number;

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Attacks {
    /// What was searched.
    pub options: AttackOptions,
    /// The command that does it again.
    pub command: String,
    /// The worst of each measure.
    pub worst: Vec<Finding>,
}

impl Attacks {
    /// For people: the worst of each measure, and the scenarios behind them.
    pub fn text(&self) -> String {
        let AttackOptions { seed, budget, .. } = self.options;
        let mut text = format!("{budget} random hosts, seed {seed}\n\n");
        let widths = (
            self.worst.iter().map(|finding| finding.target.len()).max().unwrap_or(0),
            self.worst.iter().map(|finding| finding.vm.len()).max().unwrap_or(0),
        );
        for finding in &self.worst {
            let Finding { measure, run, target, vm, .. } = finding;
            let (ratio, unit) = (figure::aligned(finding.ratio()), measure.unit());
            let (had, due) = (figure::aligned(finding.figure), figure::aligned(finding.reference));
            let (name, reference) = (measure.name(), measure.reference());
            let _ = write!(
                text,
                "  {name:10}  {ratio:>6} times  {target:0$}  {vm:1$}  {had} {unit}, \
                 {reference} {due}",
                widths.0, widths.1
            );
            if finding.honest != finding.reference {
                let _ = write!(text, ", honest {}", figure::aligned(finding.honest));
            }
            let _ = writeln!(text, "; run {run}, {}", finding.workload);
        }
        for finding in self.scenarios() {
            let _ = write!(text, "\n# {}\n{}", finding.file_name(seed), finding.scenario);
        }
        let _ = write!(text, "\n  lowtail {}: {}\n", crate::VERSION, self.command);
        text
    }

    /// The findings without those whose scenario another one has already.
    pub fn scenarios(&self) -> impl Iterator<Item = &Finding> {
        let first = |run| self.worst.iter().position(|finding| finding.run == run);
        let worst = self.worst.iter().enumerate();
        worst.filter(move |(i, finding)| first(finding.run) == Some(*i)).map(|(_, finding)| finding)
    }

    /// For `--json`.
    pub fn json(&self) -> Value {
        let seed = self.options.seed;
        let finding = |finding: &Finding| -> Value {
            let base = |figure| number(Some(finding.measure.in_base_unit(figure)));
            let mut map = Map::new();
            map.insert("measure".into(), finding.measure.name().into());
            map.insert("ratio".into(), number(Some(finding.ratio())));
            map.insert("figure".into(), base(finding.figure));
            map.insert("reference".into(), base(finding.reference));
            map.insert("honest".into(), base(finding.honest));
            map.insert("unit".into(), finding.measure.base_unit().into());
            map.insert("run".into(), finding.run.into());
            let target = if self.options.queue.is_some() { "queue" } else { "scheduler" };
            map.insert(target.into(), finding.target.into());
            map.insert("vm".into(), finding.vm.clone().into());
            map.insert("workload".into(), finding.workload.clone().into());
            map.insert("file".into(), finding.file_name(seed).into());
            map.insert("scenario".into(), finding.scenario.clone().into());
            Value::Object(map)
        };
        let mut map = Map::new();
        map.insert("seed".into(), seed.into());
        map.insert("budget".into(), self.options.budget.into());
        map.insert("version".into(), crate::VERSION.into());
        map.insert("command".into(), self.command.clone().into());
        map.insert("worst".into(), self.worst.iter().map(finding).collect::<Vec<_>>().into());
        Value::Object(map)
    }
}
