//! Follows every vCPU through its run states and says what came of each of them.
//!
//! A wait begins when the run state becomes *runnable* and ends when it becomes *running*; both
//! are the time stamps of the run state records. (Xen's own "ns waited" in
//! `TRC_SCHED_SWITCH_INFNEXT` is of no use: in 4.20 it counts from when the vCPU last left a
//! pCPU, blocked time included.)
//!
//! *Woken or preempted?* By the run state alone, a vCPU that goes from *running* to *runnable*
//! was preempted. That is wrong for one that had blocked itself and was woken while its pCPU was
//! still busy switching it out: Xen then never calls it blocked. The record `TRC_SCHED_BLOCK`
//! before the switch tells the two apart. See [`crate::Races`].
//!
//! *Edges.* A vCPU is unknown until it is first seen. One that runs when its pCPU's records begin
//! has that time counted to its share, but no run length; likewise at the end. A wait without a
//! seen beginning or end is no wait.
//!
//! *Lost records.* While a pCPU loses records, nothing is known of it, nor of the vCPUs that have
//! been seen on it and do not run elsewhere: their waits are cut. A wait of any other vCPU that
//! overlaps a loss is *maybe lost*: it counts only if the vCPU is never seen on the losing pCPU in
//! the whole trace. After the loss, the trace says which vCPU runs there.
//!
//! This file knows no format: [`crate::xen`] and [`crate::linux`] tell it what happened.

use crate::blame::{self, BlameSlice, Log, Runner, Why};
use crate::cores::CpuPlace;
use crate::error::Error;
use crate::record::Runstate;
use crate::tables::ByPcpu;
use crate::vcpu::{Origin, State, Vcpu, Vcpus};

/// A stay on a pCPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) vcpu: usize,
    pub(crate) pcpu: u16,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Both ends were seen.
    pub(crate) whole: bool,
}

/// A wait with both its ends.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) vcpu: usize,
    pub(crate) origin: Origin,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) slices: Vec<BlameSlice>,
    pub(crate) passed_over: bool,
    /// pCPUs that lost records meanwhile.
    pub(crate) maybe_lost: Vec<u16>,
}

/// How a wait ended that did not end with the vCPU running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Records were lost.
    Lost,
    /// The records contradict each other, or came out of order.
    Inconsistent,
    /// The vCPU was paused, or its waiting ended in some way other than by running.
    Paused,
    /// The trace ended.
    End,
}

