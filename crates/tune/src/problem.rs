//! What is searched: parameters, and what a choice of them gives.

use lowtail_predict::Goal;

use crate::error::Error;
use crate::parameter::Parameter;
use crate::point::Point;

/// How much of it is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// A part, which is enough to tell good from bad.
    Short,
    /// All of it.
    Whole,
}

/// A run of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// How much of it.
    pub effort: Effort,
    /// What is left to chance.
    pub seed: u64,
}

/// What a VM, or traffic, experiences.
#[derive(Debug, Clone, PartialEq)]
pub struct VmMeasured {
    /// Its name, safe to print.
    pub name: String,
    /// 99th percentile in microseconds, if it has enough values.
    pub p99_us: Option<f64>,
    /// Wake-ups, or messages, of which that is one.
    pub wakeups: f64,
    /// What it gets done: percent of a CPU, or Mbit/s.
    pub work: f64,
}

/// What a run of a point gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The figure of each goal, in its unit (microseconds, or percent of a CPU), of the VM that is worst off. Infinite, or 0 for processor time,
    /// where it has too few wake-ups.
    pub goals: Vec<f64>,
    /// What the cost is counted in: percent of a CPU, Mbit/s, or microseconds.
    pub cost: f64,
    /// All VMs.
    pub vms: Vec<VmMeasured>,
    /// What cannot be set here, in words.
    pub notes: Vec<String>,
}

/// What is searched. Evaluations are pure functions: the same point and run give the same figures, on any thread.
pub trait Problem: Sync {
    /// The goals, in the order of figures.
    fn goals(&self) -> &[Goal];

    /// What is to be lost least, in words.
    fn cost(&self) -> String;

    /// The parameters, in the order of points.
    fn parameters(&self) -> &[Parameter];

    /// The same choice without what makes no difference in it.
    fn canonical(&self, point: Point) -> Point {
        point
    }

    /// Choices to begin with, beside the one that says nothing.
    fn starts(&self) -> Vec<Point>;

    /// By how much of its limit each goal's figure is used: 1 is just reached, more is missed.
    fn strains(&self, measured: &Measured) -> Vec<f64> {
        let goals = self.goals().iter().zip(&measured.goals);
        goals.map(|(goal, &figure)| strain(goal, figure)).collect()
    }

    /// The part of the work that is lost, of what there was in the run `before` of the same seed. Below 0 if there is more.
    fn lost(&self, before: &Measured, measured: &Measured) -> f64;

    /// Runs a point. `None`: it is no choice that one could make.
    ///
    /// # Errors
    /// If it cannot be simulated.
    fn evaluate(&self, point: &Point, run: Run) -> Result<Option<Measured>, Error>;

    /// How many short runs a search has if nobody says so.
    fn usual_budget(&self) -> u64;

    /// The policy file of a point: what is simulated.
    fn policy(&self, point: &Point) -> String;

    /// What limits the goals that are missed by so much of their limits at best, in words.
    ///
    /// # Errors
    /// If it cannot be simulated.
    fn limits(&self, strains: &[f64]) -> Result<Vec<String>, Error>;
}

/// By how much of its limit a goal's figure is used.
pub(crate) fn strain(goal: &Goal, figure: f64) -> f64 {
    if goal.is_latency() { figure / goal.limit } else { goal.limit / figure.max(1e-9) }
}
