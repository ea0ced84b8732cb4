//! What a host is made of: pCPUs, scheduler, costs, domains and their workloads.

mod error;
mod scheduler;
mod vm;
mod workload;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::cgroup::{CgroupConfig, Thread};
use crate::costs::Costs;
use crate::cpu_set::CpuSet;
use crate::guest::request_server::RequestServerConfig;
use crate::guest::wake_storm::WakeStormConfig;
use crate::host_state::{Affinities, DomParams, HostState, VcpuState};
use crate::ids::{Dom, Pcpu, Vcpu};
use crate::io::IoConfig;
use crate::io::ports::PORTS_MAX;
use crate::sched::{null, small_first};
use crate::topology::{Siblings, Topology};
pub use error::ConfigError;
pub use scheduler::SchedulerConfig;
pub use vm::{Pause, VmConfig};
pub use workload::Workload;

/// A host and its guests.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of pCPUs, 1 to 1024.
    pub pcpus: u16,
    /// What they share; absent, they are the cores of one socket.
    pub topology: Option<Topology>,
    /// How fast a pCPU works while the other one of its core runs somebody, in percent of its speed alone. 1 to 100.
    pub sibling_speed_percent: u16,
    /// Who decides.
    pub scheduler: SchedulerConfig,
    /// What things cost.
    pub costs: Costs,
    /// The domains, dom0 (if it is simulated) being just one of them.
    pub vms: Vec<VmConfig>,
    /// The control groups of a Linux host, each behind the one that it is in.
    pub cgroups: Vec<CgroupConfig>,
    /// NICs, and event channels.
    pub io: IoConfig,
    /// When a notification makes the scheduler look at the pCPU of who sent it.
    pub tickle: Tickle,
    /// How many records of the schedule to keep; 0 for none.
    pub records: usize,
    /// The domain whose first vCPU's longest wait is kept with its causes.
    pub watch: Option<Dom>,
}

/// Two threads of a core do 16 to 28 % more than one on common server applications (Marr and others, "Hyper-Threading Technology
/// Architecture and Microarchitecture", Intel Technology Journal, February 2002): each works at 58 to 64 % of its speed.
pub const SIBLING_SPEED_PERCENT: u16 = 61;

/// When the pCPU of a domain that notifies another one looks whether that goes first. With
/// Ongaro, Cox and Rixner: "tickling the scheduler".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tickle {
    /// At each notification, as Xen does.
    #[default]
    Each,
    /// When the sender has served all its own events.
    After,
    /// Not because of that.
    Never,
}

impl Config {
    /// A host of one socket without devices that keeps no records.
    pub fn new(pcpus: u16, scheduler: SchedulerConfig, costs: Costs, vms: Vec<VmConfig>) -> Self {
        Config {
            pcpus,
            topology: None,
            sibling_speed_percent: SIBLING_SPEED_PERCENT,
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

    /// Refuses partners that would not answer, and clients that would not ask.
    fn check_partner(&self, vm: &VmConfig) -> Result<(), ConfigError> {
        let partner = match &vm.workload {
            Workload::WakeStorm(WakeStormConfig { partner, .. }) => partner,
            Workload::RequestServer(RequestServerConfig { client: Some(client), .. }) => client,
            _ => return Ok(()),
        };
        let asks = matches!(vm.workload, Workload::RequestServer(_));
        let why = match self.vms.iter().find(|other| other.name == *partner) {
            None => "is not on this host".to_string(),
            Some(other) if asks && matches!(other.workload, Workload::Client(_)) => return Ok(()),
            Some(_) if asks => "is no client and would not ask".to_string(),
            Some(other) if other.name == vm.name => "is itself".to_string(),
            Some(other) if !matches!(other.workload, Workload::WakeStorm(_)) => {
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
        let vhost = self.vms.iter().any(VmConfig::has_vhost);
        match drivers().count() {
            0 if vhost => {
                let unserved = |vm: &&VmConfig| vm.queues() > 0 && !vm.has_vhost();
                if let Some(VmConfig { name, .. }) = self.vms.iter().find(unserved) {
                    return fail(format!("VM `{name}` has an interface, but no vhost as others"));
                }
            }
            0 if devices > 0 => {
                return fail(
                    "NICs and interfaces need a VM with the workload driver-domain, or vhost in each VM with an interface"
                        .into(),
                );
            }
            2.. => return fail("only one VM can be the driver domain".into()),
            1 if vhost => return fail("a driver domain and vhost on one host".into()),
            _ => {}
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
                return Err(ConfigError::Pinned { name, pinned: Box::new(pinned), last });
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
    pub fn host_state(&self) -> Result<HostState, ConfigError> {
        if !(1..=CpuSet::MAX_PCPUS).contains(&self.pcpus) {
            return Err(ConfigError::Pcpus(self.pcpus));
        }
        let flat = || Topology::flat(self.pcpus);
        let topology = self.topology.clone().unwrap_or_else(flat);
        topology.check(self.pcpus)?;
        if !(1..=100).contains(&self.sibling_speed_percent) {
            return Err(ConfigError::SiblingSpeed(self.sibling_speed_percent));
        }
        self.scheduler.check()?;
        self.check_devices()?;
        self.check_cgroups()?;
        let pcpus = CpuSet::first_n(self.pcpus);
        let (mut doms, mut vcpus, mut all_threads) = (Vec::new(), Vec::new(), Vec::new());
        let mut affinities = Affinities::default();
        for (dom, vm) in self.vms.iter().enumerate() {
            vm.check(pcpus)?;
            self.check_partner(vm)?;
            if vm.cap_percent > 0 && !self.scheduler.has_caps() {
                return Err(ConfigError::NoCaps(vm.name.clone()));
            }
            let first = vcpus.len() as u16;
            for (thread, hard) in self.threads(vm)? {
                all_threads.push(thread);
                vcpus.push(VcpuState {
                    dom: Dom(dom as u16),
                    processor: hard.first().unwrap_or(Pcpu(0)),
                    affinity: affinities.of(hard, vm.soft.and(pcpus)),
                    blocked: true,
                    paused: false,
                    running: false,
                    since: lowtail_engine::Time::ZERO,
                });
            }
            doms.push(DomParams {
                weight: vm.weight,
                cap_percent: vm.cap_percent,
                fair_class: vm.fair_class,
                vcpus: (first..first + vm.vcpus).map(Vcpu).collect(),
            });
        }
        if self.scheduler == SchedulerConfig::Null {
            let allowed: Vec<CpuSet> = vcpus.iter().map(|v: &VcpuState| *v.hard()).collect();
            null::assign(&allowed, usize::from(self.pcpus))
                .map_err(|v| ConfigError::NoRoom(v.0))?;
        }
        let host = HostState {
            now: lowtail_engine::Time::ZERO,
            vcpus,
            threads: all_threads,
            doms,
            cgroups: self.cgroups.clone(),
            current: vec![None; usize::from(self.pcpus)],
            siblings: Siblings::new(&topology, pcpus),
            topology,
            pcpus,
        };
        if let SchedulerConfig::SmallFirst(_) = self.scheduler {
            small_first::check_limits(&host).map_err(ConfigError::Cgroup)?;
        }
        Ok(host)
    }
}
