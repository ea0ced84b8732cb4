//! What a host is made of: pCPUs, scheduler, costs, domains and their workloads.

use lowtail_engine::{Duration, Spread, Stream};

use crate::cgroup::{CgroupConfig, Thread};
use crate::costs::Costs;
use crate::guest::Guest;
use crate::guest::boost_saver::BoostSaver;
use crate::guest::bucket_surfer::BucketSurfer;
use crate::guest::cpu_loop::CpuLoop;
use crate::guest::driver::{self, Driver};
use crate::guest::duty_hog::DutyHog;
use crate::guest::edge_burner::EdgeBurner;
use crate::guest::mix::{self, Mix};
use crate::guest::net::{self, NetGuest};
use crate::guest::request_server::{self, RequestServer};
use crate::guest::splitter::Splitter;
use crate::guest::tick_dodger::{self, TickDodger};
use crate::guest::timer_sleeper::TimerSleeper;
use crate::guest::wake_storm::WakeStorm;
use crate::guest::yielder::Yielder;
use crate::host_state::{DomParams, HostState, VcpuState};
use crate::ids::{CpuSet, Dom, Pcpu, Vcpu};
use crate::io::IoConfig;
use crate::io::flow::Way;
use crate::io::ports::PORTS_MAX;
use crate::sched::Scheduler;
use crate::sched::credit::{Credit, CreditConfig};
use crate::sched::credit2::{Credit2, Credit2Config, Credit2Version};
use crate::sched::fair::{Fair, FairConfig};
use crate::sched::null::{self, Null};
use crate::sched::small_first::{self, SmallFirst, SmallFirstConfig};

/// A host and its guests.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of pCPUs, 1 to 128.
    pub pcpus: u16,
    /// Number of sockets over which they are spread evenly.
    pub sockets: u16,
    /// Who decides.
    pub scheduler: SchedulerConfig,
    /// What things cost.
    pub costs: Costs,
    /// The domains, dom0 (if it is simulated) being just one of them.
    pub vms: Vec<VmConfig>,
    /// The control groups of a Linux host, each behind the one that it is in.
    pub cgroups: Vec<CgroupConfig>,
    /// NICs, traffic, and event channels.
    pub io: IoConfig,
    /// When a notification makes the scheduler look at the pCPU of who sent it.
    pub tickle: Tickle,
    /// How many records of the schedule to keep; 0 for none.
    pub records: usize,
    /// The domain whose first vCPU's longest wait is kept with its causes.
    pub watch: Option<Dom>,
}

/// When the pCPU of a domain that notifies another one looks whether that goes first. With
/// Ongaro, Cox and Rixner: "tickling the scheduler".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tickle {
    /// At each notification, as Xen does.
    #[default]
    Each,
    /// When the sender has served all its own events.
    After,
    /// Not because of that.
    Never,
}

/// One domain.
#[derive(Debug, Clone)]
pub struct VmConfig {
    /// Its name; the random streams of its workload belong to it.
    pub name: String,
    /// Number of vCPUs, at least 1.
    pub vcpus: u16,
    /// Share of the processors, relative to others. 1 to 65535.
    pub weight: u16,
    /// Upper limit in percent of one pCPU, 0 for none.
    pub cap_percent: u16,
    /// pCPUs on which it may run.
    pub hard: CpuSet,
    /// pCPUs on which it would rather run.
    pub soft: CpuSet,
    /// What its vCPUs are on a Linux host, in order; the last one is for all further vCPUs as
    /// well. Empty: ordinary threads in the root.
    pub threads: Vec<Thread>,
    /// What runs in it.
    pub workload: Workload,
}

/// A scheduler with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerConfig {
    /// Xen's credit scheduler.
    Credit(CreditConfig),
    /// Xen's credit2 scheduler.
    Credit2(Credit2Config),
    /// The fair class of Linux, with control groups.
    Fair(FairConfig),
    /// One vCPU per pCPU.
    Null,
    /// lowtail's own rule.
    SmallFirst(SmallFirstConfig),
}

