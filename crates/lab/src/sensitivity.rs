//! How far claims depend on what things cost: each cost is moved by its uncertainty, and the claims are judged again.

use lowtail_engine::Duration;
use serde_json::{Map, Value, json};

use crate::case::spec::Case;
use crate::costs::CostTable;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::options::RunOptions;
use crate::outcome::Outcome;
use crate::pool::Progress;
use crate::row::number;
use crate::run::run;
use crate::verdict::Verdict;

/// Measured figures that move less than this part of themselves do not depend on a cost.
const STILL: f64 = 0.01;
/// These are periods, which are set and not measured.
const PERIODS: [&str; 2] = ["tick_period", "guest_tick_period"];

/// What became of the claims of an experiment when costs were moved.
#[derive(Debug, Clone)]
pub struct Sensitivity {
    /// The experiment.
    pub name: String,
    /// By what part of itself each cost was moved, down and up.
    pub by: f64,
    /// The costs that were moved.
    pub costs: Vec<&'static str>,
    /// The claims that are judged.
    pub claims: Vec<Moved>,
}

/// A claim, and what became of it.
#[derive(Debug, Clone)]
pub struct Moved {
    /// As it is with the costs of the file.
    pub verdict: Verdict,
    /// What was measured with each cost moved down, and up.
    pub measured: Vec<[Option<f64>; 2]>,
    /// Which of them flip the verdict: the cost, and whether it was moved up.
    pub flips: Vec<(&'static str, bool)>,
}

impl Moved {
    /// The least and the most that was measured.
    pub fn range(&self) -> Option<(f64, f64)> {
        let all = self.measured.iter().flatten().flatten().chain(&self.verdict.measured);
        all.fold(None, |range: Option<(f64, f64)>, &x| {
            Some(range.map_or((x, x), |(low, high)| (low.min(x), high.max(x))))
        })
    }

    /// The cost, by its place, that moves the figure most, and by what part of itself; none if all leave it where it is.
    pub fn most(&self) -> Option<(usize, f64)> {
        let own = self.verdict.measured.filter(|x| *x != 0.0)?;
        let part = |pair: &[Option<f64>; 2]| {
            pair.iter().flatten().fold(0.0_f64, |most, x| most.max((x / own - 1.0).abs()))
        };
        let parts = self.measured.iter().map(part).enumerate();
        parts.filter(|(_, part)| *part >= STILL).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl CostTable {
    /// With the cost called `name` times `factor`.
    pub(crate) fn moved(&self, name: &str, factor: f64) -> Self {
        let mut moved = self.clone();
        for line in moved.lines.iter_mut().filter(|line| line.name == name) {
            line.value = Duration::from_us_f64(line.value.as_us_f64() * factor);
        }
        moved
    }
}

impl Case {
    /// With the cost called `name` times `factor`.
    fn with_cost(&self, name: &str, factor: f64) -> Case {
        let mut case = self.clone();
        let Some(table) = &mut case.costs else { return case };
        *table = table.moved(name, factor);
        for host in &mut case.hosts {
            host.config.costs = table.costs();
            host.config.io.costs = table.path();
        }
        case
    }
}

/// The costs of `experiment` that are measured and more than nothing.
fn costs(experiment: &Experiment, full: bool) -> Vec<&'static str> {
    let mut names = Vec::new();
    for line in experiment.cases(full).iter().flat_map(|case| &case.costs).flat_map(|t| &t.lines) {
        let counts = !line.value.is_zero() && !PERIODS.contains(&line.name);
        if counts && !names.contains(&line.name) {
            names.push(line.name);
        }
    }
    names
}

/// How many runs of cases [`sensitivity`] takes.
pub fn runs(experiment: &Experiment, options: &RunOptions) -> usize {
    let cases = experiment.cases(options.full).iter().filter(|case| options.chosen(case)).count();
    let seeds = usize::from(options.seeds.unwrap_or(experiment.file.seeds));
    cases * seeds * (1 + 2 * costs(experiment, options.full).len())
}

/// Moves each cost of `experiment` down and up by the part `by` of itself, and judges its claims each time.
///
/// # Errors
/// As [`run()`](crate::run()).
pub fn sensitivity(
    experiment: &Experiment,
    options: &RunOptions,
    by: f64,
    progress: &dyn Fn(Progress),
) -> Result<Sensitivity, Error> {
    let costs = costs(experiment, options.full);
    if costs.is_empty() {
        return Ok(Sensitivity { name: experiment.name.clone(), by, costs, claims: Vec::new() });
    }
    let judged = |outcome: Outcome| -> Vec<Verdict> {
        outcome.claims.into_iter().filter(|claim| claim.holds.is_some()).collect()
    };
    let own = judged(run(experiment, options, progress)?);
    let mut claims: Vec<Moved> = own
        .into_iter()
        .map(|verdict| Moved { verdict, measured: Vec::new(), flips: Vec::new() })
        .collect();
    for &name in &costs {
        let mut both = Vec::new();
        for factor in [1.0 - by, 1.0 + by] {
            let moved = experiment.with_cases(|case| case.with_cost(name, factor));
            both.push(judged(run(&moved, options, progress)?));
        }
        for (i, claim) in claims.iter_mut().enumerate() {
            let pair = [&both[0][i], &both[1][i]];
            claim.measured.push(pair.map(|verdict| verdict.measured));
            for (up, verdict) in [(false, pair[0]), (true, pair[1])] {
                if verdict.holds != claim.verdict.holds {
                    claim.flips.push((name, up));
                }
            }
        }
    }
    Ok(Sensitivity { name: experiment.name.clone(), by, costs, claims })
}

impl Sensitivity {
    /// For `--json`.
    pub fn json(&self) -> Value {
        let claim = |claim: &Moved| {
            let mut map = Map::new();
            let verdict = &claim.verdict;
            map.insert("id".into(), verdict.id.clone().into());
            map.insert("unit".into(), verdict.unit.clone().into());
            map.insert("holds".into(), verdict.holds.into());
            if verdict.is_weak() {
                map.insert("weak".into(), true.into());
            }
            map.insert("measured".into(), number(verdict.measured));
            let range = claim.range();
            map.insert("measured_min".into(), number(range.map(|range| range.0)));
            map.insert("measured_max".into(), number(range.map(|range| range.1)));
            let most = claim.most().map(|(cost, _)| self.costs[cost]);
            map.insert("moved_most_by".into(), most.into());
            let flip = |&(cost, up): &(&str, bool)| json!({ "cost": cost, "up": up });
            map.insert("flips".into(), claim.flips.iter().map(flip).collect());
            Value::Object(map)
        };
        json!({
            "name": self.name,
            "by_ratio": self.by,
            "costs": self.costs,
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
        })
    }
}
