//! A Xen host's records as a Linux host's events: each domain is a VM, each vCPU a thread of it.
//!
//! Two run states change at each switch, that of the vCPU that leaves the pCPU and that of the one that gets it: here they are one event, at
//! the time of the second.
//!
//! Who has woken a vCPU is not in the trace, but on which pCPU that was. Where it ran last, its own timers and the hypervisor's work for it
//! are: a wake-up from there has no waker. One from another pCPU is an event that the vCPU sends that runs there.
//!
//! A vCPU that is woken while it is switched out blocks when it says so and is woken when the wake-up is on record, as it would be if the
//! switch took no time: its run states tell of the end of the switch only.
//!
//! How fast the counter ran is known only when all is read, so that all events are kept up to then.

use std::collections::HashMap;
use std::io::Read;

use crate::error::Error;
use crate::linux::event::{Context, Event, IDLE, Left, UNKNOWN, What};
use crate::linux::{Role, Threads};
use crate::merge::{Kind, Merger, Timed};
use crate::options::Options;
use crate::record::{Runstate, VcpuId, event};
use crate::recorded_host::{Names, RecordedHost};
use crate::vcpu::VCPUS_MAX;
use crate::xen_settings::Settings;

/// So many events are kept at most: 48 bytes each.
const EVENTS_MAX: usize = 1 << 25;

/// A vCPU's number as a thread.
fn tid(id: VcpuId) -> u32 {
    // That of the idle threads is 0.
    if id.is_idle() { IDLE } else { id.packed() + 1 }
}

/// What is known of vCPUs while records go by.
#[derive(Default)]
struct Reading {
    events: Vec<Event>,
    /// Who has left each pCPU and why, until somebody else runs there.
    left: HashMap<u16, (u32, Left)>,
    /// Who runs on each pCPU, and where each vCPU runs or ran last.
    runs: HashMap<u16, u32>,
    ran_on: HashMap<u32, u16>,
    /// When each vCPU was woken last, and who has sent the event that did so.
    woken: HashMap<u32, (u64, u32)>,
    /// vCPUs that have blocked themselves since they ran last, and when.
    blocking: HashMap<u32, u64>,
    ids: Vec<VcpuId>,
    threads: Threads,
    /// Number of each domain's VM.
    domains: HashMap<u16, usize>,
    settings: Settings,
}

