//! The waits and runs of a Xen's vCPUs, one after the other, for others than this crate's tables.

use std::io::Read;

use crate::blame::{Reason, Runner};
use crate::clock::{CpuHz, CpuHzSource};
use crate::error::Error;
use crate::options::Options;
use crate::record::VcpuId;
use crate::schedule::{Observer, Run, Schedule, Wait, WaitEnd};
use crate::source::Source;
use crate::vcpu::{Origin, Vcpu};

/// Something that a vCPU did for some time. Idle vCPUs are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Stretch {
    /// It ran.
    Run {
        /// Which.
        vcpu: VcpuId,
        /// For how long, in ticks.
        ticks: u64,
    },
    /// It waited for a pCPU, and then ran.
    Wait {
        /// Which.
        vcpu: VcpuId,
        /// It had been woken; else it had been taken off a pCPU, or yielded.
        woken: bool,
        /// For how long, in ticks.
        ticks: u64,
        /// Who ran on the pCPU that it got at last.
        blame: Vec<(Ahead, Reason, u64)>,
    },
    /// It waited when the records ended.
    Waiting {
        /// Which.
        vcpu: VcpuId,
        /// It had been woken, as for [`Stretch::Wait`].
        woken: bool,
        /// For how long up to then, in ticks.
        ticks: u64,
    },
    /// A wait that touches lost records, or that records contradict.
    Lost {
        /// Whose.
        vcpu: VcpuId,
    },
}

/// Who had a pCPU for which another vCPU waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// A vCPU.
    Vcpu(VcpuId),
    /// Nobody.
    Idle,
    /// The hypervisor, which switched, or somebody who is not on record.
    Unknown,
}

/// What holds of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretched {
    /// From the first to the last, in ticks.
    pub span_ticks: u64,
    /// How long a tick is.
    pub clock: CpuHz,
    /// Records that Xen had no room for.
    pub lost_records: u64,
}

struct Teller<F> {
    each: F,
    /// Who goes by which number, and whether the latest wait began with a wake-up.
    known: Vec<Option<(Ahead, bool)>>,
}

impl<F: FnMut(Stretch)> Teller<F> {
    fn of(&mut self, number: usize) -> &mut (Ahead, bool) {
        if self.known.len() <= number {
            self.known.resize(number + 1, None);
        }
        self.known[number].get_or_insert((Ahead::Unknown, false))
    }

    fn know(&mut self, vcpu: &Vcpu, number: usize) -> Option<VcpuId> {
        let id = id(vcpu);
        self.of(number).0 = id.map_or(Ahead::Idle, Ahead::Vcpu);
        id
    }
}

/// The vCPU's number in the trace; `None` of idle.
fn id(vcpu: &Vcpu) -> Option<VcpuId> {
    let (domain, _, number) = vcpu.label.rank;
    let known = u16::try_from(domain).ok().zip(u16::try_from(number).ok());
    known.filter(|_| !vcpu.label.idle).map(|(domain, vcpu)| VcpuId { domain, vcpu })
}

impl<F: FnMut(Stretch)> Observer for Teller<F> {
    fn run(&mut self, vcpu: &Vcpu, run: Run) -> Result<(), Error> {
        if let Some(vcpu) = self.know(vcpu, run.vcpu) {
            (self.each)(Stretch::Run { vcpu, ticks: run.end.saturating_sub(run.start) });
        }
        Ok(())
    }

    fn dispatched(&mut self, vcpu: &Vcpu, number: usize, _pcpu: u16, _at: u64) {
        self.know(vcpu, number);
    }

    fn found(&mut self, vcpu: &Vcpu, number: usize) {
        self.know(vcpu, number);
    }

    fn waits(&mut self, number: usize, origin: Origin) {
        self.of(number).1 = matches!(origin, Origin::Wake | Origin::RacedWake);
    }

