//! The tables of `--parquet`.

use std::path::Path;

use lowtail_arrow::lab::{self, FigureColumns};
use lowtail_arrow::{ParquetFile, RecordBatch, SchemaRef};
use lowtail_lab::Outcome;

use crate::exit::Fail;
use crate::parquet::{begin, directory, failed, finish};

/// What makes a table of an outcome.
type Make = fn(&[Outcome]) -> RecordBatch;

/// A directory of tables, of which each appears when all is written: all of them every time, so that none is of an earlier run.
pub(super) struct Tables<'a> {
    pub(super) dir: &'a Path,
    /// Each has a row group for each experiment.
    files: Vec<(ParquetFile, Make)>,
}

impl<'a> Tables<'a> {
    /// Begins the files, in a directory that is created if it does not exist.
    pub(super) fn new(dir: &'a Path) -> Result<Self, Fail> {
        directory(dir)?;
        let tables: [(&str, SchemaRef, Make); 5] = [
            ("claims", lab::claims_schema(), lab::claims),
            ("distributions", lab::distributions_schema(), lab::distributions),
            ("schedules", lab::schedules_schema(), lab::schedules),
            ("queues", lab::queues_schema(), lab::queues),
            ("completions", lab::completions_schema(), lab::completions),
        ];
        let begin = |(name, schema, make)| Ok((begin(dir, name, schema)?, make));
        Ok(Tables { dir, files: tables.into_iter().map(begin).collect::<Result<_, Fail>>()? })
    }

    /// Writes what there is of an experiment but its rows.
    pub(super) fn take(&mut self, outcome: &Outcome) -> Result<(), Fail> {
        for (file, make) in &mut self.files {
            let batch = make(std::slice::from_ref(outcome));
            let written = file.write(&batch).and_then(|()| file.end_group());
            written.map_err(|error| failed(file.path(), &error))?;
        }
        Ok(())
    }

    /// Writes the rows of all experiments, whose columns are known now, and puts all files in their places.
    pub(super) fn finish(self, outcomes: &[Outcome]) -> Result<(), Fail> {
        let columns = FigureColumns::of(outcomes);
        let mut rows = begin(self.dir, "rows", columns.schema())?;
        for outcome in outcomes {
            let batch = columns.rows(std::slice::from_ref(outcome));
            let written = rows.write(&batch).and_then(|()| rows.end_group());
            written.map_err(|error| failed(rows.path(), &error))?;
        }
        finish(self.files.into_iter().map(|(file, _)| file).chain([rows]))
    }
}
