//! For whom a VM waited, and who sends: a few names, and they are those that matter.

use std::collections::BTreeMap;

use lowtail_observe::{Runner, Sender};

use super::label::shown;

/// Names that are told for one VM; the others' time is told together.
pub(super) const TOLD_MAX: usize = 50;
/// Names that are remembered for one VM: those that are told, were told, or may come to be.
const NAMES_MAX: usize = 256;
/// What somebody is blamed for counts half after some 90 intervals: 1 - 1/128 of it are left after each.
const LEFT: f64 = 127.0 / 128.0;
/// Whoever shall be told instead of another is to be blamed for so many times as much.
const AHEAD: f64 = 2.0;

/// Who ran. What kind of thing it is stands beside its name, since a VM may be called as it likes, `nobody
/// (idle)`, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct By {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) pid: Option<u32>,
}

impl By {
    fn new(kind: &'static str, name: String, pid: Option<u32>) -> Self {
        By { kind, name, pid }
    }

    /// All whose names are not told.
    fn others() -> Self {
        By::new("others", "others".to_string(), None)
    }

    /// Whether there is one of its kind alone, so that nobody can have it replaced.
    fn is_one(&self) -> bool {
        matches!(self.kind, "idle" | "quota" | "host" | "others")
    }
}

impl From<&Runner> for By {
    fn from(who: &Runner) -> Self {
        match who {
            Runner::Vm(name, pid) => By::new("vm", shown(name), Some(*pid)),
            Runner::Process(name, pid) => By::new("process", shown(name), Some(*pid)),
            Runner::Kernel(name) => By::new("kernel", shown(name), None),
            Runner::Idle => By::new("idle", "nobody (idle)".to_string(), None),
            Runner::Quota => By::new("quota", "its quota".to_string(), None),
            Runner::Others => By::others(),
        }
    }
}

impl From<&Sender> for By {
    fn from(who: &Sender) -> Self {
        match who {
            Sender::Vm(name, pid) => By::new("vm", shown(name), Some(*pid)),
            Sender::Group(name) => By::new("group", shown(name), None),
            Sender::Interface(name) => By::new("interface", shown(name), None),
            Sender::Host => By::new("host", "host".to_string(), None),
            Sender::Others => By::others(),
        }
    }
}

/// What a VM has waited, in nanoseconds by whom; or bytes, by whose they are.
///
/// Who comes first has no right to be told: somebody could start fifty processes to hide the next behind them. A name
/// that is replaced is remembered with its total, so that its counter goes on where it was if it is told again.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    names: BTreeMap<By, Entry>,
    ones: BTreeMap<By, u64>,
}

#[derive(Debug)]
struct Entry {
    told: bool,
    /// What its counter says: what was waited for it while it was told.
    told_amount: u64,
    /// What it is blamed for of late.
    weight: f64,
}

impl Ledger {
    /// Adds an interval. How many names are told as others.
    pub(super) fn add(&mut self, interval: BTreeMap<By, u64>) -> u64 {
        self.names.values_mut().for_each(|entry| entry.weight *= LEFT);
        let (mut left_out, mut others_amount) = (0, 0u64);
        let mut interval: Vec<(By, u64)> = interval.into_iter().collect();
        interval.sort_by_key(|(_, amount)| std::cmp::Reverse(*amount));
        for (by, amount) in interval {
            if by.is_one() {
                let one = self.ones.entry(by).or_default();
                *one = one.saturating_add(amount);
                continue;
            }
            let told = match self.names.get_mut(&by) {
                Some(entry) => {
                    entry.weight += amount as f64;
                    entry.told
                }
                None => self.enter(by.clone(), amount),
            };
            match self.names.get_mut(&by).filter(|_| told) {
                Some(entry) => entry.told_amount = entry.told_amount.saturating_add(amount),
                None => {
                    left_out += 1;
                    others_amount = others_amount.saturating_add(amount);
                }
            }
        }
        if others_amount > 0 {
            let others = self.ones.entry(By::others()).or_default();
            *others = others.saturating_add(others_amount);
        }
        self.replace();
        left_out
    }

