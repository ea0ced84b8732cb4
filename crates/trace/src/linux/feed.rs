//! A Linux host's events, told to the schedule.
//!
//! What the events mean (`kernel/sched/core.c`, `__schedule()` and `try_to_wake_up()`):
//!
//! * A thread that leaves its CPU in a sleeping state, not preempted in the kernel, is dequeued: it blocks. One
//!   that leaves it otherwise wants to go on. The kernel counts the latter as an involuntary switch, and
//!   here it is a preemption, whether it was taken off its CPU, has yielded, or was woken in the middle of going to sleep.
//! * `sched_wakeup` is told when a thread has been put into a CPU's queue, or while it still runs or waits and is told
//!   not to sleep. The latter starts no wait.
//! * The idle thread, number 0 on each CPU, runs when no thread in the CPU's queue may.

use std::io::Read;

use super::event::{Event, IDLE, Item, Left, UNKNOWN, What};
use super::perf::Perf;
use super::recording::{Facts, Queues, Recording};
use super::threads::{THREADS_MAX, Threads};
use super::{Format, Trigger, bytes::Bytes};
use crate::cores::CpuPlace;
use crate::error::Error;
use crate::merge::QUEUE_RECORDS_MAX;
use crate::options::Options;
use crate::order::Order;
use crate::problems::RecordProblems;
use crate::record::Runstate;
use crate::schedule::{Observer, Schedule, WaitEnd};
use crate::tables::ByPcpu;
use crate::vcpu::{Label, State};

/// The key of the idle thread of CPU n is this and n.
const IDLE_KEY: u32 = 1 << 31;

/// A file of one of the formats.
#[derive(Debug)]
pub(crate) enum File<R> {
    Recording(Box<Recording<R>>),
    Perf(Box<Perf<R>>),
}

impl<R: Read> File<R> {
    pub(crate) fn open(format: Format, input: R, options: &Options) -> Result<Self, Error> {
        let bytes = Bytes::new(input);
        Ok(match format {
            Format::Recording => File::Recording(Box::new(Recording::open(bytes)?)),
            Format::Perf => File::Perf(Box::new(Perf::open(bytes, options.perf_layout.clone())?)),
        })
    }

    pub(crate) fn next_item(&mut self) -> Result<Option<Item>, Error> {
        match self {
            File::Recording(file) => file.next_item(),
            File::Perf(file) => file.next_item(),
        }
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            File::Recording(file) => file.offset(),
            File::Perf(file) => file.offset(),
        }
    }

    /// How many pieces were skipped, of kinds that are not known.
    pub(crate) fn unknown(&self) -> u64 {
        match self {
            File::Recording(file) => file.unknown,
            File::Perf(file) => file.unknown(),
        }
    }

    pub(crate) fn threads(&self) -> &Threads {
        match self {
            File::Recording(file) => &file.threads,
            File::Perf(file) => &file.threads,
        }
    }

    /// Waits that made the recorder keep the recording, in order of time.
    pub(crate) fn triggers(&self) -> &[Trigger] {
        match self {
            File::Recording(file) => &file.triggers,
            File::Perf(_) => &[],
        }
    }

    /// Where the CPUs are, as far as the file says.
    pub(crate) fn places(&self) -> &[CpuPlace] {
        match self {
            File::Recording(file) => &file.places,
            File::Perf(_) => &[],
        }
    }

    /// Who filled the uplinks, as far as it has been read: over all of it, and interval by interval.
    pub(crate) fn queues(&self) -> Option<&Queues> {
        match self {
            File::Recording(file) => Some(&file.queues),
            File::Perf(_) => None,
        }
    }

    /// How the host schedules, as far as the file has said so by now; threads' attributes may come at its end.
    pub(crate) fn facts(&self) -> Option<&Facts> {
        match self {
            File::Recording(file) => Some(&file.facts),
            File::Perf(_) => None,
        }
    }

    /// The kernel's release, if the file has it.
    pub(crate) fn kernel(&self) -> Option<&str> {
        match self {
            File::Recording(file) => Some(&file.about.kernel),
            File::Perf(_) => None,
        }
    }

    /// When the recording begins and ends, as far as the file says.
    pub(crate) fn stated(&self) -> (Option<u64>, Option<u64>) {
        match self {
            File::Recording(file) => (Some(file.about.begin_ns), file.end.map(|end| end.end_ns)),
            File::Perf(_) => (None, None),
        }
    }
}

