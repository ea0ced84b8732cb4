//! Which slot of the kernel's side belongs to which thread of which machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

use super::kernel::{Programs, Wait};
use super::slot::{Slot, State};
use super::{Blame, Histogram, ThreadSnapshot};
use crate::discover::{Kind, Name, Role, Vm, VmThread};
use crate::error::Error;

/// A machine: its process, and when that started.
pub(crate) type Key = (u32, u64);

/// After so many looks without it, a thread that has not ended is no longer its machine's.
const ABSENT: u8 = 2;

pub(crate) fn key(vm: &Vm) -> Key {
    (vm.pid, vm.started_ticks)
}

/// A thread that is looked at.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) vm: Key,
    pub(crate) thread: VmThread,
    /// As it was last.
    slot: Slot,
    woken: Histogram,
    preempted: Histogram,
    cpu_ns: u64,
    /// Run time when it began to be looked at, by another count of the kernel's.
    begin_ns: Option<u64>,
    absent: u8,
    /// For whom it has waited since it is looked at.
    pub(crate) blame: Vec<Blame>,
}

/// What has come in an interval.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) number: u32,
    pub(crate) others_ns: u64,
    pub(crate) ended: bool,
    pub(crate) snapshot: ThreadSnapshot,
}

/// All threads that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    threads: HashMap<u32, Tracked>,
    slot_of_tid: HashMap<u32, u32>,
    /// Slots whose threads are looked at no longer, and whether they have figures.
    retired: Vec<(u32, bool)>,
    /// Those that were retired an interval before.
    retired_before: Vec<(u32, bool)>,
    /// Threads that did not fit, at the last look.
    pub(crate) refused: u64,
}

