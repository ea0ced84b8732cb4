//! Loads the programs, and makes recordings of what they write.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder,
};
use lowtail_trace::recording::{About, End, Writer};
use lowtail_trace::{CpuPlace, Trigger};

use super::attributes::Attributes;
use super::introduced::Introduced;
use super::names::{self, Inbox, Named, Names};
use super::places;
use super::programs::{self, PROGRAMS, prepare, trigger};
use super::queues::{INTERVAL_NS, Queues};
use super::rings::{PAGE_BYTES, Rings};
use super::scheduling;
use super::{Failure, Options};
use crate::{Candidate, choose};
use lowtail_discover::{Scanner, Vm};
use lowtail_kernel::Error;
use lowtail_kernel::bpf;
use lowtail_kernel::clock::Instant;
use lowtail_kernel::pace::Paced;

/// How often rings are emptied into a file.
const ROUND: Duration = Duration::from_millis(50);
/// How often VMs are looked for.
const SCAN_NS: u64 = 1_000_000_000;
/// What happens after a wait that was too long, and is kept with it.
const TAIL_NS: u64 = 100_000_000;
/// Threads whose waits count at most: entries of `waiting` in `bpf/record.bpf.c`.
const WATCHED_MAX: usize = 16_384;
/// A kept recording is written in pieces of so much time.
const SLICE_NS: u64 = 20_000_000;
/// Waits of one kept recording that are named in it.
const TRIGGERS_MAX: usize = 1000;

/// The programs in the kernel, and what is known beside what they write. Dropped, it leaves nothing in the kernel.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    /// Told of new names and of waits that were too long.
    inboxes: RingBuffer<'static>,
    new_names: Inbox,
    lates: Rc<RefCell<Vec<Trigger>>>,
    names: Names,
    /// Where the CPUs are; read once, since rings are written on while a file begins.
    places: Vec<CpuPlace>,
    rings: Rings,
    waiting: MapHandle,
    counts: MapHandle,
    scanner: Scanner,
    /// VMs, by process and when that started.
    vms: BTreeMap<(u32, u64), Vm>,
    troubles: Vec<String>,
    /// VMs were looked for with success.
    begun: bool,
    watched: BTreeSet<u32>,
    /// Threads whose waits do not count, for there are too many.
    unwatched: usize,
    queues: Queues,
    scanned_ns: u64,
    begin_ns: u64,
    _links: Vec<Link>,
    _object: Object,
}

/// What a recording has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How long it is.
    pub span_ns: u64,
    /// Events in it.
    pub events: u64,
    /// Events that were overwritten before they could be written.
    pub lost: u64,
    /// Names of threads that were lost.
    pub lost_names: u64,
    /// VMs that were known.
    pub vms: usize,
}

