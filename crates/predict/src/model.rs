//! The recorded host as a configuration of the simulator: its CPUs, control groups and threads, and what each thread does.

use std::collections::HashMap;
use std::sync::Arc;

use lowtail_engine::{Duration, Rng};
use lowtail_host::cgroup::{Policy, Thread as HostThread};
use lowtail_host::guest::replay::{ReplayConfig, THREADS_MAX};
use lowtail_host::{
    Cgroup, Config, Costs, CpuSet, Pcpu, SchedulerConfig, Topology, VmConfig, Way, Workload,
};
use lowtail_trace::recording;
use lowtail_trace::{CpuPlace, Role, ThreadInfo};

use crate::cause::Interrupts;
use crate::error::Error;
use crate::groups::Groups;
use crate::history::ThreadNumber;
use crate::recording::Recording;
use crate::shares::Share;
use crate::timeline::Timeline;
use crate::ways::Ways;
use crate::workload::{Others, workload};

/// The most VMs that are added.
pub const COPIES_MAX: u32 = 1000;

/// What is simulated: a recorded host, and what is otherwise there.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Who decides.
    pub scheduler: SchedulerConfig,
    /// So many CPUs, in place of those that were recorded.
    pub cpus: Option<u16>,
    /// VMs that are not there, by name.
    pub without: Vec<String>,
    /// So many more VMs like one that is there.
    pub add: Vec<(String, u32)>,
    /// Where the threads of a VM may run.
    pub pins: Vec<(String, CpuSet)>,
    /// 0: what happened at once happens at once. Others begin threads that do not wake each other at other moments of what they have done.
    pub seed: u64,
}

impl Setup {
    /// The recorded host under `scheduler`.
    pub fn new(scheduler: SchedulerConfig) -> Self {
        let (without, add, pins) = (Vec::new(), Vec::new(), Vec::new());
        Setup { scheduler, cpus: None, without, add, pins, seed: 0 }
    }
}

/// A thread of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelThread {
    /// Its number in the recording.
    pub(crate) recorded: ThreadNumber,
    /// The domain that it is in.
    pub(crate) dom: u16,
}

/// A domain of a model: threads of a VM, or of none.
#[derive(Debug, Clone)]
pub(crate) struct Domain {
    /// The VM, by its place in the recording.
    pub(crate) vm: Option<usize>,
    /// Which of several of the kind it is; 0 was recorded.
    pub(crate) copy: u32,
    /// Its threads.
    pub(crate) members: Vec<ThreadNumber>,
    /// The control group that is the VM's own.
    pub(crate) group: Option<Cgroup>,
}

/// A recorded host that can be simulated.
#[derive(Debug, Clone)]
pub struct Model {
    /// What the simulator runs.
    pub config: Config,
    /// For how long.
    pub span: Duration,
    pub(crate) domains: Vec<Domain>,
    /// Its vCPUs, which are the threads of the recording, in the simulator's order.
    pub(crate) threads: Vec<ModelThread>,
    /// What a wake-up that interrupts nobody takes under small-first, beyond what it took.
    refused: Duration,
    /// Its VMs are domains of Xen's, which have weights and caps of their own.
    is_xen: bool,
}

/// Domains: first those of VMs, in the recording's order, then that of all others, then copies. One with too many threads is several.
fn domains(recording: &Recording, setup: &Setup) -> Result<Vec<Domain>, Error> {
    let names = &recording.host.vms;
    let by_name = |name: &str| {
        let found = names.iter().position(|vm| vm == name);
        found.ok_or_else(|| Error::NoVm { name: name.to_owned(), known: names.clone() })
    };
    let mut of_vms: Vec<Vec<ThreadNumber>> = vec![Vec::new(); names.len()];
    let mut others = Vec::new();
    for (thread, &vm) in recording.vms.iter().enumerate() {
        if !recording.history.threads[thread].segments.is_empty() {
            vm.map_or(&mut others, |vm| &mut of_vms[vm]).push(thread);
        }
    }
    for threads in &mut of_vms {
        threads.sort_by_key(|&thread| (recording.infos[thread].role, thread));
    }
    for name in &setup.without {
        of_vms[by_name(name)?].clear();
    }
    let mut domains = Vec::new();
    let mut add = |vm: Option<usize>, copy: u32, threads: &[ThreadNumber]| {
        let domain =
            |some: &[ThreadNumber]| Domain { vm, copy, members: some.to_vec(), group: None };
        domains.extend(threads.chunks(THREADS_MAX).map(domain));
    };
    of_vms.iter().enumerate().for_each(|(vm, threads)| add(Some(vm), 0, threads));
    add(None, 0, &others);
    for (name, copies) in &setup.add {
        let vm = by_name(name)?;
        for copy in 1..=(*copies).min(COPIES_MAX) {
            add(Some(vm), copy, &of_vms[vm]);
        }
    }
    let threads: usize = domains.iter().map(|domain| domain.members.len()).sum();
    match threads {
        0 => Err(Error::Empty),
        threads if threads > usize::from(u16::MAX) => Err(Error::Threads { max: u16::MAX.into() }),
        _ => Ok(domains),
    }
}

