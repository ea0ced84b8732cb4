//! How many more VMs like one that is there fit, before another has no longer what it is to have.

use std::fmt::Write as _;

use serde::Serialize;

use crate::error::Error;
use crate::goal::Goal;
use crate::grade::Grade;
use crate::model::{COPIES_MAX, Setup};
use crate::prediction::Change;
use crate::range::{Range, as_ratio, as_seconds, time};
use crate::recording::Recording;
use crate::runs::{Run, as_recorded, runs};
use crate::table::range;
use lowtail_out::align;

/// So many are tried at most where nobody says how many.
pub const FIT_MAX: u32 = 64;

/// What is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Which VM is added, by its name in the recording.
    pub vm: String,
    /// How many at most, up to [`COPIES_MAX`].
    pub max: u32,
    /// What is to hold. Of VMs that are added it is a goal if its pattern has their names, such as `web+1`.
    pub goal: Goal,
}

/// What so many more VMs make of the goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// How many more there are.
    pub added: u32,
    /// Whether the goal holds, in the middle of all runs.
    pub fits: bool,
    /// Of the VMs that have the goal the one that is the furthest beyond it, or the nearest to it.
    pub vm: String,
    /// Its time from a wake-up to running, in microseconds, if that is the goal's figure and there are enough wake-ups.
    #[serde(rename = "latency_seconds", serialize_with = "as_seconds")]
    pub latency_us: Option<Range>,
    /// Its processor time, in percent of one CPU, if that is the goal's figure.
    #[serde(rename = "cpu_ratio", serialize_with = "as_ratio")]
    pub cpu_percent: Option<Range>,
}

/// How many fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// How far the simulator can be trusted with this recording.
    pub grade: Grade,
    /// The VM that is added.
    pub vm: String,
    /// What is to hold.
    pub goal: Goal,
    /// So many more fit; `None`: the goal does not even hold without any.
    pub fitting: Option<u32>,
    /// So many were tried at most.
    #[serde(rename = "added_max")]
    pub max: u32,
    /// All that were tried, in order of their number.
    pub tried: Vec<Tried>,
    /// What of the policy cannot be set, or is not predicted, and what was taken for granted.
    pub notes: Vec<String>,
}

/// Searches how many VMs fit: `question.vm` is added to what `change` says until the goal does not hold any more. Each number has the same
/// `seeds` runs, of which the one in the middle decides. Numbers are doubled until one does not fit, and halved from there: if more VMs did
/// better than fewer, that would not be seen.
///
/// # Errors
/// If it cannot be simulated, or not be trusted; if no VM has the goal, or too few wake-ups to tell.
pub fn fit(
    recording: &Recording,
    as_it_was: &Setup,
    change: &Change<'_>,
    question: &Question,
    seeds: u64,
    anyway: bool,
) -> Result<Fit, Error> {
    let Question { vm, max, goal } = question;
    let max = (*max).clamp(1, COPIES_MAX);
    let known = || recording.host.vms.clone();
    if !recording.host.vms.contains(vm) {
        return Err(Error::NoVm { name: vm.clone(), known: known() });
    }
    let grade = as_recorded(recording, as_it_was, seeds, anyway)?.grade;
    let (mut tried, mut notes) = (Vec::new(), Vec::new());
    let mut holds = |added: u32| -> Result<bool, Error> {
        let mut setup = change.setup.as_ref().unwrap_or(as_it_was).clone();
        if added > 0 {
            setup.add.push((vm.clone(), added));
        }
        let runs = runs(recording, &setup, change.policy, seeds)?;
        let no_vm = || Error::NoVm { name: goal.vm.clone(), known: known() };
        let all = figures(goal, &runs).ok_or_else(no_vm)?;
        if added == 0 {
            notes.clone_from(&runs[0].notes);
            if let Some((vm, _)) = all.iter().find(|(_, values)| middle(goal, values).is_none()) {
                return Err(Error::FewWakeups { vm: vm.clone(), goal: goal.to_string() });
            }
        }
        let one = worst(goal, added, &all);
        let fits = one.fits;
        tried.push(one);
        Ok(fits)
    };
    let fitting = search(max, &mut holds)?;
    tried.sort_by_key(|one| one.added);
    if tried.iter().any(|one| !one.fits) && tried.len() > 1 {
        notes.push("taken for granted: where some do not fit, more do not".to_owned());
    }
    let vm = lowtail_out::name(vm).into_owned();
    Ok(Fit { grade, vm, goal: goal.clone(), fitting, max, tried, notes })
}

/// The greatest number up to `max` that `holds`, if 0 does.
fn search<E>(max: u32, mut holds: impl FnMut(u32) -> Result<bool, E>) -> Result<Option<u32>, E> {
    if !holds(0)? {
        return Ok(None);
    }
    let (mut fit, mut next) = (0, 1);
    let mut beyond = loop {
        if !holds(next)? {
            break next;
        }
        if next == max {
            return Ok(Some(max));
        }
        (fit, next) = (next, (2 * next).min(max));
    };
    while beyond - fit > 1 {
        let between = fit + (beyond - fit) / 2;
        if holds(between)? {
            fit = between;
        } else {
            beyond = between;
        }
    }
    Ok(Some(fit))
}

/// The goal's figure of one VM in each run.
type Values = Vec<Option<f64>>;

