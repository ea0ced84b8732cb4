//! A network scenario whose classifier of flows has the rate and the burst of each point.

use std::path::{Path, PathBuf};

use lowtail_lab::metric::TimeUnit;
use lowtail_lab::{Experiment, Row, RunOptions};
use lowtail_predict::{Goal, GoalFigure, WAKEUPS_MIN, WAKEUPS_MIN_P99};
use toml::Table;

use crate::cost::{Cost, CostFigure};
use crate::error::Error;
use crate::levels::{log, trimmed};
use crate::parameter::Parameter;
use crate::point::Point;
use crate::problem::{Effort, Measured, Problem, Run, VmMeasured, strain};
use crate::scenario_file::{Classifier, ScenarioText};
use crate::table::time;

/// A short run is this part of the scenario.
const SHORT: f64 = 1.0 / 3.0;
/// Short runs of a search: three parameters need fewer than a policy.
const BUDGET: u64 = 80;
/// Parameters, by their numbers in points.
const RATE: usize = 0;
const BURST: usize = 1;
const PAIRS: usize = 2;

/// Of each goal the traffic with the fewest values, and how many it has.
type Counts = Vec<(String, u64)>;

/// A network scenario, with goals for its traffic.
#[derive(Debug)]
pub struct ScenarioProblem {
    path: String,
    base: Option<PathBuf>,
    text: ScenarioText,
    case: String,
    seed: u64,
    goals: Vec<Goal>,
    cost: Option<Cost>,
    parameters: Vec<Parameter>,
    classifier: Classifier,
    short: f64,
}

impl ScenarioProblem {
    /// For the case `case` of the scenario `text`, called `path` in errors, with paths that start at `base`. It needs no name if it is the only one.
    /// Without a `cost` it is the throughput of all traffic without a goal.
    ///
    /// # Errors
    /// If it is no scenario, has no such case, no classifier in it, or no such traffic.
    pub fn new(
        path: &str,
        text: &str,
        base: Option<&Path>,
        case: Option<&str>,
        goals: Vec<Goal>,
        cost: Option<Cost>,
    ) -> Result<Self, Error> {
        let experiment = Experiment::parse(path, text, base)?;
        let table: Table =
            text.parse().map_err(|error| Error::Scenario(format!("{path}: {error}")))?;
        let names: Vec<String> =
            experiment.cases(false).iter().map(|case| case.name.clone()).collect();
        let case = match (case, &names[..]) {
            (Some(case), _) => case.to_owned(),
            (None, [only]) => only.clone(),
            (None, _) => {
                let names: Vec<String> =
                    names.iter().map(|name| format!("`{}`", lowtail_out::line(name))).collect();
                return Err(Error::Senseless(format!(
                    "{path} has several cases; choose one by --case: {}",
                    names.join(", ")
                )));
            }
        };
        experiment.chosen(&RunOptions { cases: vec![case.clone()], ..RunOptions::default() })?;
        if goals.is_empty() {
            return Err(Error::Senseless("no goal: say one with --goal".to_owned()));
        }
        if let Some(goal) = goals.iter().find(|goal| !goal.is_latency()) {
            return Err(Error::Senseless(format!(
                "--goal `{goal}`: the traffic of a network scenario has no processor time, but p50, p90 and p99"
            )));
        }
        let traffic: Vec<String> = experiment.file.traffic.keys().cloned().collect();
        let none = |option, name: &str| Error::NoSuch {
            option,
            name: name.to_owned(),
            kind: "traffic",
            known: traffic.clone(),
        };
        for goal in &goals {
            if !traffic.iter().any(|name| goal.is_of(name)) {
                return Err(none("--goal", &goal.vm));
            }
        }
        if let Some(cost) = &cost
            && !traffic.iter().any(|name| cost.is_of(name))
        {
            return Err(none("--cost", &cost.name));
        }
        let text = ScenarioText::new(table, traffic, experiment.file.duration.0, &case);
        let classifier = text.classifier().ok_or_else(|| {
            Error::Scenario(format!("{path}: case `{}` has no classifier of flows, a queue with `kind = \"tag\"`, whose rate and burst could be chosen", lowtail_out::line(&case)))
        })?;
        let rates = log(1.0, 1000.0, 2).into_iter().map(|rate| format!("{}Mbit/s", trimmed(rate)));
        let bursts = log(2.5, 1000.0, 2).into_iter().map(|burst| format!("{}KB", trimmed(burst)));
        let parameters = vec![
            Parameter::ordered("rate", rates),
            Parameter::ordered("burst", bursts),
            Parameter::ordered("pairs", ["1", "2", "4", "20", "100"].map(str::to_owned)),
        ];
        let (path, base, seed) =
            (path.to_owned(), base.map(Path::to_path_buf), experiment.file.seed);
        let mut problem = ScenarioProblem {
            path,
            base,
            text,
            case,
            seed,
            goals,
            cost,
            parameters,
            classifier,
            short: SHORT,
        };
        problem.check_values()?;
        Ok(problem)
    }

