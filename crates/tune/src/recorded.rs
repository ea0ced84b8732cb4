//! A recording that is run anew under the policy of each point.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use lowtail_control::policy::Policy;
use lowtail_engine::Duration;
use lowtail_predict::{
    Comparison, Error as PredictError, Figures, Goal, GoalFigure, Grade, Letter, Model, Recording,
    Setup, WAKEUPS_MIN, WAKEUPS_MIN_P99, put_in_force, replay, xen_terms,
};

use crate::cost::{Cost, CostFigure};
use crate::error::Error;
use crate::parameter::Parameter;
use crate::point::Point;
use crate::problem::{Effort, Measured, Problem, Run, VmMeasured};
use crate::recorded_knobs::Knobs;
use crate::recorded_limits;
use crate::recorded_parameters::{Key, Keys};
use crate::xen_keys::XenKeys;

/// A short run is this part of the recording, and no less than so long.
const SHORT: (f64, f64) = (0.25, 1.0);
/// Of a longer recording it is so long, in seconds.
const SHORT_MOST_S: f64 = 2.5;
/// It has so many times the wake-ups that the goals' figures need.
const SHORT_WAKEUPS: f64 = 1.5;

/// Events of the recording that a search simulates in short runs: a core has a million in a second.
const BUDGET_EVENTS: f64 = 80e6;
/// But no fewer runs than find anything, and no more than are worth it.
const BUDGET: (u64, u64) = (120, 600);

/// A recording, with goals for its VMs.
#[derive(Debug)]
pub struct RecordedProblem<R> {
    /// A reference to it, or an `Arc`.
    recording: R,
    as_it_was: Setup,
    goals: Vec<Goal>,
    cost: Option<Cost>,
    knobs: Knobs,
    /// How far the simulator agrees with the recording.
    pub grade: Grade,
    /// The part of the recording that a short run is.
    short: f64,
    /// Models without a policy, by seed.
    models: Mutex<BTreeMap<u64, Arc<Model>>>,
}

impl<R: Deref<Target = Recording>> RecordedProblem<R> {
    /// For `recording`, made under `as_it_was`. Without a `cost` it is the work of all VMs without a goal of latency.
    ///
    /// # Errors
    /// If a goal or the cost is of no VM, or of one with too few wake-ups, or the recording is not to be trusted and is not to be used `anyway`.
    pub fn new(
        recording: R,
        as_it_was: Setup,
        goals: Vec<Goal>,
        cost: Option<Cost>,
        anyway: bool,
    ) -> Result<Self, Error> {
        if goals.is_empty() {
            return Err(Error::Senseless("no goal: say one with --goal".to_owned()));
        }
        if let Some(cost) = cost.as_ref().filter(|cost| cost.figure != CostFigure::Work) {
            return Err(Error::Senseless(format!(
                "--cost `{cost}`: of a recording the cost is `{} work`",
                lowtail_out::name(&cost.name)
            )));
        }
        let model = Model::new(&recording, &as_it_was)?;
        let replayed = replay(&model, recording.events, 0)?;
        let comparison = Comparison::new(&recording, &model, &replayed);
        let grade = Grade::of(&comparison);
        let names = recording.host.vms.clone();
        let none = |option, name: &str| Error::NoSuch {
            option,
            name: name.to_owned(),
            kind: "VM",
            known: names.clone(),
        };
        let of_seconds = |seconds: f64| seconds / model.span.as_s_f64();
        let mut short = SHORT.0.max(of_seconds(SHORT.1)).min(of_seconds(SHORT_MOST_S)).min(1.0);
        for goal in &goals {
            let mut of = comparison.vms.iter().filter(|vm| goal.is_of(&vm.name)).peekable();
            if of.peek().is_none() {
                return Err(none("--goal", &goal.vm));
            }
            let needed = match goal.figure {
                GoalFigure::P50 | GoalFigure::P90 => WAKEUPS_MIN,
                GoalFigure::P99 => WAKEUPS_MIN_P99,
                GoalFigure::Cpu => 0,
            };
            for vm in of {
                let wakeups = vm.simulated.wakeups;
                if wakeups < needed {
                    let (goal, vm) = (goal.to_string(), vm.name.clone());
                    return Err(Error::TooFew {
                        goal,
                        vm,
                        wakeups,
                        needed,
                        remedy: "record for longer, or ask for its p90 or p50",
                    });
                }
                short = short.max(SHORT_WAKEUPS * needed as f64 / wakeups.max(1) as f64).min(1.0);
            }
        }
        if let Some(cost) = &cost
            && !names.iter().any(|name| cost.is_of(name))
        {
            return Err(none("--cost", &cost.name));
        }
        if grade.grade == Letter::Poor && !anyway {
            return Err(PredictError::Poor(grade.to_string()).into());
        }
        let knobs = Knobs::Policy(Keys::new(Vec::new(), Vec::new(), 0.0));
        let models = Mutex::new(BTreeMap::from([(0, Arc::new(model))]));
        let mut problem =
            RecordedProblem { recording, as_it_was, goals, cost, knobs, grade, short, models };
        problem.choose_keys(&comparison)?;
        Ok(problem)
    }

