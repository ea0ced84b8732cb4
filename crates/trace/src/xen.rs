//! Xen's records, told to the schedule.

use std::io::Read;

use crate::error::Error;
use crate::merge::{Kind, Merger, Timed};
use crate::record::{Runstate, VcpuId, event};
use crate::schedule::{Observer, Schedule, WaitEnd};
use crate::vcpu::{Label, VCPUS_MAX};

/// Sends a whole trace through a schedule.
pub(crate) fn follow<R: Read, O: Observer>(
    merger: &mut Merger<R>,
    schedule: &mut Schedule<O>,
) -> Result<(), Error> {
    let mut begun = false;
    while let Some(timed) = merger.next_timed()? {
        if let Some((first, _)) = merger.span().filter(|_| !begun) {
            schedule.observer.begin(first);
            begun = true;
        }
        schedule.register_pcpu(timed.pcpu, merger.first_tsc(timed.pcpu).unwrap_or(timed.tsc));
        match timed.kind {
            Kind::Record => schedule.record(&timed)?,
            Kind::LossBegin => schedule.loss_begins(timed.pcpu, timed.tsc)?,
            Kind::LossEnd => {
                let id = VcpuId::from_packed_lost(timed.words[1]);
                let number = schedule.vcpu(id, timed.offset)?;
                schedule.loss_ends(timed.pcpu, timed.tsc, number)?;
            }
        }
    }
    match merger.span() {
        Some((_, end)) => schedule.finish(end),
        None => Ok(()),
    }
}

impl<O: Observer> Schedule<O> {
    fn vcpu(&mut self, id: VcpuId, offset: u64) -> Result<usize, Error> {
        if let Some(number) = self.vcpus.find(id.packed()) {
            return Ok(number);
        }
        let rank = (id.domain.into(), 0, id.vcpu.into());
        let label = Label { name: id.to_string(), idle: id.is_idle(), rank, thread: None };
        let added = self.vcpus.add(id.packed(), label, VCPUS_MAX);
        added.map_err(|_| Error::VcpuLimit { offset, max: VCPUS_MAX })
    }

    fn record(&mut self, timed: &Timed) -> Result<(), Error> {
        let words = &timed.words;
        if let Some((old, new)) = Runstate::change(timed.event) {
            let number = self.vcpu(VcpuId::from_packed(words[0]), timed.offset)?;
            return if timed.late {
                self.lose(number, timed.tsc, WaitEnd::Inconsistent)
            } else {
                self.change((timed.tsc, timed.pcpu), number, old, new)?;
                if let Some(on) = self.pcpus.get_mut(timed.pcpu) {
                    let woken = matches!(old, Runstate::Blocked | Runstate::Offline);
                    on.woken = (woken && new == Runstate::Runnable).then_some(number);
                }
                Ok(())
            };
        }
        if timed.late {
            return Ok(());
        }
        match timed.event {
            event::BLOCK => {
                let id = VcpuId::from_words(words[0], words[1]);
                if let Some(number) = self.vcpus.find(id.packed()) {
                    self.vcpus.get_mut(number).blocking = true;
                }
            }
            event::YIELD => {
                let id = VcpuId::from_words(words[0], words[1]);
                if let Some(number) = self.vcpus.find(id.packed()) {
                    self.vcpus.get_mut(number).yielding = true;
                }
            }
            event::SWITCH_INFCONT => {
                self.continues(timed, VcpuId::from_words(words[0], words[1]))?;
            }
            event::CONTINUE_RUNNING => self.continues(timed, VcpuId::from_packed(words[0]))?,
            // What these tell is for xen_settings.rs.
            event::CSCHED_SCHEDULE | event::SWITCH_INFNEXT => {}
            event::CSCHED_TICKLE
            | event::CSCHED_BOOST_START
            | event::CSCHED_BOOST_END
            | event::CSCHED_RATELIMIT => return self.credit_record(timed),
            _ => return self.credit2_record(timed),
        }
        Ok(())
    }

    /// The vCPU goes on running: whatever it did before did not end its run.
    fn continues(&mut self, timed: &Timed, id: VcpuId) -> Result<(), Error> {
        let number = self.vcpu(id, timed.offset)?;
        let vcpu = self.vcpus.get_mut(number);
        (vcpu.blocking, vcpu.yielding) = (false, false);
        self.keeps(number, timed.pcpu);
        Ok(())
    }
}