/// How far a CPU's events have been read.
#[derive(Debug, Default)]
struct CpuProgress {
    last_ns: Option<u64>,
    /// Events were lost since.
    losing: bool,
}

/// Reads a file and feeds a schedule.
#[derive(Debug)]
pub(crate) struct Feed<R> {
    file: File<R>,
    order: Order<Event>,
    cpus: ByPcpu<CpuProgress>,
    /// The latest time of all, and when the last round ended.
    latest: [Option<u64>; 2],
    span: Option<(u64, u64)>,
    handed_out: u64,
    ended: bool,
    problems: RecordProblems,
}

impl<R: Read> Feed<R> {
    pub(crate) fn new(format: Format, input: R, options: &Options) -> Result<Self, Error> {
        let file = File::open(format, input, options)?;
        let span = file.stated().0.map(|begin| (begin, begin));
        Ok(Feed {
            file,
            order: Order::new(QUEUE_RECORDS_MAX),
            cpus: ByPcpu::default(),
            latest: [None; 2],
            span,
            handed_out: 0,
            ended: false,
            problems: RecordProblems::default(),
        })
    }

    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    pub(crate) fn problems(&self) -> RecordProblems {
        self.problems
    }

    /// See [`File::queues`].
    pub(crate) fn queues(&self) -> Option<&Queues> {
        self.file.queues()
    }

    /// What has been read of the file besides events.
    pub(crate) fn file(&self) -> &File<R> {
        &self.file
    }

    /// See [`crate::source::Source::follow`].
    pub(crate) fn follow<O: Observer>(&mut self, schedule: &mut Schedule<O>) -> Result<(), Error> {
        let (mut begun, mut marked) = (false, 0);
        while let Some(event) = self.next_event()? {
            let begin = self.span.map_or(event.at_ns, |(begin, _)| begin);
            if !begun {
                schedule.observer.begin(begin);
                schedule.observer.places(self.file.places());
                begun = true;
            }
            while let Some(trigger) =
                self.file.triggers().get(marked).filter(|t| t.at_ns <= event.at_ns)
            {
                marked += 1;
                let number = self.number(schedule, &event, trigger.tid)?;
                let vcpu = schedule.vcpus.get(number);
                schedule.observer.mark(vcpu, number, trigger.at_ns, "waited too long")?;
            }
            schedule.register_pcpu(event.cpu, begin);
            self.tell(schedule, &event)?;
        }
        for number in 0..schedule.vcpus.len() {
            // What was said of a thread after it was first seen.
            let vcpu = schedule.vcpus.get_mut(number);
            if let Some(tid) = vcpu.label.thread.as_ref().map(|thread| thread.tid)
                && schedule.vcpus.find(tid) == Some(number)
            {
                schedule.vcpus.get_mut(number).label = self.file.threads().label(tid);
            }
        }
        match self.span {
            Some((_, end)) => schedule.finish(end),
            None => Ok(()),
        }
    }

    /// The next one in time.
    pub(crate) fn next_event(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(mut event) = self.order.pop() {
                if event.at_ns < self.handed_out {
                    event.late = true;
                    event.at_ns = self.handed_out;
                }
                self.problems.late += u64::from(event.late);
                self.handed_out = event.at_ns;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.file.next_item()? {
                None => {
                    self.ended = true;
                    self.order.complete_to(Some(u64::MAX));
                    if let (Some((_, end)), Some(stated)) = (&mut self.span, self.file.stated().1) {
                        *end = stated.max(*end);
                    }
                }
                Some(Item::Round(Some(mark))) => self.order.complete_to(Some(mark)),
                Some(Item::Round(None)) => {
                    let [latest, before] = self.latest;
                    self.order.complete_to(before);
                    self.latest = [latest, latest];
                }
                Some(Item::Piece { cpu, lost, .. }) => {
                    let progress = self.cpus.get_or_insert_with(cpu, CpuProgress::default);
                    progress.losing |= lost > 0;
                    self.problems.lost = self.problems.lost.saturating_add(lost);
                }
                Some(Item::Event(event, _)) => self.queue(event),
            }
        }
    }