    /// The keys that make a difference on this host.
    fn choose_keys(&mut self, comparison: &Comparison) -> Result<(), Error> {
        let is_cost = |name: &str| self.is_cost(name);
        let mut goal: Vec<String> = Vec::new();
        for of in self.goals.iter().filter(|goal| goal.is_latency()) {
            let only_cost =
                comparison.vms.iter().filter(|vm| of.is_of(&vm.name)).all(|vm| is_cost(&vm.name));
            if !goal.contains(&of.vm) && !only_cost {
                goal.push(of.vm.clone());
            }
        }
        let costly = || comparison.vms.iter().filter(|vm| is_cost(&vm.name));
        let cost = match &self.cost {
            Some(cost) => vec![cost.name.clone()],
            None => self.recording.host.vms.iter().filter(|name| is_cost(name)).cloned().collect(),
        };
        let most = costly().map(|vm| vm.simulated.cpu_percent).fold(0.0, f64::max);
        if let Some(terms) = xen_terms(&self.as_it_was.scheduler) {
            let xen = XenKeys::new(&self.recording, terms, [&goal, &cost], most);
            self.knobs = Knobs::Xen(xen);
            return Ok(());
        }
        let mut keys = Keys::new(goal, cost, most);
        let model = self.model(0)?;
        let differs = |key: &Key| {
            let number = keys.keys.iter().position(|of| of == key).unwrap_or(0);
            let mut point = Point::empty(&keys.parameters).with(number, Some(0));
            // What it depends on.
            let needs = match key {
                Key::CapPeriod => Some(Key::Cap),
                Key::SmallFirst(_) => Some(Key::Scheduler),
                _ => None,
            };
            let needed = needs.and_then(|needs| keys.keys.iter().position(|of| *of == needs));
            if let Some(needed) = needed {
                point = point.with(needed, Some(0));
            }
            let without = point.with(number, None);
            self.state(&model, &keys.text(&point)) != self.state(&model, &keys.text(&without))
        };
        let useful: Vec<Key> = keys.keys.iter().copied().filter(differs).collect();
        keys.retain(|key| useful.contains(key));
        if keys.keys.is_empty() {
            return Err(Error::Senseless("no key of a policy makes a difference to this recording: it has neither control groups nor a kernel that a policy can use".to_owned()));
        }
        self.knobs = Knobs::Policy(keys);
        Ok(())
    }

    /// What a policy makes of a model, as text; nothing if it is none.
    fn state(&self, model: &Model, text: &str) -> Option<String> {
        let policy = Policy::parse("a point", text).ok()?;
        let mut model = model.clone();
        put_in_force(&mut model, &self.recording, &policy);
        let config = &model.config;
        let vms: Vec<_> = config.vms.iter().map(|vm| (&vm.threads, vm.weight)).collect();
        Some(format!("{:?} {:?} {vms:?}", config.scheduler, config.cgroups))
    }

    /// Whether a VM's work is part of the cost.
    fn is_cost(&self, name: &str) -> bool {
        match &self.cost {
            Some(cost) => cost.is_of(name),
            None => !self.goals.iter().any(|goal| goal.is_latency() && goal.is_of(name)),
        }
    }