/// Where each thread is: those of copies by VM and copy.
struct Places {
    recorded: Vec<Option<(u16, u16)>>,
    copies: HashMap<(usize, u32, ThreadNumber), (u16, u16)>,
}

impl Places {
    fn new(domains: &[Domain], threads: usize) -> Self {
        let mut places = Places { recorded: vec![None; threads], copies: HashMap::new() };
        for (dom, domain) in (0..).zip(domains) {
            for (number, &thread) in (0..).zip(&domain.members) {
                match domain.vm.filter(|_| domain.copy > 0) {
                    Some(vm) => {
                        places.copies.insert((vm, domain.copy, thread), (dom, number));
                    }
                    None => places.recorded[thread] = Some((dom, number)),
                }
            }
        }
        places
    }
}

/// Others, for the threads of a domain.
struct OthersOf<'a> {
    places: &'a Places,
    domain: &'a Domain,
    vms: &'a [Option<usize>],
}

impl OthersOf<'_> {
    /// Whether a thread is one of the domain's VM.
    fn is_own(&self, thread: ThreadNumber) -> bool {
        self.domain.vm.is_some() && self.vms[thread] == self.domain.vm
    }
}

impl Others for OthersOf<'_> {
    fn place(&self, thread: ThreadNumber) -> Option<(u16, u16)> {
        match self.domain.vm.filter(|_| self.domain.copy > 0 && self.is_own(thread)) {
            Some(vm) => self.places.copies.get(&(vm, self.domain.copy, thread)).copied(),
            None => self.places.recorded[thread],
        }
    }

    fn wakes(&self, thread: ThreadNumber) -> bool {
        // Those outside wake the VM that was recorded, and not those that are like it.
        self.domain.copy == 0 || self.is_own(thread)
    }
}

impl Model {
    /// The host of `recording`, as `setup` says.
    ///
    /// # Errors
    /// If the recording is empty, or its host cannot be simulated.
    pub fn new(recording: &Recording, setup: &Setup) -> Result<Self, Error> {
        let mut domains = domains(recording, setup)?;
        let places = Places::new(&domains, recording.infos.len());
        let mut groups = Groups::new(recording);
        for domain in &mut domains {
            domain.group = domain.vm.and_then(|vm| groups.of_vm(recording, vm, domain.copy));
        }
        let recorded = online(recording);
        let online =
            setup.cpus.map_or(recorded, |cpus| CpuSet::first_n(cpus.clamp(1, CpuSet::MAX_PCPUS)));
        let times = Times::new(recording, &setup.scheduler, setup.seed);
        let all_ways = all_ways(recording);
        let way = all_ways.usual(None);
        let mut vms = Vec::new();
        let mut threads = Vec::new();
        for (dom, domain) in (0..).zip(&domains) {
            let name = domain.vm.map_or("", |vm| &recording.host.vms[vm]);
            let others = OthersOf { places: &places, domain, vms: &recording.vms };
            let pin = setup.pins.iter().find(|(vm, _)| domain.vm.is_some() && vm == name);
            let pin = pin.map(|&(_, cpus)| cpus.and(online)).filter(|cpus| !cpus.is_empty());
            let ways =
                |&thread: &ThreadNumber| recording.history.threads[thread].ways.usual(Some(way));
            let own_time = times.of_copy(domain.copy, name);
            let (mut replays, mut host_threads) = (Vec::new(), Vec::new());
            for &thread in &domain.members {
                let time = own_time.unwrap_or_else(|| times.of(thread));
                let timer = recording.judged[thread].interrupts == Interrupts::Timer;
                let history = &recording.history.threads[thread];
                replays.push(workload(history, timer, time, &others));
                let group = groups.of(recording, thread, domain.copy);
                let mut host_thread = host_thread(recording, thread, group, recorded, online);
                host_thread.pin = pin.unwrap_or(host_thread.pin);
                host_threads.push(host_thread);
                threads.push(ModelThread { recorded: thread, dom });
            }
            let replay = Arc::new(ReplayConfig { threads: replays });
            vms.push(VmConfig {
                vcpus: domain.members.len() as u16,
                threads: host_threads,
                ways: domain.members.iter().map(ways).collect(),
                fair_class: domain.vm.is_none(),
                ..VmConfig::new(&format!("{name}+{}", domain.copy), Workload::Replay(replay))
            });
        }
        let pcpus = online.iter().last().map_or(1, |last| last.0 + 1);
        let mut config = Config::new(pcpus, setup.scheduler.clone(), costs(way), vms);
        config.cgroups = groups.configs;
        config.topology = topology(&recording.host.places, pcpus);
        let span = Duration::from_ns(times.recorded.lead_ns + recording.span_ns());
        let refused = all_ways.refused();
        let is_xen = recording.host.xen.is_some();
        let mut model = Model { config, span, domains, threads, refused, is_xen };
        model.set_shares(&recording.shares);
        if matches!(setup.scheduler, SchedulerConfig::SmallFirst(_)) {
            model.suit_small_first();
        }
        Ok(model)
    }

