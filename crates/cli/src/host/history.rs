//! The history that `lowtail host observe --parquet` keeps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lowtail_arrow::history::Options;
use lowtail_arrow::{History, observe};
use lowtail_observe::{Finding, Snapshot};

use crate::exit::Fail;
use crate::out;
use crate::{size, span};

/// What is kept if nothing else is said: weeks of a host with ten VMs.
const KEEP: &str = "1GiB";
/// After how long files are closed if nothing else is said: what a kill loses at most.
const EVERY: &str = "60s";

/// Options of the history.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// Keep all intervals in this directory, as Parquet files; lowtail creates it. docs/reference/parquet.md has their columns
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
    /// Bytes of these files together at most: the oldest ones are deleted
    #[arg(long, value_name = "SIZE", default_value = KEEP, value_parser = size::bytes)]
    #[arg(requires = "parquet")]
    parquet_keep: u64,
    /// After how long files are closed, so that others can read them, and new ones begun
    #[arg(long, value_name = "SPAN", default_value = EVERY, value_parser = span::wall)]
    #[arg(requires = "parquet")]
    parquet_every: Duration,
}

/// A history, and where it is.
pub(super) struct Kept {
    dir: PathBuf,
    history: History,
}

impl Kept {
    /// Begins it, if it is wanted.
    pub(super) fn open(args: &HistoryArgs) -> Result<Option<Self>, Fail> {
        let Some(dir) = args.parquet.clone() else { return Ok(None) };
        let options =
            Options { dir: dir.clone(), bytes_max: args.parquet_keep, every: args.parquet_every };
        let tables = observe::tables().map(|(name, _, schema)| (name, schema)).to_vec();
        let history = History::open(options, tables);
        let history = history.map_err(|error| Fail::Host(said(&dir, &error.to_string())))?;
        Ok(Some(Kept { dir, history }))
    }

    /// Adds an interval. Returns what there is to say.
    pub(super) fn add(&mut self, snapshot: &Snapshot, findings: &[Finding]) -> Vec<String> {
        let batches = observe::batches(snapshot, findings).into();
        self.history.add(snapshot.unix_ms, batches);
        self.history.told().iter().map(|text| said(&self.dir, text)).collect()
    }

    /// Closes what is open, and says what there is to say.
    pub(super) fn finish(self) {
        for text in self.history.finish() {
            out::note(&said(&self.dir, &text));
        }
    }
}

fn said(dir: &Path, text: &str) -> String {
    format!("{}: {text}", lowtail_out::path(dir))
}
