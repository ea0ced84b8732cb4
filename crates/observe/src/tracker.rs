//! Which slot of the kernel's side belongs to which thread of which VM.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;

use super::allot::{Candidate, Class, choose};
use super::beginners::Beginners;
use super::kernel::{Programs, Wait};
use super::pool::Pool;
use super::slot::{Ahead, Slot, State};
use super::spent::Spent;
use super::vm_key::{VmKey, key};
use super::{Blame, Histogram, Runner, ThreadSnapshot, Unseen};
use lowtail_discover::{Kind, Role, Vm, VmThread};
use lowtail_kernel::Name;
use lowtail_kernel::error::Error;

/// After so many looks without it, a thread that has not ended is no longer its VM's.
const ABSENT: u8 = 2;

/// A thread that is looked at.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) vm: VmKey,
    pub(crate) thread: VmThread,
    /// As it was last.
    slot: Slot,
    woken: Histogram,
    preempted: Histogram,
    spent: Spent,
    /// Run time when it began to be looked at, by another count of the kernel's.
    begin_ns: Option<u64>,
    absent: u8,
    /// For whom it has waited since it is looked at.
    pub(crate) blame: Vec<Blame>,
    /// What was told of its present wait before the kernel's side has noted it.
    pub(crate) ahead: BTreeMap<Runner, u64>,
}

/// What has come in an interval.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) number: u32,
    pub(crate) others_ns: u64,
    pub(crate) ended: bool,
    /// For whom it waits since that was last noted, and for how long that is.
    pub(crate) ahead: Option<(Ahead, u64)>,
    pub(crate) snapshot: ThreadSnapshot,
}

/// When slots were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// When the interval ends, by `CLOCK_MONOTONIC`.
    pub(crate) now_ns: u64,
    /// How long the interval is.
    pub(crate) interval_ns: u64,
    /// How much earlier a slot may have been read.
    pub(crate) slack_ns: u64,
}

/// All threads that are looked at.
#[derive(Debug)]
pub(crate) struct Tracker {
    /// There is room for so many.
    room: usize,
    threads: HashMap<u32, Tracked>,
    slot_of_tid: HashMap<u32, u32>,
    /// Slots whose threads are looked at no longer.
    retired: Vec<u32>,
    /// Those that were retired an interval before.
    retired_before: Vec<u32>,
    pool: Pool,
    beginners: Beginners,
    /// Threads that did not fit at the last look, of VMs that have such.
    unseen: HashMap<VmKey, Unseen>,
}

impl Tracker {
    /// With room for so many threads.
    pub(crate) fn new(threads: u32) -> Self {
        Tracker {
            room: threads as usize,
            threads: HashMap::new(),
            slot_of_tid: HashMap::new(),
            retired: Vec::new(),
            retired_before: Vec::new(),
            pool: Pool::new(threads),
            beginners: Beginners::default(),
            unseen: HashMap::new(),
        }
    }