    /// Gives the domains of a Xen host these weights and caps, by their places in the recording: caps where the scheduler has any.
    pub(crate) fn set_shares(&mut self, shares: &[Share]) {
        let has_caps = self.config.scheduler.has_caps();
        for (vm, domain) in self.config.vms.iter_mut().zip(&self.domains) {
            let Some(share) = domain.vm.and_then(|vm| shares.get(vm)) else { continue };
            vm.weight = share.weight;
            vm.cap_percent = if has_caps { share.cap_percent } else { 0 };
        }
    }

    /// What is otherwise under small-first: each VM has the weight of its control group, as it is told (1024 shares are its usual weight of
    /// 256), and wake-ups take more.
    pub(crate) fn suit_small_first(&mut self) {
        self.config.costs.refused = Some(self.refused);
        if self.is_xen {
            // Those have weights of their own.
            return;
        }
        for (vm, domain) in self.config.vms.iter_mut().zip(&self.domains) {
            let shares =
                domain.group.map_or(1024, |group| self.config.cgroups[group.index()].shares);
            vm.weight = (shares / 4).clamp(1, u16::MAX.into()) as u16;
        }
    }

    /// What a domain is called: a VM's name, with a number if it was added.
    pub(crate) fn name(&self, recording: &Recording, dom: usize) -> Option<String> {
        let domain = &self.domains[dom];
        let name = lowtail_out::name(&recording.host.vms[domain.vm?]).into_owned();
        Some(if domain.copy == 0 { name } else { format!("{name}+{}", domain.copy) })
    }
}

/// When threads begin.
struct Times {
    recorded: Timeline,
    seed: u64,
    /// The part of each thread, and how long after the beginning it begins.
    phases: Vec<u64>,
}

impl Times {
    fn new(recording: &Recording, scheduler: &SchedulerConfig, seed: u64) -> Self {
        let (begin_ns, span_ns) = (recording.host.span_ns.0, recording.span_ns());
        let mut phases = vec![0; recording.infos.len()];
        if seed > 0 {
            let mut rng = Rng::new(seed, "phases");
            let mut of: HashMap<usize, u64> = HashMap::new();
            for (thread, &component) in recording.components.iter().enumerate() {
                phases[thread] = *of.entry(component).or_insert_with(|| rng.below(span_ns.max(1)));
            }
        }
        let lead_ns = lead_ns(recording, scheduler);
        Times { recorded: Timeline { begin_ns, span_ns, phase_ns: 0, lead_ns }, seed, phases }
    }

    fn of(&self, thread: ThreadNumber) -> Timeline {
        Timeline { phase_ns: self.phases[thread], ..self.recorded }
    }

    /// The time of all threads of a copy: not that of the recorded VM, with which it would be in step.
    fn of_copy(&self, copy: u32, name: &str) -> Option<Timeline> {
        let mut rng = Rng::new(self.seed, &format!("{name}+{copy}"));
        let phase_ns = rng.below(self.recorded.span_ns.max(1));
        (copy > 0).then_some(Timeline { phase_ns, ..self.recorded })
    }
}

/// How long the simulation waits before it begins, so that its ticks, at multiples of their period, are the recorded host's.
fn lead_ns(recording: &Recording, scheduler: &SchedulerConfig) -> u64 {
    let SchedulerConfig::Fair(fair) = scheduler else { return 0 };
    let period = 1_000_000_000 / u64::from(fair.hz.max(1));
    let phase = recording.history.ticks.phase_ns(period);
    phase.map_or(0, |phase| (recording.host.span_ns.0 % period + period - phase) % period)
}

