//! One stream in time order out of the windows of many pCPUs, in bounded memory.
//!
//! `xentrace` polls the pCPUs in ascending order and writes a window for each that has records. A
//! *round* is a run of windows with ascending pCPU numbers. A pCPU's buffer is read empty in
//! every round, so every record that was written before round `k` began stands in a round up to
//! `k`; and every time stamp of round `k - 1` was taken before round `k` began. Hence: once round
//! `k` has been read, all records up to the latest time stamp of round `k - 1` are there.
//!
//! One more round is held back for the sake of lost records. A pCPU whose buffer is full says so
//! in its next record after the buffer was read, that is, one round later; its loss reaches back
//! to a time at which other pCPUs' records must not have been handed out yet. Only a pCPU that
//! stays silent for a round after it lost records is known too late; that is counted.
//!
//! Memory: the records of three rounds that the analysis needs, at most [`QUEUE_RECORDS_MAX`] of
//! 40 bytes. A file with longer rounds has the earliest half handed out early. A record that
//! then turns up with a time before what was handed out is *late*: it is counted, and the vCPU
//! and the pCPU that it names become unknown until they are seen again. The same befalls a record
//! whose time runs backwards on its own pCPU.

use std::io::Read;

use crate::clock::HzMeter;
use crate::error::Error;
use crate::order::{Happened, Order};
use crate::reader::{Item, Reader};
use crate::record::{Record, Runstate, event};
use crate::tables::ByPcpu;

/// At most so many records wait for their turn.
pub const QUEUE_RECORDS_MAX: usize = 4 << 20;

const WORDS_KEPT: usize = 4;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record.
    Record,
    /// From here on, records of the pCPU are missing.
    LossBegin,
    /// And until here.
    LossEnd,
}

/// A record, or an edge of a loss, at its place in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) tsc: u64,
    pub(crate) offset: u64,
    pub(crate) event: u32,
    pub(crate) words: [u32; WORDS_KEPT],
    pub(crate) pcpu: u16,
    pub(crate) kind: Kind,
    pub(crate) late: bool,
}

impl Happened for Timed {
    fn at(&self) -> u64 {
        self.tsc
    }

    fn pcpu(&self) -> u16 {
        self.pcpu
    }
}

/// What did not go smoothly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeProblems {
    /// Records out of time order.
    pub(crate) late_records: u64,
    /// Losses whose begin lay before what had already been handed out.
    pub(crate) late_losses: u64,
    /// Records with fewer words than their event has.
    pub(crate) short_records: u64,
    /// Records without a time on pCPUs that had none yet.
    pub(crate) untimed_records: u64,
    /// Records that Xen says it dropped.
    pub(crate) lost_records: u64,
}

/// The times of one pCPU's records.
#[derive(Debug, Default)]
struct Times {
    first_tsc: Option<u64>,
    last_tsc: Option<u64>,
}

/// Merges the pCPUs' records.
#[derive(Debug)]
pub(crate) struct Merger<R> {
    reader: Reader<R>,
    order: Order<Timed>,
    times: ByPcpu<Times>,
    round_pcpu: Option<u16>,
    /// Latest time stamp up to the end of the rounds before the last, the last and this one.
    latest: [Option<u64>; 3],
    handed_out: Option<u64>,
    ended: bool,
    span: Option<(u64, u64)>,
    pub(crate) problems: MergeProblems,
    pub(crate) meter: HzMeter,
}

impl<R: Read> Merger<R> {
    pub(crate) fn new(input: R) -> Self {
        Self::with_queue_max(input, QUEUE_RECORDS_MAX)
    }

    fn with_queue_max(input: R, queue_max: usize) -> Self {
        Merger {
            reader: Reader::new(input),
            order: Order::new(queue_max),
            times: ByPcpu::default(),
            round_pcpu: None,
            latest: [None; 3],
            handed_out: None,
            ended: false,
            span: None,
            problems: MergeProblems::default(),
            meter: HzMeter::default(),
        }
    }

    /// Earliest and latest time stamp of any record read so far.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// The pCPU's first time stamp.
    pub(crate) fn first_tsc(&self, pcpu: u16) -> Option<u64> {
        self.times.get(pcpu).and_then(|times| times.first_tsc)
    }

    /// The next item in time order, `None` at the end.
    pub(crate) fn next_timed(&mut self) -> Result<Option<Timed>, Error> {
        loop {
            if let Some(timed) = self.pop() {
                return Ok(Some(timed));
            }
            if self.ended {
                return Ok(None);
            }
            match self.reader.next_item()? {
                None => {
                    self.ended = true;
                    self.order.complete_to(Some(u64::MAX));
                }
                Some(Item::Window { pcpu, .. }) => self.window(pcpu),
                Some(Item::Record(record)) => self.record(&record),
            }
        }
    }