    fn queue(&mut self, mut event: Event) {
        let at = event.at_ns;
        self.span = Some(self.span.map_or((at, at), |(a, b)| (a.min(at), b.max(at))));
        self.latest[0] = self.latest[0].max(Some(at));
        let begin = self.span.map_or(at, |(begin, _)| begin);
        let progress = self.cpus.get_or_insert_with(event.cpu, CpuProgress::default);
        if let Some(last) = progress.last_ns.filter(|&last| at < last) {
            event.late = true;
            event.at_ns = last;
        }
        if progress.losing && event.runner() != UNKNOWN {
            progress.losing = false;
            let at_ns = progress.last_ns.unwrap_or(begin);
            self.order.push(Event { at_ns, what: What::LossBegin, late: false, ..event });
            let what = What::LossEnd { runs: event.runner() };
            self.order.push(Event { what, late: false, ..event });
        }
        progress.last_ns = Some(event.at_ns);
        self.order.push(event);
    }

    fn tell<O: Observer>(&self, schedule: &mut Schedule<O>, event: &Event) -> Result<(), Error> {
        let place = (event.at_ns, event.cpu);
        match event.what {
            What::LossBegin => schedule.loss_begins(event.cpu, event.at_ns),
            What::LossEnd { runs } => {
                let number = self.number(schedule, event, runs)?;
                schedule.loss_ends(event.cpu, event.at_ns, number)
            }
            What::Wake { tid, on, .. } if tid != IDLE => {
                let number = self.number(schedule, event, tid)?;
                if event.late {
                    return schedule.lose(number, event.at_ns, WaitEnd::Inconsistent);
                }
                schedule.vcpus.get_mut(number).queued_on = on;
                match schedule.vcpus.get(number).state {
                    State::Running { .. } | State::Waiting { .. } => Ok(()),
                    State::Resting { .. } | State::Unknown => {
                        schedule.change(place, number, Runstate::Blocked, Runstate::Runnable)
                    }
                }
            }
            What::Wake { .. } => Ok(()),
            What::Switch { prev, left, next } => {
                let out = self.number(schedule, event, prev)?;
                let into = self.number(schedule, event, next)?;
                if event.late {
                    schedule.lose(out, event.at_ns, WaitEnd::Inconsistent)?;
                    return schedule.lose(into, event.at_ns, WaitEnd::Inconsistent);
                }
                let new = match left {
                    Left::Runnable => Runstate::Runnable,
                    Left::Blocked | Left::Dead => Runstate::Blocked,
                };
                let new = if prev == IDLE { Runstate::Runnable } else { new };
                schedule.expect(event.cpu, out);
                schedule.vcpus.get_mut(out).queued_on = Some(event.cpu);
                schedule.change(place, out, Runstate::Running, new)?;
                if left == Left::Dead && prev != IDLE {
                    // Nothing more comes of it, and its number may be given to another.
                    schedule.vcpus.get_mut(out).label = self.file.threads().label(prev);
                    schedule.vcpus.get_mut(out).state = State::Unknown;
                    schedule.vcpus.forget(prev);
                }
                let old = match schedule.vcpus.get(into).state {
                    State::Resting { .. } => Runstate::Blocked,
                    // If it is thought to run elsewhere, that contradicts this, and is counted.
                    _ => Runstate::Runnable,
                };
                schedule.change(place, into, old, Runstate::Running)
            }
        }
    }

    /// The thread's number in the schedule.
    fn number<O: Observer>(
        &self,
        schedule: &mut Schedule<O>,
        event: &Event,
        tid: u32,
    ) -> Result<usize, Error> {
        let key = if tid == IDLE { IDLE_KEY | u32::from(event.cpu) } else { tid };
        if let Some(number) = schedule.vcpus.find(key) {
            return Ok(number);
        }
        let label = if tid == IDLE {
            let rank = (u32::MAX, 0, event.cpu.into());
            Label { name: "idle".to_owned(), idle: true, rank, thread: None }
        } else {
            self.file.threads().label(tid)
        };
        let added = schedule.vcpus.add(key, label, THREADS_MAX);
        added.map_err(|_| Error::ThreadLimit { offset: event.offset, max: THREADS_MAX })
    }
}
