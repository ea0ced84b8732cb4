//! What happened to threads, event after event.

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;

use arrow_array::builder::{UInt16Builder, UInt32Builder};
use arrow_array::{BooleanArray, Float64Array, RecordBatch, UInt16Array};
use arrow_schema::{DataType, SchemaRef};
use lowtail_trace::events::{Event, IDLE, RecordedHost, UNKNOWN, What};
use lowtail_trace::{Error, Options};

use crate::column::field;
use crate::table::{Once, beside};
use crate::word::{context, left};
use crate::words::Words;

/// Rows of a batch at most: a row takes some 50 bytes.
const BATCH_ROWS: usize = 1 << 18;

/// The schema of batches of events.
pub fn events_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.get(|| {
        let word = |name: &str, null, meaning| field(name, Words::data_type(), null, "", meaning);
        let tid = |name: &str, meaning| field(name, DataType::UInt32, true, "", meaning);
        vec![
            field("time_seconds", DataType::Float64, false, "s", "When, since the first event."),
            field("cpu", DataType::UInt16, false, "", "The CPU on which it happened."),
            word(
                "event",
                false,
                "`switch`: one thread made place for another; `wake`: a thread can run from now on; `loss-begin`, `loss-end`: events of the CPU are missing between these.",
            ),
            tid(
                "tid",
                "Who runs from now on; of a wake-up who is woken. 0: the CPU is idle. Null where it is not known, in this column as in the next ones.",
            ),
            tid("prev_tid", "Who left the CPU."),
            word("left", true, "Why: `runnable` (it could go on), `blocked` or `dead`."),
            tid("waker_tid", "Who woke the thread, or was interrupted by what woke it."),
            word(
                "context",
                true,
                "Where it was woken: by a `thread`, in a `hard-interrupt` or in a `soft-interrupt`.",
            ),
            field(
                "target_cpu",
                DataType::UInt16,
                true,
                "",
                "The CPU in whose queue the woken thread is.",
            ),
            field(
                "late",
                DataType::Boolean,
                false,
                "",
                "It came too late for its place in the order: when it happened is not known.",
            ),
        ]
    })
}

/// Events on their way into columns.
pub struct Events {
    first_ns: Option<u64>,
    times: Vec<f64>,
    cpus: Vec<u16>,
    events: Words,
    tids: UInt32Builder,
    prev_tids: UInt32Builder,
    left: Words,
    wakers: UInt32Builder,
    contexts: Words,
    targets: UInt16Builder,
    late: Vec<bool>,
    seen: BTreeSet<u32>,
}

impl Default for Events {
    fn default() -> Self {
        Events::new()
    }
}

impl Events {
    /// None yet.
    pub fn new() -> Self {
        Events {
            first_ns: None,
            times: Vec::new(),
            cpus: Vec::new(),
            events: Words::default(),
            tids: UInt32Builder::new(),
            prev_tids: UInt32Builder::new(),
            left: Words::default(),
            wakers: UInt32Builder::new(),
            contexts: Words::default(),
            targets: UInt16Builder::new(),
            late: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Adds one. Returns a batch when there are enough for one.
    pub fn add(&mut self, event: &Event) -> Option<RecordBatch> {
        let first_ns = *self.first_ns.get_or_insert(event.at_ns);
        self.times.push(lowtail_out::seconds::of_ns(event.at_ns.saturating_sub(first_ns)));
        self.cpus.push(event.cpu);
        self.late.push(event.late);
        let (word, tid, mut prev, mut waker) = match event.what {
            What::Switch { prev, next, .. } => ("switch", Some(next), Some(prev), None),
            What::Wake { tid, by, .. } => ("wake", Some(tid), None, Some(by)),
            What::LossBegin => ("loss-begin", None, None, None),
            What::LossEnd { runs } => ("loss-end", Some(runs), None, None),
        };
        let (mut why, mut place, mut target) = (None, None, None);
        match event.what {
            What::Switch { left, .. } => why = Some(self::left(left)),
            What::Wake { on, context, .. } => (place, target) = (self::context(context), on),
            What::LossBegin | What::LossEnd { .. } => {}
        }
        let mut tid = tid;
        for who in [&mut tid, &mut prev, &mut waker] {
            *who = who.filter(|&tid| tid != UNKNOWN);
            self.seen.extend(who.filter(|&tid| tid != IDLE));
        }
        let key = self.events.key(word);
        self.events.push(Some(key));
        self.tids.append_option(tid);
        self.prev_tids.append_option(prev);
        let key = why.map(|why| self.left.key(why));
        self.left.push(key);
        self.wakers.append_option(waker);
        let key = place.map(|place| self.contexts.key(place));
        self.contexts.push(key);
        self.targets.append_option(target);
        (self.times.len() >= BATCH_ROWS).then(|| self.batch())
    }

    /// What there is no batch of yet.
    pub fn batch(&mut self) -> RecordBatch {
        let take = std::mem::take::<Words>;
        let rows = self.times.len();
        let columns = vec![
            Arc::new(Float64Array::from(std::mem::take(&mut self.times))) as _,
            Arc::new(UInt16Array::from(std::mem::take(&mut self.cpus))) as _,
            take(&mut self.events).array(),
            Arc::new(self.tids.finish()) as _,
            Arc::new(self.prev_tids.finish()) as _,
            take(&mut self.left).array(),
            Arc::new(self.wakers.finish()) as _,
            take(&mut self.contexts).array(),
            Arc::new(self.targets.finish()) as _,
            Arc::new(BooleanArray::from(std::mem::take(&mut self.late))) as _,
        ];
        beside(events_schema(), columns, rows)
    }

    /// Numbers of all threads that there have been events of.
    pub fn tids(&self) -> impl Iterator<Item = u32> {
        self.seen.iter().copied()
    }
}

/// Calls `each` with the events of a trace, a batch after the other. Returns what the trace says of its host, and the threads
/// that there are events of, as [`threads`](super::threads()) takes them.
///
/// # Errors
/// If the input cannot be read or is not a whole, well-formed trace, and what `each` returns.
pub fn events<R: Read>(
    input: R,
    options: &Options,
    mut each: impl FnMut(RecordBatch) -> Result<(), Error>,
) -> Result<(RecordedHost, Vec<u32>), Error> {
    let mut events = Events::new();
    let host = lowtail_trace::events::events(input, options, |event, _| {
        events.add(event).map_or(Ok(()), &mut each)
    })?;
    each(events.batch())?;
    Ok((host, events.tids().collect()))
}
