//! How the scheduler is to be.

use std::time::Duration;

use lowtail_kernel::error::Error;
use lowtail_policy::Params;

/// `SCX_WATCHDOG_MAX_TIMEOUT` of Linux 6.12 and later.
const WATCHDOG_MAX: Duration = Duration::from_secs(30);

/// How the scheduler is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Parameters of the rule.
    pub params: Params,
    /// VMs for which there is room.
    pub vms: u32,
    /// Threads for which there is room. More than that still run, for a millisecond in each turn of the others.
    pub threads: u32,
    /// For how long a thread may be left waiting before the kernel ends the scheduler: 1 ms to 30 s.
    pub watchdog: Duration,
}

impl Default for Options {
    /// The rule's own parameters; room for 255 VMs and 4,096 threads, some 2 MiB of the kernel's memory; the
    /// watchdog as far away as the kernel lets it be.
    fn default() -> Self {
        Options { params: Params::default(), vms: 256, threads: 4096, watchdog: WATCHDOG_MAX }
    }
}

impl Options {
    /// Whether all of them are within their ranges.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.params.check().map_err(Error::Scheduler)?;
        if self.vms < 2 || self.vms > 1 << 16 || self.threads == 0 || self.threads > 1 << 20 {
            return Err(Error::Scheduler(format!(
                "room for {} VMs and {} threads: 2 to 65536, and 1 to 1048576",
                self.vms, self.threads
            )));
        }
        if self.watchdog < Duration::from_millis(1) || self.watchdog > WATCHDOG_MAX {
            return Err(Error::Scheduler(format!(
                "a watchdog of {:?}: 1 ms to 30 s",
                self.watchdog
            )));
        }
        Ok(())
    }
}
