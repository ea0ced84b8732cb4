//! The records in which credit says what it decides.
//!
//! From `xen/common/sched/credit.c` (4.20.3), `csched_unit_wake()`, `__runq_tickle()` and `csched_unit_acct()`:
//!
//! * A vCPU wakes: its run state changes; `BOOST_START` if it gets the priority BOOST, which it does not if it still has it; `TICKLE`
//!   for each pCPU that is to reschedule, none if nobody idles and the runner's priority is as high. All of it stands
//!   in the records of the pCPU that does the waking.
//! * A tick finds a vCPU with BOOST running: `BOOST_END`. Nobody is told.
//!
//! Each 30 ms credit's accounting takes BOOST from vCPUs that ticks have found running, without a record. Until such a one wakes
//! again, it counts as boosted here.

use crate::blame::{Decision, Why};
use crate::error::Error;
use crate::merge::Timed;
use crate::record::{VcpuId, event};
use crate::schedule::{Observer, Schedule};

impl<O: Observer> Schedule<O> {
    pub(crate) fn credit_record(&mut self, timed: &Timed) -> Result<(), Error> {
        match timed.event {
            event::CSCHED_TICKLE => self.credit_tickled(timed),
            event::CSCHED_RATELIMIT => {
                let number = self.vcpus.find(VcpuId::from_packed(timed.words[0]).packed());
                self.kept(timed, number)
            }
            event::CSCHED_BOOST_START => self.boost(timed, true),
            _ => self.boost(timed, false),
        }
    }

    /// A vCPU gets BOOST, or a tick takes it away.
    fn boost(&mut self, timed: &Timed, starts: bool) -> Result<(), Error> {
        let id = VcpuId::from_words(timed.words[0], timed.words[1]);
        let Some(number) = self.vcpus.find(id.packed()) else { return Ok(()) };
        self.vcpus.get_mut(number).boosted = starts;
        let pcpus = self.pcpus.len();
        let on = self.pcpus.get_mut(timed.pcpu).filter(|on| on.current == Some(number));
        if let Some(on) = on.filter(|_| !starts) {
            on.log.change(timed.tsc, on.log.runner(), Why::BoostEnded, pcpus);
        }
        let text = if starts { "boosted" } else { "boost ended" };
        self.observer.mark(self.vcpus.get(number), number, timed.tsc, text)
    }

    /// A pCPU is to reschedule, for the vCPU that this one has just woken.
    fn credit_tickled(&mut self, timed: &Timed) -> Result<(), Error> {
        let target = (timed.words[0] & 0xffff) as u16;
        match self.pcpus.get(timed.pcpu).and_then(|on| on.woken) {
            Some(number) => self.decide(number, timed.tsc, Decision::Tickled(target)),
            None => Ok(()),
        }
    }
}
