//! What has waited at the ports of networks.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, SchemaRef};
use lowtail_engine::Time;
use lowtail_lab::Outcome;

use crate::column::field;
use crate::table::{Once, beside};
use crate::words::Words;

/// The schema of [`queues`].
pub fn queues_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.get(|| {
        let word = |name: &str, meaning| field(name, Words::data_type(), false, "", meaning);
        vec![
            word("experiment", "The experiment's name."),
            word("case", "The case's name."),
            word("queue", "The link whose transmitter the bytes wait for, and which of its queues, if it has two."),
            field("time_seconds", DataType::Float64, false, "s", "From when on, since the run began."),
            field("bytes", DataType::UInt64, false, "bytes", "How many bytes wait, until the next line of the same queue."),
        ]
    })
}

/// How much has waited at each port that was watched, and from when on.
pub fn queues(outcomes: &[Outcome]) -> RecordBatch {
    let tracks = || {
        outcomes.iter().flat_map(|outcome| {
            let cases = outcome.cases.iter();
            cases.flat_map(move |case| case.queues.iter().map(move |track| (outcome, case, track)))
        })
    };
    let samples = tracks().map(|(.., track)| track.samples.len()).sum();
    let mut names = [(); 3].map(|()| Words::with_capacity(samples));
    let (mut times, mut bytes) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
    for (outcome, case, track) in tracks() {
        for (column, name) in names.iter_mut().zip([&outcome.name, &case.name, &track.name]) {
            column.repeat(name, track.samples.len());
        }
        times.extend(track.samples.iter().map(|(time, _)| time.since(Time::ZERO).as_s_f64()));
        bytes.extend(track.samples.iter().map(|&(_, bytes)| bytes));
    }
    let mut columns: Vec<_> = names.into_iter().map(Words::array).collect();
    columns.push(Arc::new(Float64Array::from(times)));
    columns.push(Arc::new(UInt64Array::from(bytes)));
    beside(queues_schema(), columns, samples)
}