/// Receives what follows from the vCPUs' states, runs of idle vCPUs included.
pub(crate) trait Observer {
    /// The earliest time stamp of all.
    fn begin(&mut self, _tsc: u64) {}
    /// Where the CPUs are, if the trace says.
    fn places(&mut self, _places: &[CpuPlace]) {}
    /// A vCPU left a pCPU.
    fn run(&mut self, vcpu: &Vcpu, run: Run) -> Result<(), Error>;
    /// A vCPU, idle or not, began to run on a pCPU.
    fn dispatched(&mut self, _vcpu: &Vcpu, _number: usize, _pcpu: u16, _at: u64) {}
    /// A vCPU turned out to have run since the beginning.
    fn found(&mut self, _vcpu: &Vcpu, _number: usize) {}
    /// A vCPU began to wait.
    fn waits(&mut self, _vcpu: usize, _origin: Origin) {}
    /// A wait ended.
    fn wait(&mut self, vcpu: &Vcpu, wait: Wait) -> Result<(), Error>;
    /// A wait that began at `since` ended at `at` without the vCPU running.
    fn wait_ended(&mut self, vcpu: usize, since: u64, at: u64, cut: WaitEnd) -> Result<(), Error>;
    /// A vCPU was blocked or paused.
    fn rest(&mut self, vcpu: usize, span: (u64, u64), paused: bool) -> Result<(), Error>;
    /// Something worth a mark happened to a vCPU.
    fn mark(
        &mut self,
        _vcpu: &Vcpu,
        _number: usize,
        _at: u64,
        _text: &'static str,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// What is known of a pCPU.
#[derive(Debug)]
pub(crate) struct Pcpu {
    pub(crate) log: Log,
    /// The vCPU that runs, idle included.
    pub(crate) current: Option<usize>,
    /// It has been told to reschedule and has not done so yet.
    pub(crate) tickled: bool,
    /// The vCPU whose way into the run queue this pCPU's records are about.
    pub(crate) placing: Option<usize>,
    /// The vCPU that this pCPU has woken, if that is the latest change of a run state in its records.
    pub(crate) woken: Option<usize>,
    /// The vCPUs that the scheduler has looked at in this pass.
    pub(crate) checked: Vec<usize>,
}

/// The state of the host, as far as the records tell.
#[derive(Debug)]
pub(crate) struct Schedule<O> {
    pub(crate) vcpus: Vcpus,
    pub(crate) pcpus: ByPcpu<Pcpu>,
    pub(crate) observer: O,
    losing: Vec<u16>,
    pub(crate) inconsistent_records: u64,
}

impl<O: Observer> Schedule<O> {
    /// Nothing is known yet.
    pub(crate) fn new(observer: O) -> Self {
        let (vcpus, pcpus) = (Vcpus::default(), ByPcpu::default());
        Schedule { vcpus, pcpus, observer, losing: Vec::new(), inconsistent_records: 0 }
    }

    /// Adds this pCPU; what ran on it is on record since `first`.
    pub(crate) fn register_pcpu(&mut self, pcpu: u16, first: u64) {
        self.pcpus.get_or_insert_with(pcpu, || Pcpu {
            log: Log::new(first),
            current: None,
            tickled: false,
            placing: None,
            woken: None,
            checked: Vec::new(),
        });
    }

    /// The trace says that `number` runs on this pCPU. If it is another one that should by what came before, a
    /// record of the switch is missing, and it is not known when that was.
    pub(crate) fn expect(&mut self, pcpu: u16, number: usize) {
        let Some(on) = self.pcpus.get_mut(pcpu) else { return };
        let Some(current) = on.current.filter(|&current| current != number) else { return };
        on.current = None;
        on.log.runner_unknown();
        self.inconsistent_records += 1;
        self.vcpus.get_mut(current).state = State::Unknown;
    }

    /// On `pcpu` at `at`, vCPU `number` goes from one run state to another.
    pub(crate) fn change(
        &mut self,
        (at, pcpu): (u64, u16),
        number: usize,
        old: Runstate,
        new: Runstate,
    ) -> Result<(), Error> {
        let agrees = match self.vcpus.get(number).state {
            State::Unknown => true,
            State::Running { pcpu: on, .. } => old == Runstate::Running && on == pcpu,
            State::Waiting { .. } => old == Runstate::Runnable,
            State::Resting { paused, .. } => {
                old == if paused { Runstate::Offline } else { Runstate::Blocked }
            }
        };
        if !agrees {
            self.inconsistent_records += 1;
            self.lose(number, at, WaitEnd::Inconsistent)?;
        }
        if old == Runstate::Running {
            self.leaves(number, pcpu, at)?;
        }
        match self.vcpus.get(number).state {
            State::Waiting { since, .. } if new != Runstate::Running => {
                self.observer.wait_ended(number, since, at, WaitEnd::Paused)?;
            }
            State::Resting { since, paused } => self.observer.rest(number, (since, at), paused)?,
            _ => {}
        }
        match new {
            Runstate::Running => self.runs(number, pcpu, at)?,
            Runstate::Runnable => self.waits(number, old, at),
            Runstate::Blocked | Runstate::Offline => {
                let paused = new == Runstate::Offline;
                self.vcpus.get_mut(number).state = State::Resting { since: at, paused };
            }
        }
        let vcpu = self.vcpus.get_mut(number);
        (vcpu.blocking, vcpu.yielding, vcpu.seen) = (false, false, true);
        Ok(())
    }

    /// `number` goes on running on `pcpu`. If nothing has been heard of it nor of that pCPU's runner, it has run there since the beginning: a vCPU
    /// that computes alone is never switched.
    pub(crate) fn keeps(&mut self, number: usize, pcpu: u16) {
        let vcpu = self.vcpus.get_mut(number);
        let Some(on) = self.pcpus.get_mut(pcpu) else { return };
        if vcpu.seen || vcpu.state != State::Unknown || on.current.is_some() {
            return;
        }
        let Some(since) = on.log.reveal(runner(vcpu, number)) else { return };
        vcpu.note_pcpu(pcpu);
        vcpu.seen = true;
        vcpu.state = State::Running { pcpu, since, whole: false };
        on.current = Some(number);
        self.observer.found(self.vcpus.get(number), number);
    }

    /// `number` leaves `pcpu`; its state is still the old one and is overwritten by the caller.
    fn leaves(&mut self, number: usize, pcpu: u16, at: u64) -> Result<(), Error> {
        let pcpus = self.pcpus.len();
        let vcpu = self.vcpus.get_mut(number);
        let Some(on) = self.pcpus.get_mut(pcpu) else { return Ok(()) };
        let run = match vcpu.state {
            State::Running { since, whole, .. } => Some((since, whole)),
            // The first that is heard of the vCPU, and of the pCPU's runner: it has been there
            // since the beginning.
            _ if on.current.is_none() && !vcpu.seen => {
                on.log.reveal(runner(vcpu, number)).map(|since| {
                    vcpu.note_pcpu(pcpu);
                    (since, false)
                })
            }
            _ => None,
        };
        vcpu.state = State::Unknown;
        if on.current.is_none_or(|current| current == number) {
            on.current = None;
            on.log.change(at, Runner::Switch, Why::Picked(None), pcpus);
        }
        if let Some((start, whole)) = run {
            let run = Run { vcpu: number, pcpu, start, end: at, whole };
            self.observer.run(self.vcpus.get(number), run)?;
        }
        Ok(())
    }

    fn runs(&mut self, number: usize, pcpu: u16, at: u64) -> Result<(), Error> {
        let pcpus = self.pcpus.len();
        let current = self.pcpus.get(pcpu).and_then(|on| on.current);
        if let Some(other) = current.filter(|&other| other != number) {
            // Somebody else was thought to run here.
            self.inconsistent_records += 1;
            self.lose(other, at, WaitEnd::Inconsistent)?;
        }
        let Some(on) = self.pcpus.get_mut(pcpu) else { return Ok(()) };
        let vcpu = self.vcpus.get_mut(number);
        let mut ended = None;
        // The log's last stretch reaches up to now, whichever vCPU runs from now on.
        if let State::Waiting { since, origin } = vcpu.state {
            let mut slices = Vec::new();
            blame::attribute(&on.log, pcpu, &vcpu.waiter(), (since, at), &mut slices);
            let (passed_over, maybe_lost) =
                (vcpu.passed_over, std::mem::take(&mut vcpu.maybe_lost));
            let wait = Wait {
                vcpu: number,
                origin,
                start: since,
                end: at,
                slices,
                passed_over,
                maybe_lost,
            };
            ended = Some(wait);
        }
        vcpu.note_pcpu(pcpu);
        vcpu.state = State::Running { pcpu, since: at, whole: true };
        on.current = Some(number);
        let why = if vcpu.boosted { Why::Boosted } else { Why::Picked(vcpu.credit) };
        on.log.change(at, runner(vcpu, number), why, pcpus);
        if let Some(wait) = ended {
            self.observer.wait(self.vcpus.get(number), wait)?;
        }
        self.observer.dispatched(self.vcpus.get(number), number, pcpu, at);
        Ok(())
    }

    fn waits(&mut self, number: usize, old: Runstate, at: u64) {
        let vcpu = self.vcpus.get_mut(number);
        vcpu.maybe_lost.clear();
        (vcpu.decision, vcpu.passed_over) = (None, false);
        if vcpu.label.idle {
            // Idle does not wait, it fills in.
            vcpu.state = State::Unknown;
            return;
        }
        let origin = match old {
            Runstate::Blocked => Origin::Wake,
            Runstate::Running if vcpu.blocking => Origin::RacedWake,
            Runstate::Running if vcpu.yielding => Origin::Yielded,
            Runstate::Offline => Origin::Unpaused,
            Runstate::Running | Runstate::Runnable => Origin::Preempted,
        };
        vcpu.maybe_lost.extend(&self.losing);
        vcpu.state = State::Waiting { since: at, origin };
        self.observer.waits(number, origin);
    }

    /// Nothing more is known of the vCPU.
    pub(crate) fn lose(&mut self, number: usize, at: u64, cut: WaitEnd) -> Result<(), Error> {
        let pcpus = self.pcpus.len();
        let vcpu = self.vcpus.get_mut(number);
        let state = std::mem::replace(&mut vcpu.state, State::Unknown);
        (vcpu.blocking, vcpu.yielding) = (false, false);
        match state {
            State::Running { pcpu, since, .. } => {
                if let Some(on) = self.pcpus.get_mut(pcpu).filter(|on| on.current == Some(number)) {
                    on.current = None;
                    on.log.change(at, Runner::Unknown, Why::Picked(None), pcpus);
                }
                let run = Run { vcpu: number, pcpu, start: since, end: at, whole: false };
                self.observer.run(self.vcpus.get(number), run)
            }
            State::Waiting { since, .. } => self.observer.wait_ended(number, since, at, cut),
            State::Resting { .. } | State::Unknown => Ok(()),
        }
    }

    /// From here on, records of the pCPU are missing.
    pub(crate) fn loss_begins(&mut self, pcpu: u16, at: u64) -> Result<(), Error> {
        let pcpus = self.pcpus.len();
        if let Some(on) = self.pcpus.get_mut(pcpu) {
            on.tickled = false;
            (on.placing, on.woken) = (None, None);
            on.checked.clear();
        }
        self.losing.retain(|&losing| losing != pcpu);
        self.losing.push(pcpu);
        for number in 0..self.vcpus.len() {
            let vcpu = self.vcpus.get_mut(number);
            // The end of its boost may be among them.
            vcpu.boosted = false;
            match vcpu.state {
                State::Running { pcpu: on, .. } if on != pcpu => {}
                State::Unknown => {}
                State::Waiting { .. } if !vcpu.seen_on.contains(&pcpu) => {
                    // A vCPU's `maybe_lost` is as long as the list of losing pCPUs at most.
                    if !vcpu.maybe_lost.contains(&pcpu) {
                        vcpu.maybe_lost.push(pcpu);
                    }
                }
                State::Resting { .. } if !vcpu.seen_on.contains(&pcpu) => {}
                _ => self.lose(number, at, WaitEnd::Lost)?,
            }
        }
        if let Some(on) = self.pcpus.get_mut(pcpu) {
            on.current = None;
            on.log.change(at, Runner::Unknown, Why::Picked(None), pcpus);
        }
        Ok(())
    }

    /// And until here, where vCPU `number` runs on it.
    pub(crate) fn loss_ends(&mut self, pcpu: u16, at: u64, number: usize) -> Result<(), Error> {
        self.losing.retain(|&losing| losing != pcpu);
        self.lose(number, at, WaitEnd::Lost)?;
        let pcpus = self.pcpus.len();
        let vcpu = self.vcpus.get_mut(number);
        vcpu.note_pcpu(pcpu);
        vcpu.seen = true;
        vcpu.state = State::Running { pcpu, since: at, whole: false };
        if let Some(on) = self.pcpus.get_mut(pcpu) {
            on.current = Some(number);
            on.log.change(at, runner(vcpu, number), Why::Picked(None), pcpus);
        }
        Ok(())
    }

    /// The trace ends at `at`: what is under way is told of as far as it went.
    pub(crate) fn finish(&mut self, at: u64) -> Result<(), Error> {
        for number in 0..self.vcpus.len() {
            match self.vcpus.get(number).state {
                State::Resting { since, paused } => {
                    self.observer.rest(number, (since, at), paused)?;
                }
                _ => self.lose(number, at, WaitEnd::End)?,
            }
        }
        Ok(())
    }
}

fn runner(vcpu: &Vcpu, number: usize) -> Runner {
    if vcpu.label.idle { Runner::Idle } else { Runner::Vcpu(number) }
}
