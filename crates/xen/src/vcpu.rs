//! What a program may ask of Xen for the vCPU that it runs on.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::hypercalls::{DEVICE, Hypercalls};

/// `__HYPERVISOR_sched_op`, of Xen's `public/xen.h`, ...
const SCHED_OP: u64 = 29;
/// ... and `SCHEDOP_yield` of its `public/sched.h`.
const YIELD: u64 = 0;
/// `__HYPERVISOR_xen_version`, ...
const XEN_VERSION: u64 = 17;
/// ... and `XENVER_version` of its `public/version.h`, the call that does least.
const VERSION: u64 = 0;

/// The vCPU that the caller runs on.
#[derive(Debug)]
pub struct OwnVcpu {
    calls: Hypercalls,
}

impl OwnVcpu {
    /// Opens a way to call Xen.
    ///
    /// # Errors
    /// If this is no domain of Xen's, or Linux lets its programs not call Xen.
    pub fn open() -> Result<Self, Error> {
        Ok(OwnVcpu { calls: Hypercalls::open()? })
    }

    /// Has it go behind the other vCPUs that wait for its pCPU, as its scheduler does that.
    ///
    /// # Errors
    /// If Xen, or Linux, refuses.
    pub fn yields(&self) -> Result<(), Error> {
        self.call(SCHED_OP, YIELD).map(|_| ())
    }

    /// Xen's version: 4.20 is (4, 20).
    ///
    /// # Errors
    /// If Xen, or Linux, refuses.
    pub fn xen_version(&self) -> Result<(u16, u16), Error> {
        let version = self.call(XEN_VERSION, VERSION)?;
        Ok(((version >> 16) as u16, version as u16))
    }

    fn call(&self, op: u64, number: u64) -> Result<i64, Error> {
        let failed = |source: io::Error| Error::Device {
            what: "cannot call Xen by",
            path: Path::new(DEVICE).into(),
            source,
        };
        self.calls.call(op, number).map_err(failed)
    }
}