    fn window(&mut self, pcpu: u16) {
        if self.round_pcpu.is_some_and(|last| pcpu <= last) {
            // A round is complete: see the head of this file.
            self.order.complete_to(self.latest[0]);
            self.latest = [self.latest[1], self.latest[2], self.latest[2]];
        }
        self.round_pcpu = Some(pcpu);
    }

    fn record(&mut self, record: &Record) {
        self.meter.record(record);
        let times = self.times.get_or_insert_with(record.pcpu, Times::default);
        let before = times.last_tsc;
        let late = matches!((record.tsc, before), (Some(tsc), Some(last)) if tsc < last);
        let Some(tsc) = record.tsc.max(before) else {
            self.problems.untimed_records += u64::from(record.event != event::WRAP_BUFFER);
            return;
        };
        times.first_tsc = times.first_tsc.or(Some(tsc));
        times.last_tsc = Some(tsc);
        self.span = Some(self.span.map_or((tsc, tsc), |(a, b)| (a.min(tsc), b.max(tsc))));
        self.latest[2] = self.latest[2].max(Some(tsc));
        let Some(words_min) = words_needed(record.event) else { return };
        if record.word_count < words_min {
            self.problems.short_records += 1;
            return;
        }
        let mut words = [0; WORDS_KEPT];
        words.copy_from_slice(&record.words[..WORDS_KEPT]);
        let (pcpu, offset, event) = (record.pcpu, record.offset, record.event);
        let mut timed = Timed { tsc, offset, event, words, pcpu, kind: Kind::Record, late };
        if event == event::LOST_RECORDS {
            self.problems.lost_records += u64::from(words[0]);
            let begin = u64::from(words[2]) | u64::from(words[3]) << 32;
            let begin = begin.max(before.unwrap_or(0)).min(tsc);
            self.order.push(Timed { tsc: begin, kind: Kind::LossBegin, late: false, ..timed });
            timed.kind = Kind::LossEnd;
        }
        self.order.push(timed);
    }

    fn pop(&mut self) -> Option<Timed> {
        let mut timed = self.order.pop()?;
        if let Some(last) = self.handed_out.filter(|&last| timed.tsc < last) {
            if timed.kind == Kind::LossBegin {
                self.problems.late_losses += 1;
            } else {
                timed.late = true;
            }
            timed.tsc = last;
        }
        self.problems.late_records += u64::from(timed.late);
        self.handed_out = Some(timed.tsc);
        Some(timed)
    }
}