    /// The host without a policy, begun as this seed says.
    fn model(&self, seed: u64) -> Result<Arc<Model>, Error> {
        if let Some(model) = self.models.lock().expect("nobody panics with it").get(&seed) {
            return Ok(Arc::clone(model));
        }
        let model =
            Arc::new(Model::new(&self.recording, &Setup { seed, ..self.as_it_was.clone() })?);
        self.models.lock().expect("nobody panics with it").insert(seed, Arc::clone(&model));
        Ok(model)
    }

    /// Runs a model, and gives its figures.
    fn run(&self, model: &Model, seed: u64, notes: Vec<String>) -> Result<Measured, Error> {
        let replayed = replay(model, self.recording.events, seed)?;
        let vms = Comparison::new(&self.recording, model, &replayed).vms;
        let goals = self.goals.iter().map(|goal| {
            let of = vms.iter().filter(|vm| goal.is_of(&vm.name));
            let figure = |figures: &Figures| goal.figure(figures);
            if goal.is_latency() {
                // One that hardly wakes any more has no figure.
                of.map(|vm| figure(&vm.simulated).unwrap_or(f64::INFINITY)).fold(0.0, f64::max)
            } else {
                of.map(|vm| figure(&vm.simulated).unwrap_or(0.0)).fold(f64::INFINITY, f64::min)
            }
        });
        let goals = goals.collect();
        let cost =
            vms.iter().filter(|vm| self.is_cost(&vm.name)).map(|vm| vm.simulated.cpu_percent);
        let cost = cost.sum();
        let measured = vms.into_iter().map(|vm| VmMeasured {
            name: vm.name,
            p99_us: vm.simulated.p99_us,
            wakeups: vm.simulated.wakeups as f64,
            work: vm.simulated.cpu_percent,
        });
        Ok(Measured { goals, cost, vms: measured.collect(), notes })
    }
}

impl<R: Deref<Target = Recording> + Sync> Problem for RecordedProblem<R> {
    fn goals(&self) -> &[Goal] {
        &self.goals
    }

    fn cost(&self) -> String {
        self.cost.as_ref().map_or_else(|| "other VMs' work".to_owned(), ToString::to_string)
    }

    fn parameters(&self) -> &[Parameter] {
        self.knobs.parameters()
    }

    fn canonical(&self, point: Point) -> Point {
        self.knobs.canonical(point)
    }

    fn starts(&self) -> Vec<Point> {
        self.knobs.starts()
    }

    fn lost(&self, before: &Measured, measured: &Measured) -> f64 {
        if before.cost > 0.0 { 1.0 - measured.cost / before.cost } else { 0.0 }
    }

    fn evaluate(&self, point: &Point, run: Run) -> Result<Option<Measured>, Error> {
        let mut model = Model::clone(&*self.model(run.seed)?);
        let mut notes = Vec::new();
        if point.keys() > 0 {
            match self.knobs.apply(point, &mut model, &self.recording) {
                Some(said) => notes = said,
                None => return Ok(None),
            }
        }
        if run.effort == Effort::Short {
            model.span = Duration::from_ns((model.span.as_ns() as f64 * self.short) as u64);
        }
        match self.run(&model, run.seed, notes) {
            // Small-first has no limits for some of a VM's vCPUs.
            Err(Error::Predict(PredictError::Host(_))) if point.keys() > 0 => Ok(None),
            measured => measured.map(Some),
        }
    }

    fn usual_budget(&self) -> u64 {
        let events = (self.recording.events as f64 * self.short).max(1.0);
        ((BUDGET_EVENTS / events) as u64).clamp(BUDGET.0, BUDGET.1)
    }

    fn policy(&self, point: &Point) -> String {
        self.knobs.text(point)
    }

    fn limits(&self, strains: &[f64]) -> Result<Vec<String>, Error> {
        let without = |without: &[String], policy: Option<&str>| {
            let setup = Setup { without: without.to_vec(), ..self.as_it_was.clone() };
            let mut model = Model::new(&self.recording, &setup)?;
            if let Some(policy) = policy.and_then(|text| Policy::parse("a limit", text).ok()) {
                put_in_force(&mut model, &self.recording, &policy);
            }
            self.run(&model, 0, Vec::new())
        };
        recorded_limits::limits(&self.goals, strains, &self.recording.host.vms, &without)
    }
}
