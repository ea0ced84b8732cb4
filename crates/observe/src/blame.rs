//! Names of those who ran.

use std::collections::{BTreeMap, HashMap};

use super::slot::{Ahead, OnCpu, Ran};
use super::tracker::comm;
use super::vm_key::VmKey;
use super::{Blame, Runner};
use lowtail_discover::Vm;
use lowtail_kernel::Name;

/// Names that are told for one thread; the others' time is put together.
const NAMES: usize = 32;

/// Who is who, at one time.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    pub(crate) owners: HashMap<u32, VmKey>,
    pub(crate) vms: &'a BTreeMap<VmKey, Vm>,
    pub(crate) processes: HashMap<u32, Name>,
}

impl Names<'_> {
    /// Who that is.
    pub(crate) fn of(&mut self, runner: OnCpu) -> Runner {
        let (pid, name, kernel) = match runner {
            OnCpu::Idle => return Runner::Idle,
            OnCpu::Quota => return Runner::Quota,
            OnCpu::Process(pid, name) => (pid, name, false),
            OnCpu::Kernel(pid, name) => (pid, name, true),
        };
        if let Some(vm) = self.owners.get(&pid).and_then(|key| self.vms.get(key)) {
            return Runner::Vm(vm.name.clone(), vm.pid);
        }
        if kernel {
            return Runner::Kernel(name);
        }
        // What ran was one of its threads; the process may have another name, and is known by that.
        let known = self.processes.entry(pid);
        let name = known.or_insert_with(|| comm(pid).map_or(name, Name::new));
        Runner::Process(name.clone(), pid)
    }

    /// For whom a thread waits, of whom so many nanoseconds were not noted yet.
    pub(crate) fn ahead(&mut self, (ahead, ns): (Ahead, u64)) -> BTreeMap<Runner, u64> {
        let mut all = BTreeMap::new();
        if ahead.unknown {
            all.insert(Runner::Others, ns);
            return all;
        }
        if ahead.quota_ns > 0 {
            all.insert(Runner::Quota, ahead.quota_ns.min(ns));
        }
        if let Some((runner, ran_ns)) = ahead.ran {
            *all.entry(self.of(runner)).or_default() += ran_ns.min(ns);
        }
        all
    }

    /// Blame by slot.
    pub(crate) fn sort(&mut self, blame: Vec<Ran>) -> HashMap<u32, BTreeMap<Runner, u64>> {
        let mut sorted: HashMap<u32, BTreeMap<Runner, u64>> = HashMap::new();
        for ran in blame {
            let runner = self.of(ran.runner);
            *sorted.entry(ran.slot).or_default().entry(runner).or_default() += ran.ns;
        }
        sorted
    }
}

/// What a wait that goes on is for is told before the kernel's side has noted it. When it has, that is not told again:
/// takes `told` from what has come. Who was named otherwise then is taken from what has no name, and from most.
pub(crate) fn settle(new: &mut BTreeMap<Runner, u64>, told: &BTreeMap<Runner, u64>) {
    let mut owed_ns = 0;
    for (runner, &ns) in told {
        owed_ns += take(new, runner, ns);
    }
    owed_ns = take(new, &Runner::Others, owed_ns);
    while owed_ns > 0 {
        let Some(most) = new.iter().max_by_key(|(_, ns)| **ns).map(|(runner, _)| runner.clone())
        else {
            break;
        };
        owed_ns = take(new, &most, owed_ns);
    }
}

/// Takes so much of one; what was not there.
fn take(from: &mut BTreeMap<Runner, u64>, runner: &Runner, ns: u64) -> u64 {
    let Some(has_ns) = from.get_mut(runner) else { return ns };
    let taken_ns = ns.min(*has_ns);
    *has_ns -= taken_ns;
    if *has_ns == 0 {
        from.remove(runner);
    }
    ns - taken_ns
}

/// Most first, and no more than can be looked through.
pub(crate) fn rank(blame: BTreeMap<Runner, u64>) -> Vec<Blame> {
    let mut others_ns = 0;
    let mut ranked: Vec<Blame> = Vec::with_capacity(blame.len());
    for (runner, ready_ns) in blame {
        match runner {
            Runner::Others => others_ns += ready_ns,
            runner => ranked.push(Blame { runner, ready_ns, reason: None }),
        }
    }
    // Of equal ones, the names decide: so they come, and the sort is stable.
    ranked.sort_by_key(|blame| std::cmp::Reverse(blame.ready_ns));
    others_ns += ranked.drain(NAMES.min(ranked.len())..).map(|blame| blame.ready_ns).sum::<u64>();
    if others_ns > 0 {
        ranked.push(Blame { runner: Runner::Others, ready_ns: others_ns, reason: None });
    }
    ranked
}

/// Both together.
pub(crate) fn merge(mine: &mut Vec<Blame>, more: &[Blame]) {
    let mut all: BTreeMap<Runner, u64> = BTreeMap::new();
    for blame in mine.drain(..).chain(more.iter().cloned()) {
        *all.entry(blame.runner).or_default() += blame.ready_ns;
    }
    *mine = rank(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_before_it_was_noted_is_told_once() {
        let process = |n: u32| Runner::Process(Name::new("p"), n);
        let mut new: BTreeMap<Runner, u64> =
            [(process(1), 60), (process(2), 30), (Runner::Others, 5)].into();
        settle(&mut new, &[(process(1), 20), (process(3), 15)].into());
        // Of the third nothing has come: it has another name by now.
        assert_eq!(new, [(process(1), 30), (process(2), 30)].into());
        settle(&mut new, &[(process(9), 1_000)].into());
        assert_eq!(new, BTreeMap::new());
    }

    #[test]
    fn what_does_not_fit_is_put_together_and_nothing_is_lost() {
        let process = |n: u64| (Runner::Process(Name::new("p"), n as u32), n);
        let ranked = rank((1..=40).map(process).collect());
        assert_eq!(ranked.len(), NAMES + 1);
        assert_eq!(ranked[0].ready_ns, 40);
        assert_eq!(ranked[NAMES].runner, Runner::Others);
        assert_eq!(ranked[NAMES].ready_ns, (1..=8).sum::<u64>());
        let mut twice = ranked.clone();
        merge(&mut twice, &ranked);
        assert_eq!((twice[0].ready_ns, twice[NAMES].ready_ns), (80, 72));
    }
}
