//! Who ran while a vCPU waited, and why that one.
//!
//! Every pCPU keeps a log of who ran on it when, and of what its scheduler said meanwhile. When a
//! wait ends on a pCPU, the log of that pCPU is read back over the wait: the time is blamed,
//! tick by tick, on whoever ran there. (The pCPU on which the waiter at last runs is the one that
//! kept it waiting; one that it might have used as well shows in the reason.)
//!
//! The reason is computed from records, in this order:
//!
//! 1. nobody runs: the pCPU is between two vCPUs, [`Reason::ContextSwitch`];
//! 2. the idle vCPU runs: the pCPU is on its way out of idle, [`Reason::IdleWaking`], if the trace does not
//!    tell otherwise (Linux: [`Reason::HeldBack`], [`Reason::QueuedElsewhere`]);
//! 3. the runner was chosen, or kept, while the waiter already waited: kept by credit2's or
//!    credit's rate-limit record, [`Reason::RateLimit`]; else, if the credits in the records say
//!    that the runner had at least as much, [`Reason::LowerCredit`];
//! 4. what credit2 did when the waiter came into the run queue (`TICKLE_NEW` and what follows
//!    it): it told the pCPU to reschedule, [`Reason::Preempting`]; it compared and found too
//!    little credit, [`Reason::LowerCredit`]; or it did not even compare. credit2 compares with
//!    every busy pCPU that the waiter may use, except where the runner has not run for the rate
//!    limit yet or where a reschedule is already under way (`tickle_score()` and `runq_tickle()`
//!    in 4.10 to 4.20), so that is [`Reason::RateLimitNoTickle`];
//! 5. credit gave the waiter BOOST, and the runner had it too, [`Reason::BoostedRunner`], or lost it
//!    at a tick while it ran, [`Reason::BoostEnded`];
//! 6. another pCPU was idle and passed the waiter over, [`Reason::Pinned`];
//! 7. nothing of the kind is on record, [`Reason::Busy`].

use std::collections::VecDeque;

use serde::Serialize;

/// A pCPU remembers so many stretches of running; older ones are blamed on `unknown`.
pub const LOG_STRETCHES_MAX: usize = 4096;
/// All pCPUs together remember at most this many.
const LOG_STRETCHES_TOTAL: usize = 1 << 20;

/// Why the runner ran and the waiter did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The pCPU was not told of the waiter, because the runner was protected by the rate limit;
    /// the waiter waits for a timer that was set without it in mind.
    RateLimitNoTickle,
    /// The scheduler ran and kept the runner because of the rate limit.
    RateLimit,
    /// The runner has at least as much credit.
    LowerCredit,
    /// Both have credit's priority BOOST: it preempts a lower priority only, not its like.
    BoostedRunner,
    /// The tick took BOOST away from the runner, and credit did not look whether the waiter should run now.
    BoostEnded,
    /// The pCPU was told to reschedule and is about to.
    Preempting,
    /// The pCPU is leaving idle.
    IdleWaking,
    /// The pCPU is between two vCPUs.
    ContextSwitch,
    /// Another pCPU was idle and did not take the waiter: the waiter is bound to this one.
    Pinned,
    /// The pCPU chose to idle while the waiter was in its queue: the waiter was not let run, as its control group
    /// was out of quota. (Linux)
    HeldBack,
    /// The pCPU was idle, and the waiter stood in another one's queue. (Linux)
    QueuedElsewhere,
    /// The pCPU was busy; the trace does not say more.
    Busy,
    /// The runner is not known.
    Unknown,
}

impl Reason {
    /// For a table, in words.
    pub fn words(self) -> &'static str {
        match self {
            Reason::RateLimitNoTickle => "rate limit: pCPU not tickled",
            Reason::RateLimit => "rate limit",
            Reason::LowerCredit => "lower credit",
            Reason::BoostedRunner => "boost does not preempt boost",
            Reason::BoostEnded => "runner's boost ended: pCPU not tickled",
            Reason::Preempting => "preemption under way",
            Reason::IdleWaking => "pCPU leaving idle",
            Reason::ContextSwitch => "context switch",
            Reason::Pinned => "pinned to the busy pCPU",
            Reason::HeldBack => "not let run: quota?",
            Reason::QueuedElsewhere => "queued at another pCPU",
            Reason::Busy => "pCPU busy",
            Reason::Unknown => "unknown",
        }
    }
}

/// Who had the pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runner {
    /// A vCPU, by its number in the table.
    Vcpu(usize),
    /// The idle vCPU.
    Idle,
    /// The hypervisor, which switches from one vCPU to the next.
    Switch,
    /// Not known.
    Unknown,
}

/// Why a runner has the pCPU, as far as its scheduler said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It was picked, with this much credit if known.
    Picked(Option<i32>),
    /// It was picked with credit's priority BOOST.
    Boosted,
    /// It had BOOST until a tick took it away.
    BoostEnded,
    /// It was kept because of the rate limit.
    RateLimit,
}

