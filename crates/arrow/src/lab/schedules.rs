//! Simulated schedules.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch, UInt16Array};
use arrow_schema::{DataType, SchemaRef};
use lowtail_engine::Time;
use lowtail_lab::{Outcome, Recording};

use crate::column::field;
use crate::table::{Once, beside};
use crate::word::what;
use crate::words::Words;

/// The schema of [`schedules`].
pub fn schedules_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.get(|| {
        let word = |name: &str, null, meaning| field(name, Words::data_type(), null, "", meaning);
        vec![
            word("experiment", false, "The experiment's name."),
            word("case", false, "The case's name."),
            field("time_seconds", DataType::Float64, false, "s", "When, since the run began."),
            field(
                "pcpu",
                DataType::UInt16,
                false,
                "",
                "The number of the pCPU; of a wake-up that which the vCPU belongs to.",
            ),
            word("vcpu", true, "The vCPU's name; null of one that no VM has."),
            word(
                "event",
                false,
                "`run`: it was given the pCPU; `block`: it left it because it blocked; `preempt`: it left it though it could have gone on; `wake`: it became runnable; `note`: the scheduler's remark on it.",
            ),
            word(
                "note",
                true,
                "That remark: `rate-limited` (it goes on, as it has run for less than the rate limit), `not-tickled` (no pCPU may be interrupted for it), `boosted`, `boost-ended`, `parked` (its cap is used up), `credit-reset`, `stolen` (from another pCPU's queue).",
            ),
        ]
    })
}

/// The end of each case's schedule, where it was recorded.
pub fn schedules(outcomes: &[Outcome]) -> RecordBatch {
    let recordings = || {
        outcomes.iter().flat_map(|outcome| {
            outcome.recordings().map(move |recording| (outcome.name.as_str(), recording))
        })
    };
    let records = recordings().map(|(_, recording)| recording.records.len()).sum();
    let mut columns = Schedule::with_capacity(records);
    recordings().for_each(|(experiment, recording)| columns.add(experiment, recording));
    columns.batch(records)
}

/// The columns in the making.
struct Schedule {
    experiments: Words,
    cases: Words,
    times: Vec<f64>,
    pcpus: Vec<u16>,
    vcpus: Words,
    events: Words,
    notes: Words,
}

impl Schedule {
    fn with_capacity(records: usize) -> Self {
        let words = || Words::with_capacity(records);
        Schedule {
            experiments: words(),
            cases: words(),
            times: Vec::with_capacity(records),
            pcpus: Vec::with_capacity(records),
            vcpus: words(),
            events: words(),
            notes: words(),
        }
    }

    fn add(&mut self, experiment: &str, recording: &Recording) {
        let records = &recording.records;
        self.experiments.repeat(experiment, records.len());
        self.cases.repeat(&recording.case, records.len());
        self.times.extend(records.iter().map(|record| record.time.since(Time::ZERO).as_s_f64()));
        self.pcpus.extend(records.iter().map(|record| record.pcpu.0));
        let names: Vec<i32> = recording.vcpus.iter().map(|name| self.vcpus.key(name)).collect();
        for record in records {
            self.vcpus.push(names.get(record.vcpu.index()).copied());
            let (event, note) = what(record.what);
            let event = self.events.key(event);
            self.events.push(Some(event));
            let note = note.map(|note| self.notes.key(note));
            self.notes.push(note);
        }
    }

    fn batch(self, records: usize) -> RecordBatch {
        let columns = vec![
            self.experiments.array(),
            self.cases.array(),
            Arc::new(Float64Array::from(self.times)) as _,
            Arc::new(UInt16Array::from(self.pcpus)) as _,
            self.vcpus.array(),
            self.events.array(),
            self.notes.array(),
        ];
        beside(schedules_schema(), columns, records)
    }
}
