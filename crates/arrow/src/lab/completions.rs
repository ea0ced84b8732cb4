//! When transfers of lists were complete.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_lab::{Completion, Outcome};

use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// A transfer in a case.
struct Row<'a> {
    experiment: &'a str,
    case: &'a str,
    transfer: &'a Completion,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let text = |name, meaning, get: for<'r> fn(&'r Row<'a>) -> &'r str| {
        Column::new(name, "", meaning, Get::Text(get))
    };
    vec![
        text("experiment", "The experiment's name.", |row| row.experiment),
        text("case", "The case's name.", |row| row.case),
        text("traffic", "The traffic whose list it is in.", |row| &row.transfer.traffic),
        Column::new(
            "start_seconds",
            "s",
            "When it began, from the beginning of the run.",
            Get::F64(|row| row.transfer.start.as_s_f64()),
        ),
        text("source", "Who sent.", |row| &row.transfer.source),
        text("destination", "Who received.", |row| &row.transfer.destination),
        Column::new("bytes", "bytes", "How much.", Get::U64(|row| row.transfer.bytes)),
        Column::new(
            "took_seconds",
            "s",
            "How long it took; null if it was not complete at the end of the run.",
            Get::SomeF64(|row| row.transfer.took.map(|took| took.as_s_f64())),
        ),
    ]
}

/// The schema of [`completions`].
pub fn completions_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// When each transfer of a list was complete, with the first seed, where that was kept.
pub fn completions(outcomes: &[Outcome]) -> RecordBatch {
    let mut rows = Vec::new();
    for outcome in outcomes {
        for case in &outcome.cases {
            rows.extend(case.completions.iter().map(|transfer| Row {
                experiment: &outcome.name,
                case: &case.name,
                transfer,
            }));
        }
    }
    batch(completions_schema(), &columns(), &rows)
}
