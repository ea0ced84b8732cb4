//! Rows: the figures of one distribution in one case.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, Float64Builder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt16Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lowtail_lab::metric::{GENERAL, LATENCY, base_name, base_unit, base_value};
use lowtail_lab::{Outcome, Row};

use crate::column::field;
use crate::table::beside;

/// Before the name of the figure of which a column has the confidence interval.
const INTERVAL: &str = "interval.";
/// Before the name of a case's variable.
const VARIABLE: &str = "variable.";

/// The columns that rows have besides those that all have: figures of VMs, intervals, variables. For a file of several batches they have to be
/// known before the first one.
#[derive(Debug, Clone)]
pub struct FigureColumns {
    /// Figures by the names that rows have, in order.
    figures: Vec<String>,
    /// Whether figures have intervals, which those after several seeds do.
    intervals: bool,
    variables: Vec<String>,
    schema: SchemaRef,
}

impl FigureColumns {
    /// All that rows of these outcomes have, in order of their first appearance.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let fixed = GENERAL.iter().map(|(name, _)| *name).filter(|name| *name != "count");
        let mut figures = Names::of(LATENCY.iter().copied().chain(fixed));
        let (mut variables, mut intervals) = (Names::default(), false);
        for row in outcomes.iter().flat_map(|outcome| &outcome.rows) {
            row.figures.iter().for_each(|(name, _)| figures.add(name));
            row.variables.iter().for_each(|(name, _)| variables.add(name));
            intervals |= !row.intervals.is_empty();
        }
        let (figures, variables) = (figures.0, variables.0);
        let mut fields = vec![
            field("experiment", DataType::Utf8, false, "", "The experiment's name."),
            field("seed", DataType::UInt64, false, "", "The seed of the run, or the first one."),
            field(
                "seeds",
                DataType::UInt16,
                false,
                "seeds",
                "How many runs, with seeds from that on, the figures are the means of.",
            ),
            field("full", DataType::Boolean, false, "", "Whether the longer form was run."),
            field(
                "case",
                DataType::Utf8,
                false,
                "",
                "The row's name: that of the case, with the VM's if the case has several rows.",
            ),
            field("count", DataType::UInt64, false, "", "How many values the distribution has."),
        ];
        fields.extend(figures.iter().map(|name| figure_field("", name)));
        fields.push(field(
            "complete",
            DataType::Boolean,
            false,
            "",
            "Whether all was measured that should be, within the limit of simulated time.",
        ));
        if intervals {
            fields.extend(figures.iter().map(|name| figure_field(INTERVAL, name)));
        }
        let meaning = "What the case's variable of this name was.";
        let variable =
            |name: &String| field(format!("{VARIABLE}{name}"), DataType::Utf8, true, "", meaning);
        fields.extend(variables.iter().map(variable));
        let schema = Arc::new(Schema::new(fields));
        FigureColumns { figures, intervals, variables, schema }
    }

    /// The schema of rows with these columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The rows of these outcomes. Figures that are no column are left out.
    pub fn rows(&self, outcomes: &[Outcome]) -> RecordBatch {
        let rows: Vec<(&Outcome, &Row)> = outcomes
            .iter()
            .flat_map(|outcome| outcome.rows.iter().map(move |row| (outcome, row)))
            .collect();
        let (mut figures, mut intervals) =
            (Figures::new(&self.figures, rows.len()), Figures::new(&self.figures, rows.len()));
        for (_, row) in &rows {
            let values = row.figures.iter().map(|(name, figure)| (name.as_str(), *figure));
            figures.add(values, row);
            let names = row.figures.iter().map(|(name, _)| name.as_str());
            if self.intervals {
                intervals.add(names.zip(row.intervals.iter().copied()), row);
            }
        }
        let names = rows.iter().map(|(outcome, _)| outcome.name.as_str());
        let cases = rows.iter().map(|(_, row)| row.name.as_str());
        let flags = |flags: Vec<bool>| -> ArrayRef { Arc::new(BooleanArray::from(flags)) };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(names)),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(outcome, _)| outcome.seed))),
            Arc::new(UInt16Array::from_iter_values(rows.iter().map(|(outcome, _)| outcome.seeds))),
            flags(rows.iter().map(|(outcome, _)| outcome.full).collect()),
            Arc::new(StringArray::from_iter_values(cases)),
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, row)| row.n))),
        ];
        columns.extend(figures.arrays());
        columns.push(flags(rows.iter().map(|(_, row)| row.complete).collect()));
        if self.intervals {
            columns.extend(intervals.arrays());
        }
        for name in &self.variables {
            let mut values = StringBuilder::new();
            rows.iter().for_each(|(_, row)| values.append_option(row.variable(name)));
            columns.push(Arc::new(values.finish()));
        }
        beside(self.schema(), columns, rows.len())
    }
}

/// Names in order of their first appearance.
#[derive(Default)]
struct Names(Vec<String>, HashMap<String, ()>);

impl Names {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Names::default();
        names.for_each(|name| all.add(name));
        all
    }

    fn add(&mut self, name: &str) {
        if !self.1.contains_key(name) {
            self.1.insert(name.to_owned(), ());
            self.0.push(name.to_owned());
        }
    }
}

