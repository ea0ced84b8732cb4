//! Per vCPU: how long it waited, how long it ran, and which vCPUs ran instead.

use std::io::Read;

use lowtail_out::seconds;
use serde::Serialize;

use crate::blame::{Reason, Runner};
use crate::clock::{CpuHz, CpuHzSource};
use crate::cores::{Cores, CpuPlace};
use crate::error::Error;
use crate::linux::{Queues, ThreadInfo};
use crate::options::{Options, Races};
use crate::problems::RecordProblems;
use crate::queues::UplinkQueues;
use crate::schedule::{Observer, Run, Schedule, Wait, WaitEnd};
use crate::source::Source;
use crate::stats::{Budget, Distribution, Samples};
use crate::tables::ByPcpu;
use crate::vcpu::{Origin, Vcpu};

/// So many waits may be in doubt at a time; further ones are excluded at once.
const DOUBTS_MAX: usize = 65_536;
/// A vCPU's waits are blamed on at most so many pairs of vCPU and reason.
const BLAME_MAX: usize = 1024;

/// What [`crate::latency()`] finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// From the first to the last time stamp, in microseconds.
    #[serde(rename = "span_seconds", serialize_with = "seconds::us")]
    pub span_us: f64,
    /// Ticks per second of the time stamp counter.
    pub cpu_hz: u64,
    /// Where `cpu_hz` comes from.
    pub cpu_hz_source: CpuHzSource,
    /// The vCPUs, idle ones left out, by domain and number.
    pub vcpus: Vec<VcpuLatency>,
    /// The pCPUs.
    pub pcpus: Vec<PcpuUse>,
    /// Who filled the uplinks, if the recording says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink_queues: Option<UplinkQueues>,
    /// What did not go smoothly in reading.
    pub records: RecordProblems,
}

/// One vCPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VcpuLatency {
    /// Its name, as `d1v0`; for a Linux host's thread as `web-1 vcpu0` or `make[1234]`.
    pub vcpu: String,
    /// If it is a thread of a Linux host: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadInfo>,
    /// Time running, as a share of the span. Time in which it is unknown counts as not running.
    pub cpu_ratio: f64,
    /// How often it was put on a pCPU, per second of the span.
    pub switches_per_second: f64,
    /// How often it was woken from having blocked, whatever came of it.
    pub wakeups: u64,
    /// Of these, how often it was still being switched out (see [`Races`]).
    pub raced_wakeups: u64,
    /// From runnable to running, after having blocked.
    pub wakeup_latency: Distribution,
    /// From runnable to running, after having been taken off a pCPU.
    pub preemption_latency: Distribution,
    /// From runnable to running, after having yielded.
    pub yield_latency: Distribution,
    /// Stays on a pCPU, both ends of which are in the trace.
    pub run_length: Distribution,
    /// The vCPUs that ran while it waited; shares of all waiting time counted above, the largest first.
    pub blame: Vec<Blame>,
    /// With whom it shared its core (SMT) while it ran, the longest first: each runs slower meanwhile, and nobody waits. Of recordings that
    /// say which CPUs are of one core.
    pub smt_siblings: Vec<SmtSibling>,
    /// Waits during which an idle pCPU looked at it and stayed idle: it is bound to other pCPUs.
    pub passed_over_by_idle: u64,
    /// What a pause had part in, in none of the figures above.
    pub paused: Paused,
    /// Waits that are in none of the figures above.
    pub excluded: Excluded,
}

/// A vCPU that ran while another one waited, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blame {
    /// The vCPU that ran; `idle`; `xen` for switching; or `unknown`.
    pub vcpu: String,
    /// Of the waiting time.
    #[serde(rename = "ratio")]
    pub share: f64,
    /// Why that vCPU ran and not the waiting one.
    pub reason: Reason,
    /// The waiting time itself, in microseconds.
    #[serde(rename = "ready_seconds", serialize_with = "seconds::us")]
    pub waited_us: f64,
}

/// A vCPU that ran on the other thread of the core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmtSibling {
    /// Its name.
    pub vcpu: String,
    /// For how long both ran, as a share of the run time of the one whose core it is.
    #[serde(rename = "ratio")]
    pub share: f64,
    /// The time itself, in microseconds.
    #[serde(rename = "run_time_seconds", serialize_with = "seconds::us")]
    pub ran_us: f64,
}

/// Pauses of a vCPU (run state *offline*: its domain is paused, or it is not up).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paused {
    /// How often it was paused.
    pub pauses: u64,
    /// For how long, in microseconds.
    #[serde(rename = "paused_seconds", serialize_with = "seconds::us")]
    pub paused_us: f64,
    /// Waits that a pause ended.
    pub waits_ended: u64,
    /// From the end of a pause to running.
    pub unpause_latency: Distribution,
}

/// Why waits are left out, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Excluded {
    /// They touch lost records.
    pub lost: u64,
    /// The records contradict each other or are out of order.
    pub inconsistent: u64,
    /// The trace ended before they did.
    pub at_end: u64,
}