/// How many words the analysis reads of an event; `None` if it does not need the event at all.
fn words_needed(number: u32) -> Option<u8> {
    if Runstate::change(number).is_some() {
        return Some(1);
    }
    Some(match number {
        event::LOST_RECORDS => 4,
        event::CONTINUE_RUNNING | event::RUNQ_CAND_CHECK | event::TICKLE => 1,
        event::CSCHED_RATELIMIT | event::RATELIMIT | event::CSCHED_TICKLE => 1,
        event::CSCHED_BOOST_START | event::CSCHED_BOOST_END => 2,
        event::SCHEDULE | event::CSCHED_SCHEDULE => 0,
        event::SWITCH_INFNEXT => 4,
        event::WAKE | event::YIELD | event::BLOCK | event::SWITCH_INFCONT => 2,
        event::CREDIT_BURN | event::CREDIT_RESET | event::TICKLE_CHECK => 3,
        event::TICKLE_NEW | event::RUNQ_CANDIDATE => 3,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of wake records at the given times.
    fn window(bytes: &mut Vec<u8>, pcpu: u32, times: &[u64]) {
        let mut put = |word: u32| bytes.extend(word.to_le_bytes());
        [0x2001_f003, pcpu, times.len() as u32 * 20].into_iter().for_each(&mut put);
        for &tsc in times {
            let record = [0xa002_8004, tsc as u32, (tsc >> 32) as u32, 1, 0];
            record.into_iter().for_each(&mut put);
        }
    }

    fn merged(bytes: &[u8], queue_max: usize) -> (Vec<(u64, u16)>, MergeProblems, usize) {
        let mut merger = Merger::with_queue_max(bytes, queue_max);
        let (mut order, mut queued_max) = (Vec::new(), 0);
        while let Some(timed) = merger.next_timed().unwrap() {
            order.push((timed.tsc, timed.pcpu));
            queued_max = queued_max.max(merger.order.queued() + 1);
        }
        (order, merger.problems, queued_max)
    }

    #[test]
    fn merges_across_rounds() {
        // Round 1 ends, for pCPU 1, later than round 2 begins for pCPU 0; pCPU 0 is silent in
        // round 3, and pCPU 2 appears in round 3 for the first time.
        let mut bytes = Vec::new();
        window(&mut bytes, 0, &[10, 30]);
        window(&mut bytes, 1, &[20, 50]);
        window(&mut bytes, 0, &[40, 60]);
        window(&mut bytes, 1, &[55, 90]);
        window(&mut bytes, 1, &[95]);
        window(&mut bytes, 2, &[91, 96]);
        window(&mut bytes, 0, &[100]);
        let (order, problems, _) = merged(&bytes, usize::MAX);
        let times: Vec<u64> = order.iter().map(|&(tsc, _)| tsc).collect();
        assert_eq!(times, [10, 20, 30, 40, 50, 55, 60, 90, 91, 95, 96, 100]);
        assert_eq!(problems, MergeProblems::default());
    }

    #[test]
    fn equal_times_go_by_pcpu() {
        let mut bytes = Vec::new();
        window(&mut bytes, 3, &[7, 7]);
        window(&mut bytes, 1, &[7]);
        assert_eq!(merged(&bytes, usize::MAX).0, [(7, 1), (7, 3), (7, 3)]);
    }

    #[test]
    fn memory_is_bounded_by_three_rounds() {
        let mut bytes = Vec::new();
        for round in 0..1000 {
            window(&mut bytes, 0, &[round * 10, round * 10 + 4]);
            window(&mut bytes, 1, &[round * 10 + 2, round * 10 + 6]);
        }
        let (order, problems, queued_max) = merged(&bytes, usize::MAX);
        assert_eq!(order.len(), 4000);
        assert!(order.is_sorted());
        assert_eq!(problems, MergeProblems::default());
        assert!(queued_max <= 16, "{queued_max} records queued, 4 in a round");
    }

    #[test]
    fn too_long_rounds_are_handed_out_early_and_late_records_counted() {
        // One round in which pCPU 1's records all lie before those of pCPU 0.
        let mut bytes = Vec::new();
        window(&mut bytes, 0, &(100..200).collect::<Vec<_>>());
        window(&mut bytes, 1, &(0..20).collect::<Vec<_>>());
        let (order, problems, _) = merged(&bytes, 50);
        assert_eq!(order.len(), 120);
        assert!(order.is_sorted_by_key(|&(tsc, _)| tsc));
        assert_eq!(problems.late_records, 20);
    }

    /// A loss of 9 records on pCPU 1, from 25 to 60.
    fn loss(bytes: &mut Vec<u8>) {
        let words = [0x2001_f003, 1, 28, 0xc001_f001, 60, 0, 9, 0, 25, 0];
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }

    #[test]
    fn a_loss_begins_in_its_place_in_time() {
        // The loss from 25 to 60 is known only in round 2.
        let mut bytes = Vec::new();
        window(&mut bytes, 0, &[10, 30]);
        window(&mut bytes, 1, &[20]);
        window(&mut bytes, 0, &[40, 70]);
        loss(&mut bytes);
        window(&mut bytes, 0, &[80]);
        let (order, problems, _) = merged(&bytes, usize::MAX);
        let expected = [(10, 0), (20, 1), (25, 1), (30, 0), (40, 0), (60, 1), (70, 0), (80, 0)];
        assert_eq!(order, expected);
        assert_eq!(problems, MergeProblems { lost_records: 9, ..MergeProblems::default() });
    }

    #[test]
    fn a_loss_known_too_late_is_counted() {
        // The same, but pCPU 1 is silent until round 4, when 30 has long been handed out.
        let mut bytes = Vec::new();
        window(&mut bytes, 0, &[10, 30]);
        window(&mut bytes, 1, &[20]);
        window(&mut bytes, 0, &[40]);
        window(&mut bytes, 0, &[50]);
        window(&mut bytes, 0, &[55]);
        loss(&mut bytes);
        let (order, problems, _) = merged(&bytes, usize::MAX);
        assert!(order.is_sorted_by_key(|&(tsc, _)| tsc));
        assert_eq!((problems.late_losses, problems.late_records), (1, 0));
    }

    #[test]
    fn time_running_backwards_is_late() {
        let mut bytes = Vec::new();
        window(&mut bytes, 0, &[10, 5, 12]);
        let (order, problems, _) = merged(&bytes, usize::MAX);
        assert_eq!(order, [(10, 0), (10, 0), (12, 0)]);
        assert_eq!(problems.late_records, 1);
    }
}