/// A workload with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// See [`CpuLoop`].
    CpuLoop,
    /// See [`DutyHog`].
    DutyHog {
        /// Length of a burst of work.
        burst: Spread,
        /// Busy share when alone, 1 to 100.
        busy_percent: u64,
    },
    /// See [`RequestServer`].
    RequestServer(request_server::Config),
    /// See [`TimerSleeper`].
    TimerSleeper {
        /// How long to sleep.
        sleep: Duration,
        /// Work after each wake-up.
        work: Duration,
        /// How many wake-ups to measure.
        wakeups: u64,
        /// From when on a turn counts as late.
        late_limit: Duration,
    },
    /// See [`Yielder`].
    Yielder {
        /// Work between yields, more than zero.
        work: Duration,
    },
    /// See [`TickDodger`].
    TickDodger(tick_dodger::Config),
    /// See [`BoostSaver`].
    BoostSaver {
        /// How long to sleep.
        save: Duration,
        /// Work after each sleep, more than zero.
        burn: Duration,
    },
    /// See [`WakeStorm`].
    WakeStorm {
        /// Name of the domain that it wakes: another one with this workload and as many vCPUs.
        partner: String,
        /// Work after each wake-up, more than zero.
        work: Duration,
    },
    /// See [`BucketSurfer`].
    BucketSurfer {
        /// Work of a burst, more than zero.
        burst: Duration,
        /// Share of a pCPU that it takes, 1 to 100.
        share_percent: u64,
    },
    /// See [`Splitter`].
    Splitter {
        /// Work of a vCPU until it is the next one's turn, more than zero.
        turn: Duration,
    },
    /// The driver domain, which has the NICs and the back ends; see [`driver`].
    Driver(driver::Config),
    /// A guest with a virtual interface; see [`net`].
    Net(net::Config),
    /// Several workloads on so many vCPUs each, one after another; see [`Mix`].
    Mix(Vec<(u16, Workload)>),
    /// See [`EdgeBurner`].
    EdgeBurner {
        /// From one edge to the next.
        period: Duration,
        /// How long before an edge it begins, more than zero.
        before: Duration,
        /// How long behind an edge it stops; less than the period with `before`.
        after: Duration,
    },
}

/// What is wrong with a [`Config`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No pCPUs, or more than a host can have.
    #[error("{0} pCPUs: a host has 1 to 128")]
    Pcpus(u16),
    /// Sockets that do not divide the pCPUs.
    #[error("{sockets} sockets for {pcpus} pCPUs: each socket holds the same number of pCPUs")]
    Sockets {
        /// Sockets asked for.
        sockets: u16,
        /// pCPUs asked for.
        pcpus: u16,
    },
    /// A domain without vCPUs, or more vCPUs than can be numbered.
    #[error("VM `{0}`: 1 to 1024 vCPUs")]
    Vcpus(String),
    /// A domain whose weight is zero.
    #[error("VM `{0}`: weight 0; Xen accepts 1 to 65535")]
    Weight(String),
    /// A cap beyond what the vCPUs could use.
    #[error("VM `{name}`: cap {cap} %, but {vcpus} vCPUs use {most} % at most; 0 is no cap")]
    Cap {
        /// The domain.
        name: String,
        /// The cap asked for.
        cap: u16,
        /// Its vCPUs.
        vcpus: u16,
        /// Percent that they can use.
        most: u32,
    },
    /// A domain that may run nowhere.
    #[error("VM `{name}`: pinned to {pinned:?}, but the host has pCPUs 0 to {last}")]
    Pinned {
        /// The domain.
        name: String,
        /// Where it should run.
        pinned: CpuSet,
        /// The last pCPU that there is.
        last: u16,
    },
    /// `null` and not enough pCPUs.
    #[error("scheduler `null` needs a pCPU for each vCPU; vCPU {0} finds none")]
    NoRoom(u16),
    /// A workload for one vCPU in a domain with several.
    #[error("VM `{0}`: this workload has one vCPU")]
    OneVcpu(String),
    /// Parts that are not parts of one domain.
    #[error(
        "VM `{0}`: a mix has 1 to 255 parts, which have all its vCPUs among them, each at least \
         one, and no partners, interfaces, devices or mixes"
    )]
    Mix(String),
    /// A partner that does not exist or does not play.
    #[error("VM `{name}`: its partner `{partner}` {why}")]
    Partner {
        /// The domain.
        name: String,
        /// The partner that it names.
        partner: String,
        /// What is wrong with that one.
        why: String,
    },
    /// NICs or interfaces that nobody drives, or too many of them.
    #[error("{0}")]
    Driver(String),
    /// A cap under a scheduler that has none.
    #[error("VM `{0}`: no caps here; credit has them, and credit2 since Xen 4.10")]
    NoCaps(String),
    /// A control group, or a thread, that the kernel refuses.
    #[error("{0}")]
    Cgroup(String),
    /// A scheduler parameter that Xen refuses.
    #[error("{0}")]
    Scheduler(String),
}