/// Columns of figures in the making.
struct Figures<'a> {
    numbers: HashMap<&'a str, usize>,
    columns: Vec<Float64Builder>,
    rows: usize,
}

impl<'a> Figures<'a> {
    fn new(names: &'a [String], rows: usize) -> Self {
        Figures {
            numbers: names.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect(),
            columns: names.iter().map(|_| Float64Builder::with_capacity(rows)).collect(),
            rows: 0,
        }
    }

    /// A row with these figures; the others are null, and so is what is no number.
    fn add<'f>(&mut self, figures: impl Iterator<Item = (&'f str, f64)>, row: &Row) {
        for (name, figure) in figures {
            let Some(&number) = self.numbers.get(name) else { continue };
            let column = &mut self.columns[number];
            // Twice the same name in a row: the first one counts, as for `Row::get`.
            if column.len() > self.rows {
                continue;
            }
            column.append_nulls(self.rows - column.len());
            let value = base_value(name, figure, row.unit);
            column.append_option(Some(value).filter(|value| value.is_finite()));
        }
        self.rows += 1;
    }

    fn arrays(self) -> impl Iterator<Item = ArrayRef> {
        let rows = self.rows;
        self.columns.into_iter().map(move |mut column| {
            column.append_nulls(rows - column.len());
            Arc::new(column.finish()) as ArrayRef
        })
    }
}

fn figure_field(prefix: &str, metric: &str) -> Field {
    let meaning = match prefix {
        INTERVAL => "Half of the 95 % confidence interval of the figure of this name.",
        _ => meaning(metric),
    };
    let name = format!("{prefix}{}", base_name(metric));
    field(name, DataType::Float64, true, base_unit(metric), meaning)
}

/// What a figure means; of a VM's all have the same words but its name.
fn meaning(metric: &str) -> &'static str {
    let stem = metric.split_once('.').map_or(metric, |(stem, _)| stem);
    let known = MEANINGS.iter().find(|(name, _)| *name == stem);
    known.map_or("", |(_, meaning)| meaning)
}

/// What figures mean, by the names that rows have.
pub(crate) const MEANINGS: [(&str, &str); 38] = [
    ("avg", "Mean of the distribution; like the next ones null if it has no values."),
    ("min", "Smallest value."),
    ("p25", "25 % of values are at most this."),
    ("p50", "Median."),
    ("p75", "75 % of values are at most this."),
    ("p90", "90 % of values are at most this."),
    ("p99", "99 % of values are at most this."),
    ("p99_9", "99.9 % of values are at most this."),
    ("max", "Largest value."),
    ("std_dev", "Standard deviation."),
    ("late", "Values above the limit of the VM's workload, if that has one."),
    ("late_per_600k", "The same of each 600,000 values."),
    ("switches_per_second", "Context switches of all pCPUs."),
    ("schedules_per_second", "Passes of the scheduler on all pCPUs."),
    ("busy_cpus", "pCPUs on which a thread of a VM ran, on average."),
    ("guest_percent", "Share of the time of all pCPUs with a thread of a VM on them."),
    ("idle_percent", "Share of the time of all pCPUs without one."),
    ("simulated_seconds", "Simulated time."),
    ("events", "Events that the simulator handled."),
    ("cpus_used", "CPU time of the VMs called NAME, in pCPUs."),
    ("cpus_used_in_window", "The most of it in any 100 ms."),
    ("work_cpus", "Work that they got done, in pCPUs."),
    ("backend_cpus", "CPU time of their workers of vhost, in pCPUs."),
    ("lost_percent", "Of the CPU time that the others leave them: what is no work."),
    ("wakeups_per_second", "Their wake-ups."),
    ("preemptions_per_second", "How often they were preempted."),
    ("mbit_per_second", "Payload of the VMs or the traffic called NAME that has arrived."),
    ("lost_per_second", "Their packets that were dropped."),
    ("jain", "Jain's index of fairness of what each gets: 1 if all get the same."),
    (
        "lock_held_ratio",
        "Of a driver domain: for which part of the time its grant locks were held.",
    ),
    ("lock_wait_cpus", "Of a driver domain: how long they were waited for, in pCPUs."),
    ("process_cpus", "Of a driver domain: CPU time of its kernel's processes, in pCPUs."),
    ("periods", "Periods of their CPU quota in which they wanted to run."),
    ("throttled_periods", "Periods in which that ran out."),
    ("throttled_percent", "The share of these."),
    ("throttled_ms", "For how long they were throttled."),
    ("longest_pause_ms", "The longest time at a stretch for which they were."),
    ("cap_error_percent", "Largest deviation of the run time from the quota."),
];

/// The schema of [`rows`] that have no figure but those which all have.
pub fn rows_schema() -> SchemaRef {
    FigureColumns::of(&[]).schema()
}

/// The rows of all outcomes: the figures of each case. It has a column for each figure that any of them has, called as in `--json`
/// (`cpus_used.web`), for each figure's interval (`interval.p99_seconds`) and for each variable of a case (`variable.rate`).
pub fn rows(outcomes: &[Outcome]) -> RecordBatch {
    FigureColumns::of(outcomes).rows(outcomes)
}
