//! What a stretch of Xen's records says of each vCPU.

use std::collections::BTreeMap;

use lowtail_kernel::{Histogram, Name};
use lowtail_trace::record::VcpuId;
use lowtail_trace::{Ahead, Error, Options, Reason, Stretch, stretches};

use crate::snapshot::{Blame, Runner, ThreadSnapshot};
use lowtail_discover::Role;

/// A vCPU is told whom it waited for by so many entries; the rest is one.
const BLAME_MAX: usize = 32;

/// All vCPUs that are on record.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) span_ns: u64,
    pub(super) lost_records: u64,
    pub(super) lost_waits: u64,
    pub(super) vcpus: BTreeMap<VcpuKey, Sums>,
}

/// Domain and vCPU.
pub(super) type VcpuKey = (u16, u16);

/// Times in ticks.
#[derive(Debug, Default)]
pub(super) struct Sums {
    run: u64,
    woken: Vec<u64>,
    preempted: Vec<u64>,
    current: Option<(bool, u64)>,
    blame: Vec<(Ahead, Reason, u64)>,
    hz: u64,
}

fn key(vcpu: VcpuId) -> VcpuKey {
    (vcpu.domain, vcpu.vcpu)
}

impl Window {
    /// Reads records as `xentrace` writes them; `cpu_hz` is the rate of the time stamp counter, if it is known.
    pub(super) fn read(records: &[u8], cpu_hz: Option<u64>) -> Result<Self, Error> {
        let mut window = Window::default();
        let options = Options { cpu_hz, ..Options::default() };
        let vcpus = &mut window.vcpus;
        let mut lost_waits = 0;
        let done = stretches(records, &options, |stretch| match stretch {
            Stretch::Run { vcpu, ticks } => vcpus.entry(key(vcpu)).or_default().run += ticks,
            Stretch::Wait { vcpu, woken, ticks, blame } => {
                let sums = vcpus.entry(key(vcpu)).or_default();
                if woken { &mut sums.woken } else { &mut sums.preempted }.push(ticks);
                for (ahead, reason, ticks) in blame {
                    sums.blame(ahead, reason, ticks);
                }
            }
            Stretch::Waiting { vcpu, woken, ticks } => {
                let sums = vcpus.entry(key(vcpu)).or_default();
                sums.current = Some((woken, ticks));
                sums.blame(Ahead::Unknown, Reason::Unknown, ticks);
            }
            Stretch::Lost { .. } => lost_waits += 1,
        })?;
        for sums in window.vcpus.values_mut() {
            sums.hz = done.clock.hz;
        }
        window.span_ns = done.clock.ns(done.span_ticks);
        (window.lost_records, window.lost_waits) = (done.lost_records, lost_waits);
        Ok(window)
    }
}

impl Sums {
    fn blame(&mut self, ahead: Ahead, reason: Reason, ticks: u64) {
        let same = |entry: &&mut (Ahead, Reason, u64)| (entry.0, entry.1) == (ahead, reason);
        match self.blame.iter_mut().find(same) {
            Some(entry) => entry.2 += ticks,
            None => self.blame.push((ahead, reason, ticks)),
        }
    }

    fn ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.hz.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// As a thread of its VM; `vm` says what a domain is called.
    pub(super) fn thread(
        &self,
        (domain, vcpu): VcpuKey,
        vm: impl Fn(u16) -> Name,
    ) -> ThreadSnapshot {
        let histogram = |waits: &[u64]| {
            let mut all = Histogram::default();
            waits.iter().for_each(|&ticks| all.record(self.ns(ticks)));
            all
        };
        let (wakeup_latency, preemption_latency) =
            (histogram(&self.woken), histogram(&self.preempted));
        let current = self.current.map(|(woken, ticks)| (woken, self.ns(ticks)));
        let waiting = |after: bool| current.filter(|(woken, _)| *woken == after).map_or(0, |w| w.1);
        let mut blame: Vec<Blame> = Vec::new();
        let mut ranked = self.blame.clone();
        ranked.sort_by_key(|(_, reason, ticks)| (std::cmp::Reverse(*ticks), *reason));
        for (index, &(ahead, reason, ticks)) in ranked.iter().enumerate() {
            let (runner, reason) = match ahead {
                _ if index >= BLAME_MAX => (Runner::Others, None),
                Ahead::Vcpu(id) => (Runner::Vm(vm(id.domain), id.domain.into()), Some(reason)),
                Ahead::Idle => (Runner::Idle, Some(reason)),
                Ahead::Unknown if reason == Reason::Unknown => (Runner::Others, None),
                Ahead::Unknown => (Runner::Others, Some(reason)),
            };
            let ready_ns = self.ns(ticks);
            match blame.iter_mut().find(|b| b.runner == runner && b.reason == reason) {
                Some(entry) => entry.ready_ns += ready_ns,
                None => blame.push(Blame { runner, ready_ns, reason }),
            }
        }
        blame.sort_by(|a, b| b.ready_ns.cmp(&a.ready_ns).then_with(|| a.runner.cmp(&b.runner)));
        ThreadSnapshot {
            tid: vcpu.into(),
            role: Role::Vcpu(vcpu),
            comm: Name::new(format!("d{domain}v{vcpu}")),
            run_time_ns: self.ns(self.run),
            ready_after_wakeup_ns: wakeup_latency.sum_ns() + waiting(true),
            ready_after_preemption_ns: preemption_latency.sum_ns() + waiting(false),
            wakeup_latency,
            preemption_latency,
            current_wait_ns: current.map_or(0, |(_, ns)| ns),
            blame,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of a real Xen 4.20: a server beside a CPU loop, under credit2 with its rate limit. Its waits are 10 ms, the runner's timer
    /// (docs/explanation/credit2.md).
    #[test]
    fn a_server_behind_the_rate_limit() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/data/credit2-4.20-ratelimit1000.bin");
        let records = std::fs::read(path).expect("it is in the tree");
        let window = Window::read(&records, None).expect("a trace");
        let thread = window.vcpus[&(1, 0)].thread((1, 0), |id| Name::new(format!("vm{id}")));
        let p50_us = thread.wakeup_latency.percentile_us(0.5).expect("waits");
        assert!((9_500.0..10_500.0).contains(&p50_us), "{p50_us}");
        let first = &thread.blame[0];
        assert_eq!(first.runner, Runner::Vm(Name::new("vm2"), 2));
        assert_eq!(first.reason, Some(Reason::RateLimitNoTickle));
        let ready = thread.ready_ns();
        let blamed: u64 = thread.blame.iter().map(|blame| blame.ready_ns).sum();
        assert!(blamed.abs_diff(ready) < ready / 100, "{blamed} of {ready}");
        let hog = window.vcpus[&(2, 0)].thread((2, 0), |id| Name::new(format!("vm{id}")));
        assert!(hog.run_time_ns * 10 > window.span_ns * 8, "{hog:?}");
    }

    #[test]
    fn what_is_no_trace_is_an_error() {
        assert!(Window::read(b"", None).is_err());
        assert!(Window::read(&[0; 64], Some(1_000_000_000)).is_err());
    }
}