/// A stretch of time on one pCPU with one runner and one reason.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: u64,
    end: u64,
    runner: Runner,
    why: Why,
}

/// The runners of one pCPU and their times.
#[derive(Debug)]
pub(crate) struct Log {
    past: VecDeque<Stretch>,
    start: u64,
    runner: Runner,
    why: Why,
}

impl Log {
    /// A log that begins at `start`, with an unknown runner.
    pub(crate) fn new(start: u64) -> Self {
        let (runner, why) = (Runner::Unknown, Why::Picked(None));
        Log { past: VecDeque::new(), start, runner, why }
    }

    pub(crate) fn runner(&self) -> Runner {
        self.runner
    }

    /// The unknown runner since the log began turns out to be this one.
    pub(crate) fn reveal(&mut self, runner: Runner) -> Option<u64> {
        let fresh = self.past.is_empty() && self.runner == Runner::Unknown;
        if fresh {
            self.runner = runner;
        }
        fresh.then_some(self.start)
    }

    /// Records were lost: the runner is unknown from the last change on.
    pub(crate) fn runner_unknown(&mut self) {
        self.runner = Runner::Unknown;
    }

    /// From `at` on another runner has the pCPU, or the same one for another reason. `pcpus` is how many
    /// pCPUs share the memory for logs.
    pub(crate) fn change(&mut self, at: u64, runner: Runner, why: Why, pcpus: usize) {
        if at > self.start {
            let max = LOG_STRETCHES_MAX.min(LOG_STRETCHES_TOTAL / pcpus.max(1));
            while self.past.len() >= max {
                self.past.pop_front();
            }
            let (start, runner, why) = (self.start, self.runner, self.why);
            self.past.push_back(Stretch { start, end: at, runner, why });
        }
        self.start = self.start.max(at);
        self.runner = runner;
        self.why = why;
    }
}

/// What credit2 did when the waiter came into the run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It did not compare the waiter with this pCPU's runner.
    NoTickle(u16),
    /// It compared and found too little credit.
    LowerCredit,
    /// It told this pCPU to reschedule, or that was already under way.
    Tickled(u16),
}

/// What is known of a waiter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) credit: Option<i32>,
    /// It has credit's priority BOOST.
    pub(crate) boosted: bool,
    /// The decision and when it was taken.
    pub(crate) decision: Option<(Decision, u64)>,
    /// An idle pCPU looked at it and stayed idle.
    pub(crate) passed_over: bool,
    /// The pCPU in whose queue it waits, where the trace tells.
    pub(crate) queued_on: Option<u16>,
}

/// A part of a wait that has one runner and one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlameSlice {
    pub(crate) runner: Runner,
    pub(crate) reason: Reason,
    pub(crate) ticks: u64,
}

/// Splits the wait from `start` to `end` that ended on `pcpu`, into `slices`. They add up to the
/// wait, to the tick.
pub(crate) fn attribute(
    log: &Log,
    pcpu: u16,
    waiter: &Waiter,
    (start, end): (u64, u64),
    slices: &mut Vec<BlameSlice>,
) {
    slices.clear();
    let mut covered = 0;
    let open = Stretch { start: log.start, end, runner: log.runner, why: log.why };
    for stretch in std::iter::once(&open).chain(log.past.iter().rev()) {
        let ticks = stretch.end.min(end).saturating_sub(stretch.start.max(start));
        if ticks > 0 {
            covered += ticks;
            add(slices, stretch.runner, reason(stretch, pcpu, waiter, start), ticks);
        }
        if stretch.start <= start {
            break;
        }
    }
    let rest = (end - start).saturating_sub(covered);
    if rest > 0 {
        add(slices, Runner::Unknown, Reason::Unknown, rest);
    }
}

fn add(slices: &mut Vec<BlameSlice>, runner: Runner, reason: Reason, ticks: u64) {
    /// A wait is blamed on at most so many pairs of runner and reason; the rest is `unknown`.
    const SLICES_MAX: usize = 256;
    let same = |slice: &&mut BlameSlice| slice.runner == runner && slice.reason == reason;
    if let Some(slice) = slices.iter_mut().find(same) {
        slice.ticks += ticks;
    } else if slices.len() < SLICES_MAX {
        slices.push(BlameSlice { runner, reason, ticks });
    } else {
        // The last slot takes the rest, under the name that claims nothing.
        let last = &mut slices[SLICES_MAX - 1];
        (last.runner, last.reason) = (Runner::Unknown, Reason::Unknown);
        last.ticks += ticks;
    }
}

