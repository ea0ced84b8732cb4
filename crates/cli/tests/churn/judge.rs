//! Whether a schedule is as promised.

use std::collections::BTreeMap;

use crate::book::{Book, Thread};
use crate::cpus;
use crate::schedule::{Event, What};

/// A second, in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// The period of a limit that does not say one (`cpu.max`): a quota is what comes in in that time.
const PERIOD_NS: u64 = 100_000_000;
/// Who has run up to so much of its limit for so long has saved up nothing.
const BEFORE_NS: u64 = 400_000_000;
const RAN_UP: f64 = 0.98;
/// What others may use of a CPU that is free for a VM with a limit.
const OTHERS: f64 = 0.05;

/// What was found in a recording, at the worst.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) events: usize,
    pub(crate) waits: usize,
    /// Times in which a CPU was idle while a thread waited that might run there.
    pub(crate) idle_beside: Vec<Idle>,
    /// The longest wait of a thread that no limit stops.
    pub(crate) longest_wait: (u64, String),
    /// By how much of a CPU a VM had more than its cap in a second, or less though a CPU of its own was idle.
    pub(crate) above_cap: (f64, String),
    pub(crate) below_cap: (f64, String),
    /// Seconds in which a VM with a cap was looked at, and those in which it ran up to it.
    pub(crate) capped_seconds: usize,
    pub(crate) bound_seconds: usize,
    /// What happened around the longest time that a CPU was idle beside work.
    pub(crate) around: Vec<String>,
    pub(crate) idle_ratio: f64,
}

/// A time in which a CPU was idle beside work.
#[derive(Clone, Debug)]
pub(crate) struct Idle {
    pub(crate) ns: u64,
    pub(crate) from_ns: u64,
    pub(crate) what: String,
}

/// A CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    /// Who runs, from when on; `None`: it is not known yet.
    runs: Option<(u32, u64)>,
}

/// Goes through a recording.
#[derive(Debug)]
struct Judge<'a> {
    book: &'a Book,
    cpus: Vec<Cpu>,
    /// Those who wait, from when on.
    waiting: BTreeMap<u32, u64>,
    begin_ns: u64,
    /// When each CPU was idle.
    idle: Vec<Vec<(u64, u64)>>,
    /// What is too long for a CPU to be idle beside work.
    idle_max_ns: u64,
    found: Findings,
}

/// Judges a recording.
pub(crate) fn judge(events: &[Event], book: &Book, idle_max_ns: u64) -> Findings {
    let begin_ns = events.first().map_or(0, |event| event.at_ns);
    let end_ns = events.last().map_or(0, |event| event.at_ns);
    let mut judge = Judge {
        book,
        cpus: vec![Cpu::default(); cpus()],
        waiting: BTreeMap::new(),
        begin_ns,
        idle: vec![Vec::new(); cpus()],
        idle_max_ns,
        found: Findings { events: events.len(), ..Findings::default() },
    };
    events.iter().for_each(|event| judge.event(event));
    for cpu in 0..cpus() {
        judge.leaves(cpu, end_ns);
    }
    let waiting: Vec<u32> = judge.waiting.keys().copied().collect();
    waiting.iter().for_each(|&tid| judge.waited(tid, end_ns));
    judge.caps(end_ns);
    let idle: u64 = (0..cpus()).map(|cpu| judge.idle_ns(cpu, begin_ns, end_ns)).sum();
    judge.found.idle_ratio = idle as f64 / (cpus() as u64 * (end_ns - begin_ns).max(1)) as f64;
    judge.found.idle_beside.sort_by_key(|idle| std::cmp::Reverse(idle.ns));
    if let Some(worst) = judge.found.idle_beside.first() {
        judge.found.around =
            around(events, book, begin_ns, worst.from_ns, worst.from_ns + worst.ns);
    }
    judge.found
}

/// The schedule from a while before `from` to a while after `to`, a line for each event; not all of its middle.
fn around(events: &[Event], book: &Book, begin: u64, from: u64, to: u64) -> Vec<String> {
    const WHILE_NS: u64 = 2_000_000;
    let near = |at: u64, moment: u64| at.abs_diff(moment) <= WHILE_NS;
    let name = |tid: u32| match book.threads.get(&tid) {
        Some(thread) => format!("{tid} of {}", book.vms[thread.vm].name),
        None => tid.to_string(),
    };
    let line = |event: &Event| {
        let what = match event.what {
            What::Wake { tid } => format!("{} wakes", name(tid)),
            What::Switch { prev, runnable, next } => {
                let goes = if runnable { "waits" } else { "sleeps" };
                format!("{} {goes}, {} runs", name(prev), name(next))
            }
        };
        format!("{} us, CPU {}: {what}", (event.at_ns - begin) / 1000, event.cpu)
    };
    let events = events.iter().filter(|event| near(event.at_ns, from) || near(event.at_ns, to));
    events.map(line).collect()
}