/// Of each VM that has the goal. `None`: there is none.
fn figures(goal: &Goal, runs: &[Run]) -> Option<Vec<(String, Values)>> {
    let names = runs.first()?.comparison.vms.iter().map(|vm| &vm.name);
    let of = |name: &String| {
        let value = |run: &Run| goal.figure(&run.figures(name)?);
        (name.clone(), runs.iter().map(value).collect())
    };
    let all: Vec<_> = names.filter(|name| goal.is_of(name)).map(of).collect();
    (!all.is_empty()).then_some(all)
}

/// The one in the middle. Who has too few wake-ups is worse than all others: it is hardly let run.
fn middle(goal: &Goal, values: &Values) -> Option<f64> {
    let worst = if goal.is_latency() { f64::INFINITY } else { 0.0 };
    let mut sorted: Vec<f64> = values.iter().map(|value| value.unwrap_or(worst)).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().filter(|value| value.is_finite())
}

/// The VM that is the furthest beyond the goal.
fn worst(goal: &Goal, added: u32, all: &[(String, Values)]) -> Tried {
    let beyond = |values: &Values| match (middle(goal, values), goal.is_latency()) {
        (Some(value), true) => value,
        (Some(value), false) => -value,
        (None, _) => f64::INFINITY,
    };
    let worst = all.iter().max_by(|a, b| beyond(&a.1).total_cmp(&beyond(&b.1)));
    let none = (String::new(), Vec::new());
    let (vm, values) = worst.unwrap_or(&none);
    let fits = middle(goal, values).is_some_and(|value| goal.is_reached(value));
    let range = Range::of(values.iter().copied());
    let (latency_us, cpu_percent) = if goal.is_latency() { (range, None) } else { (None, range) };
    Tried { added, fits, vm: vm.clone(), latency_us, cpu_percent }
}

impl Tried {
    /// Its figure for people.
    fn figure(&self) -> String {
        match self.cpu_percent {
            Some(_) => range(self.cpu_percent, |value| format!("{value:.1} %")),
            None => range(self.latency_us, time),
        }
    }
}

impl Fit {
    /// The answer as text.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "replay of the recording: {}", self.grade);
        let head = format!("more of {}", self.vm);
        let mut rows =
            vec![vec![head, "VM".to_owned(), self.goal.figure.to_string(), "".to_owned()]];
        rows.extend(self.tried.iter().map(|one| {
            let fits = if one.fits { "fits" } else { "too many" };
            vec![one.added.to_string(), one.vm.clone(), one.figure(), fits.to_owned()]
        }));
        align(&mut out, "rlrl", &rows);
        let (vm, goal) = (&self.vm, &self.goal);
        let _ = match self.fitting {
            None => writeln!(out, "not even 0 more of {vm} fit: {goal} does not hold as it is"),
            Some(n) if n == self.max => {
                writeln!(out, "{n} more of {vm} fit, and no more were tried: {goal}")
            }
            Some(n) => writeln!(out, "{n} more of {vm} fit: {goal}"),
        };
        self.notes.iter().for_each(|note| {
            let _ = writeln!(out, "note: {note}");
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest of up to `max` that fits where `fit` do, and what was tried.
    fn found(fit: Option<u32>, max: u32) -> (Option<u32>, Vec<u32>) {
        let mut tried = Vec::new();
        let holds = |n: u32| -> Result<bool, ()> {
            tried.push(n);
            Ok(fit.is_some_and(|fit| n <= fit))
        };
        (search(max, holds).unwrap(), tried)
    }

    #[test]
    fn the_greatest_that_fits_is_found() {
        for max in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(found(None, max), (None, vec![0]));
            for fit in [0, 1, 2, 3, 5, 8, 31, 63, 64, 999, 1000] {
                let (most, tried) = found(Some(fit), max);
                assert_eq!(most, Some(fit.min(max)), "{fit} of {max}");
                // Both the last that fits and the first that does not were tried, and none twice.
                assert!(
                    tried.contains(&fit.min(max)) && (fit >= max || tried.contains(&(fit + 1)))
                );
                let mut once = tried.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), tried.len(), "{tried:?}");
                assert!(tried.len() <= 2 + 2 * (max.ilog2() as usize + 1), "{tried:?}");
            }
        }
    }

    #[test]
    fn the_run_in_the_middle_decides_and_the_worst_vm() {
        let goal: Goal = "web* p99 <= 1ms".parse().unwrap();
        let one = |name: &str, values: &[Option<f64>]| (name.to_owned(), values.to_vec());
        let good = one("web", &[Some(900.0), Some(2_000.0), Some(100.0)]);
        let none = one("web+1", &[None, Some(100.0), None]);
        let tried = worst(&goal, 1, std::slice::from_ref(&good));
        assert!(tried.fits, "{tried:?}");
        assert_eq!(tried.latency_us.unwrap().max, 2_000.0);
        let tried = worst(&goal, 2, &[good, none]);
        assert!(!tried.fits && tried.vm == "web+1", "too few wake-ups are no success: {tried:?}");
        let goal: Goal = "batch cpu >= 50%".parse().unwrap();
        let both = [one("a", &[Some(60.0)]), one("b", &[Some(40.0)])];
        let tried = worst(&goal, 0, &both);
        assert!(!tried.fits && tried.vm == "b", "{tried:?}");
    }
}
