//! What each VM is entitled to: a weighted fair share of what all VMs want.
//!
//! Every 10 ms the demand of each VM is measured (the time for which its vCPUs wanted to
//! run, running or not), and the level is looked for at which all VMs together get what there
//! is, each up to its demand. A VM that takes part with little is entitled to what it would get
//! if it wanted everything, so that a quiet VM on a host that is not full stays small.

use lowtail_engine::{Duration, Time};
use lowtail_policy::{self as policy, Params, RATE_ONE};

use super::config::WeightPer;
use super::limits::Limits;
use crate::host_state::{DomParams, HostState};
use crate::ids::Dom;

/// How often entitlements are worked out: as often as Xen's credit has its tick.
pub(super) const PERIOD: Duration = Duration::from_ms(10);
/// Part of the difference by which a demand follows each measurement, as a power of two: a
/// time constant of 40 ms, so that neither one burst nor one pause decides.
const SMOOTHING_SHIFT: u32 = 2;
/// Steps of the search for the level; it starts from 32 bits.
const SEARCH_STEPS: u32 = 32;

/// One VM's demand.
#[derive(Debug, Clone, Copy)]
struct Demand {
    weight: u16,
    /// The most that it can use, a rate.
    most: u32,
    /// Its vCPUs that want to run.
    wanting: u32,
    /// Since when there are so many.
    since: Time,
    /// Processor time wanted in this period.
    wanted: Duration,
    /// Moving average of what it wants, a rate.
    rate: u32,
}

/// The demands of all VMs.
#[derive(Debug, Default)]
pub(super) struct Shares {
    capacity: u32,
    weights: u64,
    demands: Vec<Demand>,
    from: Time,
}

impl Shares {
    /// Nobody wants anything yet.
    pub(super) fn new(host: &HostState, weight_per: WeightPer, limits: &Limits) -> Self {
        let demand = |(id, dom): (Dom, &DomParams)| {
            let each = match weight_per {
                WeightPer::Vm => 1,
                WeightPer::Vcpu => dom.vcpus.len() as u64,
            };
            let weight = limits.weight(id).unwrap_or(dom.weight);
            // Entitlements are computed as if all pCPUs were for VMs.
            let weight = if dom.fair_class { 0 } else { weight };
            let weight = (u64::from(weight) * each).min(u64::from(u16::MAX)) as u16;
            let most = limits.most(host, id);
            let (since, wanted) = (host.now, Duration::ZERO);
            Demand { weight, most, wanting: 0, since, wanted, rate: 0 }
        };
        let demands: Vec<Demand> = (0..).map(Dom).zip(&host.doms).map(demand).collect();
        Shares {
            capacity: host.current.len() as u32 * RATE_ONE,
            weights: demands.iter().map(|demand| u64::from(demand.weight)).sum(),
            demands,
            from: host.now,
        }
    }

    /// The VMs, each entitled to its share of what there is if all want all.
    pub(super) fn vms(
        &self,
        host: &HostState,
        params: &Params,
        limits: &Limits,
    ) -> Vec<policy::LtVm> {
        let vm = |(dom, demand): (Dom, &Demand)| {
            let share = u64::from(self.capacity) * u64::from(demand.weight) / self.weights.max(1);
            let share = (share as u32).min(demand.most);
            let vcpus = host.doms[dom.index()].vcpus.len() as u16;
            policy::LtVm {
                cap: limits.vm(host, dom),
                ..policy::LtVm::new(params, demand.weight, vcpus, share, host.now.as_ns())
            }
        };
        (0..).map(Dom).zip(&self.demands).map(vm).collect()
    }

    /// One more vCPU of `dom` wants to run.
    pub(super) fn wants_more(&mut self, dom: Dom, now: Time) {
        let demand = &mut self.demands[dom.index()];
        demand.measure(now);
        demand.wanting += 1;
    }

    /// One less.
    pub(super) fn wants_less(&mut self, dom: Dom, now: Time) {
        let demand = &mut self.demands[dom.index()];
        demand.measure(now);
        demand.wanting -= 1;
    }

    /// Works out what everybody is entitled to from `now` on.
    pub(super) fn account(&mut self, vms: &mut [policy::LtVm], now: Time) {
        let period = now.since(self.from).as_ps().max(1);
        self.from = now;
        for demand in &mut self.demands {
            demand.measure(now);
            let wanted = std::mem::take(&mut demand.wanted).as_ps();
            let rate = u128::from(wanted) * u128::from(RATE_ONE) / u128::from(period);
            let rate = (rate as u32).min(demand.most);
            demand.rate =
                demand.rate - (demand.rate >> SMOOTHING_SHIFT) + (rate >> SMOOTHING_SHIFT);
        }
        let total: u64 = self.demands.iter().map(|demand| u64::from(demand.rate)).sum();
        let spare = u64::from(self.capacity).saturating_sub(total) as u32;
        // With room to spare, the level is that of everybody wanting everything.
        let level = match spare {
            0 => self.level(),
            _ => (u64::from(self.capacity) << 16).checked_div(self.weights).unwrap_or(0) as u32,
        };
        for (demand, vm) in self.demands.iter().zip(vms) {
            let rate = policy::entitled(demand.rate, demand.weight, level, spare, demand.most);
            vm.entitle(rate, now.as_ns());
        }
    }

    /// The highest level at which no more is served than there is.
    fn level(&self) -> u32 {
        let served = |level| -> u64 {
            let of =
                |demand: &Demand| u64::from(policy::share_at(demand.rate, demand.weight, level));
            self.demands.iter().map(of).sum()
        };
        let mut level = 0u32;
        for step in (0..SEARCH_STEPS).rev() {
            let higher = level | 1 << step;
            if served(higher) <= u64::from(self.capacity) {
                level = higher;
            }
        }
        level
    }
}

impl Demand {
    /// Adds what has been wanted up to `now`.
    fn measure(&mut self, now: Time) {
        self.wanted += now.since(self.since) * u64::from(self.wanting);
        self.since = now;
    }
}