fn reason(stretch: &Stretch, pcpu: u16, waiter: &Waiter, wait_start: u64) -> Reason {
    match stretch.runner {
        Runner::Switch => return Reason::ContextSwitch,
        Runner::Idle => {
            return match waiter.queued_on {
                // Idle is chosen when no vCPU in the queue may run.
                Some(queue) if stretch.start >= wait_start && queue == pcpu => Reason::HeldBack,
                Some(queue) if queue != pcpu => Reason::QueuedElsewhere,
                _ => Reason::IdleWaking,
            };
        }
        Runner::Unknown => return Reason::Unknown,
        Runner::Vcpu(_) => {}
    }
    if stretch.start >= wait_start {
        match (stretch.why, waiter.credit) {
            (Why::RateLimit, _) => return Reason::RateLimit,
            (Why::Picked(Some(runner)), Some(waiter)) if runner >= waiter => {
                return Reason::LowerCredit;
            }
            _ => {}
        }
    }
    // A decision explains the stretch in which it was taken, no later one.
    let decision = waiter.decision.filter(|&(_, at)| at >= stretch.start);
    match decision {
        Some((Decision::NoTickle(at), _)) if at == pcpu => Reason::RateLimitNoTickle,
        Some((Decision::Tickled(at), _)) if at == pcpu => Reason::Preempting,
        Some((Decision::LowerCredit, _)) => Reason::LowerCredit,
        _ if waiter.boosted && stretch.why == Why::Boosted => Reason::BoostedRunner,
        _ if waiter.boosted && stretch.why == Why::BoostEnded => Reason::BoostEnded,
        _ if waiter.passed_over => Reason::Pinned,
        _ => Reason::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(log: &Log, waiter: &Waiter, span: (u64, u64)) -> Vec<BlameSlice> {
        let mut slices = Vec::new();
        attribute(log, 0, waiter, span, &mut slices);
        assert_eq!(slices.iter().map(|slice| slice.ticks).sum::<u64>(), span.1 - span.0);
        slices
    }

    fn slice(runner: Runner, reason: Reason, ticks: u64) -> BlameSlice {
        BlameSlice { runner, reason, ticks }
    }

    #[test]
    fn time_is_split_by_who_ran() {
        let mut log = Log::new(0);
        log.change(10, Runner::Vcpu(1), Why::Picked(None), 1);
        log.change(40, Runner::Switch, Why::Picked(None), 1);
        log.change(41, Runner::Idle, Why::Picked(None), 1);
        // 5..10 unknown, 10..40 vCPU 1, 40..41 switch, 41..50 idle.
        let mut slices = split(&log, &Waiter::default(), (5, 50));
        slices.sort_by_key(|slice| slice.runner);
        assert_eq!(
            slices,
            [
                slice(Runner::Vcpu(1), Reason::Busy, 30),
                slice(Runner::Idle, Reason::IdleWaking, 9),
                slice(Runner::Switch, Reason::ContextSwitch, 1),
                slice(Runner::Unknown, Reason::Unknown, 5),
            ]
        );
    }

    #[test]
    fn a_decision_explains_only_the_stretch_it_was_taken_in() {
        let mut log = Log::new(0);
        log.change(0, Runner::Vcpu(1), Why::Picked(None), 1);
        log.change(100, Runner::Vcpu(2), Why::Picked(Some(5)), 1);
        log.change(150, Runner::Vcpu(2), Why::RateLimit, 1);
        let decision = Some((Decision::NoTickle(0), 21));
        let waiter = Waiter { credit: Some(5), decision, ..Waiter::default() };
        assert_eq!(
            split(&log, &waiter, (20, 160)),
            [
                slice(Runner::Vcpu(2), Reason::RateLimit, 10),
                slice(Runner::Vcpu(2), Reason::LowerCredit, 50),
                slice(Runner::Vcpu(1), Reason::RateLimitNoTickle, 80),
            ]
        );
        // Of a decision about another pCPU nothing follows for this one.
        let decision = Some((Decision::NoTickle(7), 21));
        let waiter = Waiter { credit: Some(9), decision, passed_over: true, ..Waiter::default() };
        assert_eq!(
            split(&log, &waiter, (20, 110)),
            [
                slice(Runner::Vcpu(2), Reason::Pinned, 10),
                slice(Runner::Vcpu(1), Reason::Pinned, 80),
            ]
        );
    }

    #[test]
    fn a_log_forgets_and_says_so() {
        let mut log = Log::new(0);
        for i in 1..=2 * LOG_STRETCHES_MAX as u64 {
            log.change(i, Runner::Vcpu(1), Why::Picked(None), 1);
        }
        let end = 2 * LOG_STRETCHES_MAX as u64;
        assert_eq!(
            split(&log, &Waiter::default(), (0, end)),
            [
                slice(Runner::Vcpu(1), Reason::Busy, LOG_STRETCHES_MAX as u64),
                slice(Runner::Unknown, Reason::Unknown, LOG_STRETCHES_MAX as u64),
            ]
        );
    }
}
