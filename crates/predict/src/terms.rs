//! What is said of a recording and what is asked of it, as a host that can be simulated.

use lowtail_control::policy::{Policy, Ratelimit};
use lowtail_engine::Duration;
use lowtail_host::{CpuSet, SchedulerConfig};

use crate::error::Error;
use crate::kernel::recorded_scheduler;
use crate::model::Setup;
use crate::prediction::Change;
use crate::recording::Recording;
use crate::xen::{is_of_xen, set_xen};

/// What a recording does not say of its host.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// The kernel's release, or the name of a scheduler of Xen's.
    pub kernel: Option<String>,
    /// What domains of Xen's are called: `d1` and a name.
    pub names: Vec<(String, String)>,
    /// The policy that was in force, for weights and caps of Xen's domains.
    pub policy: Option<Policy>,
    /// Xen's rate limit.
    pub ratelimit: Option<Duration>,
    /// The time slice of Xen's credit.
    pub slice: Option<Duration>,
}

impl Terms {
    /// Tells `recording` what is said of it, and gives its host as it was.
    ///
    /// # Errors
    /// If it does not fit the recording, or the scheduler is not known even so.
    pub fn setup(&self, recording: &mut Recording) -> Result<Setup, Error> {
        recording.rename(&self.names)?;
        if let Some(policy) = &self.policy {
            recording.set_policy(policy)?;
        }
        let mut scheduler = recorded_scheduler(&recording.host, self.kernel.as_deref())?;
        set_xen(&mut scheduler, self.ratelimit, self.slice).map_err(|why| {
            Error::Senseless(format!("--recorded-ratelimit, --recorded-slice: {why}"))
        })?;
        Ok(Setup::new(scheduler))
    }
}

/// What shall be otherwise than it was recorded.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A policy that is in force.
    pub policy: Option<Policy>,
    /// Who decides.
    pub scheduler: Option<SchedulerConfig>,
    /// Xen's rate limit.
    pub ratelimit: Option<Duration>,
    /// The time slice of Xen's credit.
    pub slice: Option<Duration>,
    /// So many CPUs.
    pub cpus: Option<u16>,
    /// VMs that are not there.
    pub without: Vec<String>,
    /// So many more VMs like one that is there.
    pub add: Vec<(String, u32)>,
    /// Where the threads of a VM may run.
    pub pins: Vec<(String, CpuSet)>,
}

impl Wanted {
    /// Has what is said here go before what the policy says.
    #[must_use]
    pub fn before_policy(mut self) -> Self {
        if let Some(policy) = &mut self.policy {
            if self.ratelimit.is_some() {
                policy.xen.ratelimit = Ratelimit::Keep;
            }
            if self.slice.is_some() {
                policy.xen.slice_ms = None;
            }
        }
        self
    }

    /// Whether anything besides the policy is otherwise.
    fn is_other(&self) -> bool {
        self.scheduler.is_some()
            || self.ratelimit.is_some()
            || self.slice.is_some()
            || self.cpus.is_some()
            || !self.without.is_empty()
            || !self.add.is_empty()
            || !self.pins.is_empty()
    }

    /// It as a change of the host of `recording`, which was as `as_it_was` says.
    ///
    /// # Errors
    /// If a scheduler of Xen's shall take the place of a Linux kernel's, or has no such limit or slice.
    pub fn change(&self, recording: &Recording, as_it_was: &Setup) -> Result<Change<'_>, Error> {
        let mut scheduler = self.scheduler.clone().unwrap_or_else(|| as_it_was.scheduler.clone());
        if is_of_xen(&scheduler) && recording.host.xen.is_none() {
            let why = "--scheduler: credit, credit2 and null are Xen's, and the recording is of a Linux host";
            return Err(Error::Senseless(why.to_owned()));
        }
        if self.ratelimit.is_some() || self.slice.is_some() {
            set_xen(&mut scheduler, self.ratelimit, self.slice)
                .map_err(|why| Error::Senseless(format!("--ratelimit, --slice: {why}")))?;
        }
        let setup = Setup {
            scheduler,
            cpus: self.cpus,
            without: self.without.clone(),
            add: self.add.clone(),
            pins: self.pins.clone(),
            seed: 0,
        };
        Ok(Change { setup: self.is_other().then_some(setup), policy: self.policy.as_ref() })
    }
}
