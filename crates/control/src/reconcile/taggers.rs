//! The taggers of uplinks, following VMs that come and go.

use std::collections::{BTreeMap, BTreeSet};

use crate::flow::{Tagger, VMS_MAX};
use crate::policy::{Policy, Uplink};
use lowtail_discover::Found;
use lowtail_kernel::Error;
use lowtail_kernel::tc::{self, Hook, Link};

/// A VM: its process and when that began, in clock ticks.
type Id = (u32, u64);

/// Tells taggers whose each interface is. A VM has its number, and with it its bucket, as long as it lives.
#[derive(Debug, Default)]
pub struct Taggers {
    numbers: BTreeMap<Id, u32>,
    /// Those that run at uplinks, by the numbers of interface and program. What is open here keeps its number.
    running: BTreeMap<u32, (u32, Tagger)>,
}

impl Taggers {
    /// Tells the taggers that run at the policy's uplinks of the VMs that were found, of those that are not
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
        let most = if policy.taps { policy.mark_mask.vms() } else { VMS_MAX - 1 };
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
                    "{}: its packets count as the host's: taggers have room for {most} VMs{}",
                    vm.name,
                    if policy.taps { " in `mark_mask`" } else { "" }
                )),
            }
        }
        troubles.extend(self.report(&policy.uplinks, &known));
        troubles
    }

    /// Tells all. That an uplink is not there, or has no tagger, is told where that was to be put there.
    fn report(&mut self, uplinks: &[Uplink], known: &[(u32, u32)]) -> Vec<String> {
        let all = match Link::all() {
            Ok(all) => all,
            Err(error) => return vec![error.to_string()],
        };
        let named = |link: &&Link| uplinks.iter().any(|uplink| uplink.name == link.name);
        let links: Vec<&Link> = all.iter().filter(named).collect();
        self.running.retain(|ifindex, _| links.iter().any(|link| link.ifindex == *ifindex));
        let config = links.into_iter().filter_map(|link| self.report_one(link, known).err());
        config.map(|error| error.to_string()).collect()
    }

    fn report_one(&mut self, link: &Link, known: &[(u32, u32)]) -> Result<(), Error> {
        let id = tc::own(link, Hook::Egress)?;
        let remembered = self.running.get(&link.ifindex).map(|(id, _)| *id);
        if remembered != id || id.is_none() {
            self.running.remove(&link.ifindex);
            // To find it takes a walk over all programs of the host.
            let Some((id, tagger)) = id.zip(Tagger::running(link)?) else { return Ok(()) };
            self.running.insert(link.ifindex, (id, tagger));
        }
        self.running.get(&link.ifindex).map_or(Ok(()), |(_, tagger)| tagger.set_owners(known))
    }

    /// The VM's number: the one that it has, else the lowest that is free; 0 is the host.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_are_given_again() {
        let mut taggers = Taggers::default();
        let number = |taggers: &mut Taggers, pid| taggers.number((pid, 1), VMS_MAX - 1);
        assert_eq!([7, 8, 9].map(|pid| number(&mut taggers, pid)), [Some(1), Some(2), Some(3)]);
        taggers.numbers.remove(&(8, 1));
        assert_eq!([9, 10, 7].map(|pid| number(&mut taggers, pid)), [Some(3), Some(2), Some(1)]);
        for pid in 11..=VMS_MAX + 6 {
            assert!(number(&mut taggers, pid).is_some(), "{pid}");
        }
        assert_eq!(number(&mut taggers, 1), None, "there is no more room");
    }
}