    /// Looks at what VMs have now: threads that are new, others that are theirs no longer. If there are too many,
    /// each VM has its share, see [`choose`].
    pub(crate) fn follow<'a>(
        &mut self,
        programs: &Programs,
        vms: impl Iterator<Item = &'a Vm>,
    ) -> Result<(), Error> {
        let mut vms: Vec<&Vm> = vms.collect();
        // Who is here longest comes first: nobody is pushed aside by starting more VMs.
        vms.sort_by_key(|vm| (vm.started_ticks, vm.pid));
        self.forget_absent(programs, &vms)?;
        let machines = self.candidates(programs, &vms)?;
        let here: HashSet<VmKey> = vms.iter().map(|vm| key(vm)).collect();
        // Those of a VM that has just ended stay for its last figures.
        let ended = self.threads.values().filter(|tracked| !here.contains(&tracked.vm)).count();
        let chosen = choose(self.room.saturating_sub(ended), machines);
        for number in chosen.dropped {
            self.forget(programs, number)?;
        }
        self.unseen.clear();
        let keys: Vec<VmKey> = vms.iter().map(|vm| key(vm)).collect();
        self.beginners.follow(programs, &keys)?;
        let all: HashMap<(usize, u32), &VmThread> = vms
            .iter()
            .enumerate()
            .flat_map(|(i, vm)| vm.threads.iter().map(move |thread| ((i, thread.tid), thread)))
            .collect();
        let mut unseen = chosen.unseen;
        for (i, class, tid) in chosen.begun {
            let Some(&thread) = all.get(&(i, tid)) else { continue };
            if !self.begin(programs, keys[i], thread)? {
                unseen.push((i, class));
            }
        }
        for (i, class) in unseen {
            let of = self.unseen.entry(keys[i]).or_default();
            *match class {
                Class::Vcpu => &mut of.vcpus,
                Class::BackEnd => &mut of.backend,
                Class::Worker => &mut of.workers,
            } += 1;
        }
        let lent = self.pool.lend(programs)?;
        self.beginners.allow(programs, lent)
    }

    /// Threads that were not seen: those that did not fit at the last look, and those that found no slot when they began, since
    /// this was last asked.
    pub(crate) fn unseen(&mut self, vm: VmKey) -> Unseen {
        let found = self.unseen.get(&vm).copied().unwrap_or_default();
        Unseen { started: self.beginners.refused(vm), ..found }
    }

    /// All that did not fit at the last look.
    pub(crate) fn refused(&self) -> u64 {
        self.unseen.values().map(Unseen::all).sum()
    }

    /// A thread that ends says so. Others are moved to another group, serve another VM, or have the number of their
    /// process now, since they have executed another program.
    fn forget_absent(&mut self, programs: &Programs, vms: &[&Vm]) -> Result<(), Error> {
        let kinds: HashMap<VmKey, Kind> = vms.iter().map(|vm| (key(vm), vm.kind)).collect();
        let listed: HashSet<(VmKey, u32)> = vms
            .iter()
            .flat_map(|vm| vm.threads.iter().map(|thread| (key(vm), thread.tid)))
            .collect();
        let mut gone = Vec::new();
        for (&number, tracked) in &mut self.threads {
            if listed.contains(&(tracked.vm, tracked.thread.tid)) {
                tracked.absent = 0;
                continue;
            }
            tracked.absent = tracked.absent.saturating_add(1);
            let is_gone = match kinds.get(&tracked.vm) {
                _ if tracked.absent < ABSENT => false,
                None => false,
                Some(Kind::Declared) => true,
                Some(_) if matches!(tracked.thread.role, Role::Vhost(_)) => true,
                Some(_) => !is_thread_of(tracked.vm.0, tracked.thread.tid),
            };
            if is_gone {
                gone.push(number);
            }
        }
        gone.into_iter().try_for_each(|number| self.forget(programs, number))
    }

    /// What each VM has and is looked at, or not. No thread is in two VMs: it is the first one's.
    fn candidates(
        &mut self,
        programs: &Programs,
        vms: &[&Vm],
    ) -> Result<Vec<Vec<Candidate>>, Error> {
        let mut machines = Vec::with_capacity(vms.len());
        let (mut claimed, mut another) = (HashSet::new(), Vec::new());
        for vm in vms {
            let mut candidates = Vec::with_capacity(vm.threads.len());
            for thread in &vm.threads {
                if !claimed.insert(thread.tid) {
                    continue;
                }
                let number = self.slot_of_tid.get(&thread.tid).copied();
                let tracked = number.and_then(|number| self.threads.get_mut(&number));
                let slot = match (number, tracked) {
                    (Some(number), Some(tracked)) if tracked.vm == key(vm) => {
                        tracked.thread.clone_from(thread);
                        Some(number)
                    }
                    (Some(number), _) => {
                        another.push(number);
                        None
                    }
                    (None, _) => None,
                };
                candidates.push(Candidate::listed(thread, slot));
            }
            machines.push(candidates);
        }
        // They are other VMs' now.
        another.into_iter().try_for_each(|number| self.forget(programs, number))?;
        let at: HashMap<VmKey, usize> =
            vms.iter().enumerate().map(|(i, vm)| (key(vm), i)).collect();
        let listed: HashSet<u32> = machines.iter().flatten().filter_map(|one| one.slot).collect();
        // Threads that the kernel's side has found by itself, and those that have ended and were not told yet.
        for (&number, tracked) in self.threads.iter().filter(|(number, _)| !listed.contains(number))
        {
            if let Some(&i) = at.get(&tracked.vm) {
                machines[i].push(Candidate::unlisted(tracked.thread.tid, number));
            }
        }
        Ok(machines)
    }

    fn begin(&mut self, programs: &Programs, vm: VmKey, thread: &VmThread) -> Result<bool, Error> {
        let Some(free) = self.pool.take(programs)? else { return Ok(false) };
        let begin_ns = run_time(thread.tid);
        let number = programs.track(thread.tid, free, self.beginners.number(vm))?;
        if number != Some(free) {
            self.pool.give(free);
        }
        let Some(number) = number else { return Ok(false) };
        // If the kernel's side has found it, its slot was counted as free until now.
        self.pool.taken(number);
        self.insert(number, vm, thread.clone(), begin_ns);
        Ok(true)
    }

    fn insert(&mut self, number: u32, vm: VmKey, thread: VmThread, begin_ns: Option<u64>) {
        self.slot_of_tid.insert(thread.tid, number);
        let tracked = Tracked {
            vm,
            thread,
            slot: Slot::default(),
            woken: Histogram::default(),
            preempted: Histogram::default(),
            spent: Spent::default(),
            begin_ns,
            absent: 0,
            blame: Vec::new(),
            ahead: BTreeMap::new(),
        };
        self.threads.insert(number, tracked);
    }

    /// Looks at a thread no longer.
    pub(crate) fn forget(&mut self, programs: &Programs, number: u32) -> Result<(), Error> {
        let Some(tracked) = self.threads.remove(&number) else { return Ok(()) };
        if self.slot_of_tid.get(&tracked.thread.tid) == Some(&number) {
            self.slot_of_tid.remove(&tracked.thread.tid);
        }
        self.retired.push(number);
        programs.untrack(tracked.thread.tid, number)
    }

    /// Gives slots back that were retired two intervals ago: all that was noted of them was fetched since then.
    pub(crate) fn give_back(&mut self, programs: &Programs) -> Result<(), Error> {
        let retired = std::mem::take(&mut self.retired);
        for number in std::mem::replace(&mut self.retired_before, retired) {
            programs.clear(number)?;
            self.pool.give(number);
        }
        Ok(())
    }

    /// Takes in threads that the kernel's side has found by itself, and forgets those that turn out to be somebody else's.
    pub(crate) fn sort(
        &mut self,
        programs: &Programs,
        slots: &[(u32, Slot)],
        vms: &BTreeMap<VmKey, Vm>,
    ) -> Result<(), Error> {
        let owners = self.owners(slots, vms);
        let retired = self.retired.iter().chain(&self.retired_before);
        let retired: BTreeSet<u32> = retired.copied().collect();
        for (number, slot) in slots {
            self.pool.taken(*number);
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
                            self.retired.push(*number);
                            programs.untrack(slot.tid, *number)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Which process is a VM, or a part of one.
    pub(crate) fn owners(
        &self,
        slots: &[(u32, Slot)],
        vms: &BTreeMap<VmKey, Vm>,
    ) -> HashMap<u32, VmKey> {
        let of_slots = slots.iter().filter(|(_, slot)| slot.tgid != 0);
        let mut owners: HashMap<u32, VmKey> = of_slots
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
        read: Read,
    ) -> Result<Vec<(VmKey, New)>, Error> {
        let mut all = Vec::with_capacity(slots.len());
        for (number, slot) in slots {
            let Some(tracked) = self.threads.get_mut(&number) else { continue };
            let new = tracked.advance(programs, number, slot, read)?;
            all.push((tracked.vm, new));
        }
        Ok(all)
    }

    /// The thread in this slot.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Tracked> {
        self.threads.get_mut(&number)
    }

    /// All threads, by VM.
    pub(crate) fn totals(&self, now_ns: u64) -> Vec<(VmKey, ThreadSnapshot)> {
        self.threads.values().map(|tracked| (tracked.vm, tracked.total(now_ns))).collect()
    }

    /// Slots of this VM's threads.
    pub(crate) fn of(&self, vm: VmKey) -> Vec<u32> {
        let threads = self.threads.iter().filter(|(_, tracked)| tracked.vm == vm);
        threads.map(|(&number, _)| number).collect()
    }
}

