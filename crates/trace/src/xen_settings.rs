//! How Xen's scheduler was set when its records were made, as far as they tell.
//!
//! None of its settings is in the trace itself. Its decisions are:
//!
//! * **Rate limit.** A runner is kept because it has run for less than the limit (`RATELIMIT`, and under credit2 a wake-up whose pCPU is not even
//!   looked at), or it is not (it is preempted, or compared with who has woken). Each such decision is a bound of the limit, from below or from
//!   above; the limit is the round number that contradicts the fewest.
//! * **Time slice** of credit: the timer that is set when a vCPU is switched in.
//! * **Weights** under credit2: credit burns by the heaviest weight divided by one's own (`t2c_update`, `xen/common/sched/credit2.c`, 4.20), and
//!   records have both the time and what is left.
//! * **Caps** under credit2: the budget that a vCPU has when it begins to run, of each 10 ms (`CSCHED2_BDGT_REPL_PERIOD`, there). What was left of it
//!   and what was run since are in one record.
//!
//! Under credit, weights and caps leave no records.

use std::collections::HashMap;

use crate::clock::CpuHz;
use crate::merge::{Kind, Timed};
use crate::record::{Runstate, VcpuId, event};

/// So many bounds of each kind are kept, of vCPUs so many.
const BOUNDS_MAX: usize = 1 << 16;
const VCPUS_MAX: usize = 1 << 14;
/// The usual limit, `SCHED_DEFAULT_RATELIMIT_US` (`xen/common/sched/private.h`, 4.20), in nanoseconds.
const USUAL_NS: u64 = 1_000_000;
/// Bounds come so late by the way through the scheduler, at least on slow machines: the slowest of ours takes 20 us.
const WAY_NS: u64 = 30_000;
/// A wake-up looks at a runner so long before its limit is over (`CSCHED2_RATELIMIT_TICKLE_TOLERANCE`).
const TOLERANCE_NS: u64 = 50_000;
/// The usual limit is taken if it contradicts so many bounds more than the best one: those of vCPUs that were moved or paused.
const EXCESS: (usize, f64) = (2, 0.01);
/// Parts of ten of limits that people set, in microseconds times powers of ten.
const ROUND: [u64; 12] = [100, 120, 150, 200, 250, 300, 400, 500, 600, 700, 750, 800];
/// `XEN_SYSCTL_SCHED_RATELIMIT_MAX`.
const RATELIMIT_MAX_US: u64 = 500_000;
/// Of less run time a weight or a budget says nothing.
const BURNT_LEAST_NS: u64 = 1_000_000;
/// The budget word of a vCPU without a cap.
const BUDGET_NONE: i32 = i32::MIN;
/// `CSCHED2_BDGT_REPL_PERIOD`.
const CAP_PERIOD_NS: f64 = 10e6;

/// Which of Xen's schedulers decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XenScheduler {
    /// credit.
    Credit,
    /// credit2.
    Credit2,
    /// The trace has no record of a scheduler's own, or of another one.
    #[default]
    Unknown,
}

/// A rate limit, as decisions tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The round number that contradicts the fewest decisions, in nanoseconds; 0: there is none.
    pub ns: u64,
    /// How many decisions there were.
    pub decisions: usize,
    /// How many of them contradict it.
    pub against: usize,
}

/// A domain under credit2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XenShare {
    /// Its number.
    pub domain: u16,
    /// Its weight, as a part of the heaviest one in its run queue.
    pub weight: f64,
    /// Its cap in percent of a pCPU, if it has one.
    pub cap_percent: Option<f64>,
}

/// How Xen's scheduler was set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct XenSettings {
    /// The scheduler under which vCPUs competed; of several pools that of the one where they did so most.
    pub scheduler: XenScheduler,
    /// There are pools under another one, too.
    pub others: bool,
    /// Its rate limit, if anything tells.
    pub ratelimit: Option<RateLimit>,
    /// credit's time slice in nanoseconds, if anything tells.
    pub timeslice_ns: Option<u64>,
    /// Domains, by number, whose weight is known: under credit2.
    pub shares: Vec<XenShare>,
}

