//! The thread that closes files and writes them.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::segment::Segment;
use super::store::Store;
use super::tell;

/// Files are closed early when they take so much memory.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// When an interval ended, in milliseconds since 1970 (UTC), and the lines of each table.
pub(super) type Interval = (u64, Vec<RecordBatch>);

/// What it works on.
pub(super) struct Keeper {
    store: Store,
    tables: Vec<(&'static str, SchemaRef)>,
    every: Duration,
    open: Option<(Segment, Instant)>,
    /// Nothing could be written last time, and it has been said.
    failing: bool,
    told: Arc<Mutex<Vec<String>>>,
}

impl Keeper {
    pub(super) fn new(
        store: Store,
        tables: Vec<(&'static str, SchemaRef)>,
        every: Duration,
        told: Arc<Mutex<Vec<String>>>,
    ) -> Self {
        Keeper { store, tables, every, open: None, failing: false, told }
    }

    /// Until nobody has intervals any more.
    pub(super) fn run(mut self, intervals: &Receiver<Interval>) {
        loop {
            let interval = match self.open.as_ref().map(|(_, due)| *due) {
                Some(due) => intervals.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => intervals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let done = match interval {
                Ok((unix_ms, batches)) => self.add(unix_ms, &batches),
                Err(RecvTimeoutError::Timeout) => self.close(),
                Err(RecvTimeoutError::Disconnected) => {
                    let done = self.close();
                    self.tell(done);
                    return;
                }
            };
            self.tell(done);
        }
    }

    /// Whether something was written; none if that was not to be.
    fn add(&mut self, unix_ms: u64, batches: &[RecordBatch]) -> io::Result<bool> {
        let due = Instant::now() + self.every;
        let (mut segment, due) = match self.open.take() {
            Some(open) => open,
            None => (Segment::new(unix_ms, &self.tables)?, due),
        };
        segment.add(batches)?;
        let is_large = segment.memory_bytes() > MEMORY_BYTES_MAX;
        self.open = Some((segment, due));
        if is_large || Instant::now() >= due { self.close() } else { Ok(false) }
    }

    fn close(&mut self) -> io::Result<bool> {
        let Some((segment, _)) = self.open.take() else { return Ok(false) };
        let from_unix_ms = segment.from_unix_ms;
        self.store.write(from_unix_ms, &segment.close()?)?;
        Ok(true)
    }

    /// Says what went wrong, once, and that it is over.
    fn tell(&mut self, done: io::Result<bool>) {
        match done {
            Err(error) if !self.failing => {
                self.failing = true;
                let text = format!("{error}; what comes until that is over is not in the history");
                tell(&self.told, text);
            }
            Ok(true) if self.failing => {
                self.failing = false;
                tell(&self.told, "it is written again; what came meanwhile is missing".to_owned());
            }
            _ => {}
        }
    }
}
