//! A prediction: what VMs experienced in a recording, what they experience in the simulator under the same scheduler, and what they would
//! under another.

use lowtail_control::guard::{self, CPU_LEAST, CPU_LOSS};
use lowtail_control::policy::Policy;
use serde::Serialize;

use crate::causes::{Causes, causes};
use crate::comparison::{Comparison, Figures};
use crate::distribution::{Distribution, ranges};
use crate::error::Error;
use crate::grade::Grade;
use crate::model::Setup;
use crate::range::{Range, as_ratio, as_seconds, time};
use crate::recording::Recording;
use crate::runs::{Run, as_recorded, runs};
use crate::waited::{Waited, waited};
use crate::waits::recorded;
use crate::xen;

/// Figures over several runs, each of which begins otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ranges {
    /// Wake-ups of its vCPUs.
    pub wakeups: Option<Range>,
    /// Median of the time from a wake-up to running, in microseconds.
    #[serde(rename = "p50_seconds", serialize_with = "as_seconds")]
    pub p50_us: Option<Range>,
    /// Its 99th percentile, in microseconds.
    #[serde(rename = "p99_seconds", serialize_with = "as_seconds")]
    pub p99_us: Option<Range>,
    /// Processor time, in percent of one CPU.
    #[serde(rename = "cpu_ratio", serialize_with = "as_ratio")]
    pub cpu_percent: Option<Range>,
}

impl Ranges {
    fn of(figures: &[Figures]) -> Self {
        let all = figures.iter();
        Ranges {
            wakeups: Range::of(all.clone().map(|one| Some(one.wakeups as f64))),
            p50_us: Range::of(all.clone().map(|one| one.p50_us)),
            p99_us: Range::of(all.clone().map(|one| one.p99_us)),
            cpu_percent: Range::of(all.map(|one| Some(one.cpu_percent))),
        }
    }
}

/// A VM.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VmPrediction {
    /// Its name, safe to print.
    pub name: String,
    /// What it experienced; `None`: it is added.
    pub recorded: Option<Figures>,
    /// What it experiences in the simulator as it was.
    pub replayed: Option<Ranges>,
    /// What it would experience; `None`: it is not there.
    pub predicted: Option<Ranges>,
    /// How its wake-up latency is distributed.
    #[serde(skip)]
    pub distribution: Distribution,
    /// Whom its vCPUs waited for, most first.
    #[serde(rename = "blame")]
    pub waited: Vec<Waited>,
}

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// How far the simulator can be trusted with this recording.
    pub grade: Grade,
    /// The recording beside the run that begins as it does.
    pub replay: Comparison,
    /// VM by VM.
    pub vms: Vec<VmPrediction>,
    /// What has woken each thread of the recording.
    pub causes: Vec<Causes>,
    /// What gets worse by the change, in words: by as much as the guard of `host apply` would not have it, in the middle of all runs.
    pub worse: Vec<String>,
    /// What of the policy cannot be set, or is not predicted.
    pub notes: Vec<String>,
}

/// A change.
#[derive(Debug, Clone, Default)]
pub struct Change<'a> {
    /// What is otherwise there.
    pub setup: Option<Setup>,
    /// What is put in force.
    pub policy: Option<&'a Policy>,
}

/// The simulated figures of the VM called so.
fn of(runs: &[Run], name: &str) -> Option<Ranges> {
    let figures: Vec<Figures> = runs.iter().map(|run| run.figures(name)).collect::<Option<_>>()?;
    (!figures.is_empty()).then(|| Ranges::of(&figures))
}

