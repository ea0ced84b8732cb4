//! Whether a schedule is as promised.

use std::collections::BTreeMap;

use crate::CPUS;
use crate::book::{Book, Thread};
use crate::schedule::{Event, What};

/// A second, in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// What was found in a recording, at the worst.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) events: usize,
    pub(crate) waits: usize,
    /// For how long a CPU was idle while a thread waited that might run there, and which.
    pub(crate) idle_beside: Vec<(u64, String)>,
    /// The longest wait of a thread that no limit stops.
    pub(crate) longest_wait: (u64, String),
    /// By how much of a CPU a VM had more than its cap in a second, or less though a CPU of its own was idle.
    pub(crate) above_cap: (f64, String),
    pub(crate) below_cap: (f64, String),
    /// Seconds in which a VM with a cap was looked at.
    pub(crate) capped_seconds: usize,
    pub(crate) idle_ratio: f64,
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
    cpus: [Cpu; CPUS],
    /// Those who wait, from when on.
    waiting: BTreeMap<u32, u64>,
    begin_ns: u64,
    /// Run time of each VM with a limit in each second, and idle time of each CPU.
    ran_ns: BTreeMap<(usize, u64), u64>,
    idle_ns: BTreeMap<(usize, u64), u64>,
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
        cpus: Default::default(),
        waiting: BTreeMap::new(),
        begin_ns,
        ran_ns: BTreeMap::new(),
        idle_ns: BTreeMap::new(),
        idle_max_ns,
        found: Findings { events: events.len(), ..Findings::default() },
    };
    events.iter().for_each(|event| judge.event(event));
    for cpu in 0..CPUS {
        judge.leaves(cpu, end_ns);
    }
    let waiting: Vec<u32> = judge.waiting.keys().copied().collect();
    waiting.iter().for_each(|&tid| judge.waited(tid, end_ns));
    judge.caps(end_ns);
    let idle: u64 = judge.idle_ns.values().sum();
    judge.found.idle_ratio = idle as f64 / (CPUS as u64 * (end_ns - begin_ns).max(1)) as f64;
    judge.found
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
            spread(&mut self.idle_ns, cpu, self.begin_ns, since, now);
            let waiting: Vec<_> = self.waiting.iter().map(|(&tid, &from)| (tid, from)).collect();
            for (tid, from) in waiting {
                self.beside(cpu, tid, from.max(since), now);
            }
        } else if let Some(thread) = self.book.threads.get(&tid)
            && self.book.vms[thread.vm].cap.is_some()
        {
            spread(&mut self.ran_ns, thread.vm, self.begin_ns, since, now);
        }
    }

    /// A thread's wait is over.
    fn waited(&mut self, tid: u32, now: u64) {
        let Some(from) = self.waiting.remove(&tid) else { return };
        for cpu in 0..CPUS {
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
            let text = format!("CPU {cpu}, {name}, thread {tid}, from {at} us of the recording on");
            self.found.idle_beside.push((to - from, text));
        }
    }

    /// What VMs with limits had in each whole second.
    fn caps(&mut self, end_ns: u64) {
        for (i, vm) in self.book.vms.iter().enumerate() {
            let Some(cap) = vm.cap else { continue };
            let threads: Vec<_> = self.book.threads.values().filter(|of| of.vm == i).collect();
            for second in 0..(end_ns - self.begin_ns) / SECOND_NS {
                let from = self.begin_ns + second * SECOND_NS;
                let to = from + SECOND_NS;
                let ours = |thread: &&Thread| thread.is_ours(from, to);
                if threads.is_empty() || !threads.iter().all(ours) {
                    continue;
                }
                self.found.capped_seconds += 1;
                let ran = *self.ran_ns.get(&(i, second)).unwrap_or(&0) as f64 / SECOND_NS as f64;
                if ran - cap > self.found.above_cap.0 {
                    self.found.above_cap = (ran - cap, format!("{}: {ran} of a CPU", vm.name));
                }
                // A CPU that all of its vCPUs may use was idle for as long as the limit lets them run.
                let idle = |cpu: &usize| {
                    let idle = *self.idle_ns.get(&(*cpu, second)).unwrap_or(&0);
                    let all = threads.iter().all(|thread| thread.may_run(*cpu, from, to));
                    all && idle as f64 >= cap.min(1.0) * SECOND_NS as f64
                };
                let wants = cap.min(vm.vcpus as f64);
                let free = (0..CPUS).filter(idle).count() >= vm.vcpus;
                if vm.computes && free && wants - ran > self.found.below_cap.0 {
                    self.found.below_cap = (wants - ran, format!("{}: {ran} of a CPU", vm.name));
                }
            }
        }
    }
}

/// Adds the time from `from` to `to` to the seconds in which it is.
fn spread(sums: &mut BTreeMap<(usize, u64), u64>, of: usize, begin: u64, from: u64, to: u64) {
    let mut from = from.max(begin);
    while from < to {
        let second = (from - begin) / SECOND_NS;
        let end = to.min(begin + (second + 1) * SECOND_NS);
        *sums.entry((of, second)).or_default() += end - from;
        from = end;
    }
}