impl Tracker {
    /// Looks at what machines have now: threads that are new, others that are theirs no longer.
    pub(crate) fn follow<'a>(
        &mut self,
        programs: &Programs,
        vms: impl Iterator<Item = &'a Vm>,
    ) -> Result<(), Error> {
        for tracked in self.threads.values_mut() {
            tracked.absent = tracked.absent.saturating_add(1);
        }
        self.refused = 0;
        let mut kinds = HashMap::new();
        for vm in vms {
            kinds.insert(key(vm), vm.kind);
            for thread in &vm.threads {
                if !self.renew(vm, thread) && !self.begin(programs, vm, thread)? {
                    self.refused += 1;
                }
            }
        }
        // A thread that ends says so; others may be moved to another group, or serve another machine.
        let gone = self.threads.iter().filter(|(_, tracked)| match kinds.get(&tracked.vm) {
            None => true,
            Some(Kind::Declared) => tracked.absent >= ABSENT,
            Some(_) => tracked.absent >= ABSENT && matches!(tracked.thread.role, Role::Vhost(_)),
        });
        for number in gone.map(|(&number, _)| number).collect::<Vec<_>>() {
            // Those of a machine that has just ended stay for its last figures.
            if kinds.contains_key(&self.threads[&number].vm) {
                self.forget(programs, number)?;
            }
        }
        Ok(())
    }

    /// Whether the thread is looked at already.
    fn renew(&mut self, vm: &Vm, thread: &VmThread) -> bool {
        let number = self.slot_of_tid.get(&thread.tid);
        let tracked = number.and_then(|number| self.threads.get_mut(number));
        match tracked {
            Some(tracked) if tracked.vm == key(vm) => {
                tracked.thread.clone_from(thread);
                tracked.absent = 0;
                true
            }
            _ => false,
        }
    }

    fn begin(&mut self, programs: &Programs, vm: &Vm, thread: &VmThread) -> Result<bool, Error> {
        if let Some(number) = self.slot_of_tid.get(&thread.tid).copied() {
            self.forget(programs, number)?;
        }
        let begin_ns = run_time(thread.tid);
        let Some(number) = programs.look_at(thread.tid)? else { return Ok(false) };
        self.insert(number, key(vm), thread.clone(), begin_ns);
        Ok(true)
    }

    fn insert(&mut self, number: u32, vm: Key, thread: VmThread, begin_ns: Option<u64>) {
        self.slot_of_tid.insert(thread.tid, number);
        let tracked = Tracked {
            vm,
            thread,
            slot: Slot::default(),
            woken: Histogram::default(),
            preempted: Histogram::default(),
            cpu_ns: 0,
            begin_ns,
            absent: 0,
            blame: Vec::new(),
        };
        self.threads.insert(number, tracked);
    }

    /// Looks at a thread no longer.
    pub(crate) fn forget(&mut self, programs: &Programs, number: u32) -> Result<(), Error> {
        let Some(tracked) = self.threads.remove(&number) else { return Ok(()) };
        if self.slot_of_tid.get(&tracked.thread.tid) == Some(&number) {
            self.slot_of_tid.remove(&tracked.thread.tid);
        }
        self.retired.push((number, true));
        programs.forget(tracked.thread.tid, number)
    }

    /// Gives slots back that were retired two intervals ago: all that was noted of them was fetched since then.
    pub(crate) fn give_back(&mut self, programs: &Programs) -> Result<(), Error> {
        let retired = std::mem::take(&mut self.retired);
        for (number, used) in std::mem::replace(&mut self.retired_before, retired) {
            programs.give_back(number, used)?;
        }
        Ok(())
    }

    /// Takes in threads that the kernel's side has found by itself, and forgets those that turn out to be somebody else's.
    pub(crate) fn sort(
        &mut self,
        programs: &Programs,
        slots: &[(u32, Slot)],
        vms: &BTreeMap<Key, Vm>,
    ) -> Result<(), Error> {
        let owners = self.owners(slots, vms);
        let retired = self.retired.iter().chain(&self.retired_before);
        let retired: BTreeSet<u32> = retired.map(|&(number, _)| number).collect();
        for (number, slot) in slots {
            match self.threads.get(number) {
                Some(tracked) => {
                    let vm = vms.get(&tracked.vm);
                    let foreign = |vm: &Vm| {
                        vm.kind != Kind::Declared
                            && !matches!(tracked.thread.role, Role::Vhost(_))
                            && slot.tgid != 0
                            && slot.tgid != vm.pid
                    };
                    // Its number was given to another between being found and being looked at.
                    if vm.is_some_and(foreign) {
                        self.forget(programs, *number)?;
                    }
                }
                None if retired.contains(number) => {}
                None => {
                    let comm = Name::new(if slot.state == State::Ended {
                        slot.comm.clone()
                    } else {
                        comm(slot.tid).unwrap_or_default()
                    });
                    let thread = VmThread { tid: slot.tid, role: Role::Worker, comm, cgroup: None };
                    match owners.get(&slot.tgid) {
                        Some(&vm) => self.insert(*number, vm, thread, None),
                        None => {
                            self.retired.push((*number, true));
                            programs.forget(slot.tid, *number)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Which process is a machine, or a part of one.
    pub(crate) fn owners(
        &self,
        slots: &[(u32, Slot)],
        vms: &BTreeMap<Key, Vm>,
    ) -> HashMap<u32, Key> {
        let of_slots = slots.iter().filter(|(_, slot)| slot.tgid != 0);
        let mut owners: HashMap<u32, Key> = of_slots
            .filter_map(|(number, slot)| Some((slot.tgid, self.threads.get(number)?.vm)))
            .collect();
        owners.extend(vms.keys().map(|key| (key.0, *key)));
        owners
    }

    /// What has come since the last time, of each thread.
    pub(crate) fn advance(
        &mut self,
        programs: &Programs,
        slots: Vec<(u32, Slot)>,
        now_ns: u64,
    ) -> Result<Vec<(Key, New)>, Error> {
        let mut all = Vec::with_capacity(slots.len());
        for (number, slot) in slots {
            let Some(tracked) = self.threads.get_mut(&number) else { continue };
            let new = tracked.advance(programs, number, slot, now_ns)?;
            all.push((tracked.vm, new));
        }
        Ok(all)
    }

    /// The thread in this slot.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Tracked> {
        self.threads.get_mut(&number)
    }

    /// All threads, by machine.
    pub(crate) fn totals(&self, now_ns: u64) -> Vec<(Key, ThreadSnapshot)> {
        self.threads.values().map(|tracked| (tracked.vm, tracked.total(now_ns))).collect()
    }

    /// Slots of this machine's threads.
    pub(crate) fn of(&self, vm: Key) -> Vec<u32> {
        let threads = self.threads.iter().filter(|(_, tracked)| tracked.vm == vm);
        threads.map(|(&number, _)| number).collect()
    }
}

impl Tracked {
    fn advance(
        &mut self,
        programs: &Programs,
        number: u32,
        slot: Slot,
        now_ns: u64,
    ) -> Result<New, Error> {
        // Most threads do not wait in most intervals; their histograms need not be fetched.
        let fetch = |last: u64, now: u64, wait, all: &mut Histogram| -> Result<_, Error> {
            if now == last {
                return Ok(Histogram::default());
            }
            let then = std::mem::replace(all, programs.delays(number, wait)?);
            Ok(all.since(&then))
        };
        let woken = fetch(self.slot.woken, slot.woken, Wait::Woken, &mut self.woken)?;
        let preempted =
            fetch(self.slot.preempted, slot.preempted, Wait::Preempted, &mut self.preempted)?;
        let cpu_ns = self.cpu_until(&slot, now_ns).max(self.cpu_ns);
        let snapshot = ThreadSnapshot {
            tid: self.thread.tid,
            role: self.thread.role,
            comm: self.thread.comm.clone(),
            cpu_ns: cpu_ns - self.cpu_ns,
            wake_to_run: woken,
            preempted_to_run: preempted,
            waiting_ns: slot.waits_until(now_ns),
            blame: Vec::new(),
        };
        let others_ns = slot.others_ns.saturating_sub(self.slot.others_ns);
        let ended = slot.state == State::Ended;
        self.cpu_ns = cpu_ns;
        self.slot = slot;
        Ok(New { number, others_ns, ended, snapshot })
    }

    /// Run time since it is looked at. As long as nothing has happened to it, it either runs or sleeps all the
    /// time; which of them, the kernel's own count tells.
    fn cpu_until(&self, slot: &Slot, now_ns: u64) -> u64 {
        if slot.state != State::Unknown {
            return slot.cpu_until(now_ns);
        }
        let now = run_time(self.thread.tid);
        now.zip(self.begin_ns).map_or(0, |(now, begin)| now.saturating_sub(begin))
    }

    fn total(&self, now_ns: u64) -> ThreadSnapshot {
        ThreadSnapshot {
            tid: self.thread.tid,
            role: self.thread.role,
            comm: self.thread.comm.clone(),
            cpu_ns: self.cpu_ns,
            wake_to_run: self.woken.clone(),
            preempted_to_run: self.preempted.clone(),
            waiting_ns: self.slot.waits_until(now_ns),
            blame: self.blame.clone(),
        }
    }
}

/// A thread's run time in nanoseconds: the first number of `/proc/PID/schedstat`,
/// `Documentation/scheduler/sched-stats.rst`.
fn run_time(tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// What a thread calls itself.
pub(crate) fn comm(tid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{tid}/comm")).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    Some(String::from_utf8_lossy(name).into_owned())
}
