//! Distribution functions.

use std::sync::Arc;

use arrow_array::{Float64Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use lowtail_lab::Outcome;
use lowtail_lab::metric::base_value;

use crate::column::field;
use crate::table::{Once, beside};
use crate::words::Words;

/// The schema of [`distributions`].
pub fn distributions_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.get(|| {
        let figure =
            |name: &str, unit, meaning| field(name, DataType::Float64, false, unit, meaning);
        vec![
            field("experiment", Words::data_type(), false, "", "The experiment's name."),
            field("case", Words::data_type(), false, "", "The row's name, as in `rows`."),
            figure("value_seconds", "s", "A value of the row's distribution."),
            figure(
                "longer_ratio",
                "ratio",
                "The share of values that are longer. Of the longest it is half a value's, so that it has a place on a logarithmic axis.",
            ),
        ]
    })
}

/// The distribution function of each row, with the first seed, thinned to what an eye can tell apart on logarithmic axes.
pub fn distributions(outcomes: &[Outcome]) -> RecordBatch {
    let rows =
        || outcomes.iter().flat_map(|outcome| outcome.rows.iter().map(move |row| (outcome, row)));
    let points = rows().map(|(_, row)| row.tail.len()).sum();
    let (mut experiments, mut cases) = (Words::with_capacity(points), Words::with_capacity(points));
    let (mut values, mut shares) = (Vec::with_capacity(points), Vec::with_capacity(points));
    for (outcome, row) in rows() {
        experiments.repeat(&outcome.name, row.tail.len());
        cases.repeat(&row.name, row.tail.len());
        // All values have the unit of a latency.
        values.extend(row.tail.iter().map(|&(value, _)| base_value("max", value, row.unit)));
        shares.extend(row.tail.iter().map(|&(_, longer)| longer));
    }
    let (values, shares) = (Float64Array::from(values), Float64Array::from(shares));
    let columns =
        vec![experiments.array(), cases.array(), Arc::new(values) as _, Arc::new(shares) as _];
    beside(distributions_schema(), columns, points)
}
