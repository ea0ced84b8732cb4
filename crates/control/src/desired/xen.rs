//! What a policy wants of a Xen host: weights, caps and pCPUs of domains, parameters of pools, and dom0's own back ends and queues.
//!
//! Xen has no small-first. What comes nearest is chosen, and a note says so.

use lowtail_discover::{Found, Vm};
use lowtail_kernel::Name;
use lowtail_xen::{CREDIT2_UNTICKLED_SINCE, PoolInfo, Scheduler as Kind};

use super::{HostCapabilities, Note, Settings, VcpusBy, Wanted, managed};
use crate::manage::{Knob, OfDomain, OfPool, OfVcpu, Setting, Unknown, Xen, parse_cpus};
use crate::policy::{Cap, Pcpus, Policy, Ratelimit, Rule, Scheduler, Weight};
use crate::xen::{Domain, XenHost, nearest};

/// What no rate limit brings and costs: a recording of a real Xen 4.20, predicted (`lowtail predict crates/trace/data/credit2-4.20-ratelimit1000.bin
/// --ratelimit 0us --seeds 1`), and the simulated storm of 20,000 wake-ups a second (docs/results.md, `wakeup-storm`).
const WITHOUT_LIMIT: &str = "of a recorded Xen 4.20 it is predicted that a server beside a loop then waits 8.4 us at the median in place of 9.99 ms, and that the loop \
     keeps its 98 % of the pCPU; the more often others wake, the more a loop loses: with 20,000 wake-ups a second it has 0.55 of a pCPU in \
     place of 0.95 (docs/findings/credit2-untickled.md)";

impl Settings {
    /// What `policy` wants of the domains that were found on `host`.
    pub(super) fn of_domains(
        policy: &Policy,
        found: &Found,
        capabilities: &HostCapabilities,
        host: &XenHost,
    ) -> Self {
        let vcpus = match policy.scheduler {
            Scheduler::None => VcpusBy::Untouched,
            Scheduler::Auto | Scheduler::SchedExt | Scheduler::Fair => VcpusBy::Xen,
        };
        let mut wanted = Wanted { vcpus, ..Wanted::default() };
        if policy.scheduler == Scheduler::SchedExt {
            let what = "small-first for vCPUs cannot be set here: the vCPUs are scheduled by Xen, which has no sched_ext; \
                        `scheduler = \"auto\"` takes what comes nearest";
            wanted.notes.push(Note { vm: None, what: what.to_string(), fatal: true });
        }
        if let Some(key) = policy.vms.needs_libvirt() {
            wanted.note(
                None,
                format!("entries with `{key}` fit nothing: what libvirt says of VMs is not known"),
            );
        }
        wanted.held(&found.vms, capabilities);
        let managed = managed(policy, &found.vms, capabilities);
        if vcpus != VcpusBy::Untouched {
            wanted.unnamed(&managed);
        }
        for (vm, _) in &managed {
            wanted.workers(vm, policy.workers.slice, capabilities);
        }
        let mut all = Settings { vcpus, notes: wanted.notes, ..Settings::default() };
        // Their settings stay: what is not known is not what nobody wants.
        all.unknown.extend(host.unknown.iter().cloned().map(Unknown::Domain));
        if vcpus != VcpusBy::Untouched {
            for (vm, rule) in &managed {
                if let Some(domain) = host.domain(vm) {
                    all.domain(vm, rule, domain, host);
                }
            }
            all.pools(policy, &managed, host);
        }
        all.look_up(wanted.desired, found);
        all
    }

    fn set(&mut self, knob: Xen, to: impl ToString, why: String) {
        self.settings.push(Setting { knob: Knob::Xen(knob), to: to.to_string(), why });
    }