    fn wait(&mut self, vcpu: &Vcpu, wait: Wait) -> Result<(), Error> {
        let Some(id) = self.know(vcpu, wait.vcpu) else { return Ok(()) };
        if !wait.maybe_lost.is_empty() {
            (self.each)(Stretch::Lost { vcpu: id });
            return Ok(());
        }
        let blame = wait.slices.iter().map(|slice| {
            let ahead = match slice.runner {
                Runner::Vcpu(number) => self.of(number).0,
                Runner::Idle => Ahead::Idle,
                Runner::Switch | Runner::Unknown => Ahead::Unknown,
            };
            (ahead, slice.reason, slice.ticks)
        });
        let blame = blame.collect();
        let (woken, ticks) = (self.of(wait.vcpu).1, wait.end - wait.start);
        (self.each)(Stretch::Wait { vcpu: id, woken, ticks, blame });
        Ok(())
    }

    fn wait_ended(
        &mut self,
        number: usize,
        since: u64,
        at: u64,
        cut: WaitEnd,
    ) -> Result<(), Error> {
        let (Ahead::Vcpu(vcpu), woken) = *self.of(number) else { return Ok(()) };
        let ticks = at.saturating_sub(since);
        match cut {
            WaitEnd::End => (self.each)(Stretch::Waiting { vcpu, woken, ticks }),
            WaitEnd::Lost | WaitEnd::Inconsistent => (self.each)(Stretch::Lost { vcpu }),
            WaitEnd::Paused => {}
        }
        Ok(())
    }

    fn rest(&mut self, _vcpu: usize, _span: (u64, u64), _paused: bool) -> Result<(), Error> {
        Ok(())
    }
}

/// See [`crate::stretches()`].
pub(crate) fn stretches<R: Read>(
    input: R,
    options: &Options,
    each: impl FnMut(Stretch),
) -> Result<Stretched, Error> {
    let mut source = Source::open(input, options)?;
    let mut schedule = Schedule::new(Teller { each, known: Vec::new() });
    source.follow(&mut schedule)?;
    let clock = match source.is_linux() {
        true => CpuHz { hz: 1_000_000_000, source: CpuHzSource::Nanoseconds },
        false => source.clock(options.cpu_hz),
    };
    let span_ticks = source.span().map_or(0, |(first, last)| last - first);
    let lost_records = source.problems(&schedule).lost;
    Ok(Stretched { span_ticks, clock, lost_records })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency;

    /// Sums of the waits and runs are those of [`latency()`], which counts them its own way.
    #[test]
    fn as_the_table_has_it() {
        let file = || {
            std::fs::File::open("data/credit2-4.20-ratelimit1000.bin").expect("it is in the tree")
        };
        let options = Options::default();
        let server = VcpuId { domain: 1, vcpu: 0 };
        let hog = Ahead::Vcpu(VcpuId { domain: 2, vcpu: 0 });
        let (mut waits, mut blamed, mut ran) = (Vec::new(), 0, 0);
        let done = stretches(file(), &options, |stretch| match stretch {
            Stretch::Run { vcpu, ticks } if vcpu == server => ran += ticks,
            Stretch::Wait { vcpu, woken: true, ticks, blame } if vcpu == server => {
                waits.push(ticks);
                let no_tickle = blame.iter().filter(|(ahead, reason, _)| {
                    *ahead == hog && *reason == Reason::RateLimitNoTickle
                });
                blamed += no_tickle.map(|(_, _, ticks)| ticks).sum::<u64>();
            }
            _ => {}
        })
        .expect("a trace");
        let table = latency(file(), &options).expect("a trace");
        let row = table.vcpus.iter().find(|vcpu| vcpu.vcpu == "d1v0").expect("the server");
        let longest = waits.iter().max().map(|&ticks| done.clock.us(ticks));
        assert_eq!(longest, row.wakeup_latency.max);
        // Waits of which it is known only at the end that no record is missing are not told of.
        assert!(waits.len() as u64 <= row.wakeup_latency.n);
        assert!(waits.len() as u64 * 100 >= row.wakeup_latency.n * 95, "{}", waits.len());
        let all: u64 = waits.iter().sum();
        assert!(blamed * 10 > all * 9, "{blamed} of {all} ticks");
        assert!((done.clock.us(ran) / done.clock.us(done.span_ticks) - row.cpu_ratio).abs() < 1e-9);
    }
}