    /// Whether the goals' figures have enough values, also in a short run.
    fn check_values(&mut self) -> Result<(), Error> {
        let run = Run { effort: Effort::Whole, seed: 0 };
        let Some((_, counts)) = self.run(&Point::empty(&self.parameters), run, &[])? else {
            return Ok(());
        };
        for (goal, (traffic, count)) in self.goals.iter().zip(counts) {
            let needed = if goal.figure == GoalFigure::P99 { WAKEUPS_MIN_P99 } else { WAKEUPS_MIN };
            if count < needed {
                return Err(Error::TooFew {
                    goal: goal.to_string(),
                    vm: traffic,
                    wakeups: count,
                    needed,
                    remedy: "let the scenario run for longer",
                });
            }
            self.short = self.short.max(needed as f64 / count as f64).min(1.0);
        }
        Ok(())
    }

    /// Rate, burst and pairs of a point, as they are written; `None` leaves the scenario's own.
    fn values(&self, point: &Point) -> Option<[String; 3]> {
        let of = |number: usize, own: &str| {
            point.level(&self.parameters, number).unwrap_or(own).to_owned()
        };
        let own = &self.classifier;
        (point.keys() > 0)
            .then(|| [of(RATE, &own.rate), of(BURST, &own.burst), of(PAIRS, &own.pairs)])
    }

    /// The figures of a point, without traffic that is `absent`; of each goal whose it is, and how many values that has, the fewest.
    fn run(
        &self,
        point: &Point,
        run: Run,
        absent: &[String],
    ) -> Result<Option<(Measured, Counts)>, Error> {
        let duration = (run.effort == Effort::Short).then_some(self.short);
        let text = self.text.with(self.values(point).as_ref(), duration, absent);
        // Not all rates go with all bursts.
        let Ok(experiment) = Experiment::parse(&self.path, &text, self.base.as_deref()) else {
            return Ok(None);
        };
        let options = RunOptions {
            seed: Some(self.seed.wrapping_add(run.seed)),
            seeds: Some(1),
            cases: vec![self.case.clone()],
            ..RunOptions::default()
        };
        let outcome = lowtail_lab::run(&experiment, &options, &|_| {})?;
        let traffic = self.text.traffic();
        let of_case = outcome.rows.iter().filter(|row| row.n > 0 || !row.figures.is_empty());
        let rows: Vec<(&str, &Row)> = traffic.iter().map(String::as_str).zip(of_case).collect();
        let us = |row: &Row, figure: &str| {
            row.get(figure).map(|value| row.unit.convert(value, TimeUnit::Us))
        };
        let (mut goals, mut counts) = (Vec::new(), Vec::new());
        for goal in &self.goals {
            let figure = match goal.figure {
                GoalFigure::P50 => "p50",
                GoalFigure::P90 => "p90",
                GoalFigure::P99 | GoalFigure::Cpu => "p99",
            };
            let own = || rows.iter().filter(|(name, _)| goal.is_of(name));
            goals.push(
                own().map(|(_, row)| us(row, figure).unwrap_or(f64::INFINITY)).fold(0.0, f64::max),
            );
            let fewest =
                own().min_by_key(|(_, row)| row.n).map(|(name, row)| ((*name).to_owned(), row.n));
            counts.extend(fewest);
        }
        let rate =
            |name: &str, row: &Row| row.get(&format!("mbit_per_second.{name}")).unwrap_or(0.0);
        let cost =
            rows.iter().filter(|(name, _)| self.is_cost(name)).map(|(name, row)| {
                match self.cost.as_ref().map(|cost| cost.figure) {
                    Some(CostFigure::Avg) => us(row, "avg").unwrap_or(0.0),
                    Some(CostFigure::P50) => us(row, "p50").unwrap_or(0.0),
                    Some(CostFigure::P99) => us(row, "p99").unwrap_or(0.0),
                    Some(CostFigure::Work) | None => rate(name, row),
                }
            });
        let cost = cost.sum();
        let measured = |(name, row): &(&str, &Row)| VmMeasured {
            name: lowtail_out::name(name).into_owned(),
            p99_us: us(row, "p99").filter(|_| row.n >= WAKEUPS_MIN_P99),
            wakeups: row.n as f64,
            work: rate(name, row),
        };
        let vms = rows.iter().map(measured).collect();
        Ok(Some((Measured { goals, cost, vms, notes: Vec::new() }, counts)))
    }