/// One pCPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PcpuUse {
    /// Its number.
    pub pcpu: u16,
    /// Time in which a vCPU ran, as a share of the span.
    pub busy_ratio: f64,
    /// Time in which the idle vCPU ran, as a share of the span.
    pub idle_ratio: f64,
    /// How often a vCPU, idle included, was put on it, per second.
    pub switches_per_second: f64,
}

#[derive(Debug, Default)]
struct VcpuSums {
    wake: Samples,
    raced: Samples,
    preempted: Samples,
    yielded: Samples,
    unpaused: Samples,
    run_length: Samples,
    run_ticks: u64,
    dispatches: u64,
    wakeups: u64,
    raced_wakeups: u64,
    blame: Vec<(Runner, Reason, u64)>,
    passed_over: u64,
    pauses: u64,
    paused_ticks: u64,
    waits_ended: u64,
    excluded: Excluded,
}

#[derive(Debug, Default)]
struct PcpuSums {
    busy_ticks: u64,
    idle_ticks: u64,
    switches: u64,
}

#[derive(Debug, Default)]
struct Sums {
    vcpus: Vec<VcpuSums>,
    pcpus: ByPcpu<PcpuSums>,
    budget: Budget,
    doubts: Vec<Wait>,
    cores: Cores,
}

impl Sums {
    fn vcpu(&mut self, number: usize) -> &mut VcpuSums {
        if self.vcpus.len() <= number {
            self.vcpus.resize_with(number + 1, VcpuSums::default);
        }
        &mut self.vcpus[number]
    }

    fn accept(&mut self, wait: &Wait) {
        self.vcpu(wait.vcpu);
        let sums = &mut self.vcpus[wait.vcpu];
        let samples = match wait.origin {
            Origin::Wake => &mut sums.wake,
            Origin::RacedWake => &mut sums.raced,
            Origin::Preempted => &mut sums.preempted,
            Origin::Yielded => &mut sums.yielded,
            Origin::Unpaused => &mut sums.unpaused,
        };
        samples.add(wait.end - wait.start, &mut self.budget);
        if wait.origin == Origin::Unpaused {
            return;
        }
        sums.passed_over += u64::from(wait.passed_over);
        for slice in &wait.slices {
            let same = |entry: &&mut (Runner, Reason, u64)| {
                entry.0 == slice.runner && entry.1 == slice.reason
            };
            if let Some(entry) = sums.blame.iter_mut().find(same) {
                entry.2 += slice.ticks;
            } else if sums.blame.len() < BLAME_MAX {
                sums.blame.push((slice.runner, slice.reason, slice.ticks));
            } else {
                let last = &mut sums.blame[BLAME_MAX - 1];
                *last = (Runner::Unknown, Reason::Unknown, last.2 + slice.ticks);
            }
        }
    }
}

impl Observer for Sums {
    fn run(&mut self, vcpu: &Vcpu, run: Run) -> Result<(), Error> {
        let ticks = run.end.saturating_sub(run.start);
        let on = self.pcpus.get_or_insert_with(run.pcpu, PcpuSums::default);
        on.switches += u64::from(run.whole);
        if vcpu.label.idle {
            on.idle_ticks += ticks;
            return Ok(());
        }
        on.busy_ticks += ticks;
        self.cores.ends(run.pcpu, run.vcpu, run.start, run.end);
        self.vcpu(run.vcpu);
        let sums = &mut self.vcpus[run.vcpu];
        sums.run_ticks += ticks;
        if run.whole {
            sums.run_length.add(ticks, &mut self.budget);
        }
        Ok(())
    }

    fn places(&mut self, places: &[CpuPlace]) {
        self.cores = Cores::new(places);
    }

    fn dispatched(&mut self, vcpu: &Vcpu, number: usize, pcpu: u16, at: u64) {
        self.vcpu(number).dispatches += 1;
        self.cores.begins(pcpu, (!vcpu.label.idle).then_some(number), at);
    }

    fn waits(&mut self, vcpu: usize, origin: Origin) {
        let sums = self.vcpu(vcpu);
        sums.wakeups += u64::from(matches!(origin, Origin::Wake | Origin::RacedWake));
        sums.raced_wakeups += u64::from(origin == Origin::RacedWake);
    }

    fn wait(&mut self, vcpu: &Vcpu, wait: Wait) -> Result<(), Error> {
        if wait.maybe_lost.is_empty() {
            self.accept(&wait);
        } else if touches(vcpu, &wait) || self.doubts.len() >= DOUBTS_MAX {
            self.vcpu(wait.vcpu).excluded.lost += 1;
        } else {
            self.doubts.push(wait);
        }
        Ok(())
    }

    fn wait_ended(
        &mut self,
        vcpu: usize,
        _since: u64,
        _at: u64,
        cut: WaitEnd,
    ) -> Result<(), Error> {
        let sums = self.vcpu(vcpu);
        match cut {
            WaitEnd::Lost => sums.excluded.lost += 1,
            WaitEnd::Inconsistent => sums.excluded.inconsistent += 1,
            WaitEnd::End => sums.excluded.at_end += 1,
            WaitEnd::Paused => sums.waits_ended += 1,
        }
        Ok(())
    }

