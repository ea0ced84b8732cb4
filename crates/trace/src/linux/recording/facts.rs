//! How the recorded host schedules: what its kernel, control groups and threads are set to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lowtail_out::seconds;
use serde::{Serialize, Serializer};

use super::cpus::Cpus;
use super::{TID_MASK, kind};
use crate::linux::THREADS_MAX;
use crate::linux::bytes::{cut, u32_at, u64_at};

/// A recording may have so many control groups.
pub const GROUPS_MAX: usize = 65_536;
/// So many sets of CPUs, ...
const SETS_MAX: usize = 65_536;
/// ... and so many ranges in all of them.
const RANGES_MAX: usize = 1 << 20;
/// A control group's path has so many bytes at most (`PATH_MAX`), ...
const PATH_BYTES_MAX: usize = 4096;
/// ... and a word of the kernel's so many.
const WORD_BYTES_MAX: usize = 256;
/// Bytes of the blocks before what has no fixed length, and of a thread.
pub(super) const SCHED_BYTES: u32 = 56;
pub(super) const GROUP_BYTES: u32 = 48;
const THREAD_BYTES: usize = 40;
/// In place of a number: there is none.
const NONE: u32 = u32::MAX;
/// Of a group's flags: `cpu.idle`.
const IDLE: u32 = 1;

/// All that a recording says of how its host schedules. Nothing is in it if an older lowtail has recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// The kernel.
    pub kernel: Option<SchedFacts>,
    /// Control groups of the controller `cpu`, by their number; a group comes behind the one above it.
    #[serde(rename = "control_groups", serialize_with = "count")]
    pub groups: Vec<GroupFacts>,
    /// Threads, by their number. A number that a later thread has got again is that thread.
    #[serde(rename = "thread_attributes", serialize_with = "entries")]
    pub threads: BTreeMap<u32, ThreadFacts>,
    #[serde(skip)]
    sets: Vec<Arc<Cpus>>,
    #[serde(skip)]
    ranges: usize,
}

/// How a kernel schedules. What is `None` was not there to be read, and need not exist in that kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SchedFacts {
    /// Ticks per second, `CONFIG_HZ`.
    #[serde(rename = "ticks_per_second")]
    pub hz: Option<u32>,
    /// `base_slice_ns` in `debugfs`, since 6.6: as in force, thus already multiplied for the number of CPUs.
    #[serde(rename = "base_slice_seconds", serialize_with = "seconds::some_ns")]
    pub base_slice_ns: Option<u64>,
    /// `min_granularity_ns`, before 6.6.
    #[serde(rename = "min_granularity_seconds", serialize_with = "seconds::some_ns")]
    pub min_granularity_ns: Option<u64>,
    /// `wakeup_granularity_ns`, before 6.6.
    #[serde(rename = "wakeup_granularity_seconds", serialize_with = "seconds::some_ns")]
    pub wakeup_granularity_ns: Option<u64>,
    /// `latency_ns`, before 6.6.
    #[serde(rename = "scheduler_latency_seconds", serialize_with = "seconds::some_ns")]
    pub latency_ns: Option<u64>,
    /// How threads in the kernel are preempted: `none`, `voluntary`, `full`, `lazy`, `rt`. Empty if it is not known.
    pub preemption: String,
    /// Name of the BPF scheduler (`sched_ext`) that is in force.
    pub sched_ext: Option<String>,
    /// CPUs that are online.
    #[serde(rename = "online_cpus")]
    pub online: Cpus,
}

/// A control group of the controller `cpu`, when it first mattered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// The number of the group above it; the topmost has none.
    pub parent: Option<u32>,
    /// Where it is below the mount point, without a slash before it; empty for the topmost. Chosen by users of the host.
    pub path: String,
    /// `cpu.weight`, 1 to 10000 (v2). `None` in v1, and if the controller is not enabled there: then its threads
    /// compete as if they were in the group above.
    pub weight: Option<u32>,
    /// `cpu.shares` (v1).
    pub shares: Option<u32>,
    /// Quota of `cpu.max`; `None` without a limit.
    pub quota_ns: Option<u64>,
    /// Period of `cpu.max`; 0 if it is not known.
    pub period_ns: u64,
    /// `cpu.max.burst`.
    pub burst_ns: u64,
    /// `cpu.idle`.
    pub idle: bool,
}

/// By which rule a thread is scheduled (`sched(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_EXT`.
    Ext,
    /// A number that this version does not know.
    Unknown(u32),
}

