//! Looks at VMs.

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use lowtail_engine::Duration;

use super::blame::{Names, merge, rank, settle};
use super::kernel::{Programs, slots_bytes};
use super::pool::{THREADS_MAX, THREADS_USUAL, reserve};
use super::throttle::Quotas;
use super::tracker::{Read, Tracker};
use super::traffic::Traffic;
use super::vm_key::{VmKey, key};
use super::{Interface, Lost, Network, Runner, Snapshot, ThreadSnapshot, Unseen, VmSnapshot};
use lowtail_discover::{Declared, Found, Scanner, Vm};
use lowtail_kernel::clock::Instant;
use lowtail_kernel::error::Error;
use lowtail_kernel::{Name, Roots};

/// How often new VMs and threads are looked for at most.
const LOOK: Duration = Duration::from_ms(900);

/// What to observe.
#[derive(Clone, Debug)]
pub struct Options {
    /// VMs that nobody would find.
    pub declared: Vec<Declared>,
    /// Only VMs with one of these names, or that are declared; all, if there is none.
    pub names: Vec<String>,
    /// Room for so many threads in the kernel, 5 kB each, up to [`THREADS_MAX`], and an eighth (64 at least) more as a
    /// reserve.
    pub threads: u32,
    /// Where the kernel tells about itself.
    pub roots: Roots,
    /// Whether to follow packets, too.
    pub network: bool,
    /// The uplinks; if there is none, they are found: every interface with a queue that a VM's packets leave by.
    pub uplinks: Vec<Interface>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            declared: Vec::new(),
            names: Vec::new(),
            threads: THREADS_USUAL,
            roots: Roots::default(),
            network: true,
            uplinks: Vec::new(),
        }
    }
}

/// Programs in the kernel that look at the threads of VMs; with it, they go.
pub struct Observer {
    options: Options,
    scanner: Scanner,
    programs: Programs,
    tracker: Tracker,
    quotas: Quotas,
    found: Found,
    vms: BTreeMap<VmKey, Vm>,
    looked: Instant,
    last: Instant,
    lost: Lost,
    /// Why there is none is told with each snapshot.
    traffic: Result<Traffic, String>,
}

/// Memory of the kernel that is taken at the start for so many threads, in bytes.
pub fn kernel_memory_bytes(threads: u32) -> u64 {
    let threads = threads.min(THREADS_MAX);
    slots_bytes(threads + reserve(threads))
}

impl Observer {
    /// Looks from now on.
    ///
    /// # Errors
    /// If the kernel has no types (BTF), no BPF or no memory, or does not let this user use it; if processes cannot be looked
    /// at.
    pub fn start(options: Options) -> Result<Self, Error> {
        let threads = options.threads.clamp(1, THREADS_MAX);
        let programs = Programs::start(threads + reserve(threads))?;
        let scanner = Scanner::new(options.roots.clone(), options.declared.clone());
        let now = Instant::now();
        // Threads can be looked at where packets cannot.
        let traffic = match options.network {
            true => Traffic::start(options.uplinks.clone(), options.roots.clone())
                .map_err(|error| format!("packets: {error}")),
            false => Err("packets: not asked for".to_string()),
        };
        let mut observer = Observer {
            options,
            traffic,
            scanner,
            programs,
            tracker: Tracker::new(threads),
            quotas: Quotas::default(),
            found: Found::default(),
            vms: BTreeMap::new(),
            looked: now,
            last: now,
            lost: Lost::default(),
        };
        observer.look_around()?;
        if let Some(why) = observer.found.unknown {
            return Err(Error::Unseen(why));
        }
        // The first interval begins when all are looked at.
        observer.look_at_quotas();
        observer.last = Instant::now();
        Ok(observer)
    }

