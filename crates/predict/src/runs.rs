//! Runs of one model, each of which begins otherwise.

use lowtail_control::policy::Policy;

use crate::blame::Waits;
use crate::comparison::{Comparison, Figures};
use crate::error::Error;
use crate::grade::{Grade, Letter};
use crate::model::{Model, Setup};
use crate::policy::put_in_force;
use crate::recording::Recording;
use crate::replay::replay_with_blame;
use crate::waits::simulated;

/// What has come of a run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) comparison: Comparison,
    /// How waits after wake-ups are distributed, of each VM in the comparison's order, recorded and simulated.
    times: Vec<[Vec<f64>; 2]>,
    /// Who ran while vCPUs waited.
    pub(crate) waits: Waits,
    /// What of the policy cannot be set, or is not predicted.
    pub(crate) notes: Vec<String>,
}

impl Run {
    /// The simulated figures of the VM called so.
    pub(crate) fn figures(&self, vm: &str) -> Option<Figures> {
        self.comparison.vms.iter().find(|of| of.name == vm).map(|of| of.simulated)
    }

    /// How the waits of the VM called so are distributed, recorded and simulated.
    pub(crate) fn times(&self, vm: &str) -> [&[f64]; 2] {
        let at = self.comparison.vms.iter().position(|of| of.name == vm);
        at.map_or([&[], &[]], |at| [&self.times[at][0], &self.times[at][1]])
    }
}

/// Runs of a recording as it was.
#[derive(Debug)]
pub(crate) struct AsRecorded {
    /// The first one begins as the recording does.
    pub(crate) runs: Vec<Run>,
    /// Of that one.
    pub(crate) grade: Grade,
}

/// Runs the recorded host as it was. One with which the simulator does not agree is an error, unless it is to be used `anyway`.
pub(crate) fn as_recorded(
    recording: &Recording,
    as_it_was: &Setup,
    seeds: u64,
    anyway: bool,
) -> Result<AsRecorded, Error> {
    let runs = runs(recording, as_it_was, None, seeds)?;
    let grade = Grade::of(&runs[0].comparison);
    if grade.grade == Letter::Poor && !anyway {
        return Err(Error::Poor(grade.to_string()));
    }
    Ok(AsRecorded { runs, grade })
}

/// Runs `setup`, with `policy` in force, begun in so many ways.
pub(crate) fn runs(
    recording: &Recording,
    setup: &Setup,
    policy: Option<&Policy>,
    seeds: u64,
) -> Result<Vec<Run>, Error> {
    let run = |seed: u64| -> Result<Run, Error> {
        let mut model = Model::new(recording, &Setup { seed, ..setup.clone() })?;
        let notes = policy.map(|policy| put_in_force(&mut model, recording, policy));
        let (replayed, blame) = replay_with_blame(&model, recording.events, seed)?;
        let (comparison, times) = Comparison::with_times(recording, &model, &replayed);
        let waits = simulated(recording, &model, &blame);
        Ok(Run { comparison, times, waits, notes: notes.unwrap_or_default() })
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = Vec::new();
    for some in (0..seeds.max(1)).collect::<Vec<_>>().chunks(threads) {
        let done = std::thread::scope(|scope| {
            let started: Vec<_> = some.iter().map(|&seed| scope.spawn(move || run(seed))).collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined
                .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, _>>()
        })?;
        all.extend(done);
    }
    Ok(all)
}