/// A thread's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// When they were so.
    pub at_ns: u64,
    /// Its control group, as a place in [`Facts::groups`].
    pub group: Option<u32>,
    /// By which rule it is scheduled.
    pub policy: Policy,
    /// Nice value.
    pub nice: i32,
    /// Real-time priority, 0 without.
    pub rt_priority: u32,
    /// Its own slice, in the fair policies since 6.12; of `SCHED_DEADLINE` the run time. 0: it has none of its own, or
    /// the kernel does not tell.
    pub slice_ns: u64,
    /// CPUs on which it may run; `None` if it is not known.
    pub cpus: Option<Arc<Cpus>>,
}

impl Policy {
    /// Of Linux's number (`include/uapi/linux/sched.h`).
    pub fn of(number: u32) -> Self {
        match number {
            0 => Policy::Other,
            1 => Policy::Fifo,
            2 => Policy::Rr,
            3 => Policy::Batch,
            5 => Policy::Idle,
            6 => Policy::Deadline,
            7 => Policy::Ext,
            _ => Policy::Unknown(number),
        }
    }

    /// Linux's number.
    pub fn number(self) -> u32 {
        match self {
            Policy::Other => 0,
            Policy::Fifo => 1,
            Policy::Rr => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
            Policy::Deadline => 6,
            Policy::Ext => 7,
            Policy::Unknown(number) => number,
        }
    }
}

impl Facts {
    /// A thread's control group.
    pub fn group_of(&self, tid: u32) -> Option<&GroupFacts> {
        self.groups.get(self.threads.get(&tid)?.group? as usize)
    }

    /// Takes a block. What is wrong with it, if something is.
    pub(super) fn read(&mut self, kind: u32, block: &[u8]) -> Result<(), String> {
        match kind {
            kind::SCHED => self.kernel = Some(SchedFacts::of(block)?),
            kind::GROUP => {
                if self.groups.len() >= GROUPS_MAX {
                    return Err(format!("more than {GROUPS_MAX} control groups"));
                }
                let group = GroupFacts::of(block, self.groups.len())?;
                self.groups.push(group);
            }
            kind::CPUS => {
                let set = Cpus::of(&block[8..], u32_at(block, 0));
                let set = set.ok_or("a set of CPUs that is none; the file is damaged")?;
                self.ranges += set.ranges().len();
                if self.sets.len() >= SETS_MAX || self.ranges > RANGES_MAX {
                    return Err("too many sets of CPUs; the file is damaged".to_owned());
                }
                self.sets.push(Arc::new(set));
            }
            _ => {
                for entry in block.as_chunks::<THREAD_BYTES>().0 {
                    let (tid, thread) = self.thread(entry)?;
                    // With too many, the attributes are forgotten, as names are.
                    if self.threads.len() < THREADS_MAX || self.threads.contains_key(&tid) {
                        self.threads.insert(tid, thread);
                    }
                }
            }
        }
        Ok(())
    }

    fn thread(&self, entry: &[u8]) -> Result<(u32, ThreadFacts), String> {
        let [tid, group, set] = [0, 4, 8].map(|at| u32_at(entry, at));
        let known = |number: u32, count: usize, what: &str| match number {
            NONE => Ok(None),
            _ if (number as usize) < count => Ok(Some(number)),
            _ => Err(format!("thread {tid} has {what} {number}, which is not there")),
        };
        let group = known(group, self.groups.len(), "control group")?;
        let set = known(set, self.sets.len(), "set of CPUs")?;
        let facts = ThreadFacts {
            at_ns: u64_at(entry, 32),
            group,
            policy: Policy::of(u32_at(entry, 12)),
            nice: u32_at(entry, 16) as i32,
            rt_priority: u32_at(entry, 20),
            slice_ns: u64_at(entry, 24),
            cpus: set.map(|set| Arc::clone(&self.sets[set as usize])),
        };
        Ok((tid & TID_MASK, facts))
    }
}

impl SchedFacts {
    pub(super) fn block(&self) -> Vec<u8> {
        let preemption = cut(&self.preemption, WORD_BYTES_MAX);
        let ops = self.sched_ext.as_deref().map(|ops| cut(ops, WORD_BYTES_MAX));
        let mut block = Vec::new();
        block.extend(self.hz.unwrap_or(0).to_le_bytes());
        block.extend(u32::from(ops.is_some()).to_le_bytes());
        let tunables = [
            self.base_slice_ns,
            self.min_granularity_ns,
            self.wakeup_granularity_ns,
            self.latency_ns,
        ];
        block.extend(tunables.into_iter().flat_map(|ns| ns.unwrap_or(0).to_le_bytes()));
        let ops = ops.unwrap_or_default();
        for length in [self.online.ranges().len(), preemption.len(), ops.len(), 0] {
            block.extend((length as u32).to_le_bytes());
        }
        block.extend(self.online.bytes());
        block.extend(preemption.as_bytes());
        block.extend(ops.as_bytes());
        block
    }