impl Tracked {
    fn advance(
        &mut self,
        programs: &Programs,
        number: u32,
        mut slot: Slot,
        read: Read,
    ) -> Result<New, Error> {
        let now_ns = read.now_ns;
        if slot.waits_until(now_ns) > LONG_WAIT_NS
            && let Some(count_ns) = run_time(self.thread.tid)
        {
            slot.take_untold(count_ns, now_ns);
        }
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
        let mut sums = slot.sums(now_ns);
        if slot.state == State::Unknown {
            sums.run_time_ns = self.unknown_ns();
        }
        let new = self.spent.advance(sums, read.interval_ns, read.slack_ns);
        let snapshot = ThreadSnapshot {
            tid: self.thread.tid,
            role: self.thread.role,
            comm: self.thread.comm.clone(),
            run_time_ns: new.run_time_ns,
            ready_after_wakeup_ns: new.woken_ns,
            ready_after_preemption_ns: new.preempted_ns,
            wakeup_latency: woken,
            preemption_latency: preempted,
            current_wait_ns: slot.waits_until(now_ns),
            blame: Vec::new(),
        };
        let unnoted_ns = now_ns.saturating_sub(slot.noted_ns);
        let ahead = match slot.waits_until(now_ns) > 0 && unnoted_ns > 0 {
            true => programs.look_ahead(number, now_ns)?.map(|ahead| (ahead, unnoted_ns)),
            false => None,
        };
        let others_ns = slot.others_ns.saturating_sub(self.slot.others_ns);
        let ended = slot.state == State::Ended;
        self.slot = slot;
        Ok(New { number, others_ns, ended, ahead, snapshot })
    }

