//! In which order: the kernel refuses some orders of values that it takes in others.
//!
//! - A set of CPUs is within that of the group above (v1): sets first grow to what they have and shall have, topmost
//!   group first, then shrink to what they shall have, deepest first. They come before all else, since the CPUs of
//!   threads follow them.
//! - No group has a larger part of its period than the one above (v1), and no burst is larger than its quota: bursts
//!   that get smaller, limits that get larger, topmost first, limits that get smaller, deepest first, bursts that get
//!   larger. With v1 quota and period are two files: where both change, the quota is lifted first.
//! - Limits of libvirt's VMs are in an order of their own: `domains`.
//! - All else stays in the order that it has, between sets and limits.
//!
//! From values that the kernel has taken to values that it would take, each step in between is then one that it
//! takes: growing from the top, a group's limit is at most what the one above has already or still; shrinking from the
//! bottom, it is at least what those below have already or still. That holds in both directions, so that what a killed
//! process has left half done is restored the same way.

use std::collections::BTreeMap;

use super::domains;
use super::knob::{Group, Key, Knob, Size, cpus};
use super::step::Step;

/// The steps in an order in which the kernel takes them, with steps in between where that takes any. No knob is in
/// `steps` twice.
pub(super) fn order(steps: Vec<Step>) -> Vec<Step> {
    let (mut grow, mut shrink, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut limits: BTreeMap<Group, Limit> = BTreeMap::new();
    for step in steps {
        let Knob::Group(group) = &step.knob else {
            others.push(step);
            continue;
        };
        match group.key() {
            Key::CpusetCpus => {
                let [up, down] = through(&step);
                grow.extend(up.map(|step| (group.depth(), step)));
                shrink.extend(down.map(|step| (group.depth(), step)));
            }
            Key::CpuMaxBurst | Key::CfsBurst => {
                let larger = part(&step.knob, &step.to) > part(&step.knob, &step.now);
                if larger { after.push(step) } else { before.push(step) }
            }
            Key::CpuMax => drop(limits.insert(group.clone(), Limit::One(step))),
            Key::CfsQuota | Key::CfsPeriod => {
                let both = limits.entry(group.beside(Key::CfsQuota)).or_default();
                both.add(step);
            }
            Key::CpuWeight | Key::CpuShares => others.push(step),
        }
    }
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (group, limit) in limits {
        let larger = limit.grows(&group);
        let steps = limit.steps().into_iter().map(|step| (group.depth(), step));
        if larger { up.extend(steps) } else { down.extend(steps) }
    }
    // Stable: what is of one group stays together as it is.
    for grows in [&mut grow, &mut up] {
        grows.sort_by_key(|(depth, _)| *depth);
    }
    for shrinks in [&mut shrink, &mut down] {
        shrinks.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    }
    let plain = |steps: Vec<(usize, Step)>| steps.into_iter().map(|(_, step)| step);
    let sets = plain(grow).chain(plain(shrink)).chain(domains::order(others));
    sets.chain(before).chain(plain(up)).chain(plain(down)).chain(after).collect()
}

fn size(knob: &Knob, value: &str) -> Option<Size> {
    match knob {
        Knob::Group(group) => Size::of(group.key(), value),
        _ => None,
    }
}

/// A set of CPUs through what it has and shall have together.
fn through(step: &Step) -> [Option<Step>; 2] {
    let sets = (size(&step.knob, &step.now), size(&step.knob, &step.to));
    let (Some(Size::Cpus(now)), Some(Size::Cpus(to))) = sets else {
        return [Some(step.clone()), None];
    };
    // No CPUs of its own are all that the group above has.
    if to.is_empty() || !now.is_empty() && to.is_superset(&now) {
        return [Some(step.clone()), None];
    }
    if now.is_empty() || now.is_superset(&to) {
        return [None, Some(step.clone())];
    }
    let both = cpus::list(&now.union(&to).copied().collect());
    let up = Step { to: both.clone(), ..step.clone() };
    [Some(up), Some(Step { now: both, ..step.clone() })]
}

/// What changes of one group's limit.
#[derive(Debug)]
enum Limit {
    /// v2: both in one file.
    One(Step),
    /// v1.
    Two { quota: Option<Step>, period: Option<Step> },
}

impl Default for Limit {
    fn default() -> Self {
        Limit::Two { quota: None, period: None }
    }
}

impl Limit {
    fn add(&mut self, step: Step) {
        if let (Limit::Two { quota, period }, Knob::Group(group)) = (self, &step.knob) {
            let slot = if group.key() == Key::CfsQuota { quota } else { period };
            *slot = Some(step);
        }
    }

    /// Whether it is larger afterwards.
    fn grows(&self, group: &Group) -> bool {
        match self {
            Limit::One(step) => part(&step.knob, &step.to) > part(&step.knob, &step.now),
            Limit::Two { quota, period } => {
                // What does not change is read; if that cannot be, the kernel's own values count.
                let still = |key, own: &str| {
                    let read = Knob::Group(group.beside(key)).read();
                    read.ok().flatten().unwrap_or_else(|| own.to_string())
                };
                let ends = |step: &Option<Step>, key, own| match step {
                    Some(step) => (step.now.clone(), step.to.clone()),
                    None => {
                        let value = still(key, own);
                        (value.clone(), value)
                    }
                };
                let (quota, quota_to) = ends(quota, Key::CfsQuota, "-1");
                let (period, period_to) = ends(period, Key::CfsPeriod, "100000");
                let part = |quota: &str, period: &str| {
                    let us = |key, value| match Size::of(key, value) {
                        Some(Size::Us(us)) => us,
                        _ => f64::INFINITY,
                    };
                    us(Key::CfsQuota, quota) / us(Key::CfsPeriod, period)
                };
                part(&quota_to, &period_to) > part(&quota, &period)
            }
        }
    }

    fn steps(self) -> Vec<Step> {
        match self {
            Limit::One(step) => vec![step],
            Limit::Two { quota: Some(quota), period: Some(period) } => {
                let lifted = "-1".to_string();
                if quota.now == lifted {
                    return vec![period, quota];
                }
                if quota.to == lifted {
                    return vec![quota, period];
                }
                let lift = Step { to: lifted.clone(), ..quota.clone() };
                vec![lift, period, Step { now: lifted, ..quota }]
            }
            Limit::Two { quota, period } => quota.into_iter().chain(period).collect(),
        }
    }
}

/// A burst, or which part of its period a group may run; infinite without limit.
fn part(knob: &Knob, value: &str) -> f64 {
    match size(knob, value) {
        Some(Size::Us(part)) => part,
        _ => f64::INFINITY,
    }
}
