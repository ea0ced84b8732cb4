//! What control groups mean to small-first: a weight and a limit for each VM, a limit for each
//! vCPU.
//!
//! A group that holds one vCPU limits that, one that holds all vCPUs of a VM and nothing else
//! limits the VM. Limits on some of a VM's vCPUs, or on several VMs together, are refused: the
//! rule has none. A VM's weight is that of the topmost groups that are its alone; how groups above
//! those share among each other is not looked at.

use lowtail_engine::{Duration, Time};
use lowtail_policy::{Cap, RATE_MAX, RATE_ONE};

use crate::cgroup::{CgroupStats, Limit};
use crate::host_state::HostState;
use crate::ids::{Cgroup, Dom, Vcpu};

/// `cpu.shares` for each unit of weight: the usual 1024 are the usual 256.
const SHARES_PER_WEIGHT: u64 = 4;

/// Who is in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    Nobody,
    /// So many vCPUs of one VM, this the first of them.
    Of(Dom, Vcpu, usize),
    Several,
}

/// A limit on a rate.
#[derive(Debug, Clone, Copy)]
struct RateLimit {
    rate: u32,
    burst_ns: u32,
}

impl RateLimit {
    const NONE: RateLimit = RateLimit { rate: 0, burst_ns: 0 };

    fn of(limit: Limit) -> Self {
        let (quota, period) = (limit.quota.as_ps(), limit.period.as_ps().max(1));
        let rate = u128::from(quota) * u128::from(RATE_ONE) / u128::from(period);
        let saved = (limit.quota + limit.burst).as_ns();
        RateLimit {
            rate: rate.clamp(1, u128::from(RATE_MAX)) as u32,
            burst_ns: u32::try_from(saved).unwrap_or(u32::MAX),
        }
    }

    /// The tighter one of both.
    fn and(self, other: RateLimit) -> RateLimit {
        match (self.rate, other.rate) {
            (0, _) => other,
            (_, 0) => self,
            (ours, theirs) if theirs < ours => other,
            _ => self,
        }
    }
}

/// Weights and limits of a host's VMs and vCPUs.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// By [`Dom::index`].
    vms: Vec<RateLimit>,
    /// By [`Vcpu::index`].
    vcpus: Vec<RateLimit>,
    /// By [`Dom::index`]; `None` if no group says anything about it.
    weights: Vec<Option<u16>>,
}

/// The groups that `v` is in, the innermost first.
fn groups(host: &HostState, v: Vcpu) -> impl Iterator<Item = Cgroup> {
    let innermost = host.threads[v.index()].cgroup;
    std::iter::successors(innermost, |cgroup| host.cgroups[cgroup.index()].parent)
}

/// Who is in each group.
fn members(host: &HostState) -> Vec<Members> {
    let mut members = vec![Members::Nobody; host.cgroups.len()];
    for v in (0..host.vcpus.len()).map(|i| Vcpu(i as u16)) {
        let dom = host.vcpus[v.index()].dom;
        if host.doms[dom.index()].fair_class {
            continue;
        }
        for cgroup in groups(host, v) {
            let members = &mut members[cgroup.index()];
            *members = match *members {
                Members::Nobody => Members::Of(dom, v, 1),
                Members::Of(whose, first, n) if whose == dom => Members::Of(dom, first, n + 1),
                _ => Members::Several,
            };
        }
    }
    members
}

/// Refuses limits that the rule does not have.
pub(crate) fn check(host: &HostState) -> Result<(), String> {
    Limits::new(host).map(|_| ())
}

impl Limits {
    /// What the groups of a host say.
    pub(super) fn new(host: &HostState) -> Result<Self, String> {
        let mut limits = Limits {
            vms: vec![RateLimit::NONE; host.doms.len()],
            vcpus: vec![RateLimit::NONE; host.vcpus.len()],
            weights: vec![None; host.doms.len()],
        };
        let members = members(host);
        for (cgroup, &members) in host.cgroups.iter().zip(&members) {
            let Some(limit) = cgroup.limit else { continue };
            let limited = match members {
                Members::Nobody => continue,
                Members::Of(_, v, 1) => &mut limits.vcpus[v.index()],
                Members::Of(dom, _, n) if n == host.doms[dom.index()].vcpus.len() => {
                    &mut limits.vms[dom.index()]
                }
                _ => {
                    let name = &cgroup.name;
                    return Err(format!(
                        "cgroup `{name}`: small-first limits a VM or a thread; this is neither"
                    ));
                }
            };
            *limited = limited.and(RateLimit::of(limit));
        }
        for (dom, params) in (0..).map(Dom).zip(&host.doms) {
            if params.cap_percent > 0 {
                let rate = u32::from(params.cap_percent) * RATE_ONE / 100;
                let vm = &mut limits.vms[dom.index()];
                *vm = vm.and(RateLimit { rate, burst_ns: 0 });
            }
            let is_own = |cgroup: &Cgroup| matches!(members[cgroup.index()], Members::Of(..));
            let top = |&v: &Vcpu| groups(host, v).filter(is_own).last();
            let mut tops: Vec<Cgroup> = params.vcpus.iter().filter_map(top).collect();
            tops.sort_unstable();
            tops.dedup();
            let shares: u64 = tops.iter().map(|top| host.cgroups[top.index()].shares).sum();
            let weight = (shares / SHARES_PER_WEIGHT).clamp(1, u64::from(u16::MAX)) as u16;
            limits.weights[dom.index()] = (!tops.is_empty()).then_some(weight);
        }
        Ok(limits)
    }