    fn of(block: &[u8]) -> Result<Self, String> {
        let [ranges, preemption, ops] = [40, 44, 48].map(|at| u32_at(block, at));
        let known = |at| Some(u64_at(block, at)).filter(|&ns| ns != 0);
        let mut rest = &block[SCHED_BYTES as usize..];
        let online = Cpus::of(rest, ranges).ok_or("CPUs that are online are no set of CPUs")?;
        rest = &rest[ranges as usize * 4..];
        let mut word = |length: u32| {
            let (word, left) = rest.split_at_checked(length as usize)?;
            rest = left;
            (word.len() <= WORD_BYTES_MAX).then(|| String::from_utf8_lossy(word).into_owned())
        };
        let long = "a word about the scheduler is longer than its block, or than it may be";
        let (preemption, ops) = (word(preemption).ok_or(long)?, word(ops).ok_or(long)?);
        Ok(SchedFacts {
            hz: Some(u32_at(block, 0)).filter(|&hz| hz != 0),
            base_slice_ns: known(8),
            min_granularity_ns: known(16),
            wakeup_granularity_ns: known(24),
            latency_ns: known(32),
            preemption,
            sched_ext: (u32_at(block, 4) & 1 != 0).then_some(ops),
            online,
        })
    }
}

impl GroupFacts {
    pub(super) fn block(&self) -> Vec<u8> {
        let path = cut(&self.path, PATH_BYTES_MAX);
        let mut block = Vec::new();
        let weights = [self.weight, self.shares].map(|weight| weight.unwrap_or(0));
        let flags = if self.idle { IDLE } else { 0 };
        for number in [self.parent.unwrap_or(NONE), weights[0], weights[1], flags] {
            block.extend(number.to_le_bytes());
        }
        for ns in [self.quota_ns.unwrap_or(0), self.period_ns, self.burst_ns] {
            block.extend(ns.to_le_bytes());
        }
        block.extend((path.len() as u32).to_le_bytes());
        block.extend([0; 4]);
        block.extend(path.as_bytes());
        block
    }

    /// Of a block, which is number `number`.
    fn of(block: &[u8], number: usize) -> Result<Self, String> {
        let length = u32_at(block, 40) as usize;
        let path = block.get(48..48 + length).filter(|path| path.len() <= PATH_BYTES_MAX);
        let path =
            path.ok_or("a control group's path is longer than its block, or than it may be")?;
        let parent = Some(u32_at(block, 0)).filter(|&parent| parent != NONE);
        if let Some(parent) = parent.filter(|&parent| parent as usize >= number) {
            return Err(format!(
                "control group {number} is below {parent}, which is not before it"
            ));
        }
        let weight = |at| Some(u32_at(block, at)).filter(|&weight| weight != 0);
        Ok(GroupFacts {
            parent,
            path: String::from_utf8_lossy(path).into_owned(),
            weight: weight(4),
            shares: weight(8),
            quota_ns: Some(u64_at(block, 16)).filter(|&ns| ns != 0),
            period_ns: u64_at(block, 24),
            burst_ns: u64_at(block, 32),
            idle: u32_at(block, 12) & IDLE != 0,
        })
    }
}

/// Sets of CPUs that were written, by their number.
#[derive(Debug, Default)]
pub(super) struct Sets(HashMap<Arc<Cpus>, u32>);

impl Sets {
    /// Blocks for a thread: its set of CPUs if that is new, and the thread.
    pub(super) fn blocks(&mut self, tid: u32, facts: &ThreadFacts) -> (Option<Vec<u8>>, Vec<u8>) {
        let mut new = None;
        let set = facts.cpus.as_ref().map_or(NONE, |cpus| match self.0.get(cpus) {
            Some(&number) => number,
            None if self.0.len() >= SETS_MAX => NONE,
            None => {
                let number = self.0.len() as u32;
                let mut block = Vec::new();
                block.extend((cpus.ranges().len() as u32).to_le_bytes());
                block.extend([0; 4]);
                block.extend(cpus.bytes());
                new = Some(block);
                self.0.insert(Arc::clone(cpus), number);
                number
            }
        });
        let mut entry = Vec::with_capacity(THREAD_BYTES);
        let (policy, nice) = (facts.policy.number(), facts.nice as u32);
        for number in [tid, facts.group.unwrap_or(NONE), set, policy, nice, facts.rt_priority] {
            entry.extend(number.to_le_bytes());
        }
        entry.extend(facts.slice_ns.to_le_bytes());
        entry.extend(facts.at_ns.to_le_bytes());
        (new, entry)
    }
}

fn count<S: Serializer>(groups: &[GroupFacts], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(groups.len() as u64)
}

fn entries<S: Serializer>(
    threads: &BTreeMap<u32, ThreadFacts>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(threads.len() as u64)
}
