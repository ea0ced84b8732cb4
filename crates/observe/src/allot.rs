//! Which threads get slots where there are too few.

use super::share::{Wants, divide};
use lowtail_discover::{Role, VmThread};

/// What a thread does for its VM, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Vcpu,
    BackEnd,
    Worker,
}

impl Class {
    /// The class of a role.
    pub(crate) fn of(role: Role) -> Self {
        match role {
            Role::Vcpu(_) => Class::Vcpu,
            Role::Vhost(_) | Role::IoThread(_) | Role::Emulator => Class::BackEnd,
            Role::Worker => Class::Worker,
        }
    }
}

/// A thread that wants a slot, or has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    class: Class,
    /// Among those of its class: vCPUs by their number, all others by the thread's, and what was not found in `/proc` last.
    order: (bool, u32),
    tid: u32,
    pub(crate) slot: Option<u32>,
}

impl Candidate {
    /// One that was found with its VM.
    pub(crate) fn listed(thread: &VmThread, slot: Option<u32>) -> Self {
        let number = match thread.role {
            Role::Vcpu(n) => u32::from(n),
            _ => thread.tid,
        };
        let class = Class::of(thread.role);
        Candidate { class, order: (false, number), tid: thread.tid, slot }
    }

    /// One that has a slot, and was not found: it has begun since then, or ended.
    pub(crate) fn unlisted(tid: u32, slot: u32) -> Self {
        Candidate { class: Class::Worker, order: (true, tid), tid, slot: Some(slot) }
    }
}

/// What is to be done. VMs are by their place in what was given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Slots to be taken from their threads.
    pub(crate) dropped: Vec<u32>,
    /// Threads that get a slot, the most important first, and a VM's first before another's second.
    pub(crate) begun: Vec<(usize, Class, u32)>,
    /// Threads for which there is no room: whose, and what they do.
    pub(crate) unseen: Vec<(usize, Class)>,
}

/// Divides `room` slots between VMs. Nothing but who is there decides: not who came first, nor who has slots already.
pub(crate) fn choose(room: usize, vms: Vec<Vec<Candidate>>) -> Chosen {
    let serves = |candidate: &Candidate| candidate.class != Class::Worker;
    let wants = |candidates: &Vec<Candidate>| {
        let serving = candidates.iter().filter(|one| serves(one)).count();
        Wants { serving, workers: candidates.len() - serving }
    };
    let wants: Vec<Wants> = vms.iter().map(wants).collect();
    let shares = divide(room, &wants);
    let mut chosen = Chosen::default();
    let mut begun = Vec::new();
    for (i, (mut candidates, share)) in vms.into_iter().zip(shares).enumerate() {
        candidates.sort_unstable_by_key(|one| (one.class, one.order));
        let first_worker = candidates.partition_point(serves);
        for (at, one) in candidates.into_iter().enumerate() {
            let fits = match at < first_worker {
                true => at < share.serving,
                false => at - first_worker < share.workers,
            };
            match (fits, one.slot) {
                (true, Some(_)) => {}
                (true, None) => begun.push((one.class, at, i, one.tid)),
                (false, slot) => {
                    chosen.dropped.extend(slot);
                    chosen.unseen.push((i, one.class));
                }
            }
        }
    }
    begun.sort_unstable();
    chosen.begun = begun.into_iter().map(|(class, _, i, tid)| (i, class, tid)).collect();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtail_kernel::Name;

    fn threads(first: u32, roles: impl IntoIterator<Item = Role>) -> Vec<Candidate> {
        let thread = |(i, role)| VmThread {
            tid: first + i as u32,
            role,
            comm: Name::new("x"),
            cgroup: None,
        };
        roles.into_iter().enumerate().map(thread).map(|one| Candidate::listed(&one, None)).collect()
    }

    /// All that `choose` lets begin has the slots of these numbers.
    fn settle(room: usize, vms: &mut [Vec<Candidate>]) -> Chosen {
        let chosen = choose(room, vms.to_vec());
        for one in vms.iter_mut().flatten() {
            if one.slot.is_some_and(|slot| chosen.dropped.contains(&slot)) {
                one.slot = None;
            }
        }
        for &(i, _, tid) in &chosen.begun {
            let one = vms[i].iter_mut().find(|one| one.tid == tid).expect("one of these");
            assert_eq!(one.slot.replace(tid), None);
        }
        chosen
    }

    #[test]
    fn a_newcomer_gets_slots_from_a_crowd_of_workers() {
        let mut vms = vec![threads(10_000, (0..5_000).map(|_| Role::Worker))];
        let chosen = settle(4096, &mut vms);
        assert_eq!((chosen.begun.len(), chosen.unseen.len()), (4096, 904));
        let roles = [Role::Emulator, Role::Worker, Role::Vcpu(1), Role::Vhost(0), Role::Vcpu(0)];
        vms.push(threads(100, roles));
        let chosen = settle(4096, &mut vms);
        assert_eq!(chosen.dropped.len(), 5);
        let begun: Vec<u32> = chosen.begun.iter().map(|&(_, _, tid)| tid).collect();
        assert_eq!(begun, [104, 102, 100, 103, 101]);
        assert!(chosen.unseen.iter().all(|&(i, _)| i == 0), "nothing of the newcomer is missing");
        // Nothing changes after that, in whatever order they come.
        vms[0].reverse();
        let again = choose(4096, vms);
        assert_eq!((again.dropped.len(), again.begun.len()), (0, 0));
    }

    #[test]
    fn whoever_claims_thousands_of_vcpus_blinds_nobody() {
        let mut vms = vec![threads(10_000, (0..4096).map(Role::Vcpu))];
        settle(4096, &mut vms);
        vms.push(threads(100, (0..64).map(Role::Vcpu).chain([Role::Emulator, Role::Worker])));
        let chosen = settle(4096, &mut vms);
        assert_eq!((chosen.dropped.len(), chosen.begun.len()), (65, 65));
        // Its own last ones are missing, and the other's worker, as there are vCPUs instead.
        assert_eq!(
            chosen.unseen.iter().filter(|&&(i, class)| (i, class) == (0, Class::Vcpu)).count(),
            65
        );
        assert!(chosen.unseen.contains(&(1, Class::Worker)));
    }

    #[test]
    fn within_a_machine_vcpus_come_first() {
        let roles = (0..50).map(|_| Role::Worker).chain((0..4).map(Role::IoThread));
        let mut vms = vec![threads(1, roles.chain((0..8).map(Role::Vcpu)))];
        let chosen = settle(10, &mut vms);
        let vcpus = chosen.begun.iter().filter(|(_, class, _)| *class == Class::Vcpu).count();
        assert_eq!((chosen.begun.len(), vcpus), (10, 8));
        let left = chosen.begun.iter().filter(|(_, class, _)| *class == Class::BackEnd).count();
        assert_eq!(left, 2);
    }
}
