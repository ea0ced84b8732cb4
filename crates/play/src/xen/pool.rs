//! A pool of pCPUs with a scheduler of its own, and guests in it.

use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::{Config, SchedulerConfig};
use lowtail_xen::Toolstack;

use super::message::xen;
use lowtail_kernel::error::Error;

/// Name of the pool, and of that of dom0.
const POOL: &str = "lowtail";
const OTHERS: &str = "Pool-0";

/// A pool in which a scenario's VMs are; they go back and it is gone when it is dropped.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    toolstack: &'a Toolstack,
    /// The guests that are in it.
    guests: Vec<String>,
}

impl<'a> Pool<'a> {
    /// Makes the pool of the pCPUs from `first` on, with the scheduler of `config`, and moves `guests` there, the VMs of `config` in their
    /// order.
    pub(super) fn new(
        toolstack: &'a Toolstack,
        config: &Config,
        first: u16,
        guests: &[&str],
    ) -> Result<Self, Error> {
        let cpus = format!("{first}-{}", first + config.pcpus - 1);
        let scheduler = scheduler(&config.scheduler)?;
        let (name, scheduler) = (format!("name=\"{POOL}\""), format!("sched=\"{scheduler}\""));
        let cpus = format!("cpus=\"{cpus}\"");
        toolstack.xl(&["cpupool-create", &name, &scheduler, &cpus]).map_err(xen)?;
        let mut pool = Pool { toolstack, guests: Vec::new() };
        pool.set_parameters(&config.scheduler)?;
        for (guest, vm) in guests.iter().zip(&config.vms) {
            pool.guests.push((*guest).to_string());
            toolstack.xl(&["cpupool-migrate", guest, POOL]).map_err(xen)?;
            if let Some(command) = of_domains(&config.scheduler) {
                let (weight, cap) = (vm.weight.to_string(), vm.cap_percent.to_string());
                toolstack.xl(&[command, "-d", guest, "-w", &weight, "-c", &cap]).map_err(xen)?;
            }
            let allowed = (0..config.pcpus).filter(|&p| vm.hard.has(lowtail_host::Pcpu(p)));
            let allowed: Vec<String> = allowed.map(|p| (first + p).to_string()).collect();
            toolstack.xl(&["vcpu-pin", guest, "all", &allowed.join(",")]).map_err(xen)?;
        }
        Ok(pool)
    }

    fn set_parameters(&self, scheduler: &SchedulerConfig) -> Result<(), Error> {
        let us = |span: lowtail_engine::Duration| (span.as_ns() / 1_000).to_string();
        let set = |arguments: &[&str]| self.toolstack.xl(arguments).map(|_| ()).map_err(xen);
        match scheduler {
            SchedulerConfig::Credit(config) => {
                let timeslice = (config.timeslice.as_ns() / 1_000_000).to_string();
                let (limit, delay) = (us(config.ratelimit), us(config.migration_delay));
                set(&[
                    "sched-credit",
                    "-s",
                    "-p",
                    POOL,
                    "-t",
                    &timeslice,
                    "-r",
                    &limit,
                    "-m",
                    &delay,
                ])
            }
            SchedulerConfig::Credit2(config) => {
                set(&["sched-credit2", "-s", "-p", POOL, "-r", &us(config.ratelimit)])
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // What cannot be put back is in nobody's way: the guests are destroyed with the run.
        for guest in &self.guests {
            let _ = self.toolstack.xl(&["vcpu-pin", guest, "all", "all"]);
            let _ = self.toolstack.xl(&["cpupool-migrate", guest, OTHERS]);
        }
        let _ = self.toolstack.xl(&["cpupool-destroy", POOL]);
    }
}

/// Takes pCPUs from `first` on out of the pool of dom0, so that others can have them.
pub(super) fn free(toolstack: &Toolstack, first: u16, pcpus: u16) -> Result<(), Error> {
    for pcpu in first..first + pcpus {
        toolstack.xl(&["cpupool-cpu-remove", OTHERS, &pcpu.to_string()]).map_err(xen)?;
    }
    Ok(())
}

/// What Xen calls the scheduler.
///
/// # Errors
/// If Xen has none that is so.
fn scheduler(scheduler: &SchedulerConfig) -> Result<&'static str, Error> {
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