/// Bounds of the rate limit under one scheduler: run times of the runner, in nanoseconds.
#[derive(Debug)]
struct Bounds {
    /// It was protected.
    protected: Vec<u64>,
    /// It was not.
    free: Vec<u64>,
}

fn keep(bounds: &mut Vec<u64>, ns: u64) {
    if bounds.len() < BOUNDS_MAX {
        bounds.push(ns);
    }
}

/// What is known of a pCPU while records go by.
#[derive(Debug, Default)]
struct OnPcpu {
    scheduler: XenScheduler,
    /// Who runs, and since when.
    runs: Option<(u32, u64)>,
    /// Run times after which somebody was preempted, in ticks.
    preempted: Vec<u64>,
    /// A vCPU has come into the run queue and looks for a pCPU: of the pCPU to which it belongs, who runs there and for how long, in ticks.
    placed: Option<(u32, u64)>,
    timeslice_ns: u64,
}

/// What is known of a vCPU.
#[derive(Debug, Default)]
struct OfVcpu {
    credit: Option<i32>,
    burnt: u64,
    ran_ns: u64,
    budget_ns: Option<u64>,
    yielding: bool,
    blocking: bool,
}

/// Looks at records as they go by.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pcpus: HashMap<u16, OnPcpu>,
    vcpus: HashMap<u32, OfVcpu>,
    /// `RATELIMIT` of credit and of credit2, in nanoseconds.
    kept: [Vec<u64>; 2],
    /// The same of wake-ups under credit2 that look at the runner or not, in ticks.
    compared: Vec<u64>,
    passed: Vec<u64>,
}

impl Settings {
    pub(crate) fn record(&mut self, timed: &Timed) {
        if timed.kind != Kind::Record || timed.late {
            return;
        }
        let words = &timed.words;
        if let Some((old, new)) = Runstate::change(timed.event) {
            return self.change(timed, old, new);
        }
        let word = |at: usize| words[at] as i32;
        match timed.event {
            event::CSCHED_SCHEDULE => self.on(timed.pcpu).scheduler = XenScheduler::Credit,
            event::SCHEDULE => self.on(timed.pcpu).scheduler = XenScheduler::Credit2,
            event::CSCHED_TICKLE | event::CSCHED_BOOST_START | event::CSCHED_BOOST_END => {
                self.hint(timed.pcpu, XenScheduler::Credit);
            }
            event::RUNQ_CANDIDATE | event::RUNQ_CAND_CHECK => {
                self.hint(timed.pcpu, XenScheduler::Credit2);
            }
            event::CSCHED_RATELIMIT => keep(&mut self.kept[0], words[1].into()),
            event::RATELIMIT => keep(&mut self.kept[1], words[1].into()),
            event::SWITCH_INFNEXT => {
                let is_idle = VcpuId::from_words(words[0], words[1]).is_idle();
                if let Ok(ns) = u64::try_from(word(3))
                    && !is_idle
                {
                    let on = self.on(timed.pcpu);
                    on.timeslice_ns = on.timeslice_ns.max(ns);
                }
            }
            event::YIELD => self.of(VcpuId::from_words(words[0], words[1]).packed(), |of| {
                of.yielding = true;
            }),
            event::BLOCK => self.of(VcpuId::from_words(words[0], words[1]).packed(), |of| {
                of.blocking = true;
            }),
            event::CREDIT_BURN => {
                self.burns(words[0], (word(1), word(2)), words[3]);
                // It is part of both a wake-up and a turn.
                return;
            }
            event::CREDIT_RESET => self.of(words[0], |of| of.credit = Some(word(2))),
            event::TICKLE_NEW => {
                let target = u16::try_from(words[1]).ok();
                let runs = target.and_then(|pcpu| self.pcpus.get(&pcpu)?.runs);
                let runs = runs.map(|(vcpu, since)| (vcpu, timed.tsc.saturating_sub(since)));
                self.on(timed.pcpu).placed = runs;
                return;
            }
            event::TICKLE_CHECK => {
                let on = self.on(timed.pcpu);
                // Only of the pCPU to which it belongs it is known that it would have been looked at.
                if let Some((_, ran)) = on.placed.take_if(|(vcpu, _)| *vcpu == words[0]) {
                    keep(&mut self.compared, ran);
                }
                return;
            }
            event::TICKLE => self.on(timed.pcpu).placed = None,
            _ => {}
        }
        // What follows is no part of the wake-up: nobody was looked at, and nobody tickled.
        if let Some((_, ran)) = self.on(timed.pcpu).placed.take() {
            keep(&mut self.passed, ran);
        }
    }