/// See [`crate::events::events`].
pub(crate) fn events<R: Read>(
    input: R,
    options: &Options,
    mut each: impl FnMut(&Event, Names<'_>) -> Result<(), Error>,
) -> Result<RecordedHost, Error> {
    let mut merger = Merger::new(input);
    let mut reading = Reading::default();
    while let Some(timed) = merger.next_timed()? {
        reading.record(&timed)?;
    }
    let (first, last) = merger.span().unwrap_or_default();
    let hz = merger.meter.resolve(options.cpu_hz);
    let Reading { mut events, threads, settings, .. } = reading;
    // What was known late is among others that came before.
    events.sort_by_key(|event| event.at_ns);
    let mut host = RecordedHost::default();
    for mut event in events {
        event.at_ns = hz.ns(event.at_ns.saturating_sub(first));
        host.cpus = host.cpus.max(event.cpu.saturating_add(1));
        each(&event, Names::new(&threads))?;
    }
    host.span_ns = (0, hz.ns(last - first));
    host.lost = merger.problems.lost_records;
    host.vms = threads.vms().into_iter().map(|(name, _)| name).collect();
    host.xen = Some(settings.finish(&hz));
    Ok(host.with_threads(threads))
}

impl Reading {
    fn record(&mut self, timed: &Timed) -> Result<(), Error> {
        self.settings.record(timed);
        let words = &timed.words;
        match timed.kind {
            Kind::Record if timed.late => return Ok(()),
            Kind::Record => {}
            Kind::LossBegin => {
                self.left.remove(&timed.pcpu);
                self.runs.remove(&timed.pcpu);
                return self.push(timed, What::LossBegin);
            }
            Kind::LossEnd => {
                let runs = self.vcpu(VcpuId::from_packed_lost(words[1]), timed.offset)?;
                return self.push(timed, What::LossEnd { runs });
            }
        }
        if let Some((old, new)) = Runstate::change(timed.event) {
            let thread = self.vcpu(VcpuId::from_packed(words[0]), timed.offset)?;
            return self.change(timed, thread, old, new);
        }
        match timed.event {
            event::WAKE => {
                let woken = tid(VcpuId::from_words(words[0], words[1]));
                let elsewhere = self.ran_on.get(&woken).is_some_and(|&on| on != timed.pcpu);
                let waker = self.runs.get(&timed.pcpu).copied().filter(|_| elsewhere);
                let waker = waker.filter(|&waker| waker != IDLE && waker != woken);
                self.woken.insert(woken, (timed.tsc, waker.unwrap_or(UNKNOWN)));
            }
            event::BLOCK => {
                self.blocking.insert(tid(VcpuId::from_words(words[0], words[1])), timed.tsc);
            }
            event::SWITCH_INFCONT => {
                self.blocking.remove(&tid(VcpuId::from_words(words[0], words[1])));
            }
            _ => {}
        }
        Ok(())
    }

    /// A vCPU goes from one run state to another.
    fn change(
        &mut self,
        timed: &Timed,
        thread: u32,
        old: Runstate,
        new: Runstate,
    ) -> Result<(), Error> {
        if old == Runstate::Running {
            let blocked = self.blocking.remove(&thread);
            let sleeps = new != Runstate::Runnable || blocked.is_some();
            let left = if sleeps { Left::Blocked } else { Left::Runnable };
            self.left.insert(timed.pcpu, (thread, left));
            self.runs.remove(&timed.pcpu);
            if let Some(tsc) = blocked.filter(|_| new == Runstate::Runnable && thread != IDLE) {
                let woken = self.woken.get(&thread).map(|of| of.0).filter(|&woken| woken >= tsc);
                self.goes_idle(&Timed { tsc, ..*timed }, thread)?;
                let tsc = woken.unwrap_or(timed.tsc);
                return self.wakes(&Timed { tsc, ..*timed }, thread);
            }
            return Ok(());
        }
        if thread != IDLE && new != Runstate::Running {
            // It may have left a pCPU on which nobody runs yet.
            self.goes_idle(timed, thread)?;
        }
        match (old, new) {
            (_, Runstate::Running) => {
                self.runs.insert(timed.pcpu, thread);
                self.ran_on.insert(thread, timed.pcpu);
                let (prev, left) = self.left.remove(&timed.pcpu).unwrap_or((IDLE, Left::Runnable));
                self.push(timed, What::Switch { prev, left, next: thread })
            }
            (Runstate::Blocked | Runstate::Offline, Runstate::Runnable) if thread != IDLE => {
                self.wakes(timed, thread)
            }
            _ => Ok(()),
        }
    }

    fn wakes(&mut self, timed: &Timed, tid: u32) -> Result<(), Error> {
        let by = self.woken.remove(&tid).map_or(UNKNOWN, |(_, by)| by);
        let context = if by == UNKNOWN { Context::Unknown } else { Context::Thread };
        self.push(timed, What::Wake { tid, on: None, by, context, here: false })
    }

    /// Who has left a pCPU has left it before it does anything else.
    fn goes_idle(&mut self, timed: &Timed, thread: u32) -> Result<(), Error> {
        let on = self.left.iter().find(|(_, (left, _))| *left == thread);
        let Some((&cpu, &(prev, left))) = on else { return Ok(()) };
        self.left.remove(&cpu);
        self.push(&Timed { pcpu: cpu, ..*timed }, What::Switch { prev, left, next: IDLE })
    }

    /// The number of a vCPU, which is known from now on.
    fn vcpu(&mut self, id: VcpuId, offset: u64) -> Result<u32, Error> {
        let tid = tid(id);
        if tid != IDLE && !self.threads.is_member(tid) {
            if self.ids.len() >= VCPUS_MAX {
                return Err(Error::VcpuLimit { offset, max: VCPUS_MAX });
            }
            self.ids.push(id);
            let known = self.domains.len();
            let vm = *self.domains.entry(id.domain).or_insert(known);
            if vm == known {
                self.threads.vm(format!("d{}", id.domain));
            }
            self.threads.member(tid, vm, Role::Vcpu(id.vcpu));
        }
        Ok(tid)
    }

    fn push(&mut self, timed: &Timed, what: What) -> Result<(), Error> {
        if self.events.len() >= EVENTS_MAX {
            return Err(Error::EventLimit { offset: timed.offset, max: EVENTS_MAX });
        }
        let Timed { tsc, offset, pcpu, .. } = *timed;
        self.events.push(Event { at_ns: tsc, offset, cpu: pcpu, late: false, what });
        Ok(())
    }
}
