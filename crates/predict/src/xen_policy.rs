//! What a policy file would do to a recorded Xen host, by the rules of control's `desired/xen.rs`.

use lowtail_control::policy::{Pcpus, Policy, Ratelimit, Rule, Scheduler};
use lowtail_control::xen::nearest;
use lowtail_engine::Duration;
use lowtail_host::sched::credit2::Credit2Version;
use lowtail_host::{CpuSet, Pcpu, SchedulerConfig};

use crate::model::Model;
use crate::recording::Recording;
use crate::shares;
use crate::xen::set_xen;

/// Puts `policy` in force on `model`, a model of a Xen host's `recording`. Returns what cannot be, in words.
pub(crate) fn put_in_force(
    model: &mut Model,
    recording: &Recording,
    policy: &Policy,
) -> Vec<String> {
    if policy.scheduler == Scheduler::None {
        return Vec::new();
    }
    let rules = shares::rules(policy, &recording.sizes());
    let (shares, mut notes) = shares::under(&rules, &recording.shares);
    model.set_shares(&shares);
    if policy.scheduler == Scheduler::SchedExt {
        let note =
            "small-first cannot be set on Xen: --scheduler small-first says what it would do";
        notes.push(note.to_owned());
    }
    if let Err(why) = set_pool(&mut model.config.scheduler, policy, &rules) {
        notes.push(format!("rate limit and slice of the policy cannot both be set: {why}"));
    }
    for (vm, domain) in model.config.vms.iter_mut().zip(&model.domains) {
        let Some(rule) = domain.vm.and_then(|vm| rules.get(vm)).filter(|rule| rule.manage) else {
            continue;
        };
        let all = CpuSet::first_n(model.config.pcpus);
        if let Some(hard) = rule.pcpus.as_ref().map(|pcpus| set(pcpus, all)) {
            vm.threads.iter_mut().for_each(|thread| thread.pin = hard);
        }
        if let Some(soft) = rule.preferred_pcpus.as_ref().map(|pcpus| set(pcpus, all)) {
            vm.soft = soft;
        }
    }
    notes
}

/// pCPUs of a host that has these; if none of them are there, all.
fn set(pcpus: &Pcpus, all: CpuSet) -> CpuSet {
    let Pcpus::These(these) = pcpus else { return all };
    let known = |&pcpu: &usize| u16::try_from(pcpu).ok().filter(|&n| n < CpuSet::MAX_PCPUS);
    let these: CpuSet = these.iter().filter_map(known).map(Pcpu).collect();
    let these = these.and(all);
    if these.is_empty() { all } else { these }
}

/// Rate limit and slice of the pool.
fn set_pool(
    scheduler: &mut SchedulerConfig,
    policy: &Policy,
    rules: &[Rule],
) -> Result<(), &'static str> {
    let ratelimit = match policy.xen.ratelimit {
        Ratelimit::Us(us) => Some(Duration::from_us(us.into())),
        Ratelimit::Nearest if policy.scheduler == Scheduler::Auto && tickles_none(scheduler) => {
            Some(Duration::ZERO)
        }
        Ratelimit::Nearest | Ratelimit::Keep => None,
    };
    let shortest = rules.iter().filter(|rule| rule.manage).filter_map(|rule| rule.slice).min();
    let slice_ms = policy.xen.slice_ms.map(u64::from);
    let slice_ms = slice_ms.or_else(|| shortest.map(nearest::timeslice_ms));
    let before = scheduler.clone();
    let both = set_xen(scheduler, ratelimit, slice_ms.map(Duration::from_ms));
    if both.is_err() {
        // Of two that do not fit together, the limit; the error is that of the slice.
        *scheduler = before.clone();
        if set_xen(scheduler, ratelimit, None).is_err() {
            *scheduler = before;
        }
    }
    both
}

/// Whether it is a credit2 that tickles no pCPU for who wakes within the rate limit.
fn tickles_none(scheduler: &SchedulerConfig) -> bool {
    let versions = [Credit2Version::Xen410, Credit2Version::Xen421];
    matches!(scheduler, SchedulerConfig::Credit2(of) if versions.contains(&of.version))
}