/// The CPUs that the recorded host had.
fn online(recording: &Recording) -> CpuSet {
    let stated = recording.host.facts.kernel.as_ref().map(|kernel| &kernel.online);
    let stated: CpuSet = stated.into_iter().flat_map(|cpus| cpus.iter()).map(Pcpu).collect();
    let seen = CpuSet::first_n(recording.host.cpus.clamp(1, CpuSet::MAX_PCPUS));
    if stated.is_empty() { seen } else { stated.and(CpuSet::first_n(CpuSet::MAX_PCPUS)) }
}

/// What things cost beyond what threads were charged for: the ways from wake-ups to switches. All else is in the work that was recorded.
fn costs(way: Way) -> Costs {
    Costs {
        tickle_to_schedule: way.to_busy,
        tickle_to_schedule_self: way.to_self,
        tickle_to_schedule_idle: way.to_idle,
        refused: Some(Duration::ZERO),
        ..Costs::FREE
    }
}

/// The ways of all threads.
fn all_ways(recording: &Recording) -> Ways {
    let mut all = Ways::default();
    recording.history.threads.iter().for_each(|thread| all.add(&thread.ways));
    all
}

/// Which CPUs share what, if the recording says so of each of them.
fn topology(places: &[CpuPlace], pcpus: u16) -> Option<Topology> {
    let of = |key: fn(&CpuPlace) -> u16| -> Vec<CpuSet> {
        let mut keys: Vec<u16> = places.iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let members = |&wanted: &u16| {
            places
                .iter()
                .filter(|place| key(place) == wanted)
                .map(|place| Pcpu(place.cpu))
                .collect()
        };
        keys.iter().map(members).collect()
    };
    let known: CpuSet = places.iter().map(|place| Pcpu(place.cpu)).collect();
    if places.is_empty() || known != CpuSet::first_n(pcpus) {
        return None;
    }
    let nodes = of(|place| place.node);
    Some(Topology {
        cores: of(|place| place.core),
        caches: of(|place| place.cache),
        sockets: nodes.clone(),
        nodes,
    })
}

/// What the simulator's scheduler knows of a thread.
fn host_thread(
    recording: &Recording,
    thread: usize,
    cgroup: Option<Cgroup>,
    recorded: CpuSet,
    online: CpuSet,
) -> HostThread {
    let info = &recording.infos[thread];
    let known = recording.host.facts.threads.get(&info.tid);
    let all = HostThread { pin: online, ..HostThread::default() };
    let Some(known) = known else {
        // What a vCPU of Xen is pinned to is not in the trace: it may run where it has run.
        let ran_on = recording.history.threads[thread].cpus.and(online);
        // One that has run on all there were may run on all there are.
        let on_some = !recorded.minus(recording.history.threads[thread].cpus).is_empty();
        let is_pinned = recording.host.xen.is_some() && on_some && !ran_on.is_empty();
        let pin = if is_pinned { ran_on } else { online };
        return HostThread { policy: usual_policy(info), pin, ..all };
    };
    let pin = known.cpus.as_ref().map(|cpus| cpus.iter().map(Pcpu).collect::<CpuSet>());
    // One that may run on all there were may run on all there are.
    let pin = pin.filter(|pin| !recorded.minus(*pin).is_empty()).map(|pin| pin.and(online));
    let range = Duration::from_us(100)..=Duration::from_ms(100);
    let slice = Some(Duration::from_ns(known.slice_ns)).filter(|slice| range.contains(slice));
    HostThread {
        cgroup,
        policy: policy(known),
        nice: known.nice.clamp(-20, 19) as i8,
        slice,
        pin: pin.filter(|pin| !pin.is_empty()).unwrap_or(online),
    }
}

/// The policy of a thread of which the recording says none: the kernel's own that are above all others, by their names
/// (`kernel/stop_machine.c`).
fn usual_policy(info: &ThreadInfo) -> Policy {
    let name = info.comm.as_deref().unwrap_or_default();
    if info.role.is_none() && name.starts_with("migration/") {
        Policy::Fifo(99)
    } else {
        Policy::Other
    }
}

fn policy(thread: &recording::ThreadFacts) -> Policy {
    let priority = thread.rt_priority.clamp(1, 99) as u8;
    match thread.policy {
        recording::Policy::Fifo => Policy::Fifo(priority),
        recording::Policy::Rr => Policy::Rr(priority),
        recording::Policy::Batch => Policy::Batch,
        recording::Policy::Idle => Policy::Idle,
        // Before all real-time threads.
        recording::Policy::Deadline => Policy::Fifo(99),
        recording::Policy::Other | recording::Policy::Ext | recording::Policy::Unknown(_) => {
            Policy::Other
        }
    }
}

/// Whether a thread is a vCPU.
pub(crate) fn is_vcpu(info: &ThreadInfo) -> bool {
    matches!(info.role, Some(Role::Vcpu(_)))
}
