//! What each thread of a recorded host has done: how long it computed from a wake-up to the next sleep, whom it woke meanwhile, and who or
//! what woke it.

use std::collections::HashMap;

use lowtail_host::{CpuSet, Pcpu};
use lowtail_trace::events::{Context, Event, IDLE, Left, UNKNOWN, What};

use crate::blame::Blame;
use crate::schedule::{Experience, Schedule};
use crate::tick::Ticks;
use crate::ways::{Ways, is_way};

/// Number of a thread in a [`History`]; a thread that ends makes its number in Linux free, but not this one.
pub(crate) type ThreadNumber = usize;

/// A recording may have so many threads, one after the other.
pub(crate) const THREADS_MAX: usize = 1 << 15;

/// Who or what woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WokenBy {
    /// The recording begins with it, or it had been lost.
    Start,
    /// A thread, which has a [`Wake`] for it in the segment that began then.
    Thread {
        /// The thread.
        waker: u32,
        /// When it had been woken for that segment.
        since_ns: u64,
    },
    /// An interrupt, in its hard or its soft part.
    Interrupt(Context),
}

/// What a thread has done from a wake-up to the next sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// When it had gone to sleep before, when it was woken.
    pub(crate) slept_ns: u64,
    pub(crate) woken_ns: u64,
    pub(crate) woken_by: WokenBy,
    /// How long it then waited before it ran.
    pub(crate) wait_ns: u64,
    /// How long it computed.
    pub(crate) work_ns: u64,
    /// Its first wake in [`Thread::wakes`]; those of the next segment follow.
    pub(crate) wakes_from: u32,
}

/// A thread wakes another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wake {
    /// When it has computed for so long in its segment.
    pub(crate) work_ns: u64,
    pub(crate) thread: ThreadNumber,
}

/// How a thread ends its part in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It sleeps.
    Asleep,
    /// It is in the midst of its last segment.
    Busy,
    /// It has ended.
    Dead,
}

/// A thread's part in a recording.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) segments: Vec<Segment>,
    pub(crate) wakes: Vec<Wake>,
    pub(crate) end: End,
    /// How long its wake-ups took where nobody was in their way.
    pub(crate) ways: Ways,
    /// Where it has run.
    pub(crate) cpus: CpuSet,
    /// When it went to sleep.
    slept_ns: u64,
    /// It is in its last segment.
    awake: bool,
    /// Since when it runs, up to which time that is work.
    runs_since: Option<u64>,
}

/// All that threads have done.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) threads: Vec<Thread>,
    pub(crate) ticks: Ticks,
    schedule: Schedule,
    numbers: HashMap<u32, ThreadNumber>,
    /// Who runs on each CPU, since when: the idle thread is nobody.
    cpus: Vec<Option<Running>>,
    begin_ns: Option<u64>,
    /// Pieces that are missing.
    pub(crate) losses: u64,
}

/// Who runs on a CPU.
#[derive(Debug, Clone, Copy)]
struct Running {
    thread: Option<ThreadNumber>,
    since_ns: u64,
}

impl Default for History {
    fn default() -> Self {
        History {
            threads: Vec::new(),
            ticks: Ticks::default(),
            schedule: Schedule::with_blame(),
            numbers: HashMap::new(),
            cpus: Vec::new(),
            begin_ns: None,
            losses: 0,
        }
    }
}