impl Recorder {
    /// Loads the programs. From now on the kernel records.
    ///
    /// # Errors
    /// If the host does not let it: no root, no BTF, a kernel before 5.18.
    pub fn new(options: Options) -> Result<Self, Error> {
        let failed = |what| move |source| Error::Bpf { what, source };
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed("count the CPUs"))? as u64;
        programs::check()?;
        let page_shift = programs::page_shift(options.ring_bytes, cpus);
        let threshold_ns = options.threshold.map_or(0, |threshold| threshold.as_nanos() as u64);
        let types = Path::new("/sys/kernel/btf/vmlinux");
        fs::metadata(types).map_err(|source| {
            let what = "recording needs a kernel that tells its types (CONFIG_DEBUG_INFO_BTF):";
            Error::file(what, types, source)
        })?;
        let need = || {
            let mib = ((cpus << page_shift) * PAGE_BYTES as u64) >> 20;
            format!("rings of events, {mib} MiB for {cpus} CPUs (less with --buffer)")
        };
        let object =
            bpf::load(PROGRAMS, need, |object| prepare(object, cpus, page_shift, threshold_ns));
        let object = object.map_err(|error| match error {
            Error::Bpf { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                let what = "recording needs root, or CAP_BPF and CAP_PERFMON: load its programs";
                Error::Bpf { what, source }
            }
            error => error,
        })?;
        let map = |name: &str| -> Result<MapHandle, Error> {
            let found = object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
            // The build has put it there.
            let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
            let map = found.ok_or_else(missing).map_err(failed("find a map"))?;
            MapHandle::try_from(&map).map_err(failed("open a map"))
        };
        let rings = Rings::new(map("ring_pages")?, map("rings")?, page_shift);
        let (waiting, counts) = (map("waiting")?, map(".bss")?);
        let (lates_map, names_map) = (map("lates")?, map("names")?);
        let new_names: Inbox = Rc::default();
        let lates: Rc<RefCell<Vec<Trigger>>> = Rc::default();
        let mut inboxes = RingBufferBuilder::new();
        let inbox = Rc::clone(&new_names);
        let named = move |bytes: &[u8]| {
            inbox.borrow_mut().extend(Named::of(bytes));
            0
        };
        inboxes.add(&names_map, named).map_err(failed("open the ring of names"))?;
        let inbox = Rc::clone(&lates);
        let late = move |bytes: &[u8]| {
            let mut inbox = inbox.borrow_mut();
            if inbox.len() < TRIGGERS_MAX {
                inbox.extend(trigger(bytes));
            }
            0
        };
        inboxes.add(&lates_map, late).map_err(failed("open the ring of waits"))?;
        let inboxes = inboxes.build().map_err(failed("open the rings"))?;
        let begin_ns = now_ns();
        let links = object.progs_mut().map(|program| program.attach());
        let links = links.collect::<Result<Vec<Link>, _>>();
        let links = links.map_err(failed("attach the programs to the scheduler's tracepoints"))?;
        let scanner = Scanner::new(options.roots.clone(), options.declared.clone());
        let mut recorder = Recorder {
            places: places::read(&options.roots.sys),
            queues: Queues::start(options.network, &options.roots, begin_ns),
            options,
            inboxes,
            new_names,
            lates,
            names: Names::default(),
            rings,
            waiting,
            counts,
            scanner,
            vms: BTreeMap::new(),
            troubles: Vec::new(),
            begun: false,
            watched: BTreeSet::new(),
            unwatched: 0,
            scanned_ns: 0,
            begin_ns,
            _links: links,
            _object: object,
        };
        // After the programs run, so that nobody starts unseen in between.
        let there = names::all(&recorder.options.roots.proc);
        recorder.names.take(&there, &recorder.options.roots.proc, begin_ns);
        recorder.scan()?;
        Ok(recorder)
    }

    /// What could not be found out about VMs: words to people.
    pub fn troubles(&self) -> Vec<String> {
        let mut troubles = self.troubles.clone();
        troubles.extend(self.queues.trouble());
        if self.unwatched > 0 {
            let unwatched = self.unwatched;
            troubles.push(format!(
                "{unwatched} threads of VMs are not watched, for there are too many; name \
                 fewer VMs with --vm"
            ));
        }
        troubles
    }

    /// How many VMs are known, and how many threads have waits that count.
    pub fn known(&self) -> (usize, usize) {
        (self.vms.len(), self.watched.len())
    }

    /// Writes what happens from now on, until `stop` says so; asked some twenty times a second.
    ///
    /// # Errors
    /// If the output cannot be written, or the kernel takes the rings away.
    pub fn run<W: Write>(
        &mut self,
        out: W,
        mut stop: impl FnMut(Duration) -> bool,
    ) -> Result<(Summary, W), Failure> {
        let begin_ns = now_ns();
        let mut out = Writer::new(out, &about(begin_ns))?;
        out.places(&self.places)?;
        out.sched(&scheduling::read(&self.options.roots))?;
        // What has come before is of no recording.
        self.queues.begin(&self.vms, begin_ns)?;
        let mut next = self.rings.written()?;
        self.hear(begin_ns)?;
        for named in self.names.sorted() {
            out.thread(named.tid, named.tgid, &named.comm)?;
        }
        let mut introduced = Introduced::default();
        let mut attributes = Attributes::new(&self.options.roots);
        attributes.named(&self.names.sorted());
        let mut events = Vec::new();
        let mut complete_to_ns = begin_ns;
        let _paced = Paced::begin();
        loop {
            let over = stop(Duration::from_nanos(now_ns().saturating_sub(begin_ns)));
            // Names go before the events in which they are.
            let round_ns = now_ns();
            let to = self.rings.written()?;
            let new = self.hear(round_ns)?;
            for named in &new {
                out.thread(named.tid, named.tgid, &named.comm)?;
            }
            attributes.named(&new);
            let members = introduced.write(&mut out, &self.vms)?;
            attributes.members(&mut out, &members, round_ns)?;
            attributes.round(&mut out, round_ns)?;
            let least_ns = if over { 0 } else { INTERVAL_NS };
            if let Some(interval) = self.queues.look(&self.vms, round_ns, least_ns)? {
                out.queues(&interval)?;
            }
            for (cpu, &to) in to.iter().enumerate() {
                let mut lost = 0;
                while next[cpu] < to {
                    events.clear();
                    let copied = self.rings.copy(cpu, next[cpu], to, &mut events)?;
                    next[cpu] = copied.next;
                    lost += copied.lost;
                    if !events.is_empty() {
                        out.events(cpu as u32, std::mem::take(&mut lost), &events)?;
                    }
                }
                if lost > 0 {
                    out.events(cpu as u32, lost, &[])?;
                }
            }
            // An event has its time a moment before it counts: what is complete is what was one round ago.
            out.round(complete_to_ns)?;
            complete_to_ns = round_ns;
            if over {
                attributes.finish(&mut out, round_ns)?;
                return self.finish(out, begin_ns, round_ns);
            }
            let since = now_ns().saturating_sub(round_ns);
            std::thread::sleep(ROUND.saturating_sub(Duration::from_nanos(since)));
        }
    }

    /// Waits until a VM's thread has waited for too long, and for what comes just after; `false` if `stop` has
    /// said so before. The host is recorded meanwhile.
    ///
    /// # Errors
    /// If there is nobody who could wait, or the kernel takes the rings away.
    pub fn watch(&mut self, mut stop: impl FnMut() -> bool) -> Result<bool, Failure> {
        self.lates.borrow_mut().clear();
        if self.watched.is_empty() {
            let mut why = self.troubles();
            why.push("give one with --vm NAME=CGROUP or NAME=PID".to_owned());
            return Err(Failure::Nobody(why.join("; ")));
        }
        loop {
            let now = now_ns();
            self.hear(now)?;
            self.queues.remember(&self.vms, now)?;
            if !self.lates.borrow().is_empty() {
                let end_ns = now + TAIL_NS;
                while now_ns() < end_ns {
                    std::thread::sleep(Duration::from_nanos(end_ns.saturating_sub(now_ns())));
                }
                self.hear(now_ns())?;
                self.queues.remember(&self.vms, now_ns())?;
                return Ok(true);
            }
            if stop() {
                return Ok(false);
            }
            // A signal ends it, too.
            let _ = self.inboxes.poll(Duration::from_millis(200));
        }
    }

    /// Writes what the rings still have of the last `keep` up to the wait that was too long, and what came after
    /// it.
    ///
    /// # Errors
    /// As [`Recorder::run`].
    pub fn keep<W: Write>(&mut self, out: W, keep: Duration) -> Result<(Summary, W), Failure> {
        let end_ns = now_ns();
        let triggers = std::mem::take(&mut *self.lates.borrow_mut());
        let from_ns = triggers.first().map_or(end_ns, |trigger| trigger.at_ns);
        let mut begin_ns = from_ns.saturating_sub(keep.as_nanos() as u64).max(self.begin_ns);
        let to = self.rings.written()?;
        // All CPUs begin together, where the ring that goes least far back begins; with room to the writer, who
        // goes on meanwhile.
        let room = self.rings.capacity() / 16;
        let mut next = Vec::new();
        for (cpu, &to) in to.iter().enumerate() {
            let oldest = (to + room).saturating_sub(self.rings.capacity());
            if oldest > 0 {
                begin_ns = begin_ns.max(self.rings.at_ns(cpu, oldest.min(to.saturating_sub(1)))?);
            }
            next.push(oldest);
        }
        for (cpu, next) in next.iter_mut().enumerate() {
            *next = self.first_since(cpu, *next, to[cpu], begin_ns)?;
        }
        let mut out = Writer::new(out, &about(begin_ns))?;
        out.places(&self.places)?;
        for named in self.names.sorted() {
            out.thread(named.tid, named.tgid, &named.comm)?;
        }
        let members = Introduced::default().write(&mut out, &self.vms)?;
        for trigger in &triggers {
            out.trigger(trigger)?;
        }
        for interval in self.queues.since(begin_ns) {
            out.queues(interval)?;
        }
        let mut slice_ns = begin_ns;
        while slice_ns < end_ns {
            slice_ns = (slice_ns + SLICE_NS).min(end_ns);
            for (cpu, next) in next.iter_mut().enumerate() {
                self.write_to(&mut out, cpu, next, to[cpu], slice_ns)?;
            }
            out.round(slice_ns)?;
        }
        // Behind the events, which would be overwritten while threads are read.
        out.sched(&scheduling::read(&self.options.roots))?;
        let mut attributes = Attributes::new(&self.options.roots);
        attributes.named(&self.names.sorted());
        attributes.members(&mut out, &members, now_ns())?;
        attributes.finish(&mut out, now_ns())?;
        self.finish(out, begin_ns, end_ns)
    }

    /// The first of `cpu`'s events from `from` up to `to` that is not before `at`.
    fn first_since(&mut self, cpu: usize, from: u64, to: u64, at: u64) -> Result<u64, Error> {
        let (mut low, mut high) = (from, to);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rings.at_ns(cpu, middle)? < at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Writes `cpu`'s events from number `next` on, up to a time.
    fn write_to<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        cpu: usize,
        next: &mut u64,
        to: u64,
        until_ns: u64,
    ) -> Result<(), Failure> {
        let end = self.first_since(cpu, *next, to, until_ns.saturating_add(1))?;
        let mut events = Vec::new();
        while *next < end {
            events.clear();
            let copied = self.rings.copy(cpu, *next, end, &mut events)?;
            *next = copied.next;
            out.events(cpu as u32, copied.lost, &events)?;
        }
        Ok(())
    }

    fn finish<W: Write>(
        &mut self,
        out: Writer<W>,
        begin_ns: u64,
        end_ns: u64,
    ) -> Result<(Summary, W), Failure> {
        let found = self.counts.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(|source| Error::Bpf { what: "read the counts", source })?;
        let lost_names = found.and_then(|bytes| bytes.first_chunk().copied());
        let (out, end) = out.finish(end_ns, lost_names.map_or(0, u64::from_ne_bytes))?;
        let End { events, lost, lost_names, .. } = end;
        let (span_ns, vms) = (end_ns.saturating_sub(begin_ns), self.vms.len());
        Ok((Summary { span_ns, events, lost, lost_names, vms }, out))
    }

    /// Takes the names that have come, and looks for VMs if it is time.
    fn hear(&mut self, now_ns: u64) -> Result<Vec<Named>, Error> {
        let heard = self.inboxes.consume();
        heard.map_err(|source| Error::Bpf { what: "read the ring of names", source })?;
        let new = std::mem::take(&mut *self.new_names.borrow_mut());
        self.names.take(&new, &self.options.roots.proc, now_ns);
        if now_ns.saturating_sub(self.scanned_ns) >= SCAN_NS {
            self.scanned_ns = now_ns;
            self.scan()?;
        }
        Ok(new)
    }

    /// Looks for VMs, and watches their threads.
    fn scan(&mut self) -> Result<(), Error> {
        let found = self.scanner.scan();
        self.troubles = found.troubles;
        if let Some(why) = found.unknown {
            // Those that were there are still recorded. Without any to begin with nobody's wait would count.
            return if self.begun { Ok(()) } else { Err(Error::Unseen(why)) };
        }
        self.begun = true;
        self.vms = found.vms.into_iter().map(|vm| ((vm.pid, vm.started_ticks), vm)).collect();
        self.queues.follow(&self.vms)?;
        if self.options.threshold.is_none() {
            return Ok(());
        }
        let declared: Vec<_> =
            self.options.declared.iter().map(|declared| &declared.name).collect();
        let counts = |vm: &&Vm| declared.is_empty() || declared.contains(&&vm.name);
        // Who is here longest comes first, as for the observer.
        let mut vms: Vec<&Vm> = self.vms.values().filter(counts).collect();
        vms.sort_by_key(|vm| (vm.started_ticks, vm.pid));
        let (mut listed, mut machines) = (BTreeSet::new(), Vec::with_capacity(vms.len()));
        for vm in vms {
            let new = vm.threads.iter().filter(|thread| listed.insert(thread.tid));
            let watched = |tid: u32| self.watched.contains(&tid).then_some(tid);
            let candidates = new.map(|thread| Candidate::listed(thread, watched(thread.tid)));
            machines.push(candidates.collect::<Vec<_>>());
        }
        let chosen = choose(WATCHED_MAX, machines);
        let dropped: Vec<u32> = self.watched.difference(&listed).copied().collect();
        for tid in dropped.into_iter().chain(chosen.dropped) {
            // It may be gone by itself.
            let _ = self.waiting.delete(&tid.to_ne_bytes());
            self.watched.remove(&tid);
        }
        self.unwatched = chosen.unseen.len();
        for (_, _, tid) in chosen.begun {
            let waits = 0_u64.to_ne_bytes();
            match self.waiting.update(&tid.to_ne_bytes(), &waits, MapFlags::ANY) {
                Ok(()) => {
                    self.watched.insert(tid);
                }
                Err(_) => self.unwatched += 1,
            }
        }
        Ok(())
    }
}

fn about(begin_ns: u64) -> About {
    let since_ns = now_ns().saturating_sub(begin_ns);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    About {
        begin_ns,
        // What a recording is called by; nothing is measured with it.
        begin_unix_ns: (unix.as_nanos() as u64).saturating_sub(since_ns),
        cpus: libbpf_rs::num_possible_cpus().unwrap_or_default() as u32,
        kernel: scheduling::release(),
    }
}

/// Now, by the clock of the events.
fn now_ns() -> u64 {
    Instant::now().as_ns()
}
