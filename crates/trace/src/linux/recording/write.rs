//! Writes the format.

use std::io::{self, Write};

use super::facts::{GroupFacts, SchedFacts, Sets, ThreadFacts};
use super::queues::Numbers;
use super::{About, EVENT_BYTES, EVENTS_BYTES_MAX, End, MAGIC, VERSION, kind};
use crate::cores::CpuPlace;
use crate::linux::bytes::cut;
use crate::linux::{Role, Trigger};
use crate::queues::QueueInterval;

/// Writes a recording, as it is told.
///
/// A thread should be named, and a machine's threads be known, before the events in which they are.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    events: u64,
    lost: u64,
    vms: u32,
    groups: u32,
    sets: Sets,
    senders: Numbers,
}

impl<W: Write> Writer<W> {
    /// Begins a recording. `out` should be buffered.
    ///
    /// # Errors
    /// What writing to `out` gives; so for all functions here.
    pub fn new(mut out: W, about: &About) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&[0; 2])?;
        let (sets, senders) = (Sets::default(), Numbers::default());
        let mut writer = Writer { out, events: 0, lost: 0, vms: 0, groups: 0, sets, senders };
        let kernel = about.kernel.as_bytes();
        let kernel = &kernel[..kernel.len().min(256)];
        let mut bytes = Vec::new();
        bytes.extend(about.begin_ns.to_le_bytes());
        bytes.extend(about.begin_unix_ns.to_le_bytes());
        bytes.extend(about.cpus.to_le_bytes());
        bytes.extend((kernel.len() as u32).to_le_bytes());
        bytes.extend(kernel);
        writer.block(kind::ABOUT, bytes)?;
        Ok(writer)
    }

    /// Where the CPUs are; before the first events.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn places(&mut self, places: &[CpuPlace]) -> io::Result<()> {
        let numbers = places.iter().flat_map(|at| [at.cpu, at.core, at.cache, at.node]);
        self.block(kind::PLACES, numbers.flat_map(u16::to_le_bytes).collect())
    }

    /// How the kernel schedules.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn sched(&mut self, facts: &SchedFacts) -> io::Result<()> {
        self.block(kind::SCHED, facts.block())
    }

    /// A control group, behind the one above it; returns its number. A file has [`GROUPS_MAX`](super::GROUPS_MAX) at most.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn group(&mut self, facts: &GroupFacts) -> io::Result<u32> {
        self.block(kind::GROUP, facts.block())?;
        self.groups += 1;
        Ok(self.groups - 1)
    }

    /// Attributes of thread `tid`.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn attributes(&mut self, tid: u32, facts: &ThreadFacts) -> io::Result<()> {
        let (set, entry) = self.sets.blocks(tid, facts);
        set.map_or(Ok(()), |set| self.block(kind::CPUS, set))?;
        self.block(kind::ATTRIBUTES, entry)
    }

    /// Thread `tid` is of process `tgid` (0 if that is not known) and calls itself so, at most 16 bytes.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn thread(&mut self, tid: u32, tgid: u32, comm: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        bytes.extend(tid.to_le_bytes());
        bytes.extend(tgid.to_le_bytes());
        let comm = &comm[..comm.len().min(16)];
        bytes.extend(comm);
        bytes.resize(24, 0);
        self.block(kind::THREADS, bytes)
    }

    /// A VM, with its name and the word for the software that runs it; returns its number.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn vm(&mut self, name: &str, runs: &str) -> io::Result<u32> {
        let (name, runs) = (cut(name, 4096), cut(runs, 64));
        let mut bytes = Vec::new();
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((runs.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(runs.as_bytes());
        self.block(kind::VM, bytes)?;
        self.vms += 1;
        Ok(self.vms - 1)
    }

    /// Thread `tid` works for VM `vm`.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn member(&mut self, tid: u32, vm: u32, role: Role) -> io::Result<()> {
        let (role, index) = role.packed();
        let mut bytes = Vec::new();
        bytes.extend(tid.to_le_bytes());
        bytes.extend(vm.to_le_bytes());
        bytes.extend(role.to_le_bytes());
        bytes.extend(index.to_le_bytes());
        bytes.extend([0; 4]);
        self.block(kind::MEMBERS, bytes)
    }

    /// Events of one CPU in order of time, [`EVENT_BYTES`] each as the format has them, before the first of which `lost` were
    /// lost.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn events(&mut self, cpu: u32, lost: u64, events: &[u8]) -> io::Result<()> {
        let mut lost = lost;
        for piece in events.chunks((EVENTS_BYTES_MAX as usize) / 2) {
            let piece = &piece[..piece.len() - piece.len() % EVENT_BYTES];
            self.head(kind::EVENTS, piece.len() + 16)?;
            self.out.write_all(&cpu.to_le_bytes())?;
            self.out.write_all(&[0; 4])?;
            self.out.write_all(&lost.to_le_bytes())?;
            self.out.write_all(piece)?;
            self.events += (piece.len() / EVENT_BYTES) as u64;
            self.lost += std::mem::take(&mut lost);
        }
        Ok(())
    }

    /// All events up to this time have been written.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn round(&mut self, complete_to_ns: u64) -> io::Result<()> {
        self.block(kind::ROUND, complete_to_ns.to_le_bytes().to_vec())
    }

    /// For the sake of this wait the recording was kept.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn trigger(&mut self, trigger: &Trigger) -> io::Result<()> {
        let mut bytes = Vec::new();
        bytes.extend(trigger.at_ns.to_le_bytes());
        bytes.extend(trigger.delay_ns.to_le_bytes());
        bytes.extend(trigger.tid.to_le_bytes());
        bytes.extend(trigger.cpu.to_le_bytes());
        self.block(kind::TRIGGER, bytes)
    }

    /// Who filled the uplinks in an interval.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn queues(&mut self, interval: &QueueInterval) -> io::Result<()> {
        let (names, blocks) = self.senders.blocks(interval);
        let names = names.into_iter().map(|name| (kind::SENDER, name));
        let blocks = blocks.into_iter().map(|block| (kind::QUEUES, block));
        names.chain(blocks).try_for_each(|(kind, bytes)| self.block(kind, bytes))
    }

    /// Events written so far, and lost.
    pub fn counts(&self) -> (u64, u64) {
        (self.events, self.lost)
    }

    /// Ends the recording and gives the output back, flushed.
    ///
    /// # Errors
    /// See [`Writer::new`].
    pub fn finish(mut self, end_ns: u64, lost_names: u64) -> io::Result<(W, End)> {
        let end = End { end_ns, events: self.events, lost: self.lost, lost_names };
        let mut bytes = Vec::new();
        for number in [end.end_ns, end.events, end.lost, end.lost_names] {
            bytes.extend(number.to_le_bytes());
        }
        self.block(kind::END, bytes)?;
        self.out.flush()?;
        Ok((self.out, end))
    }

    fn block(&mut self, kind: u32, mut bytes: Vec<u8>) -> io::Result<()> {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.head(kind, bytes.len())?;
        self.out.write_all(&bytes)
    }

    fn head(&mut self, kind: u32, size: usize) -> io::Result<()> {
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&(size as u32).to_le_bytes())
    }
}
