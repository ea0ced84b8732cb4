//! A guest's vCPU that gives its pCPU away and stays runnable.
//!
//! Linux does so in locks of its kernel only; a program's `sched_yield(2)` stays inside the guest. By the device a program can call Xen.

use std::fs::File;

use crate::error::Error;
use crate::hypercalls::{call, failed, open};

/// `__HYPERVISOR_sched_op`.
const SCHED_OP: u64 = 29;
/// `SCHEDOP_yield`, which has no argument.
const YIELD: u64 = 0;

/// Yields of this domain's vCPUs.
#[derive(Debug)]
pub struct Yielding {
    device: File,
}

impl Yielding {
    /// Opens the way to call Xen, and yields once.
    ///
    /// # Errors
    /// If this is no domain of Xen's, or not root, or its kernel has no such device or lets no program call Xen.
    pub fn open() -> Result<Self, Error> {
        let yielding = Yielding { device: open()? };
        call(&yielding.device, SCHED_OP, [YIELD, 0, 0, 0, 0])
            .map_err(|error| failed("no yield by", error))?;
        Ok(yielding)
    }

    /// Has the vCPU of this thread give its pCPU away to who waits, if Xen's scheduler lets somebody else go first.
    pub fn give_way(&self) {
        // It has worked once, and nothing is passed that could be wrong.
        let _ = call(&self.device, SCHED_OP, [YIELD, 0, 0, 0, 0]);
    }
}
