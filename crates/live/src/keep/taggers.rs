//! The taggers of uplinks, following machines that come and go.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::discover::Found;
use crate::flow::{MACHINES_MAX, Tagger};
use crate::policy::{Policy, Uplink};
use crate::tc::Link;

/// A machine: its process and when that began, in clock ticks.
type Id = (u32, u64);

/// Tells taggers whose each interface is. A machine has its number, and with it its bucket, as long as it lives.
#[derive(Debug, Default)]
pub struct Taggers {
    numbers: BTreeMap<Id, u32>,
}

impl Taggers {
    /// Tells the taggers that run at the policy's uplinks of the machines that were found, of those that are not
    /// managed as well: else their packets would be the host's. An uplink without a tagger is left out. What a tagger
    /// knows stays when this process ends.
    ///
    /// Gives what went wrong, in words.
    pub fn follow(&mut self, policy: &Policy, found: &Found) -> Vec<String> {
        let mut troubles = Vec::new();
        if policy.uplinks.is_empty() {
            return troubles;
        }
        let there: BTreeSet<Id> = found.vms.iter().map(|vm| (vm.pid, vm.started_ticks)).collect();
        let most = if policy.taps { policy.mark_mask.machines() } else { MACHINES_MAX - 1 };
        self.numbers.retain(|id, number| there.contains(id) && *number <= most);
        let mut known = Vec::new();
        for vm in &found.vms {
            // Interfaces of another network namespace have other numbers, and their packets do not come from them here.
            let own: Vec<u32> =
                vm.taps.iter().filter(|tap| tap.netns.is_none()).map(|tap| tap.ifindex).collect();
            if own.is_empty() {
                continue;
            }
            match self.number((vm.pid, vm.started_ticks), most) {
                Some(number) => known.extend(own.into_iter().map(|ifindex| (ifindex, number))),
                None => troubles.push(format!(
                    "{}: its packets count as the host's: taggers have room for {most} machines{}",
                    vm.name,
                    if policy.taps { " in `mark_mask`" } else { "" }
                )),
            }
        }
        let told = policy.uplinks.iter().filter_map(|uplink| tell(uplink, &known).err());
        troubles.extend(told.map(|error| error.to_string()));
        troubles
    }

    /// The machine's number: the one that it has, else the lowest that is free; 0 is the host.
    fn number(&mut self, id: Id, most: u32) -> Option<u32> {
        if let Some(number) = self.numbers.get(&id) {
            return Some(*number);
        }
        let taken: BTreeSet<u32> = self.numbers.values().copied().collect();
        let number = (1..=most).find(|number| !taken.contains(number))?;
        self.numbers.insert(id, number);
        Some(number)
    }
}

/// That it is not there, or has no tagger, is told where that was to be put there.
fn tell(uplink: &Uplink, known: &[(u32, u32)]) -> Result<(), Error> {
    let link = Link::all()?.into_iter().find(|link| link.name == uplink.name);
    let tagger = link.map(|link| Tagger::running(&link)).transpose()?.flatten();
    tagger.map_or(Ok(()), |tagger| tagger.know(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_are_given_again() {
        let mut taggers = Taggers::default();
        let number = |taggers: &mut Taggers, pid| taggers.number((pid, 1), MACHINES_MAX - 1);
        assert_eq!([7, 8, 9].map(|pid| number(&mut taggers, pid)), [Some(1), Some(2), Some(3)]);
        taggers.numbers.remove(&(8, 1));
        assert_eq!([9, 10, 7].map(|pid| number(&mut taggers, pid)), [Some(3), Some(2), Some(1)]);
        for pid in 11..=MACHINES_MAX + 6 {
            assert!(number(&mut taggers, pid).is_some(), "{pid}");
        }
        assert_eq!(number(&mut taggers, 1), None, "there is no more room");
    }
}
