//! In which order limits of libvirt's VMs change.
//!
//! cgroup v1 refuses a limit of a part that is above that of the whole VM. A whole that grows goes first, one that
//! shrinks last. Quota and period are two values: of a part's, first what makes its limit smaller; of the whole's, first
//! what makes it larger. So whatever was taken before and would be taken after is never left in between, in both
//! directions.

use std::collections::BTreeMap;

use super::step::Step;
use super::{Knob, Libvirt};
use crate::libvirt::{Domain, Key, Part};

/// The same steps, VM by VM; first all that are no limits of libvirt's, as they were.
pub(super) fn order(steps: Vec<Step>) -> Vec<Step> {
    let mut vms: BTreeMap<(String, Domain), Vec<(Key, Step)>> = BTreeMap::new();
    let mut all = Vec::new();
    for step in steps {
        match step.knob.clone() {
            Knob::Libvirt(Libvirt { uri, domain, key: key @ (Key::Period(_) | Key::Quota(_)) }) => {
                vms.entry((uri, domain)).or_default().push((key, step));
            }
            _ => all.push(step),
        }
    }
    for ((uri, domain), mut limits) in vms {
        let knob = |key| Knob::Libvirt(Libvirt { uri: uri.clone(), domain: domain.clone(), key });
        let ends = |key| match limits.iter().find(|(there, _)| *there == key) {
            Some((_, step)) => [Some(step.now.clone()), Some(step.to.clone())],
            None => {
                let still = knob(key).read().ok().flatten();
                [still.clone(), still]
            }
        };
        let ranks = ranks(limits.iter().map(|(key, _)| *key), ends);
        limits.sort_by_key(|(key, _)| ranks.get(key).copied());
        all.extend(limits.into_iter().map(|(_, step)| step));
    }
    all
}

/// The turn of each of these keys; `ends` are the values before and after.
fn ranks(
    keys: impl Iterator<Item = Key>,
    ends: impl Fn(Key) -> [Option<String>; 2],
) -> BTreeMap<Key, (u8, u8)> {
    let us = |key| ends(key).map(|text| text.and_then(|text| text.parse::<f64>().ok()));
    let share = |quota: Option<f64>, period: Option<f64>| match (quota, period) {
        (Some(quota), Some(period)) if quota >= 0.0 && period > 0.0 => quota / period,
        _ => f64::INFINITY,
    };
    let [quota, quota_to] = us(Key::Quota(Part::Global));
    let [period, period_to] = us(Key::Period(Part::Global));
    let whole_grows = share(quota_to, period_to) >= share(quota, period);
    let rank = |key: Key| {
        let (Key::Quota(part) | Key::Period(part)) = key else { return (0, 0) };
        let [now, to] = us(Key::Period(part));
        let period_first = (to > now) != (part == Part::Global);
        let second = matches!(key, Key::Period(_)) != period_first;
        let turn = match (part == Part::Global, whole_grows) {
            (true, true) => 0,
            (false, _) => 1,
            (true, false) => 2,
        };
        (turn, u8::from(second))
    };
    keys.map(|key| (key, rank(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is between two pairs of limits, a vCPU's within the whole's at the beginning and at the end.
    #[test]
    fn no_part_is_ever_above_the_whole() {
        let limits: [(i64, i64); 6] = [
            (-1, 100_000),
            (200_000, 100_000),
            (50_000, 50_000),
            (50_000, 100_000),
            (10_000, 10_000),
            (5_000, 20_000),
        ];
        let share = |(quota, period): (i64, i64)| match quota {
            -1 => f64::INFINITY,
            quota => quota as f64 / period as f64,
        };
        let keys = [Part::Global, Part::Vcpu].map(|part| [Key::Quota(part), Key::Period(part)]);
        let knob = |key| {
            let domain = Domain { uuid: String::new(), id: 1 };
            Knob::Libvirt(Libvirt { uri: "none".to_string(), domain, key })
        };
        let pairs = || limits.iter().flat_map(|all| limits.iter().map(move |one| (*all, *one)));
        let fits = |(all, one): &((i64, i64), (i64, i64))| share(*one) <= share(*all);
        for (all, one) in pairs().filter(fits) {
            for (all_to, one_to) in pairs().filter(fits) {
                let numbers = |all: (i64, i64), one: (i64, i64)| [all.0, all.1, one.0, one.1];
                let ends = numbers(all, one).into_iter().zip(numbers(all_to, one_to));
                let keys = || keys.iter().flatten().copied();
                let steps = keys().zip(ends.clone()).map(|(key, (now, to))| Step {
                    knob: knob(key),
                    now: now.to_string(),
                    to: to.to_string(),
                    restores: false,
                });
                let mut there: BTreeMap<Knob, i64> =
                    keys().map(knob).zip(ends.map(|(now, _)| now)).collect();
                for step in order(steps.collect()) {
                    there.insert(step.knob.clone(), step.to.parse().expect("a number"));
                    let of =
                        |part| (there[&knob(Key::Quota(part))], there[&knob(Key::Period(part))]);
                    let (whole, vcpu) = (of(Part::Global), of(Part::Vcpu));
                    assert!(
                        share(vcpu) <= share(whole),
                        "{all:?} {one:?} to {all_to:?} {one_to:?}: {whole:?} {vcpu:?} at {}",
                        step.knob
                    );
                }
            }
        }
    }
}