    /// Run time since it is looked at. As long as nothing has happened to it, it either runs or sleeps all the
    /// time; which of them, the kernel's own count tells.
    fn unknown_ns(&self) -> u64 {
        let now = run_time(self.thread.tid);
        now.zip(self.begin_ns).map_or(0, |(now, begin)| now.saturating_sub(begin))
    }

    fn total(&self, now_ns: u64) -> ThreadSnapshot {
        let all = self.spent.all();
        ThreadSnapshot {
            tid: self.thread.tid,
            role: self.thread.role,
            comm: self.thread.comm.clone(),
            run_time_ns: all.run_time_ns,
            ready_after_wakeup_ns: all.woken_ns,
            ready_after_preemption_ns: all.preempted_ns,
            wakeup_latency: self.woken.clone(),
            preemption_latency: self.preempted.clone(),
            current_wait_ns: self.slot.waits_until(now_ns),
            blame: self.blame.clone(),
        }
    }
}

/// A wait that goes on for longer than this is compared with the kernel's own count of the thread's run time. Few are so
/// long when an interval ends, and a file is read for each of them.
const LONG_WAIT_NS: u64 = 4_000_000;

/// A thread's run time in nanoseconds: the first number of `/proc/PID/schedstat`,
/// `Documentation/scheduler/sched-stats.rst`.
fn run_time(tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Whether this process has a thread of that number.
fn is_thread_of(pid: u32, tid: u32) -> bool {
    fs::exists(format!("/proc/{pid}/task/{tid}")).unwrap_or(true)
}

/// What a thread calls itself.
pub(crate) fn comm(tid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{tid}/comm")).ok()?;
    let name = name.strip_suffix(b"\n").unwrap_or(&name);
    Some(String::from_utf8_lossy(name).into_owned())
}