    /// The weight of `dom`, if a group gives it one.
    pub(super) fn weight(&self, dom: Dom) -> Option<u16> {
        self.weights[dom.index()]
    }

    /// The most that `dom` can use, a rate, of a host with so many pCPUs.
    pub(super) fn most(&self, host: &HostState, dom: Dom) -> u32 {
        let of = |v: &Vcpu| match self.vcpus[v.index()].rate {
            0 => RATE_ONE,
            rate => rate.min(RATE_ONE),
        };
        let vcpus: u32 = host.doms[dom.index()].vcpus.iter().map(of).sum();
        let most = vcpus.min(host.current.len() as u32 * RATE_ONE);
        match self.vms[dom.index()].rate {
            0 => most,
            rate => most.min(rate),
        }
    }

    /// The limit on `dom` as a whole.
    pub(super) fn vm(&self, host: &HostState, dom: Dom) -> Cap {
        let RateLimit { rate, burst_ns } = self.vms[dom.index()];
        let vcpus = host.doms[dom.index()].vcpus.len() as u16;
        Cap::new(rate, burst_ns, vcpus, host.now.as_ns())
    }

    /// The limit on `v` alone.
    pub(super) fn vcpu(&self, host: &HostState, v: Vcpu) -> Cap {
        let RateLimit { rate, burst_ns } = self.vcpus[v.index()];
        Cap::new(rate, burst_ns, 1, host.now.as_ns())
    }
}

/// What limits have cost, for [`CgroupStats`].
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// By [`Vcpu::index`].
    vcpus: Vec<Pause>,
    /// Periods of each group in which a vCPU of it has begun to wait: their number, and the last.
    periods: Vec<(u64, Option<u64>)>,
}

/// The waits of a vCPU for its limits.
#[derive(Debug, Clone, Copy, Default)]
struct Pause {
    since: Option<Time>,
    longest: Duration,
    total: Duration,
}

impl Pause {
    fn end(&mut self, now: Time) {
        let Some(since) = self.since.take() else { return };
        let length = now.since(since);
        self.longest = self.longest.max(length);
        self.total += length;
    }
}

impl Pauses {
    /// Nobody has waited yet.
    pub(super) fn new(host: &HostState) -> Self {
        Pauses {
            vcpus: vec![Pause::default(); host.vcpus.len()],
            periods: vec![(0, None); host.cgroups.len()],
        }
    }

    /// `v` has to wait from now on.
    pub(super) fn begin(&mut self, host: &HostState, v: Vcpu) {
        self.vcpus[v.index()].since = Some(host.now);
        for cgroup in groups(host, v) {
            let Some(limit) = host.cgroups[cgroup.index()].limit else { continue };
            let period = host.now.since(Time::ZERO).as_ps() / limit.period.as_ps();
            let (n, last) = &mut self.periods[cgroup.index()];
            if last.replace(period) != Some(period) {
                *n += 1;
            }
        }
    }

    /// `v` may run again.
    pub(super) fn end(&mut self, now: Time, v: Vcpu) {
        self.vcpus[v.index()].end(now);
    }

    /// What a group with a limit has seen of it.
    pub(super) fn stats(&self, host: &HostState, cgroup: Cgroup) -> Option<CgroupStats> {
        let limit = host.cgroups[cgroup.index()].limit?;
        // The one under way does not count yet.
        let periods = host.now.since(Time::ZERO).as_ps() / limit.period.as_ps();
        let mut stats = CgroupStats {
            periods,
            throttled_periods: self.periods[cgroup.index()].0.min(periods),
            ..CgroupStats::default()
        };
        for v in (0..host.vcpus.len()).map(|i| Vcpu(i as u16)) {
            if groups(host, v).any(|other| other == cgroup) {
                let mut pause = self.vcpus[v.index()];
                pause.end(host.now);
                stats.throttled += pause.total;
                stats.longest_pause = stats.longest_pause.max(pause.longest);
            }
        }
        Some(stats)
    }
}