impl History {
    /// Takes an event in, in order of time. `false`: there are too many threads.
    pub(crate) fn event(&mut self, event: &Event) -> bool {
        let now = event.at_ns;
        self.begin_ns.get_or_insert(now);
        let cpu = usize::from(event.cpu);
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, None);
        }
        match event.what {
            What::Wake { tid, by, context, .. } if tid != IDLE => {
                let thread = self.number(tid, now);
                self.wakes(now, thread, by, context);
            }
            What::Wake { .. } => {}
            What::Switch { prev, left, next } => {
                let before = self.cpus[cpu];
                let next = (next != IDLE).then(|| self.number(next, now));
                let prev = (prev != IDLE).then(|| self.number(prev, now));
                if let (None, Some(blame)) = (self.cpus[cpu], &mut self.schedule.blame) {
                    blame.reveal(cpu, self.begin_ns.unwrap_or(now), prev);
                }
                let wait = next.and_then(|next| self.schedule.runs(now, cpu, next));
                if let Some(prev) = prev {
                    self.leaves(now, cpu, prev, left, wait);
                }
                if let (Some(next), Some(before)) = (next, before) {
                    // Who ran, or nobody, has done so since before the wake-up.
                    let wait = wait.filter(|&wait| now - wait >= before.since_ns);
                    let was_idle = before.thread.is_none() && prev.is_none();
                    if let Some(wait) = wait.filter(|_| was_idle || left == Left::Runnable) {
                        self.threads[next].ways.measure(wait, was_idle);
                    }
                }
                if left == Left::Runnable && prev.is_some() && wait.is_none_or(|wait| !is_way(wait))
                {
                    self.ticks.switched(now);
                }
                if let Some(next) = next {
                    self.begins(now, next);
                    if event.cpu < CpuSet::MAX_PCPUS {
                        self.threads[next].cpus.insert(Pcpu(event.cpu));
                    }
                }
                self.cpus[cpu] = Some(Running { thread: next, since_ns: now });
                if left == Left::Dead
                    && let Some(prev) = prev
                {
                    self.threads[prev].end = End::Dead;
                    let tid = self.threads[prev].tid;
                    self.numbers.remove(&tid);
                }
            }
            What::LossBegin => {
                self.losses += 1;
                if let Some(blame) = &mut self.schedule.blame {
                    blame.is_lost(now, cpu);
                }
                if let Some(Running { thread: Some(thread), .. }) = self.cpus[cpu].take() {
                    self.is_lost(now, thread);
                }
            }
            What::LossEnd { runs } if runs != IDLE && runs != UNKNOWN => {
                let thread = self.number(runs, now);
                self.is_lost(now, thread);
                self.schedule.runs(now, cpu, thread);
                self.begins(now, thread);
                self.cpus[cpu] = Some(Running { thread: Some(thread), since_ns: now });
            }
            What::LossEnd { .. } => self.cpus[cpu] = None,
        }
        self.threads.len() <= THREADS_MAX
    }

    /// The recording ends.
    pub(crate) fn finish(&mut self, end_ns: u64) -> Vec<Experience> {
        for thread in &mut self.threads {
            if let Some(since) = thread.runs_since.take() {
                thread.works(end_ns.saturating_sub(since));
            }
            if thread.end != End::Dead && thread.awake {
                thread.end = End::Busy;
            }
        }
        self.schedule.ends(end_ns);
        let mut experience = std::mem::take(&mut self.schedule.experience);
        experience.resize_with(self.threads.len(), Experience::default);
        experience
    }

    /// Who ran while others waited.
    pub(crate) fn take_blame(&mut self) -> Blame {
        self.schedule.blame.take().unwrap_or_default()
    }

    /// The thread that has this number in Linux now.
    pub(crate) fn number_of(&self, tid: u32) -> Option<ThreadNumber> {
        self.numbers.get(&tid).copied()
    }

    fn number(&mut self, tid: u32, now: u64) -> ThreadNumber {
        let begin = self.begin_ns.unwrap_or(now);
        *self.numbers.entry(tid).or_insert_with(|| {
            self.threads.push(Thread {
                tid,
                segments: Vec::new(),
                wakes: Vec::new(),
                end: End::Asleep,
                ways: Ways::default(),
                cpus: CpuSet::EMPTY,
                slept_ns: begin,
                awake: false,
                runs_since: None,
            });
            self.threads.len() - 1
        })
    }

    /// `thread` is woken.
    fn wakes(&mut self, now: u64, thread: ThreadNumber, by: u32, context: Context) {
        if self.threads[thread].awake || !self.schedule.may_wake(thread) {
            return;
        }
        let waker = self.numbers.get(&by).copied().filter(|&waker| waker != thread && by != IDLE);
        let woken_by = match (context, waker) {
            (Context::Thread | Context::Unknown, Some(waker)) => {
                let since_ns = self.note(now, waker, thread);
                since_ns.map(|since_ns| WokenBy::Thread { waker: waker as u32, since_ns })
            }
            _ => None,
        };
        let woken_by = woken_by.unwrap_or(WokenBy::Interrupt(context));
        self.schedule.wakes(now, thread);
        self.threads[thread].segment(now, woken_by);
    }

    /// `waker` wakes `thread`, if it runs: when it had been woken itself.
    fn note(&mut self, now: u64, waker: ThreadNumber, thread: ThreadNumber) -> Option<u64> {
        let waker = &mut self.threads[waker];
        let (since, segment) = (waker.runs_since?, waker.segments.last()?);
        let work_ns = segment.work_ns + now.saturating_sub(since);
        waker.wakes.push(Wake { work_ns, thread });
        Some(segment.woken_ns)
    }

    /// `thread` begins to run.
    fn begins(&mut self, now: u64, thread: ThreadNumber) {
        let thread = &mut self.threads[thread];
        if thread.awake
            && let Some(segment) = thread.segments.last_mut()
            && segment.work_ns == 0
        {
            segment.wait_ns = now.saturating_sub(segment.woken_ns);
        }
        if !thread.awake {
            // It was seen neither to wake nor to run.
            thread.segment(now, WokenBy::Start);
        }
        thread.runs_since = Some(now);
    }

    /// `thread` leaves its CPU, where one runs from now on that has waited so long since it was woken.
    fn leaves(
        &mut self,
        now: u64,
        cpu: usize,
        number: ThreadNumber,
        left: Left,
        wait: Option<u64>,
    ) {
        self.schedule.leaves(now, cpu, number, left != Left::Runnable);
        let begin = self.begin_ns.unwrap_or(now);
        let thread = &mut self.threads[number];
        if !thread.awake {
            // It has run since before the recording.
            thread.segment(begin, WokenBy::Start);
            thread.runs_since = Some(begin);
        }
        let since = thread.runs_since.take().unwrap_or(now);
        // What takes its CPU away from it is no work of its own: an interrupt, and the way from there.
        let way = wait.filter(|&wait| left == Left::Runnable && is_way(wait));
        let until = now.saturating_sub(way.unwrap_or(0)).max(since);
        thread.works(until - since);
        if left != Left::Runnable {
            (thread.awake, thread.slept_ns) = (false, now);
        }
    }

    fn is_lost(&mut self, now: u64, number: ThreadNumber) {
        self.schedule.is_lost(now, number);
        let thread = &mut self.threads[number];
        if let Some(since) = thread.runs_since.take() {
            thread.works(now.saturating_sub(since));
        }
        (thread.awake, thread.slept_ns) = (false, now);
    }
}

impl Thread {
    fn segment(&mut self, now: u64, woken_by: WokenBy) {
        self.segments.push(Segment {
            slept_ns: self.slept_ns,
            woken_ns: now,
            woken_by,
            wait_ns: 0,
            work_ns: 0,
            wakes_from: self.wakes.len() as u32,
        });
        self.awake = true;
    }

    fn works(&mut self, span_ns: u64) {
        if let Some(segment) = self.segments.last_mut() {
            segment.work_ns += span_ns;
        }
    }

    /// The wakes of segment number `at`.
    pub(crate) fn wakes_of(&self, at: usize) -> std::ops::Range<usize> {
        let from = self.segments[at].wakes_from as usize;
        let to =
            self.segments.get(at + 1).map_or(self.wakes.len(), |next| next.wakes_from as usize);
        from..to
    }
}
