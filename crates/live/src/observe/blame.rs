//! Names of those who ran.

use std::collections::{BTreeMap, HashMap};

use super::slot::{Ran, Runner};
use super::tracker::{Key, comm};
use super::{Blame, Who};
use crate::discover::{Name, Vm};

/// Names that are told for one thread; the others' time is put together.
const NAMES: usize = 32;

/// Who is who, at one time.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    pub(crate) owners: HashMap<u32, Key>,
    pub(crate) vms: &'a BTreeMap<Key, Vm>,
    pub(crate) processes: HashMap<u32, Name>,
}

impl Names<'_> {
    fn of(&mut self, runner: Runner) -> Who {
        let (pid, name, kernel) = match runner {
            Runner::Idle => return Who::Idle,
            Runner::Quota => return Who::Quota,
            Runner::Process(pid, name) => (pid, name, false),
            Runner::Kernel(pid, name) => (pid, name, true),
        };
        if let Some(vm) = self.owners.get(&pid).and_then(|key| self.vms.get(key)) {
            return Who::Vm(vm.name.clone(), vm.pid);
        }
        if kernel {
            return Who::Kernel(name);
        }
        // What ran was one of its threads; the process may have another name, and is known by that.
        let known = self.processes.entry(pid);
        let name = known.or_insert_with(|| comm(pid).map_or(name, Name::new));
        Who::Process(name.clone(), pid)
    }

    /// Blame by slot.
    pub(crate) fn sort(&mut self, blame: Vec<Ran>) -> HashMap<u32, BTreeMap<Who, u64>> {
        let mut sorted: HashMap<u32, BTreeMap<Who, u64>> = HashMap::new();
        for ran in blame {
            let who = self.of(ran.runner);
            *sorted.entry(ran.slot).or_default().entry(who).or_default() += ran.ns;
        }
        sorted
    }
}

/// Most first, and no more than can be looked through.
pub(crate) fn rank(blame: BTreeMap<Who, u64>) -> Vec<Blame> {
    let mut others_ns = 0;
    let mut ranked: Vec<Blame> = Vec::with_capacity(blame.len());
    for (who, waited_ns) in blame {
        match who {
            Who::Others => others_ns += waited_ns,
            who => ranked.push(Blame { who, waited_ns }),
        }
    }
    // Of equal ones, the names decide: so they come, and the sort is stable.
    ranked.sort_by_key(|blame| std::cmp::Reverse(blame.waited_ns));
    others_ns += ranked.drain(NAMES.min(ranked.len())..).map(|blame| blame.waited_ns).sum::<u64>();
    if others_ns > 0 {
        ranked.push(Blame { who: Who::Others, waited_ns: others_ns });
    }
    ranked
}

/// Both together.
pub(crate) fn merge(mine: &mut Vec<Blame>, more: &[Blame]) {
    let mut all: BTreeMap<Who, u64> = BTreeMap::new();
    for blame in mine.drain(..).chain(more.iter().cloned()) {
        *all.entry(blame.who).or_default() += blame.waited_ns;
    }
    *mine = rank(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_put_together_and_nothing_is_lost() {
        let process = |n: u64| (Who::Process(Name::new("p"), n as u32), n);
        let ranked = rank((1..=40).map(process).collect());
        assert_eq!(ranked.len(), NAMES + 1);
        assert_eq!(ranked[0].waited_ns, 40);
        assert_eq!(ranked[NAMES].who, Who::Others);
        assert_eq!(ranked[NAMES].waited_ns, (1..=8).sum::<u64>());
        let mut twice = ranked.clone();
        merge(&mut twice, &ranked);
        assert_eq!((twice[0].waited_ns, twice[NAMES].waited_ns), (80, 72));
    }
}