impl Judge<'_> {
    fn event(&mut self, event: &Event) {
        let at = event.at_ns;
        match event.what {
            What::Wake { tid } => {
                let runs =
                    self.cpus.iter().any(|cpu| cpu.runs.is_some_and(|(runs, _)| runs == tid));
                if !runs && self.book.threads.contains_key(&tid) {
                    self.waiting.entry(tid).or_insert(at);
                }
            }
            What::Switch { prev, runnable, next } => {
                self.leaves(event.cpu, at);
                if prev != 0 && runnable && self.book.threads.contains_key(&prev) {
                    self.waiting.insert(prev, at);
                }
                self.waited(next, at);
                self.cpus[event.cpu].runs = Some((next, at));
            }
        }
    }

    /// Whoever runs on a CPU leaves it, or the CPU is no longer idle.
    fn leaves(&mut self, cpu: usize, now: u64) {
        let Some((tid, since)) = self.cpus[cpu].runs.take() else { return };
        if tid == 0 {
            self.idle[cpu].push((since, now));
            let waiting: Vec<_> = self.waiting.iter().map(|(&tid, &from)| (tid, from)).collect();
            for (tid, from) in waiting {
                self.beside(cpu, tid, from.max(since), now);
            }
        }
    }

    /// For how long a CPU was idle.
    fn idle_ns(&self, cpu: usize, from: u64, to: u64) -> u64 {
        let within = |&(since, until): &(u64, u64)| until.min(to).saturating_sub(since.max(from));
        self.idle[cpu].iter().map(within).sum()
    }

    /// A thread's wait is over.
    fn waited(&mut self, tid: u32, now: u64) {
        let Some(from) = self.waiting.remove(&tid) else { return };
        for cpu in 0..cpus() {
            if let Some((0, since)) = self.cpus[cpu].runs {
                self.beside(cpu, tid, from.max(since), now);
            }
        }
        let Some(thread) = self.judged(tid, from, now) else { return };
        let text = format!("{}, thread {tid}", self.book.vms[thread.vm].name);
        self.found.waits += 1;
        if now - from > self.found.longest_wait.0 {
            self.found.longest_wait = (now - from, text);
        }
    }

    /// A thread that small-first has for all of that time, and that no limit stops.
    fn judged(&self, tid: u32, from: u64, to: u64) -> Option<&Thread> {
        let thread = self.book.threads.get(&tid)?;
        let judged = thread.is_ours(from, to) && self.book.vms[thread.vm].cap.is_none();
        judged.then_some(thread)
    }

    /// A CPU was idle, and a thread waited, both from `from` to `to`.
    fn beside(&mut self, cpu: usize, tid: u32, from: u64, to: u64) {
        if to.saturating_sub(from) <= self.idle_max_ns {
            return;
        }
        let Some(thread) = self.judged(tid, from, to) else { return };
        if thread.may_run(cpu, from, to) {
            let name = &self.book.vms[thread.vm].name;
            let at = (from - self.begin_ns) / 1000;
            let what = format!("CPU {cpu}, {name}, thread {tid}, from {at} us of the recording on");
            self.found.idle_beside.push(Idle { ns: to - from, from_ns: from, what });
        }
    }

    /// What VMs with limits had, by the kernel's own account, in each second from one reading to another.
    fn caps(&mut self, end_ns: u64) {
        for (i, vm) in self.book.vms.iter().enumerate() {
            let Some(cap) = vm.cap else { continue };
            let threads: Vec<_> = self.book.threads.values().filter(|of| of.vm == i).collect();
            let begin_ns = self.begin_ns;
            let readings = vm.cpu_ns.iter().filter(|of| of.before_ns >= begin_ns);
            let readings: Vec<_> = readings.filter(|of| of.after_ns <= end_ns).collect();
            for (n, first) in readings.iter().enumerate() {
                let last =
                    readings[n..].iter().find(|of| of.before_ns >= first.after_ns + SECOND_NS);
                let Some(last) = last else { break };
                let (from, to) = (first.before_ns, last.after_ns);
                if threads.is_empty() || !threads.iter().all(|thread| thread.is_ours(from, to)) {
                    continue;
                }
                self.found.capped_seconds += 1;
                // A reading takes a while: somewhere in it is its moment.
                let cpu = (last.cpu_ns - first.cpu_ns) as f64;
                let (least, most) =
                    (cpu / (to - from) as f64, cpu / (last.before_ns - first.after_ns) as f64);
                // Two vCPUs that compute have 19.1 % of a limit of 20 (test `vms_come_and_go_on_eight_cpus`).
                self.found.bound_seconds += usize::from(most >= 0.9 * cap);
                // One that has not run up to its limit before may have saved up a quota.
                let before = readings[..n].iter().rfind(|of| of.after_ns + BEFORE_NS <= from);
                let ran_up = before.is_some_and(|of| {
                    let ran = (first.cpu_ns - of.cpu_ns) as f64;
                    ran >= RAN_UP * cap * (from - of.after_ns) as f64
                });
                let saved = if ran_up { 0.0 } else { cap * PERIOD_NS as f64 / SECOND_NS as f64 };
                if least - cap - saved > self.found.above_cap.0 {
                    let text = format!(
                        "{}: {least} of a CPU, {} vCPUs, saved up {saved}",
                        vm.name, vm.vcpus
                    );
                    self.found.above_cap = (least - cap - saved, text);
                }
                // A CPU that all of its vCPUs may use and hardly anybody else has used.
                let idle = |cpu: &usize| {
                    let all = threads.iter().all(|thread| thread.may_run(*cpu, from, to));
                    let others = 1.0 - self.idle_ns(*cpu, from, to) as f64 / (to - from) as f64;
                    all && others - cap.min(1.0) <= OTHERS
                };
                let wants = cap.min(vm.vcpus as f64);
                let free = (0..cpus()).filter(idle).count() >= vm.vcpus;
                if vm.computes && free && wants - most > self.found.below_cap.0 {
                    let text = format!("{}: {most} of a CPU, {} vCPUs", vm.name, vm.vcpus);
                    self.found.below_cap = (wants - most, text);
                }
            }
        }
    }
}