    fn rest(&mut self, vcpu: usize, span: (u64, u64), paused: bool) -> Result<(), Error> {
        if paused {
            let sums = self.vcpu(vcpu);
            sums.pauses += 1;
            sums.paused_ticks += span.1.saturating_sub(span.0);
        }
        Ok(())
    }
}

/// Could the vCPU have been on one of the pCPUs that lost records during the wait?
fn touches(vcpu: &Vcpu, wait: &Wait) -> bool {
    wait.maybe_lost.iter().any(|pcpu| vcpu.seen_on.contains(pcpu))
}

/// See [`crate::latency()`].
pub(crate) fn latency<R: Read>(input: R, options: &Options) -> Result<Latency, Error> {
    let mut source = Source::open(input, options)?;
    let mut schedule = Schedule::new(Sums::default());
    source.follow(&mut schedule)?;
    for wait in std::mem::take(&mut schedule.observer.doubts) {
        if touches(schedule.vcpus.get(wait.vcpu), &wait) {
            schedule.observer.vcpu(wait.vcpu).excluded.lost += 1;
        } else {
            schedule.observer.accept(&wait);
        }
    }
    let hz = source.clock(options.cpu_hz);
    let span = source.span().map_or(0, |(first, last)| last - first);
    let mut numbers: Vec<usize> = (0..schedule.vcpus.len())
        .filter(|&number| !schedule.vcpus.get(number).label.idle)
        .collect();
    numbers.sort_by_key(|&number| schedule.vcpus.get(number).label.rank);
    let vcpus =
        numbers.into_iter().map(|number| one(&mut schedule, number, hz, span, options)).collect();
    let sums = &schedule.observer;
    let none = PcpuSums::default();
    let pcpus = schedule.pcpus.sorted().into_iter().map(|(pcpu, _)| {
        let on = sums.pcpus.get(pcpu).unwrap_or(&none);
        PcpuUse {
            pcpu,
            busy_ratio: CpuHz::share(on.busy_ticks, span),
            idle_ratio: CpuHz::share(on.idle_ticks, span),
            switches_per_second: hz.per_second(on.switches, span),
        }
    });
    Ok(Latency {
        span_us: hz.us(span),
        cpu_hz: hz.hz,
        cpu_hz_source: hz.source,
        vcpus,
        pcpus: pcpus.collect(),
        uplink_queues: source.queues().and_then(Queues::all),
        records: source.problems(&schedule),
    })
}

fn one(
    schedule: &mut Schedule<Sums>,
    number: usize,
    hz: CpuHz,
    span: u64,
    options: &Options,
) -> VcpuLatency {
    schedule.observer.vcpu(number);
    let sums = &schedule.observer.vcpus[number];
    let (wake, preempted): (&[&Samples], &[&Samples]) = match options.races {
        Races::Wakes => (&[&sums.wake, &sums.raced], &[&sums.preempted]),
        Races::Preemptions => (&[&sums.wake], &[&sums.preempted, &sums.raced]),
    };
    let all: u64 = sums.blame.iter().map(|&(_, _, ticks)| ticks).sum();
    let mut blame = sums.blame.clone();
    blame.sort_by_key(|&(runner, reason, ticks)| (std::cmp::Reverse(ticks), runner, reason));
    let name = |runner| match runner {
        Runner::Vcpu(number) => schedule.vcpus.get(number).label.name.clone(),
        Runner::Idle => "idle".to_owned(),
        Runner::Switch => "xen".to_owned(),
        Runner::Unknown => "unknown".to_owned(),
    };
    let blame = blame.into_iter().map(|(runner, reason, ticks)| Blame {
        vcpu: name(runner),
        share: CpuHz::share(ticks, all),
        reason,
        waited_us: hz.us(ticks),
    });
    let siblings = schedule.observer.cores.beside(number).into_iter().take(BLAME_MAX);
    let siblings = siblings.map(|(other, ticks)| SmtSibling {
        vcpu: schedule.vcpus.get(other).label.name.clone(),
        share: CpuHz::share(ticks, sums.run_ticks),
        ran_us: hz.us(ticks),
    });
    VcpuLatency {
        vcpu: schedule.vcpus.get(number).label.name.clone(),
        thread: schedule.vcpus.get(number).label.thread.as_deref().cloned(),
        cpu_ratio: CpuHz::share(sums.run_ticks, span),
        switches_per_second: hz.per_second(sums.dispatches, span),
        wakeups: sums.wakeups,
        raced_wakeups: sums.raced_wakeups,
        wakeup_latency: Samples::distribution(wake, hz),
        preemption_latency: Samples::distribution(preempted, hz),
        yield_latency: Samples::distribution(&[&sums.yielded], hz),
        run_length: Samples::distribution(&[&sums.run_length], hz),
        blame: blame.collect(),
        smt_siblings: siblings.collect(),
        passed_over_by_idle: sums.passed_over,
        paused: Paused {
            pauses: sums.pauses,
            paused_us: hz.us(sums.paused_ticks),
            waits_ended: sums.waits_ended,
            unpause_latency: Samples::distribution(&[&sums.unpaused], hz),
        },
        excluded: sums.excluded,
    }
}