    /// Remembers a new name, if there is room. Whether it is told.
    fn enter(&mut self, by: By, amount: u64) -> bool {
        let told = self.names.values().filter(|entry| entry.told).count() < TOLD_MAX;
        let weight = amount as f64;
        if self.names.len() >= NAMES_MAX {
            // One whose counter was seen goes only when it has not been blamed for a long time.
            let goes = |entry: &Entry| {
                !entry.told
                    && (entry.weight < 1.0 || entry.told_amount == 0 && entry.weight < weight)
            };
            let least = self.names.iter().filter(|(_, entry)| goes(entry));
            let least = least.min_by(|a, b| a.1.weight.total_cmp(&b.1.weight));
            let Some(least) = least.map(|(by, _)| by.clone()) else { return false };
            self.names.remove(&least);
        }
        self.names.insert(by, Entry { told, told_amount: 0, weight });
        told
    }

    /// Tells those who matter more instead of those who matter less.
    fn replace(&mut self) {
        for _ in 0..TOLD_MAX {
            let weight = |(by, entry): (&By, &Entry)| (entry.weight, by.clone());
            let of =
                |told: bool| self.names.iter().filter(move |(_, e)| e.told == told).map(weight);
            let least = of(true).min_by(|a, b| a.0.total_cmp(&b.0));
            let most = of(false).max_by(|a, b| a.0.total_cmp(&b.0));
            let (Some(least), Some(most)) = (least, most) else { return };
            if most.0 <= AHEAD * least.0 {
                return;
            }
            for (by, told) in [(least.1, false), (most.1, true)] {
                if let Some(entry) = self.names.get_mut(&by) {
                    entry.told = told;
                }
            }
        }
    }

    /// Who is told, and how much.
    pub(super) fn told(&self) -> Vec<(By, u64)> {
        let names = self.names.iter().filter(|(_, entry)| entry.told);
        let names = names.map(|(by, entry)| (by.clone(), entry.told_amount));
        names.chain(self.ones.iter().map(|(by, amount)| (by.clone(), *amount))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(n: u32) -> By {
        By::new("process", format!("p{n}"), Some(n))
    }

    #[test]
    fn who_is_there_first_does_not_hide_who_matters() {
        let mut ledger = Ledger::default();
        ledger.add((0..1_000).map(|n| (process(n), 1_000)).collect());
        assert_eq!(ledger.told().len(), TOLD_MAX + 1);
        let culprit = process(5_000);
        let crumbs = |at: u32| (0..40).map(move |n| (process(10_000 + 40 * at + n), 1_000));
        for at in 0..10 {
            ledger.add(crumbs(at).chain([(culprit.clone(), 500_000_000)]).collect());
        }
        let told = ledger.told();
        let ns = told.iter().find(|(by, _)| *by == culprit).map(|(_, ns)| *ns);
        // Of the first interval it was among the others.
        assert_eq!(ns, Some(9 * 500_000_000), "{told:?}");
    }

    /// Whoever looks at `others` and at all names together misses nothing, and a counter that is told again goes on.
    #[test]
    fn nothing_is_lost_and_no_counter_falls() {
        let mut ledger = Ledger::default();
        let mut last: BTreeMap<By, u64> = BTreeMap::new();
        let mut total = 0;
        for round in 0..2_000u64 {
            // Sets of names that take turns in being the worst.
            let set = (round / 40 % 7) as u32;
            let worst: Vec<(By, u64)> =
                (0..30).map(|n| (process(100 * set + n), 1_000_000 + u64::from(n))).collect();
            total += worst.iter().map(|(_, ns)| ns).sum::<u64>();
            ledger.add(worst.into_iter().collect());
            for (by, ns) in ledger.told() {
                let before = last.insert(by.clone(), ns).unwrap_or(0);
                assert!(before <= ns, "{by:?}: {before} ns, then {ns} ns");
            }
            assert!(ledger.told().len() <= TOLD_MAX + 1 && ledger.names.len() <= NAMES_MAX);
        }
        let all = ledger.names.values().map(|entry| entry.told_amount).sum::<u64>()
            + ledger.ones.values().sum::<u64>();
        assert_eq!(all, total);
    }

    #[test]
    fn a_name_is_not_what_it_says() {
        let named = Runner::Vm(lowtail_kernel::Name::new("nobody (idle)"), 7);
        let interval = [(By::from(&named), 5), (By::from(&Runner::Idle), 7)].into_iter().collect();
        let mut ledger = Ledger::default();
        ledger.add(interval);
        let told: Vec<(&str, u64)> = ledger.told().iter().map(|(by, ns)| (by.kind, *ns)).collect();
        assert_eq!(told, [("vm", 5), ("idle", 7)]);
    }
}