impl SchedulerConfig {
    /// The scheduler, at rest.
    pub fn build(&self) -> Box<dyn Scheduler> {
        match self {
            SchedulerConfig::Credit(config) => Box::new(Credit::new(config.clone())),
            SchedulerConfig::Credit2(config) => Box::new(Credit2::new(config.clone())),
            SchedulerConfig::Fair(config) => Box::new(Fair::new(config.clone())),
            SchedulerConfig::Null => Box::new(Null::new()),
            SchedulerConfig::SmallFirst(config) => Box::new(SmallFirst::new(config.clone())),
        }
    }

    /// Whether it enforces caps. `null` cannot, credit2 does since 4.10; Linux limits groups.
    fn has_caps(&self) -> bool {
        match self {
            SchedulerConfig::Credit(_) | SchedulerConfig::SmallFirst(_) => true,
            SchedulerConfig::Credit2(config) => config.version >= Credit2Version::Xen410,
            SchedulerConfig::Fair(_) | SchedulerConfig::Null => false,
        }
    }

    /// Whether it enforces the limits of control groups.
    fn has_cgroups(&self) -> bool {
        match self {
            SchedulerConfig::SmallFirst(_) | SchedulerConfig::Fair(_) => true,
            SchedulerConfig::Credit(_) | SchedulerConfig::Credit2(_) | SchedulerConfig::Null => {
                false
            }
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match self {
            SchedulerConfig::Credit(config) => config.check(),
            SchedulerConfig::Credit2(config) => config.check(),
            SchedulerConfig::Fair(config) => config.check(),
            SchedulerConfig::Null => Ok(()),
            SchedulerConfig::SmallFirst(config) => config.check(),
        }
        .map_err(ConfigError::Scheduler)
    }
}

impl Workload {
    /// The guest of a domain called `name` on a host with the domains `vms`, with a random
    /// stream of its own.
    pub fn build(&self, seed: u64, name: &str, vms: &[VmConfig]) -> Box<dyn Guest> {
        let stream = Stream::new(seed, name);
        match *self {
            Workload::CpuLoop => Box::new(CpuLoop),
            Workload::DutyHog { burst, busy_percent } => {
                Box::new(DutyHog::new(burst, busy_percent, stream))
            }
            Workload::RequestServer(config) => Box::new(RequestServer::new(config, stream)),
            Workload::TimerSleeper { sleep, work, wakeups, late_limit } => {
                Box::new(TimerSleeper::new(sleep, work, wakeups, late_limit))
            }
            Workload::Yielder { work } => Box::new(Yielder::new(work)),
            Workload::TickDodger(config) => Box::new(TickDodger::new(config)),
            Workload::BoostSaver { save, burn } => Box::new(BoostSaver::new(save, burn)),
            Workload::WakeStorm { ref partner, work } => {
                // That there is one was checked; without it the interrupts go to nobody.
                let partner = vms.iter().position(|vm| vm.name == *partner).unwrap_or_default();
                Box::new(WakeStorm::new(Dom(partner as u16), work))
            }
            Workload::BucketSurfer { burst, share_percent } => {
                Box::new(BucketSurfer::new(burst, share_percent))
            }
            Workload::Splitter { turn } => Box::new(Splitter::new(turn)),
            Workload::Driver(ref config) => Box::new(Driver::guest(config)),
            Workload::Net(config) => Box::new(NetGuest::guest(config)),
            Workload::Mix(ref parts) => {
                let part = |(i, (vcpus, workload)): (usize, &(u16, Workload))| {
                    (*vcpus, workload.build(seed, &format!("{name}, part {i}"), vms))
                };
                Box::new(Mix::new(parts.iter().enumerate().map(part)))
            }
            Workload::EdgeBurner { period, before, after } => {
                Box::new(EdgeBurner::new(period, before, after))
            }
        }
    }

    fn is_single(&self) -> bool {
        matches!(self, Workload::TimerSleeper { .. })
    }
}

impl VmConfig {
    /// A domain with one vCPU, weight 256, no cap, free to run anywhere.
    pub fn new(name: &str, workload: Workload) -> Self {
        let all = CpuSet::first_n(CpuSet::MAX_PCPUS);
        VmConfig {
            name: name.to_string(),
            vcpus: 1,
            weight: 256,
            cap_percent: 0,
            hard: all,
            soft: all,
            threads: Vec::new(),
            workload,
        }
    }

