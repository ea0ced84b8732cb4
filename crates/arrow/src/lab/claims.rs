//! Claims with their verdicts.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_lab::{Outcome, Verdict};

use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// A claim of an experiment.
struct Row<'a> {
    outcome: &'a Outcome,
    claim: &'a Verdict,
}

impl Row<'_> {
    fn model(&self) -> Option<&str> {
        let trivial = self.claim.trivial.as_ref()?;
        Some(trivial.model.as_deref().unwrap_or("unchanged"))
    }

    /// Beside a published figure only.
    fn is_trivial_nearer(&self) -> Option<bool> {
        let trivial = self.claim.trivial.as_ref()?;
        self.claim.published.map(|_| trivial.nearer)
    }
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let text = |name, meaning, get: for<'r> fn(&'r Row<'a>) -> &'r str| {
        Column::new(name, "", meaning, Get::Text(get))
    };
    let figure = |name, meaning, get: fn(&Row<'a>) -> Option<f64>| {
        Column::new(name, "", meaning, Get::SomeF64(get))
    };
    let flag = |name, meaning, get: fn(&Row<'a>) -> Option<bool>| {
        Column::new(name, "", meaning, Get::SomeBool(get))
    };
    vec![
        text("experiment", "The experiment's name.", |row| &row.outcome.name),
        text("id", "The claim's name.", |row| &row.claim.id),
        Column::new(
            "case",
            "",
            "The row that it is about, if it is about a single one.",
            Get::SomeText(|row| row.claim.case.as_deref()),
        ),
        text("metric", "The figure that it is about.", |row| &row.claim.metric),
        text("unit", "The unit of the numbers in this line.", |row| &row.claim.unit),
        figure("published", "The published figure, if there is one.", |row| row.claim.published),
        figure("measured", "The figure measured here.", |row| row.claim.measured),
        text("tolerance", "What holds, or how near is near enough, in words.", |row| {
            &row.claim.tolerance
        }),
        figure("bound", "The bound of a claim of the form at most or at least.", |row| {
            row.claim.bound
        }),
        flag("holds", "Whether it holds; null of what is shown and not judged.", |row| {
            row.claim.holds
        }),
        figure("trivial", "What a trivial model says of the figure.", |row| {
            row.claim.trivial_figure()
        }),
        Column::new(
            "trivial_model",
            "",
            "That model in words; `unchanged`: that nothing changes between the rows compared.",
            Get::SomeText(Row::model),
        ),
        flag("trivial_holds", "Whether the claim would hold for the model's figure.", |row| {
            row.claim.trivial.as_ref().map(|trivial| trivial.holds)
        }),
        flag(
            "trivial_nearer",
            "Whether the model's figure is at least as near to the published one as the measured one is.",
            Row::is_trivial_nearer,
        ),
        Column::new(
            "weak",
            "",
            "It holds, and the trivial model passes as well or is at least as near.",
            Get::Bool(|row| row.claim.is_weak()),
        ),
        Column::new(
            "fitted",
            "",
            "A number of the scenario was chosen so that it holds.",
            Get::Bool(|row| row.claim.fitted),
        ),
        Column::new(
            "missed",
            "",
            "Why it is known not to hold, if it is.",
            Get::SomeText(|row| row.claim.missed.as_deref()),
        ),
        Column::new(
            "seeds_held",
            "seeds",
            "In how many of several seeds it holds.",
            Get::SomeU64(|row| row.claim.seeds.map(|seeds| seeds.held as u64)),
        ),
        figure("interval", "Half of the 95 % confidence interval of what was measured.", |row| {
            row.claim.seeds.and_then(|seeds| seeds.half_width)
        }),
    ]
}

/// The schema of [`claims`].
pub fn claims_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// Claims with their verdicts, and published figures that are not judged: those of `claims` and of `out_of_scope` in `--json`.
pub fn claims(outcomes: &[Outcome]) -> RecordBatch {
    let of = |outcome| move |claim| Row { outcome, claim };
    let rows: Vec<Row<'_>> =
        outcomes.iter().flat_map(|outcome| outcome.claims.iter().map(of(outcome))).collect();
    batch(claims_schema(), &columns(), &rows)
}