    fn on(&mut self, pcpu: u16) -> &mut OnPcpu {
        self.pcpus.entry(pcpu).or_default()
    }

    /// A record of this scheduler's, which may be about another pCPU's pool.
    fn hint(&mut self, pcpu: u16, scheduler: XenScheduler) {
        let on = self.on(pcpu);
        if on.scheduler == XenScheduler::Unknown {
            on.scheduler = scheduler;
        }
    }

    fn of(&mut self, vcpu: u32, set: impl FnOnce(&mut OfVcpu)) {
        if self.vcpus.len() < VCPUS_MAX || self.vcpus.contains_key(&vcpu) {
            set(self.vcpus.entry(vcpu).or_default());
        }
    }

    fn change(&mut self, timed: &Timed, old: Runstate, new: Runstate) {
        let vcpu = timed.words[0];
        let is_idle = VcpuId::from_packed(vcpu).is_idle();
        if new == Runstate::Running {
            self.on(timed.pcpu).runs = (!is_idle).then_some((vcpu, timed.tsc));
            return self.of(vcpu, |of| (of.yielding, of.blocking) = (false, false));
        }
        if old != Runstate::Running || is_idle {
            return;
        }
        let on = self.on(timed.pcpu);
        let Some((_, since)) = on.runs.take_if(|(runs, _)| *runs == vcpu) else { return };
        let of_itself = self.vcpus.get(&vcpu).is_some_and(|of| of.yielding || of.blocking);
        if new == Runstate::Runnable && !of_itself {
            let ran = timed.tsc.saturating_sub(since);
            keep(&mut self.on(timed.pcpu).preempted, ran);
        }
    }

    /// A vCPU of credit2's has burnt credit for a run of so many nanoseconds.
    fn burns(&mut self, vcpu: u32, (credit, budget): (i32, i32), ns: u32) {
        if VcpuId::from_packed(vcpu).is_idle() {
            return;
        }
        self.of(vcpu, |of| {
            let burnt = of.credit.map(|before| i64::from(before) - i64::from(credit));
            if let Some(Ok(burnt)) = burnt.map(u64::try_from) {
                of.burnt = of.burnt.saturating_add(burnt);
                of.ran_ns = of.ran_ns.saturating_add(ns.into());
            }
            of.credit = Some(credit);
            if budget != BUDGET_NONE {
                let had = u64::try_from(i64::from(budget) + i64::from(ns)).unwrap_or(0);
                of.budget_ns = Some(of.budget_ns.unwrap_or(0).max(had));
            }
        });
    }