    fn domain(&mut self, vm: &Vm, rule: &Rule, domain: &Domain, host: &XenHost) {
        let of =
            domain.scheduler.map(|scheduler| OfDomain { domain: domain.key.clone(), scheduler });
        let wants = rule.cap.is_some() || rule.weight != Weight::Keep;
        if of.is_none() && wants {
            let pool = domain
                .pool
                .as_deref()
                .map_or_else(|| "its pool".to_string(), |pool| format!("pool {}", Name::new(pool)));
            self.note_of(
                vm,
                format!(
                    "weight and cap cannot be set here: the scheduler of {pool} has none for xl"
                ),
            );
        }
        if let (Some(of), Weight::PerVcpu(weight)) = (&of, rule.weight) {
            // Both schedulers have weights for each vCPU of a domain, as policies do.
            let why = format!("weight {weight} for each vCPU of {}", vm.name);
            self.set(Xen::Weight(of.clone()), nearest::weight(weight), why);
        }
        if let (Some(of), Some(cap)) = (&of, &rule.cap) {
            self.cap(vm, domain, of, cap);
        }
        let others = [
            ("vcpu_cap", rule.vcpu_cap.is_some(), "Xen limits domains; `cap` is for all of one"),
            ("emulator_cap", rule.emulator_cap.is_some(), "a domain has no such threads"),
            ("iothread_cap", rule.iothread_cap.is_some(), "a domain has no such threads"),
            ("emulator_weight", rule.emulator_weight.is_some(), "a domain has no such threads"),
        ];
        for (key, _, why) in others.into_iter().filter(|(_, wanted, _)| *wanted) {
            self.note_of(vm, format!("{key} cannot be set here: {why}"));
        }
        self.pcpus(vm, rule, domain, host);
    }

    fn cap(&mut self, vm: &Vm, domain: &Domain, of: &OfDomain, cap: &Cap) {
        let most = 100.0 * domain.vcpus.len() as f64;
        let (to, why) = match cap.percent() {
            None => (0, format!("cap none of {}", vm.name)),
            // Xen refuses a cap above what all vCPUs can use.
            Some(percent) if most > 0.0 && percent >= most => {
                self.note_of(
                    vm,
                    format!(
                        "a cap of {percent}% limits none of {} vCPUs: it is set as none",
                        domain.vcpus.len()
                    ),
                );
                (0, format!("cap {percent}% of {}", vm.name))
            }
            Some(percent) => {
                ((percent.round() as u32).max(1), format!("cap of {percent}% of {}", vm.name))
            }
        };
        if let Cap::Limited(limit) = cap
            && !limit.burst.is_zero()
        {
            self.note_of(vm, "the burst of cap cannot be set here: Xen has none".to_string());
        }
        self.set(Xen::Cap(of.clone()), to, why);
    }

    fn pcpus(&mut self, vm: &Vm, rule: &Rule, domain: &Domain, host: &XenHost) {
        let (hard, soft) = (&rule.pcpus, &rule.preferred_pcpus);
        if hard.is_none() && soft.is_none() {
            return;
        }
        if domain.vcpus.is_empty() {
            self.note_of(vm, "its pCPUs cannot be set: its vCPUs are not known".to_string());
            return;
        }
        if let (Some(Pcpus::These(hard)), Some(pool)) =
            (hard, host.pools.iter().find(|pool| Some(&pool.name) == domain.pool.as_ref()))
            && parse_cpus(&pool.pcpus).is_ok_and(|pool| !pool.is_empty() && pool.is_disjoint(hard))
        {
            let name = Name::new(pool.name.as_str());
            self.note_of(
                vm,
                format!(
                    "`pcpus` cannot be set: its pool {name} has pCPUs {} only",
                    Name::new(pool.pcpus.as_str())
                ),
            );
            return;
        }
        let word = |name: &str, pcpus: &Option<Pcpus>| match pcpus {
            Some(Pcpus::All) => format!("{name}=all"),
            Some(Pcpus::These(these)) => format!("{name}={}", crate::manage::cpus::list(these)),
            None => String::new(),
        };
        let to = format!("{} {}", word("hard", hard), word("soft", soft));
        for &vcpu in &domain.vcpus {
            let of = OfVcpu { domain: domain.key.clone(), vcpu };
            self.set(Xen::Affinity(of), to.trim(), format!("pcpus of {}", vm.name));
        }
    }

