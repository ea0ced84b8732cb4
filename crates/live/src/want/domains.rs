//! Machines of libvirt's, by the process that runs them, and their values as libvirt has them.

use std::collections::BTreeMap;
use std::path::Path;

use super::Wish;
use crate::discover::{Found, Kind, Vm};
use crate::libvirt::{self, Domain, Part, Running};
use crate::manage::{self, Libvirt, Place, Setting};

/// What libvirt knows of the machines that were found.
#[derive(Debug, Default)]
pub(super) struct Domains {
    uri: String,
    known: BTreeMap<u32, Running>,
    /// Why nothing is known.
    pub(super) unknown: Option<String>,
}

impl Domains {
    /// Asks libvirt, if one of the machines is one of its.
    pub(super) fn ask(uri: &str, found: &Found) -> Self {
        let own = || found.vms.iter().filter(|vm| vm.kind == Kind::Libvirt);
        let mut domains = Domains { uri: uri.to_string(), ..Domains::default() };
        if own().next().is_none() {
            return domains;
        }
        match running(uri) {
            Ok(all) => {
                let of = |vm: &Vm| Some((vm.pid, all.iter().find(|one| one.is(vm))?.clone()));
                domains.known = own().filter_map(of).collect();
            }
            Err(why) => domains.unknown = Some(why),
        }
        domains
    }

    /// Titles of machines, by process.
    pub(super) fn titles(&self) -> BTreeMap<u32, String> {
        let title = |running: &Running| {
            let mut labels = running.labels.iter();
            let found = labels.find(|label| label.namespace.is_none() && label.path == "title");
            found.map(|label| label.value.clone())
        };
        self.known.iter().filter_map(|(pid, one)| Some((*pid, title(one)?))).collect()
    }

    /// The machine `vm` as libvirt names it.
    pub(super) fn of(&self, vm: &Vm) -> Option<&Domain> {
        self.known.get(&vm.pid).map(|running| &running.domain)
    }

    /// Moves those wishes of `vm` to libvirt's values that libvirt has: weight of the machine, all limits. The others
    /// stay: bursts, and the weight of the emulator's threads.
    pub(super) fn take(&self, vm: &Vm, wishes: &mut Vec<Wish>) -> Vec<Setting> {
        let Some(domain) = self.of(vm) else { return Vec::new() };
        let place =
            |key| Place::Libvirt(Libvirt { uri: self.uri.clone(), domain: domain.clone(), key });
        let mut values: Vec<(libvirt::Key, String, String)> = Vec::new();
        wishes.retain(|wish| {
            let Some(taken) = values_of(vm, wish) else { return true };
            for (key, to) in taken {
                // All vCPUs have one limit, and so have all I/O threads.
                if !values.iter().any(|(there, ..)| *there == key) {
                    values.push((key, to, wish.why.clone()));
                }
            }
            false
        });
        let now = |key| place(key).read().ok().flatten();
        order(&mut values, now);
        let setting = |(key, to, why)| Setting { place: place(key), to, why };
        values.into_iter().map(setting).collect()
    }
}

#[cfg(feature = "libvirt")]
fn running(uri: &str) -> Result<Vec<Running>, String> {
    libvirt::with(uri, |to| to.running()).map_err(|error| {
        format!(
            "{error}; values of libvirt's machines are written to their control groups directly"
        )
    })
}

#[cfg(not(feature = "libvirt"))]
fn running(_uri: &str) -> Result<Vec<Running>, String> {
    Err(libvirt::WITHOUT.to_string())
}

/// Keys and values of libvirt's for what is to be in a control group; `None` if libvirt has none for it.
fn values_of(vm: &Vm, wish: &Wish) -> Option<Vec<(libvirt::Key, String)>> {
    let super::Target::Group(path, file) = &wish.target else { return None };
    let part = part(vm, path)?;
    let (period, quota) = (libvirt::Key::Period(part), libvirt::Key::Quota(part));
    let to = wish.to.clone();
    match file {
        manage::Key::CpuShares | manage::Key::CpuWeight if part == Part::Global => {
            Some(vec![(libvirt::Key::CpuShares, to)])
        }
        manage::Key::CfsPeriod => Some(vec![(period, to)]),
        manage::Key::CfsQuota => Some(vec![(quota, to)]),
        manage::Key::CpuMax => match to.split_once(' ') {
            Some((us, of)) => Some(vec![(quota, us.to_string()), (period, of.to_string())]),
            None => Some(vec![(quota, "-1".to_string())]),
        },
        _ => None,
    }
}

