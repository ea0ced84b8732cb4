//! Whom a VM waited for, and for how long: recorded, replayed and predicted.

use std::collections::BTreeMap;

use lowtail_out::seconds;
use serde::Serialize;

use crate::blame::{Ahead, Waits};
use crate::runs::Run;

/// So many are shown of each VM.
const SHOWN_MAX: usize = 4;

/// For how long the vCPUs of a VM waited while one other ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waited {
    /// Who ran.
    pub ahead: Ahead,
    /// In the recording, in microseconds.
    #[serde(rename = "recorded_seconds", serialize_with = "seconds::some_us")]
    pub recorded_us: Option<f64>,
    /// In the simulator as it was, on average over all runs.
    #[serde(rename = "replayed_seconds", serialize_with = "seconds::some_us")]
    pub replayed_us: Option<f64>,
    /// With the change, on average over all runs.
    #[serde(rename = "predicted_seconds", serialize_with = "seconds::some_us")]
    pub predicted_us: Option<f64>,
}

impl Waited {
    /// Recorded, replayed and predicted, in microseconds.
    pub fn all_us(&self) -> [Option<f64>; 3] {
        [self.recorded_us, self.replayed_us, self.predicted_us]
    }

    fn most_us(&self) -> f64 {
        self.all_us().into_iter().flatten().fold(0.0, f64::max)
    }
}

/// Whom the VM called so waited for, most first; `is` says in which of recording, replay and prediction it is.
pub(crate) fn waited(
    vm: &str,
    is: [bool; 3],
    recorded: &Waits,
    before: &[Run],
    after: &[Run],
) -> Vec<Waited> {
    let mut all: BTreeMap<&Ahead, [f64; 3]> = BTreeMap::new();
    let sources = [(recorded, 0, 1)]
        .into_iter()
        .chain(before.iter().map(|run| (&run.waits, 1, before.len())))
        .chain(after.iter().map(|run| (&run.waits, 2, after.len())));
    for (waits, column, runs) in sources {
        for (ahead, &ns) in waits.get(vm).into_iter().flatten() {
            all.entry(ahead).or_default()[column] += ns as f64 / 1e3 / runs as f64;
        }
    }
    let row = |(ahead, us): (&Ahead, [f64; 3])| {
        let some = |column: usize| is[column].then_some(us[column]);
        let ahead = ahead.clone();
        Waited { ahead, recorded_us: some(0), replayed_us: some(1), predicted_us: some(2) }
    };
    let mut rows: Vec<Waited> = all.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.most_us().total_cmp(&a.most_us()));
    rows
}

/// The rows of a VM that are shown: the rest is small.
pub fn shown(waited: &[Waited]) -> &[Waited] {
    &waited[..waited.len().min(SHOWN_MAX)]
}