/// Replays `recording` under `scheduler` as it was, and with `change`; each in `seeds` ways. A recording with which the simulator does not
/// agree is an error, unless it is to be used `anyway`.
///
/// # Errors
/// If it cannot be simulated, or not be trusted.
pub fn predict(
    recording: &Recording,
    as_it_was: &Setup,
    change: &Change<'_>,
    seeds: u64,
    anyway: bool,
) -> Result<Prediction, Error> {
    let seeds = seeds.max(1);
    let before = as_recorded(recording, as_it_was, seeds, anyway)?;
    let replay = before.runs[0].comparison.clone();
    let changed = change.setup.is_some() || change.policy.is_some();
    let after = if changed {
        let setup = change.setup.as_ref().unwrap_or(as_it_was);
        runs(recording, setup, change.policy, seeds)?
    } else {
        Vec::new()
    };
    let mut vms: Vec<VmPrediction> = replay
        .vms
        .iter()
        .map(|vm| VmPrediction {
            name: vm.name.clone(),
            recorded: Some(vm.recorded),
            replayed: of(&before.runs, &vm.name),
            predicted: of(&after, &vm.name),
            distribution: Distribution::default(),
            waited: Vec::new(),
        })
        .collect();
    let added = after.iter().flat_map(|run| &run.comparison.vms).map(|vm| &vm.name);
    for name in added {
        if !vms.iter().any(|vm| vm.name == *name) {
            let (name, predicted) = (name.clone(), of(&after, name));
            vms.push(VmPrediction {
                name,
                recorded: None,
                replayed: None,
                predicted,
                distribution: Distribution::default(),
                waited: Vec::new(),
            });
        }
    }
    let recorded = recorded(recording);
    for vm in &mut vms {
        let is = [vm.recorded.is_some(), vm.replayed.is_some(), vm.predicted.is_some()];
        let simulated = |runs: &[Run]| {
            ranges(&runs.iter().map(|run| run.times(&vm.name)[1]).collect::<Vec<_>>())
        };
        if is[0] {
            vm.distribution.recorded = before.runs[0].times(&vm.name)[0].to_vec();
        }
        vm.distribution.replayed = simulated(&before.runs);
        vm.distribution.predicted = simulated(&after);
        vm.waited = waited(&vm.name, is, &recorded, &before.runs, &after);
    }
    let worse = vms.iter().flat_map(worse).collect();
    let mut notes = xen::notes(recording, &as_it_was.scheduler);
    notes.extend(after.first().into_iter().flat_map(|run| run.notes.iter().cloned()));
    let (grade, causes) = (before.grade, causes(recording));
    Ok(Prediction { grade, replay, vms, causes, worse, notes })
}

/// One that has so small a part of its wake-ups left, and too few to tell their latency, is hardly let run.
const STARVED: f64 = 0.5;

/// Whether a VM hardly gets to sleep any more: of so many wake-ups so many are left, and p99 can be told no longer.
pub fn hardly_sleeps(wakeups: (f64, f64), p99_us: (Option<f64>, Option<f64>)) -> bool {
    p99_us.0.is_some() && p99_us.1.is_none() && wakeups.1 < STARVED * wakeups.0
}

/// What gets worse for a VM.
fn worse(vm: &VmPrediction) -> Vec<String> {
    let (Some(before), Some(after)) = (&vm.replayed, &vm.predicted) else { return Vec::new() };
    let mut worse = Vec::new();
    if let (Some(before), Some(after)) = (before.p99_us, after.p99_us) {
        let (from, to) = (before.median, after.median);
        if 1e3 * to > guard::worse(1e3 * from) {
            worse.push(format!("{}: wake-up p99 from {} to {}", vm.name, time(from), time(to)));
        }
    }
    // Who never gets to sleep is not woken: its waits are in no percentile of wake-ups.
    let median = |range: Range| range.median;
    if let (Some(from), Some(to)) = (before.wakeups.map(median), after.wakeups.map(median))
        && hardly_sleeps((from, to), (before.p99_us.map(median), after.p99_us.map(median)))
    {
        worse.push(format!("{}: wake-ups from {from} to {to}: it hardly gets to sleep", vm.name));
    }
    if let (Some(before), Some(after)) = (before.cpu_percent, after.cpu_percent) {
        let (from, to) = (before.median, after.median);
        if from - to > (CPU_LOSS * from).max(100.0 * CPU_LEAST) {
            worse.push(format!(
                "{}: processor time from {from:.1} % to {to:.1} % of a CPU",
                vm.name
            ));
        }
    }
    worse
}
