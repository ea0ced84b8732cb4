//! A prediction: what VMs experienced in a recording, what they experience in the simulator under the same scheduler, and what they would
//! under another.

use lowtail_control::guard::{self, CPU_LEAST, CPU_LOSS};
use lowtail_control::policy::Policy;
use lowtail_out::seconds;
use serde::{Serialize, Serializer};

use crate::comparison::{Comparison, Figures};
use crate::error::Error;
use crate::grade::{Grade, Letter};
use crate::model::{Model, Setup};
use crate::policy::put_in_force;
use crate::recording::Recording;
use crate::replay::replay;

/// The least and the greatest of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The greatest.
    pub max: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        Some(Range { min, median: values[values.len() / 2], max })
    }

    fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Range { min: of(self.min), median: of(self.median), max: of(self.max) }
    }
}

/// Figures over several runs, each of which begins otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ranges {
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

fn as_seconds<S: Serializer>(range: &Option<Range>, serializer: S) -> Result<S::Ok, S::Error> {
    range.map(|range| range.map(seconds::of_us)).serialize(serializer)
}

fn as_ratio<S: Serializer>(range: &Option<Range>, serializer: S) -> Result<S::Ok, S::Error> {
    range.map(|range| range.map(|percent| percent / 100.0)).serialize(serializer)
}

impl Ranges {
    fn of(figures: &[Figures]) -> Self {
        let all = figures.iter();
        Ranges {
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

/// VMs of several runs.
type Runs = Vec<Comparison>;

/// Runs `setup`, with `policy` in force, begun in so many ways.
fn runs(
    recording: &Recording,
    setup: &Setup,
    policy: Option<&Policy>,
    seeds: u64,
) -> Result<(Runs, Vec<String>), Error> {
    let run = |seed: u64| -> Result<(Comparison, Vec<String>), Error> {
        let mut model = Model::new(recording, &Setup { seed, ..setup.clone() })?;
        let notes = policy.map(|policy| put_in_force(&mut model, recording, policy));
        let replayed = replay(&model, recording.events, seed)?;
        Ok((Comparison::new(recording, &model, &replayed), notes.unwrap_or_default()))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut all = Vec::new();
    for some in (0..seeds).collect::<Vec<_>>().chunks(threads as usize) {
        let done = std::thread::scope(|scope| {
            let started: Vec<_> = some.iter().map(|&seed| scope.spawn(move || run(seed))).collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined
                .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, _>>()
        })?;
        all.extend(done);
    }
    let notes = all.first().map(|(_, notes)| notes.clone()).unwrap_or_default();
    Ok((all.into_iter().map(|(comparison, _)| comparison).collect(), notes))
}

/// The simulated figures of the VM called so.
fn of(runs: &Runs, name: &str) -> Option<Ranges> {
    let figures =
        runs.iter().map(|run| run.vms.iter().find(|vm| vm.name == name).map(|vm| vm.simulated));
    let figures: Vec<Figures> = figures.collect::<Option<_>>()?;
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
    let (before, _) = runs(recording, as_it_was, None, seeds)?;
    let replay = before[0].clone();
    let grade = Grade::of(&replay);
    if grade.grade == Letter::Poor && !anyway {
        return Err(Error::Poor(grade.to_string()));
    }
    let changed = change.setup.is_some() || change.policy.is_some();
    let (after, notes) = if changed {
        let setup = change.setup.as_ref().unwrap_or(as_it_was);
        runs(recording, setup, change.policy, seeds)?
    } else {
        (Vec::new(), Vec::new())
    };
    let mut vms: Vec<VmPrediction> = replay
        .vms
        .iter()
        .map(|vm| VmPrediction {
            name: vm.name.clone(),
            recorded: Some(vm.recorded),
            replayed: of(&before, &vm.name),
            predicted: of(&after, &vm.name),
        })
        .collect();
    let added = after.iter().flat_map(|run| &run.vms).map(|vm| &vm.name);
    for name in added {
        if !vms.iter().any(|vm| vm.name == *name) {
            let (name, predicted) = (name.clone(), of(&after, name));
            vms.push(VmPrediction { name, recorded: None, replayed: None, predicted });
        }
    }
    let worse = vms.iter().flat_map(worse).collect();
    Ok(Prediction { grade, replay, vms, worse, notes })
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

/// A time for people.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 100.0 => format!("{us:.1} us"),
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.1} ms", us / 1e3),
    }
}
