//! A history of what goes on for months: Parquet files in a directory, within a bound of bytes.
//!
//! `DIR/TABLE/20261130T164458.000Z.parquet` has the lines of one table from that time on (UTC), for as long as the [`Options`] say. All tables
//! of the same time are closed together. Before their bytes would be more than the bound, the oldest ones are deleted.
//!
//! What a file is called by is all there: it gets its name when it is on the disk (see [`lowtail_out::Output`]), so that neither a reader nor a
//! kill at any moment meets half of one. What is not closed yet is lost by a kill. Where nothing can be written (a full disk, a
//! directory that is gone), its lines are lost, the next ones are tried again, and [`History::told`] says so once.
//!
//! A thread of its own writes, since a disk may take seconds for what a second brings.

mod keeper;
mod name;
mod segment;
mod store;

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::Error;
use keeper::{Interval, Keeper};
use store::Store;

/// Intervals that may wait for the disk; further ones are left out.
const WAITING_MAX: usize = 60;

/// How much is kept, and how often it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The directory. It is created if it does not exist.
    pub dir: PathBuf,
    /// Bytes of all files together at most.
    pub bytes_max: u64,
    /// After how long files are closed, and others begun.
    pub every: Duration,
}

/// A history in the making.
pub struct History {
    intervals: Option<SyncSender<Interval>>,
    thread: Option<JoinHandle<()>>,
    told: Arc<Mutex<Vec<String>>>,
    /// Intervals that there was no room for since the last one that there was.
    left_out: u64,
}

impl History {
    /// Begins to keep lines of tables with these names and schemas. What an earlier run that was killed has left unfinished is removed.
    ///
    /// # Errors
    /// If nothing can be written to the directory, or another process keeps its history there.
    pub fn open(options: Options, tables: Vec<(&'static str, SchemaRef)>) -> Result<Self, Error> {
        let names = tables.iter().map(|(name, _)| *name).collect();
        let store = Store::open(&options.dir, names, options.bytes_max)?;
        let told = Arc::new(Mutex::new(Vec::new()));
        let keeper = Keeper::new(store, tables, options.every, told.clone());
        let (intervals, taken) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("history".to_owned());
        let thread = thread.spawn(move || keeper.run(&taken))?;
        Ok(History { intervals: Some(intervals), thread: Some(thread), told, left_out: 0 })
    }

    /// Adds an interval that ended at a time, in milliseconds since 1970 (UTC): the lines of each table, in their order. It never waits.
    pub fn add(&mut self, unix_ms: u64, batches: Vec<RecordBatch>) {
        let Some(intervals) = &self.intervals else { return };
        match intervals.try_send((unix_ms, batches)) {
            Ok(()) => self.left_out = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                if self.left_out == 0 {
                    let text = "the disk takes too long: intervals are missing in the history";
                    tell(&self.told, text.to_owned());
                }
                self.left_out += 1;
            }
        }
    }

    /// What there is to say since the last call: that nothing can be written, or can be again.
    pub fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes what is open. Returns what there is to say.
    #[must_use]
    pub fn finish(mut self) -> Vec<String> {
        self.end();
        self.told()
    }

    fn end(&mut self) {
        // Without a sender the thread closes what is open, and ends.
        self.intervals = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tell(&self.told, "it ended by a mistake of lowtail's own".to_owned());
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.end();
    }
}

fn tell(told: &Mutex<Vec<String>>, text: String) {
    told.lock().unwrap_or_else(PoisonError::into_inner).push(text);
}