/// Which part of a machine a group of it is.
fn part(vm: &Vm, path: &Path) -> Option<Part> {
    if vm.cgroup.as_deref() == Some(path) {
        return Some(Part::Global);
    }
    let group = vm.groups.iter().find(|group| group.path == path)?;
    let label = group.label.as_given();
    let parts = [("vcpu", Part::Vcpu), ("emulator", Part::Emulator), ("iothread", Part::IoThread)];
    parts.iter().find(|(name, _)| label.starts_with(name)).map(|(_, part)| *part)
}

/// Puts values into an order that cgroup v1 takes: at no moment a part has more than the whole. A whole that grows goes
/// first, one that shrinks last, and so with what a period and a quota are between one and the other.
fn order(
    values: &mut [(libvirt::Key, String, String)],
    now: impl Fn(libvirt::Key) -> Option<String>,
) {
    let us = |text: Option<String>| text.and_then(|text| text.parse::<f64>().ok());
    let share = |quota: Option<f64>, period: Option<f64>| match (quota, period) {
        (Some(quota), Some(period)) if quota >= 0.0 && period > 0.0 => quota / period,
        _ => f64::INFINITY,
    };
    let to = |key| us(values.iter().find(|(there, ..)| *there == key).map(|(_, to, _)| to.clone()));
    let both = |part| (libvirt::Key::Quota(part), libvirt::Key::Period(part));
    let (quota, period) = both(Part::Global);
    let whole = to(quota).map(|wanted| {
        let was = us(now(period));
        share(Some(wanted), to(period).or(was)) >= share(us(now(quota)), was)
    });
    let rank = |key: libvirt::Key| {
        let (libvirt::Key::Quota(part) | libvirt::Key::Period(part)) = key else { return (0, 0) };
        let (_, period) = both(part);
        let longer = to(period).zip(us(now(period))).is_some_and(|(to, now)| to > now);
        // A longer period is less, so a part's goes first and the whole's goes last.
        let period_first = longer != (part == Part::Global);
        let second = matches!(key, libvirt::Key::Period(_)) != period_first;
        let turn = match (part == Part::Global, whole) {
            (false, _) => 2,
            (true, Some(true) | None) => 1,
            (true, Some(false)) => 3,
        };
        (turn, u8::from(second))
    };
    let ranks: BTreeMap<libvirt::Key, (u8, u8)> =
        values.iter().map(|(key, ..)| (*key, rank(*key))).collect();
    values.sort_by_key(|(key, ..)| ranks.get(key).copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is between two values is never above that of the whole: each step is looked at, with a vCPU's limit below
    /// the whole's at the beginning and at the end.
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
        let keys = [Part::Global, Part::Vcpu]
            .map(|part| [libvirt::Key::Quota(part), libvirt::Key::Period(part)])
            .concat();
        let share = |(quota, period): (i64, i64)| match quota {
            -1 => f64::INFINITY,
            quota => quota as f64 / period as f64,
        };
        let pairs = || limits.iter().flat_map(|all| limits.iter().map(move |one| (*all, *one)));
        let fits = |(all, one): &((i64, i64), (i64, i64))| share(*one) <= share(*all);
        for (all, one) in pairs().filter(fits) {
            for (all_to, one_to) in pairs().filter(fits) {
                let numbers = [all.0, all.1, one.0, one.1].map(|n| n.to_string());
                let mut there: BTreeMap<_, _> = keys.iter().copied().zip(numbers).collect();
                let wanted = [all_to.0, all_to.1, one_to.0, one_to.1].map(|n| n.to_string());
                let mut values: Vec<_> = keys
                    .iter()
                    .copied()
                    .zip(wanted)
                    .map(|(key, to)| (key, to, String::new()))
                    .collect();
                let before = there.clone();
                order(&mut values, |key| before.get(&key).cloned());
                for (key, to, _) in values {
                    there.insert(key, to);
                    let of = |n: usize| there[&keys[n]].parse::<i64>().expect("a number");
                    let (all_now, one_now) = ((of(0), of(1)), (of(2), of(3)));
                    assert!(
                        share(one_now) <= share(all_now),
                        "{all:?} {one:?} to {all_to:?} {one_to:?}: {all_now:?} {one_now:?} at {key}"
                    );
                }
            }
        }
    }
}