    /// Looks for VMs and threads that have come and gone. To be called each second, if snapshots are taken less
    /// often.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn look_around(&mut self) -> Result<(), Error> {
        let found = self.scanner.scan();
        self.looked = Instant::now();
        if found.unknown.is_some() {
            // Who is not found has not ended. What is known is looked at further.
            (self.found.troubles, self.found.unknown) = (found.troubles, found.unknown);
            return Ok(());
        }
        self.found = found;
        let names = &self.options.names;
        let wanted = |vm: &Vm| {
            names.is_empty()
                || vm.kind == lowtail_discover::Kind::Declared
                || names.iter().any(|name| name == vm.name.as_given())
        };
        self.found.vms.retain(wanted);
        self.tracker.follow(&self.programs, self.found.vms.iter())?;
        for vm in &self.found.vms {
            self.vms.insert(key(vm), vm.clone());
        }
        if let Ok(traffic) = &mut self.traffic {
            traffic.follow(&self.vms)?;
        }
        Ok(())
    }

    /// VMs that are there, as they were found last.
    pub fn vms(&self) -> &[Vm] {
        &self.found.vms
    }

    /// What has come since the last snapshot, or since the start.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        if Instant::now().since(self.looked) >= LOOK {
            self.look_around()?;
        }
        self.tracker.give_back(&self.programs)?;
        self.programs.swap_epoch()?;
        let began = Instant::now();
        let slots = self.programs.slots()?;
        let now = Instant::now();
        let read = Read {
            now_ns: now.as_ns(),
            interval_ns: now.since(self.last).as_ns(),
            slack_ns: now.since(began).as_ns(),
        };
        self.tracker.sort(&self.programs, &slots, &self.vms)?;
        let owners = self.tracker.owners(&slots, &self.vms);
        let new = self.tracker.advance(&self.programs, slots, read)?;
        let mut names = Names { owners, vms: &self.vms, processes: HashMap::new() };
        let mut blame = names.sort(self.programs.blame()?);
        let mut threads: BTreeMap<VmKey, Vec<ThreadSnapshot>> = BTreeMap::new();
        for (vm, mut new) in new {
            let mut mine = blame.remove(&new.number).unwrap_or_default();
            if new.others_ns > 0 {
                *mine.entry(Runner::Others).or_default() += new.others_ns;
            }
            let ahead = new.ahead.map(|ahead| names.ahead(ahead)).unwrap_or_default();
            if let Some(tracked) = self.tracker.get_mut(new.number) {
                settle(&mut mine, &std::mem::replace(&mut tracked.ahead, ahead.clone()));
            }
            ahead.into_iter().for_each(|(who, ns)| *mine.entry(who).or_default() += ns);
            new.snapshot.blame = rank(mine);
            if let Some(tracked) = self.tracker.get_mut(new.number) {
                merge(&mut tracked.blame, &new.snapshot.blame);
            }
            threads.entry(vm).or_default().push(new.snapshot);
            if new.ended {
                self.tracker.forget(&self.programs, new.number)?;
            }
        }
        self.look_at_quotas();
        let (networks, uplinks) = match &mut self.traffic {
            Ok(traffic) => traffic.read(&self.vms)?,
            Err(_) => Default::default(),
        };
        let mut vms = self.vm_snapshots(threads, networks);
        for vm in &mut vms {
            vm.unseen_threads = self.tracker.unseen((vm.pid, vm.started_ticks));
        }
        self.drop_ended()?;
        let interval = now.since(self.last);
        self.last = now;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let missing = self.missing(&vms);
        let (incomplete, coverage_gaps) =
            (self.found.unknown.is_some() || !missing.is_empty(), self.coverage_gaps(&missing));
        Ok(Snapshot {
            unix_ms: unix.as_millis() as u64,
            interval_ms: interval.as_ns() as f64 / 1e6,
            lost: self.lost_since()?,
            vms,
            uplinks,
            coverage_gaps,
            incomplete,
        })
    }

    /// What has come since the start, or since a VM or thread is there: totals that never fall. Up to the last snapshot.
    pub fn totals(&self) -> Vec<VmSnapshot> {
        let mut threads: BTreeMap<VmKey, Vec<ThreadSnapshot>> = BTreeMap::new();
        for (vm, thread) in self.tracker.totals(self.last.as_ns()) {
            threads.entry(vm).or_default().push(thread);
        }
        let networks = self.traffic.as_ref().map(|traffic| traffic.totals().clone());
        self.vm_snapshots(threads, networks.unwrap_or_default())
    }

    /// Names of VMs that the user wants and that are not among `vms`.
    fn missing(&self, vms: &[VmSnapshot]) -> Vec<&str> {
        let declared = self.options.declared.iter().map(|vm| vm.name.as_given());
        let wanted = declared.chain(self.options.names.iter().map(String::as_str));
        wanted.filter(|name| vms.iter().all(|vm| vm.name.as_given() != *name)).collect()
    }

    fn coverage_gaps(&self, missing: &[&str]) -> Vec<String> {
        let mut words = self.found.troubles.clone();
        // Why one that is declared is missing, the scanner has said.
        let is_declared =
            |name: &str| self.options.declared.iter().any(|vm| vm.name.as_given() == name);
        words.extend(missing.iter().filter(|name| !is_declared(name)).map(|name| {
            format!("{}: no VM has this name; `lowtail host vms` lists all", Name::new(*name))
        }));
        match &self.traffic {
            Ok(traffic) => words.extend(traffic.coverage_gaps()),
            Err(why) => words.push(why.clone()),
        }
        words
    }

    /// For how long, in nanoseconds, and how often each program has run, by name, while `kernel.bpf_stats_enabled` was 1.
    pub fn run_times(&self) -> Vec<(String, u64, u64)> {
        self.programs.run_times()
    }

    fn look_at_quotas(&mut self) {
        if let Some(hierarchy) = &self.found.hierarchy {
            self.quotas.look(self.vms.values(), hierarchy);
        }
    }

    fn vm_snapshots(
        &self,
        mut threads: BTreeMap<VmKey, Vec<ThreadSnapshot>>,
        mut networks: BTreeMap<VmKey, Network>,
    ) -> Vec<VmSnapshot> {
        let snapshot = |(key, vm): (&VmKey, &Vm)| {
            let mut threads = threads.remove(key).unwrap_or_default();
            threads.sort_by_key(|thread| thread.tid);
            VmSnapshot {
                name: vm.name.clone(),
                kind: vm.kind,
                origin: vm.origin.clone(),
                pid: vm.pid,
                started_ticks: vm.started_ticks,
                ended: !self.is_there(*key),
                threads,
                throttled: self.quotas.of(vm),
                network: networks.remove(key),
                unseen_threads: Unseen::default(),
            }
        };
        let mut vms: Vec<VmSnapshot> = self.vms.iter().map(snapshot).collect();
        vms.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
        vms
    }

    fn is_there(&self, vm: VmKey) -> bool {
        self.found.vms.iter().any(|found| key(found) == vm)
    }

    /// VMs that have ended, once their last figures were told.
    fn drop_ended(&mut self) -> Result<(), Error> {
        let ended: Vec<VmKey> = self.vms.keys().copied().filter(|&vm| !self.is_there(vm)).collect();
        for vm in ended {
            for number in self.tracker.of(vm) {
                self.tracker.forget(&self.programs, number)?;
            }
            self.vms.remove(&vm);
        }
        Ok(())
    }

    fn lost_since(&mut self) -> Result<Lost, Error> {
        let now = self.programs.lost()?;
        let then = std::mem::replace(&mut self.lost, now);
        let mut lost = Lost {
            waits: now.waits.saturating_sub(then.waits),
            blame: now.blame.saturating_sub(then.blame),
            packets: 0,
            threads: now.threads.saturating_sub(then.threads) + self.tracker.refused(),
        };
        if let Ok(traffic) = &mut self.traffic {
            traffic.lost_since(&mut lost)?;
        }
        Ok(lost)
    }
}