    /// What all records told, by a counter that runs so fast.
    pub(crate) fn finish(self, hz: &CpuHz) -> XenSettings {
        let Settings { pcpus, vcpus, mut kept, compared, passed } = self;
        // Where vCPUs competed: by how often they were preempted, then by pCPUs.
        let weight = |scheduler: XenScheduler| {
            let of = pcpus.values().filter(|on| on.scheduler == scheduler);
            of.fold((0, 0), |(all, n), on| (all + on.preempted.len(), n + 1))
        };
        let [credit, credit2] = [XenScheduler::Credit, XenScheduler::Credit2].map(weight);
        let scheduler = match (credit.1, credit2.1) {
            (0, 0) => XenScheduler::Unknown,
            _ if credit > credit2 => XenScheduler::Credit,
            _ => XenScheduler::Credit2,
        };
        let mine = || pcpus.values().filter(|on| on.scheduler == scheduler);
        let of_credit2 = scheduler == XenScheduler::Credit2;
        let protected = std::mem::take(&mut kept[usize::from(of_credit2)]);
        let mut bounds = Bounds { protected, free: Vec::new() };
        bounds.free.extend(mine().flat_map(|on| &on.preempted).map(|&ran| hz.ns(ran)));
        if of_credit2 {
            let early = compared.iter().map(|&ran| hz.ns(ran).saturating_add(TOLERANCE_NS));
            bounds.free.extend(early);
            bounds.protected.extend(passed.iter().map(|&ran| hz.ns(ran)));
        }
        let timeslice_ns = mine().map(|on| on.timeslice_ns).max().filter(|&ns| ns > 0);
        let known = scheduler != XenScheduler::Unknown;
        XenSettings {
            scheduler,
            others: credit.1 > 0 && credit2.1 > 0,
            ratelimit: known.then(|| bounds.ratelimit()).flatten(),
            timeslice_ns: timeslice_ns.filter(|_| scheduler == XenScheduler::Credit),
            shares: if of_credit2 { shares(&vcpus) } else { Vec::new() },
        }
    }
}

impl Bounds {
    /// The round limit that contradicts the fewest bounds.
    fn ratelimit(mut self) -> Option<RateLimit> {
        let decisions = self.protected.len() + self.free.len();
        if decisions == 0 {
            return None;
        }
        self.protected.sort_unstable();
        self.free.sort_unstable();
        let against = |limit: u64| {
            let kept = self.protected.len() - self.protected.partition_point(|&ran| ran < limit);
            kept + self.free.partition_point(|&ran| ran.saturating_add(WAY_NS) < limit)
        };
        let powers = [1, 10, 100, 1000];
        let rounds = powers.into_iter().flat_map(|power| ROUND.map(|us| us * power));
        let rounds = std::iter::once(0).chain(rounds.filter(|&us| us <= RATELIMIT_MAX_US));
        // Of several that contradict as few the greatest: preemption comes as soon as the limit is over.
        let best = rounds.map(|us| us * 1_000).min_by_key(|&limit| (against(limit), !limit))?;
        // Where nobody was protected, none is as good as any below.
        let best = if self.protected.is_empty() && best < USUAL_NS { 0 } else { best };
        let excess = EXCESS.0.max((EXCESS.1 * decisions as f64) as usize);
        let usual = against(USUAL_NS) <= against(best) + excess;
        let ns = if usual { USUAL_NS } else { best };
        Some(RateLimit { ns, decisions, against: against(ns) })
    }
}