    /// Queues of its virtual interface.
    pub fn queues(&self) -> u16 {
        match &self.workload {
            Workload::Net(net) => net.queues,
            _ => 0,
        }
    }

    fn check(&self, pcpus: CpuSet) -> Result<(), ConfigError> {
        let name = || self.name.clone();
        if !(1..=1024).contains(&self.vcpus) {
            return Err(ConfigError::Vcpus(name()));
        }
        if self.weight == 0 {
            return Err(ConfigError::Weight(name()));
        }
        let most = u32::from(self.vcpus) * 100;
        if u32::from(self.cap_percent) > most {
            let (cap, vcpus) = (self.cap_percent, self.vcpus);
            return Err(ConfigError::Cap { name: name(), cap, vcpus, most });
        }
        if self.hard.and(pcpus).is_empty() {
            let (pinned, last) = (self.hard, pcpus.len() as u16 - 1);
            return Err(ConfigError::Pinned { name: name(), pinned, last });
        }
        if self.vcpus > 1 && self.workload.is_single() {
            return Err(ConfigError::OneVcpu(name()));
        }
        if let Workload::Mix(parts) = &self.workload {
            let vcpus: u32 = parts.iter().map(|(vcpus, _)| u32::from(*vcpus)).sum();
            let odd = |(vcpus, part): &(u16, Workload)| {
                matches!(part, Workload::Driver(_) | Workload::Net(_) | Workload::Mix(_))
                    || matches!(part, Workload::WakeStorm { .. })
                    || *vcpus == 0
                    || *vcpus > 1 && part.is_single()
            };
            if vcpus != u32::from(self.vcpus)
                || parts.len() > mix::PARTS_MAX
                || parts.iter().any(odd)
            {
                return Err(ConfigError::Mix(name()));
            }
        }
        Ok(())
    }
}

impl Config {
    /// A host of one socket without devices that keeps no records.
    pub fn new(pcpus: u16, scheduler: SchedulerConfig, costs: Costs, vms: Vec<VmConfig>) -> Self {
        Config {
            pcpus,
            sockets: 1,
            scheduler,
            costs,
            vms,
            cgroups: Vec::new(),
            io: IoConfig::default(),
            tickle: Tickle::Each,
            records: 0,
            watch: None,
        }
    }

    /// The domain that has the NICs and the back ends.
    pub(crate) fn driver(&self) -> Option<Dom> {
        let driver = self.vms.iter().position(|vm| matches!(vm.workload, Workload::Driver(_)));
        driver.map(|dom| Dom(dom as u16))
    }

    /// Refuses partners that would not answer.
    fn check_partner(&self, vm: &VmConfig) -> Result<(), ConfigError> {
        let Workload::WakeStorm { partner, .. } = &vm.workload else { return Ok(()) };
        let why = match self.vms.iter().find(|other| other.name == *partner) {
            None => "is not on this host".to_string(),
            Some(other) if other.name == vm.name => "is itself".to_string(),
            Some(other) if !matches!(other.workload, Workload::WakeStorm { .. }) => {
                "is no wake-storm and would not answer".to_string()
            }
            Some(other) if other.vcpus != vm.vcpus => {
                format!("has {} vCPUs, not {}: each wakes its counterpart", other.vcpus, vm.vcpus)
            }
            Some(_) => return Ok(()),
        };
        Err(ConfigError::Partner { name: vm.name.clone(), partner: partner.clone(), why })
    }

    /// Refuses devices without a driver domain, and more than event channels can name.
    fn check_devices(&self) -> Result<(), ConfigError> {
        let fail = |message: String| Err(ConfigError::Driver(message));
        let drivers = || self.vms.iter().filter(|vm| matches!(vm.workload, Workload::Driver(_)));
        let queues: usize = self.vms.iter().map(|vm| usize::from(vm.queues())).sum();
        let devices = queues + self.io.nics.len();
        match drivers().count() {
            0 if devices > 0 => {
                return fail(
                    "NICs and interfaces need a VM with the workload driver-domain".into(),
                );
            }
            2.. => return fail("only one VM can be the driver domain".into()),
            _ => {}
        }
        for flow in &self.io.flows {
            let (Way::In { nic } | Way::Out { nic }) = flow.way else { continue };
            let nic = self.io.nics.get(usize::from(nic));
            if nic.is_some_and(|nic| nic.external.is_some()) {
                return fail("a flow runs through a NIC whose wire belongs to others".into());
            }
        }
        let ports = drivers().map(|vm| 2 * usize::from(vm.vcpus) + devices).max().unwrap_or(0);
        if ports > PORTS_MAX {
            return fail(format!(
                "{ports} event channels of the driver domain: at most {PORTS_MAX}"
            ));
        }
        Ok(())
    }

