//! A pool of pCPUs with a scheduler of its own, and guests in it.

use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::{Config, CpuSet, Pcpu, SchedulerConfig};
use lowtail_xen::Toolstack;

use super::message::xen;
use lowtail_kernel::error::Error;

/// Name of the pool, and of that of dom0.
const POOL: &str = "lowtail";
const OTHERS: &str = "Pool-0";

/// The pool of scenarios. It stays as long as its scheduler does: a Xen 4.20 that gave pCPUs from pool to pool dozens of times panicked
/// (a double free in `schedule_cpu_rm`).
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Its scheduler and pCPUs, if there is one.
    made: Option<(&'static str, u16)>,
}

/// Guests in the pool; they go back when this is dropped.
#[derive(Debug)]
pub(super) struct Stay<'a> {
    toolstack: &'a Toolstack,
    guests: Vec<String>,
}

impl Pool {
    /// Moves `guests` into the pool of the pCPUs from `first` on, as the VMs of `config` in their order, with the scheduler of `config`.
    pub(super) fn enter<'a>(
        &mut self,
        toolstack: &'a Toolstack,
        config: &Config,
        first: u16,
        guests: &[&str],
    ) -> Result<Stay<'a>, Error> {
        self.make(toolstack, config, first)?;
        set_parameters(toolstack, &config.scheduler)?;
        let mut stay = Stay { toolstack, guests: Vec::new() };
        for (guest, vm) in guests.iter().zip(&config.vms) {
            stay.guests.push((*guest).to_string());
            toolstack.xl(&["cpupool-migrate", guest, POOL]).map_err(xen)?;
            if let Some(command) = of_domains(&config.scheduler) {
                let (weight, cap) = (vm.weight.to_string(), vm.cap_percent.to_string());
                toolstack.xl(&[command, "-d", guest, "-w", &weight, "-c", &cap]).map_err(xen)?;
            }
            let list = |set: CpuSet| {
                let on_host = set.and(CpuSet::first_n(config.pcpus)).iter();
                let all: Vec<String> = on_host.map(|Pcpu(p)| (first + p).to_string()).collect();
                all.join(",")
            };
            let (hard, soft) = (list(vm.hard), list(vm.soft));
            let soft = if soft.is_empty() { "all" } else { &soft };
            toolstack.xl(&["vcpu-pin", guest, "all", &hard, soft]).map_err(xen)?;
        }
        Ok(stay)
    }

    /// Sees to it that there is a pool with that scheduler.
    fn make(&mut self, toolstack: &Toolstack, config: &Config, first: u16) -> Result<(), Error> {
        let wanted = (scheduler(&config.scheduler)?, config.pcpus);
        if self.made == Some(wanted) {
            return Ok(());
        }
        if self.made.take().is_some() {
            toolstack.xl(&["cpupool-destroy", POOL]).map_err(xen)?;
        }
        let (scheduler, pcpus) = wanted;
        let (name, scheduler) = (format!("name=\"{POOL}\""), format!("sched=\"{scheduler}\""));
        let cpus = format!("cpus=\"{first}-{}\"", first + pcpus - 1);
        toolstack.xl(&["cpupool-create", &name, &scheduler, &cpus]).map_err(xen)?;
        self.made = Some(wanted);
        Ok(())
    }

    /// Destroys the pool; nobody is in it any more.
    pub(super) fn destroy(&mut self, toolstack: &Toolstack) {
        if self.made.take().is_some() {
            // Who can do nothing about it may find it in `xl cpupool-list`.
            let _ = toolstack.xl(&["cpupool-destroy", POOL]);
        }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        // What cannot go back is in nobody's way: guests are destroyed with the run.
        for guest in &self.guests {
            let _ = self.toolstack.xl(&["vcpu-pin", guest, "all", "all", "all"]);
            let _ = self.toolstack.xl(&["cpupool-migrate", guest, OTHERS]);
        }
    }
}

fn set_parameters(toolstack: &Toolstack, scheduler: &SchedulerConfig) -> Result<(), Error> {
    let us = |span: lowtail_engine::Duration| (span.as_ns() / 1_000).to_string();
    let set = |arguments: &[&str]| toolstack.xl(arguments).map(|_| ()).map_err(xen);
    match scheduler {
        SchedulerConfig::Credit(config) => {
            let timeslice = (config.timeslice.as_ns() / 1_000_000).to_string();
            let (limit, delay) = (us(config.ratelimit), us(config.migration_delay));
            // Xen refuses a limit above the slice, also for a moment.
            set(&["sched-credit", "-s", "-p", POOL, "-r", "0"])?;
            set(&["sched-credit", "-s", "-p", POOL, "-t", &timeslice, "-r", &limit, "-m", &delay])
        }
        SchedulerConfig::Credit2(config) => {
            set(&["sched-credit2", "-s", "-p", POOL, "-r", &us(config.ratelimit)])
        }
        _ => Ok(()),
    }
}

/// Takes pCPUs from `first` on out of the pool of dom0, so that others can have them.
pub(super) fn free(toolstack: &Toolstack, first: u16, pcpus: u16) -> Result<(), Error> {
    for pcpu in first..first + pcpus {
        toolstack.xl(&["cpupool-cpu-remove", OTHERS, &pcpu.to_string()]).map_err(xen)?;
    }
    Ok(())
}

/// Gives them back.
pub(super) fn give_back(toolstack: &Toolstack, first: u16, pcpus: u16) {
    for pcpu in first..first + pcpus {
        // What does not go back is seen in `xl cpupool-list`.
        let _ = toolstack.xl(&["cpupool-cpu-add", OTHERS, &pcpu.to_string()]);
    }
}

/// What Xen calls the scheduler.
///
/// # Errors
/// If Xen has none that is so.
pub(super) fn scheduler(scheduler: &SchedulerConfig) -> Result<&'static str, Error> {
    let none = |what: &str| Err(Error::Scenario(format!("{what}: not in a Xen of today")));
    match scheduler {
        SchedulerConfig::Credit(config) => match config {
            CreditConfig { version: CreditVersion::Xen2007 | CreditVersion::Xen48, .. } => {
                none("credit of another version")
            }
            CreditConfig { boost_preempts_boost: true, .. } => none("boost that preempts boost"),
            CreditConfig { sort_by_credit: true, .. } => none("a queue sorted by credit"),
            CreditConfig { kick_away_boosts: true, .. } => none("boost for who is kicked away"),
            CreditConfig { boost: false, .. } => none("credit without boost"),
            _ => Ok("credit"),
        },
        SchedulerConfig::Credit2(Credit2Config { version: Credit2Version::Xen481, .. }) => {
            none("credit2 of another version")
        }
        SchedulerConfig::Credit2(_) => Ok("credit2"),
        SchedulerConfig::Null => Ok("null"),
        SchedulerConfig::Fair(_) | SchedulerConfig::SmallFirst(_) => {
            none("a scheduler that is not Xen's")
        }
    }
}

/// The command of `xl` for a domain's weight and cap, if the scheduler has them.
fn of_domains(scheduler: &SchedulerConfig) -> Option<&'static str> {
    match scheduler {
        SchedulerConfig::Credit(_) => Some("sched-credit"),
        SchedulerConfig::Credit2(_) => Some("sched-credit2"),
        _ => None,
    }
}