/// Weights and caps of domains, by what their vCPUs burnt.
fn shares(vcpus: &HashMap<u32, OfVcpu>) -> Vec<XenShare> {
    let mut domains: HashMap<u16, (u64, u64, Option<u64>)> = HashMap::new();
    for (&vcpu, of) in vcpus {
        let (burnt, ran, budget) = domains.entry(VcpuId::from_packed(vcpu).domain).or_default();
        *burnt = burnt.saturating_add(of.burnt);
        *ran = ran.saturating_add(of.ran_ns);
        // A domain's budget is shared out evenly among its vCPUs.
        if let Some(had) = of.budget_ns {
            *budget = Some(budget.unwrap_or(0).saturating_add(had));
        }
    }
    let known =
        domains.into_iter().filter(|(_, (burnt, ran, _))| *ran >= BURNT_LEAST_NS && *burnt > 0);
    let share = |(domain, (burnt, ran, budget)): (u16, (u64, u64, Option<u64>))| XenShare {
        domain,
        weight: ran as f64 / burnt as f64,
        cap_percent: budget.map(|ns| 100.0 * ns as f64 / CAP_PERIOD_NS),
    };
    let mut shares: Vec<XenShare> = known.map(share).collect();
    shares.sort_by_key(|share| share.domain);
    shares
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::clock::CpuHzSource;
    use crate::events::events;
    use crate::options::Options;

    /// `data/README.md` says how both were made.
    #[test]
    fn real_recordings_tell_how_they_were_made() {
        let settings = |file: &str| {
            let file = File::open(format!("data/{file}")).expect("it is in the tree");
            let host = events(file, &Options::default(), |_, _| Ok(())).expect("a recording");
            host.xen.expect("a Xen")
        };
        let credit2 = settings("credit2-4.20-ratelimit1000.bin");
        assert_eq!(credit2.scheduler, XenScheduler::Credit2, "{credit2:?}");
        assert_eq!(credit2.ratelimit.map(|limit| limit.ns), Some(1_000_000), "{credit2:?}");
        assert!(!credit2.others && credit2.timeslice_ns.is_none(), "{credit2:?}");
        let usual =
            |share: &XenShare| (share.weight - 1.0).abs() < 0.01 && share.cap_percent.is_none();
        assert!(credit2.shares.len() >= 2 && credit2.shares.iter().all(usual), "{credit2:?}");
        // dom0 is in a pool of its own, under credit2; guests competed under credit.
        let credit = settings("credit-4.20-boost.bin");
        assert_eq!((credit.scheduler, credit.others), (XenScheduler::Credit, true), "{credit:?}");
        assert_eq!(credit.timeslice_ns.map(|ns| ns / 1_000_000), Some(30), "{credit:?}");
    }

    /// Credit burns by the heaviest weight divided by one's own; the budget is 4 ms of 10 ms.
    #[test]
    fn what_burns_tells_weights_and_caps() {
        let mut settings = Settings::default();
        let mut put = |event: u32, words: [u32; 4]| {
            settings.record(&Timed {
                tsc: 0,
                offset: 0,
                event,
                words,
                pcpu: 0,
                kind: Kind::Record,
                late: false,
            });
        };
        put(event::SCHEDULE, [0; 4]);
        let none = BUDGET_NONE as u32;
        for n in 0..20_u32 {
            // d1 has four times the weight of d2, whose vCPU has a cap.
            put(event::CREDIT_BURN, [1 << 16, 10_000_000 - n * 100_000, none, 100_000]);
            put(event::CREDIT_BURN, [2 << 16, 10_000_000 - n * 400_000, 3_900_000, 100_000]);
        }
        let clock = CpuHz { hz: 1_000_000_000, source: CpuHzSource::Given };
        let shares = settings.finish(&clock).shares;
        let [heavy, light] = &shares[..] else { panic!("{shares:?}") };
        assert_eq!((heavy.domain, light.domain), (1, 2));
        assert!((heavy.weight / light.weight - 4.0).abs() < 0.01, "{shares:?}");
        assert_eq!((heavy.cap_percent, light.cap_percent), (None, Some(40.0)));
    }

    #[test]
    fn the_limit_is_the_round_number_between_bounds() {
        let limit = |protected: &[u64], free: &[u64]| {
            let ns = |us: &[u64]| us.iter().map(|us| us * 1000).collect();
            Bounds { protected: ns(protected), free: ns(free) }.ratelimit().map(|of| of.ns / 1000)
        };
        assert_eq!(limit(&[], &[]), None);
        // Nothing against the usual one.
        assert_eq!(limit(&[10, 700], &[1500]), Some(1000));
        assert_eq!(limit(&[400, 480, 490, 495], &[502, 503, 510, 900]), Some(500));
        assert_eq!(limit(&[100, 3900, 3990, 3995], &[4001, 4005]), Some(4000));
        assert_eq!(limit(&[], &[3, 5, 9, 20, 5000]), Some(0));
        // Absurd times of a damaged recording.
        assert!(limit(&[u64::MAX / 1000; 4], &[u64::MAX / 1000, 0]).is_some());
    }
}