    /// The pools of managed domains.
    fn pools(&mut self, policy: &Policy, managed: &[(&Vm, Rule)], host: &XenHost) {
        for pool in host.pools_of(managed.iter().map(|(vm, _)| *vm)) {
            let Some(scheduler) = Kind::named(&pool.scheduler) else { continue };
            let slices = managed.iter().filter(|(vm, rule)| {
                rule.slice.is_some()
                    && host
                        .domain(vm)
                        .is_some_and(|domain| domain.pool.as_ref() == Some(&pool.name))
            });
            let slice = slices.filter_map(|(_, rule)| rule.slice).min();
            let slice_ms = slice.map(nearest::timeslice_ms);
            self.pool(policy, host, (pool, scheduler), slice_ms);
        }
    }

    fn pool(
        &mut self,
        policy: &Policy,
        host: &XenHost,
        (pool, scheduler): (&PoolInfo, Kind),
        shortest_ms: Option<u64>,
    ) {
        let name = Name::new(pool.name.as_str());
        let (mut to, mut why) = (Vec::new(), Vec::new());
        match policy.xen.ratelimit {
            Ratelimit::Keep => {}
            Ratelimit::Us(us) => {
                to.push(format!("ratelimit_us={us}"));
                why.push(format!("ratelimit {us}us of the policy"));
            }
            Ratelimit::Nearest if policy.scheduler == Scheduler::Auto => {
                if self.nearest(pool, scheduler, host) {
                    to.push("ratelimit_us=0".to_string());
                    why.push("nearest to small-first: who wakes preempts at once".to_string());
                }
            }
            Ratelimit::Nearest => {}
        }
        let (slice_ms, from) = match policy.xen.slice_ms {
            Some(ms) => (Some(u64::from(ms)), "slice of [xen]"),
            None => (shortest_ms, "the shortest slice of its VMs, for all: Xen has none for one"),
        };
        match (scheduler, slice_ms) {
            (Kind::Credit, Some(ms)) => {
                to.push(format!("tslice_ms={ms}"));
                why.push(from.to_string());
            }
            (Kind::Credit2, Some(_)) => {
                self.note(format!("slices cannot be set in pool {name}: credit2 has none, its rate limit is what there is"));
            }
            (_, None) => {}
        }
        if to.is_empty() {
            return;
        }
        let of = OfPool { pool: pool.name.clone(), scheduler };
        self.set(Xen::Pool(of), to.join(" "), why.join("; "));
    }

    /// Says what comes nearest to small-first. Whether it is that there is no rate limit.
    fn nearest(&mut self, pool: &PoolInfo, scheduler: Kind, host: &XenHost) -> bool {
        let name = Name::new(pool.name.as_str());
        let no_limit = scheduler == Kind::Credit2 && tickles_none(host);
        match scheduler {
            Kind::Credit2 if !no_limit => {
                self.note(format!("small-first for vCPUs is not Xen's: in pool {name} credit2 schedules them, by weight; its rate limit stays"));
            }
            Kind::Credit2 => {
                self.note(format!(
                    "small-first for vCPUs is not Xen's: in pool {name} credit2 schedules them; nearest is no rate limit: {WITHOUT_LIMIT}"
                ));
            }
            Kind::Credit => {
                self.note(format!(
                    "small-first for vCPUs is not Xen's: in pool {name} credit schedules them, which boosts who wakes; rate limit and slice stay, \
                     `[xen]` sets them"
                ));
            }
        }
        no_limit
    }
}

/// Whether credit2 tickles no pCPU for who wakes within the rate limit. A version that is unknown is a recent one.
fn tickles_none(host: &XenHost) -> bool {
    host.release.is_none_or(|release| release >= CREDIT2_UNTICKLED_SINCE)
}