    fn is_cost(&self, name: &str) -> bool {
        match &self.cost {
            Some(cost) => cost.is_of(name),
            None => !self.goals.iter().any(|goal| goal.is_of(name)),
        }
    }
}

impl Problem for ScenarioProblem {
    fn goals(&self) -> &[Goal] {
        &self.goals
    }

    fn cost(&self) -> String {
        self.cost.as_ref().map_or_else(|| "other traffic's work".to_owned(), ToString::to_string)
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn starts(&self) -> Vec<Point> {
        let none = Point::empty(&self.parameters);
        let part = |number: usize, part: f64| {
            Some(((self.parameters[number].levels.len() - 1) as f64 * part).round() as u16)
        };
        let parts = [0.1, 0.35, 0.6, 0.85];
        let mut all: Vec<Point> = Vec::new();
        for rate in parts {
            all.push(none.with(RATE, part(RATE, rate)));
            all.push(none.with(BURST, part(BURST, rate)));
            all.extend(
                parts
                    .map(|burst| none.with(RATE, part(RATE, rate)).with(BURST, part(BURST, burst))),
            );
        }
        all
    }

    fn lost(&self, before: &Measured, measured: &Measured) -> f64 {
        if before.cost <= 0.0 {
            return 0.0;
        }
        let ratio = measured.cost / before.cost;
        match self.cost.as_ref().map(|cost| cost.figure) {
            Some(CostFigure::Work) | None => 1.0 - ratio,
            Some(_) => ratio - 1.0,
        }
    }

    fn evaluate(&self, point: &Point, run: Run) -> Result<Option<Measured>, Error> {
        Ok(self.run(point, run, &[])?.map(|(measured, _)| measured))
    }

    fn usual_budget(&self) -> u64 {
        BUDGET
    }

    fn policy(&self, point: &Point) -> String {
        match self.values(point) {
            None => String::new(),
            Some(values) => self.classifier.policy(&values),
        }
    }

    fn limits(&self, strains: &[f64]) -> Result<Vec<String>, Error> {
        let run = Run { effort: Effort::Whole, seed: 0 };
        let none = Point::empty(&self.parameters);
        let other = |name: &&String| !self.goals.iter().any(|goal| goal.is_of(name));
        let others: Vec<String> = self.text.traffic().iter().filter(other).cloned().collect();
        let Some((alone, _)) = self.run(&none, run, &others)? else { return Ok(Vec::new()) };
        let missed = self
            .goals
            .iter()
            .zip(strains)
            .zip(&alone.goals)
            .filter(|((_, strain), _)| **strain > 1.0);
        let said = |((goal, _), figure): ((&Goal, &f64), &f64)| {
            if strain(goal, *figure) > 1.0 {
                format!(
                    "{goal}: the network and its own traffic; even without other traffic it has {}",
                    time(*figure)
                )
            } else {
                format!(
                    "{goal}: other traffic, which no rate and burst keep away; without it it has {}",
                    time(*figure)
                )
            }
        };
        Ok(missed.map(said).collect())
    }
}