    /// The threads of `vm`, and where each may run.
    fn threads<'a>(
        &'a self,
        vm: &'a VmConfig,
    ) -> Result<impl Iterator<Item = (Thread, CpuSet)> + 'a, ConfigError> {
        let pcpus = CpuSet::first_n(self.pcpus);
        for thread in &vm.threads {
            thread
                .check(self.cgroups.len())
                .map_err(|why| ConfigError::Cgroup(format!("VM `{}`: {why}", vm.name)))?;
            let pinned = vm.hard.and(thread.pin);
            if pinned.and(pcpus).is_empty() {
                let (name, last) = (vm.name.clone(), self.pcpus - 1);
                return Err(ConfigError::Pinned { name, pinned, last });
            }
        }
        Ok((0..usize::from(vm.vcpus)).map(move |i| {
            let thread =
                vm.threads.get(i).or_else(|| vm.threads.last()).copied().unwrap_or_default();
            (thread, vm.hard.and(thread.pin).and(pcpus))
        }))
    }

    /// Refuses groups that the kernel would not have, and limits that nobody would enforce.
    fn check_cgroups(&self) -> Result<(), ConfigError> {
        for (index, cgroup) in self.cgroups.iter().enumerate() {
            cgroup.check(index).map_err(ConfigError::Cgroup)?;
            if cgroup.limit.is_some() && !self.scheduler.has_cgroups() {
                let name = &cgroup.name;
                let why = "the scheduler knows no control groups";
                return Err(ConfigError::Cgroup(format!("cgroup `{name}` has a limit: {why}")));
            }
        }
        Ok(())
    }

    /// The state of the host at time zero.
    ///
    /// # Errors
    /// If the configuration contradicts itself.
    pub fn facts(&self) -> Result<HostState, ConfigError> {
        if !(1..=CpuSet::MAX_PCPUS).contains(&self.pcpus) {
            return Err(ConfigError::Pcpus(self.pcpus));
        }
        if self.sockets == 0 || !self.pcpus.is_multiple_of(self.sockets) {
            return Err(ConfigError::Sockets { sockets: self.sockets, pcpus: self.pcpus });
        }
        self.scheduler.check()?;
        self.check_devices()?;
        self.check_cgroups()?;
        let pcpus = CpuSet::first_n(self.pcpus);
        let (mut doms, mut vcpus) = (Vec::new(), Vec::new());
        for (dom, vm) in self.vms.iter().enumerate() {
            vm.check(pcpus)?;
            self.check_partner(vm)?;
            if vm.cap_percent > 0 && !self.scheduler.has_caps() {
                return Err(ConfigError::NoCaps(vm.name.clone()));
            }
            let first = vcpus.len() as u16;
            let threads = self.threads(vm)?;
            vcpus.extend(threads.map(|(thread, hard)| VcpuState {
                dom: Dom(dom as u16),
                processor: hard.first().unwrap_or(Pcpu(0)),
                hard,
                thread,
                soft: vm.soft.and(pcpus),
                blocked: true,
                paused: false,
                running: false,
                since: lowtail_engine::Time::ZERO,
            }));
            doms.push(DomParams {
                weight: vm.weight,
                cap_percent: vm.cap_percent,
                vcpus: (first..first + vm.vcpus).map(Vcpu).collect(),
            });
        }
        if self.scheduler == SchedulerConfig::Null {
            let allowed: Vec<CpuSet> = vcpus.iter().map(|v| v.hard).collect();
            null::assign(&allowed, usize::from(self.pcpus))
                .map_err(|v| ConfigError::NoRoom(v.0))?;
        }
        let per_socket = self.pcpus / self.sockets;
        let socket = |s| (s * per_socket..(s + 1) * per_socket).map(Pcpu).collect();
        let facts = HostState {
            now: lowtail_engine::Time::ZERO,
            vcpus,
            doms,
            cgroups: self.cgroups.clone(),
            current: vec![None; usize::from(self.pcpus)],
            sockets: (0..self.sockets).map(socket).collect(),
            pcpus,
        };
        if let SchedulerConfig::SmallFirst(_) = self.scheduler {
            small_first::check_limits(&facts).map_err(ConfigError::Cgroup)?;
        }
        Ok(facts)
    }
}
