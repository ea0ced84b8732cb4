//! What has woken each thread of a recording, and what the simulator makes of it.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::cause::{Certainty, DecidedBy, Interrupts, Judgement};
use crate::history::{Thread, WokenBy};
use crate::recording::Recording;
use lowtail_out::align;

/// Threads of no VM that a table shows, those with the most wake-ups.
const OTHERS_MAX: usize = 20;

/// What has woken a thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Causes {
    /// The thread, safe to print.
    pub thread: String,
    /// Its VM.
    pub vm: Option<String>,
    /// Wake-ups by other threads.
    pub by_threads: u64,
    /// The thread that has woken it most often.
    pub mostly_by: Option<String>,
    /// Wake-ups by interrupts that are taken for its own timer.
    pub by_timer: u64,
    /// Wake-ups by interrupts that are taken for something from outside.
    pub by_arrivals: u64,
    /// How that was decided; `None`: no interrupt has woken it.
    pub decided_by: Option<DecidedBy>,
    /// How certain that is.
    pub certainty: Option<Certainty>,
    /// The slope that decided.
    pub slope: Option<Slope>,
}

/// A slope of which one value means a timer and another one what comes from outside.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Slope {
    /// What it is.
    #[serde(rename = "slope")]
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// What it would be if all came from outside; 0: it is a timer.
    pub of_arrivals: f64,
}

impl Causes {
    fn new(recording: &Recording, number: usize, thread: &Thread, judged: &Judgement) -> Self {
        let (mut wakers, mut interrupts) = (HashMap::<u32, u64>::new(), 0);
        for segment in &thread.segments {
            match segment.woken_by {
                WokenBy::Thread { waker, .. } => *wakers.entry(waker).or_default() += 1,
                WokenBy::Interrupt(_) => interrupts += 1,
                WokenBy::Start => {}
            }
        }
        let mostly = wakers.iter().max_by_key(|&(&waker, &count)| (count, u32::MAX - waker));
        let is = |kind: Interrupts| if judged.interrupts == kind { interrupts } else { 0 };
        let any = interrupts > 0;
        // Names of threads are safe already, those of VMs are not.
        let vm = recording.vms[number].map(|vm| lowtail_out::name(&recording.host.vms[vm]));
        Causes {
            thread: recording.names[number].clone(),
            vm: vm.map(|vm| vm.into_owned()),
            by_threads: wakers.values().sum(),
            mostly_by: mostly.map(|(&waker, _)| recording.names[waker as usize].clone()),
            by_timer: is(Interrupts::Timer),
            by_arrivals: is(Interrupts::Arrivals),
            decided_by: any.then_some(judged.by),
            certainty: any.then_some(judged.certainty),
            slope: judged.slope.filter(|_| any).map(|(value, of_arrivals, standard_error)| Slope {
                value,
                standard_error,
                of_arrivals,
            }),
        }
    }

    /// All wake-ups of which the cause is known.
    pub fn wakeups(&self) -> u64 {
        self.by_threads + self.by_timer + self.by_arrivals
    }

    /// How it was decided, in words.
    pub fn why(&self) -> String {
        let (Some(by), Some(certainty)) = (self.decided_by, self.certainty) else {
            return String::new();
        };
        let mut why = format!("{}: {}", by.words(), certainty.word());
        if let Some(Slope { value, standard_error, of_arrivals }) = self.slope {
            let _ = write!(
                why,
                " (slope {value:.3} ± {standard_error:.3}; timer 0, arrivals {of_arrivals:.3})"
            );
        }
        why
    }
}

/// What has woken the threads of a recording: those of VMs, VM by VM, then all others, those with the most wake-ups first.
pub(crate) fn causes(recording: &Recording) -> Vec<Causes> {
    let threads = recording.history.threads.iter().zip(&recording.judged).enumerate();
    let mut all: Vec<_> = threads
        .filter(|(_, (thread, _))| !thread.segments.is_empty())
        .map(|(number, (thread, judged))| {
            let of = Causes::new(recording, number, thread, judged);
            let vm = recording.vms[number].unwrap_or(usize::MAX);
            (vm, recording.infos[number].role, of)
        })
        .filter(|(_, _, of)| of.wakeups() > 0)
        .collect();
    all.sort_by(|(vm, role, a), (other_vm, other_role, b)| {
        let role = if a.vm.is_some() { role.cmp(other_role) } else { std::cmp::Ordering::Equal };
        vm.cmp(other_vm).then(role).then(b.wakeups().cmp(&a.wakeups()))
    });
    all.into_iter().map(|(_, _, of)| of).collect()
}

/// All threads of VMs, and those others that are woken most often; and how many are not among them.
pub fn shown(causes: &[Causes]) -> (impl Iterator<Item = &Causes>, usize) {
    let of_vms = causes.iter().filter(|of| of.vm.is_some()).count();
    let shown = causes.len().min(of_vms + OTHERS_MAX);
    (causes[..shown].iter(), causes.len() - shown)
}

/// Causes as text.
pub(crate) fn table(causes: &[Causes]) -> String {
    let mut out = String::from("what woke whom:\n");
    let head = ["thread", "mostly by", "by threads", "timer", "arrivals", "decided by"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let (shown, more) = shown(causes);
    rows.extend(shown.map(|of| {
        let counts = [of.by_threads, of.by_timer, of.by_arrivals].map(|count| count.to_string());
        let [threads, timer, arrivals] = counts;
        let mostly = of.mostly_by.clone().unwrap_or_default();
        vec![of.thread.clone(), mostly, threads, timer, arrivals, of.why()]
    }));
    align(&mut out, "llrrrl", &rows);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more threads; --json has all");
    }
    out
}
