//! The records in which credit2 says what it decides.
//!
//! The order in which they appear, from `xen/common/sched/credit2.c` (4.20.3):
//!
//! * A vCPU comes into the run queue: `RUNQ_POS`, `TICKLE_NEW`; for every busy pCPU that it is
//!   compared with `CREDIT_BURN` and `TICKLE_CHECK`; `TICKLE` if a pCPU is to reschedule.
//!   All of it stands in the records of the pCPU that does the waking.
//! * The scheduler runs: `SCHEDULE`, `CREDIT_BURN` of the runner, then either `RATELIMIT` (the
//!   runner is kept) or a `RUNQ_CAND_CHECK` for every queued vCPU looked at and
//!   `RUNQ_CANDIDATE` for the one picked.

use crate::blame::{Decision, Runner, Why};
use crate::error::Error;
use crate::merge::Timed;
use crate::record::{VcpuId, event};
use crate::schedule::{Observer, Schedule};
use crate::vcpu::State;

/// The budget word of a vCPU without a cap.
const BUDGET_NONE: i32 = i32::MIN;

/// A pass looks at so many vCPUs that are remembered.
const CHECKED_MAX: usize = 16;

impl<O: Observer> Schedule<O> {
    pub(crate) fn credit2_record(&mut self, timed: &Timed) -> Result<(), Error> {
        let vcpu = self.vcpus.find(VcpuId::from_packed(timed.words[0]).packed());
        let word = |at: usize| timed.words[at] as i32;
        match timed.event {
            event::CREDIT_BURN => {
                if let Some(number) = vcpu {
                    let vcpu = self.vcpus.get_mut(number);
                    vcpu.credit = Some(word(1));
                    vcpu.capped = word(2) != BUDGET_NONE;
                }
                // Belongs to both passes; must not end the waker's.
                return Ok(());
            }
            event::TICKLE_NEW => return self.placed(timed, vcpu),
            event::TICKLE_CHECK => return self.compared(timed, vcpu),
            event::TICKLE => return self.tickled(timed),
            event::CREDIT_RESET => {
                if let Some(number) = vcpu {
                    self.vcpus.get_mut(number).credit = Some(word(2));
                }
            }
            event::SCHEDULE => {
                if let Some(on) = self.pcpus.get_mut(timed.pcpu) {
                    on.tickled = false;
                    on.checked.clear();
                }
            }
            event::RUNQ_CAND_CHECK => {
                if let (Some(on), Some(number)) = (self.pcpus.get_mut(timed.pcpu), vcpu)
                    && on.checked.len() < CHECKED_MAX
                {
                    on.checked.push(number);
                }
            }
            event::RATELIMIT => self.kept(timed, vcpu)?,
            event::RUNQ_CANDIDATE => self.picked(timed, vcpu),
            _ => {}
        }
        if let Some(on) = self.pcpus.get_mut(timed.pcpu) {
            on.placing = None;
        }
        Ok(())
    }

    /// A vCPU has come into the run queue. What follows may say more; until then, what it means
    /// that nothing follows.
    fn placed(&mut self, timed: &Timed, number: Option<usize>) -> Result<(), Error> {
        if let Some(on) = self.pcpus.get_mut(timed.pcpu) {
            on.placing = number;
        }
        let Some(number) = number else { return Ok(()) };
        let credit = timed.words[2] as i32;
        let vcpu = self.vcpus.get_mut(number);
        vcpu.credit = Some(credit);
        if !matches!(vcpu.state, State::Waiting { .. }) {
            return Ok(());
        }
        let Ok(target) = u16::try_from(timed.words[1]) else { return Ok(()) };
        let Some(on) = self.pcpus.get(target) else { return Ok(()) };
        let decision = match on.log.runner() {
            Runner::Vcpu(runner) if !on.tickled => {
                let runner = self.vcpus.get(runner).credit;
                if runner.is_some_and(|runner| runner >= credit) {
                    Decision::LowerCredit
                } else {
                    Decision::NoTickle(target)
                }
            }
            Runner::Vcpu(_) => Decision::Tickled(target),
            Runner::Idle | Runner::Switch | Runner::Unknown => return Ok(()),
        };
        self.decide(number, timed.tsc, decision)
    }

    /// The vCPU being placed was compared with a running one.
    fn compared(&mut self, timed: &Timed, runner: Option<usize>) -> Result<(), Error> {
        if let Some(runner) = runner {
            self.vcpus.get_mut(runner).credit = Some(timed.words[1] as i32);
        }
        let placing = self.pcpus.get(timed.pcpu).and_then(|on| on.placing);
        match placing {
            Some(number) if timed.words[2] as i32 <= 0 => {
                self.decide(number, timed.tsc, Decision::LowerCredit)
            }
            _ => Ok(()),
        }
    }

    fn tickled(&mut self, timed: &Timed) -> Result<(), Error> {
        let target = (timed.words[0] & 0xffff) as u16;
        if let Some(on) = self.pcpus.get_mut(target) {
            on.tickled = true;
        }
        let placing = self.pcpus.get_mut(timed.pcpu).and_then(|on| on.placing.take());
        match placing {
            Some(number) => self.decide(number, timed.tsc, Decision::Tickled(target)),
            None => Ok(()),
        }
    }

    pub(crate) fn decide(
        &mut self,
        number: usize,
        at: u64,
        decision: Decision,
    ) -> Result<(), Error> {
        let vcpu = self.vcpus.get_mut(number);
        if !matches!(vcpu.state, State::Waiting { .. }) {
            return Ok(());
        }
        vcpu.decision = Some((decision, at));
        let text = match decision {
            Decision::NoTickle(_) => "pCPU not tickled: rate limit",
            Decision::LowerCredit => "pCPU not tickled: lower credit",
            Decision::Tickled(_) => "pCPU tickled",
        };
        self.observer.mark(self.vcpus.get(number), number, at, text)
    }

    /// The runner was kept because of the rate limit.
    pub(crate) fn kept(&mut self, timed: &Timed, number: Option<usize>) -> Result<(), Error> {
        let pcpus = self.pcpus.len();
        let Some(on) = self.pcpus.get_mut(timed.pcpu) else { return Ok(()) };
        let Some(number) = number.filter(|&number| on.current == Some(number)) else {
            return Ok(());
        };
        on.log.change(timed.tsc, on.log.runner(), Why::RateLimit, pcpus);
        self.observer.mark(self.vcpus.get(number), number, timed.tsc, "kept: rate limit")
    }

    /// The scheduler has picked; the switch follows, unless it is the runner again.
    fn picked(&mut self, timed: &Timed, number: Option<usize>) {
        let pcpus = self.pcpus.len();
        let Some(on) = self.pcpus.get_mut(timed.pcpu) else { return };
        let checked = std::mem::take(&mut on.checked);
        let id = VcpuId::from_packed(timed.words[0]);
        if id.is_idle() {
            // Idle has the least credit of all. Whoever was looked at and lost against it may
            // not run here, unless another pCPU is on its way to fetch it or its budget is out.
            for waiter in checked {
                let vcpu = self.vcpus.get_mut(waiter);
                let fetched = matches!(vcpu.decision, Some((Decision::Tickled(_), _)));
                if matches!(vcpu.state, State::Waiting { .. }) && !fetched && !vcpu.capped {
                    vcpu.passed_over = true;
                }
            }
            return;
        }
        let credit = timed.words[2] as i32;
        if let Some(number) = number {
            self.vcpus.get_mut(number).credit = Some(credit);
            if on.current == Some(number) {
                on.log.change(timed.tsc, on.log.runner(), Why::Picked(Some(credit)), pcpus);
            }
        }
    }
}
