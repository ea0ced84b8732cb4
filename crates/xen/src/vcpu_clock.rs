//! What CPU time Xen has given to a vCPU.
//!
//! `xl list` shows tenths of a second. The hypercall behind it has nanoseconds, up to now also of a vCPU that runs.

use std::io;

use lowtail_engine::Duration;

use crate::error::Error;
use crate::hypercalls::{Hypercalls, Plain};
use crate::toolstack::DomainId;

/// `__HYPERVISOR_domctl`.
const DOMCTL: u64 = 36;
/// `XEN_DOMCTL_getvcpuinfo`.
const GET_VCPU_INFO: u32 = 14;
/// Of `XEN_DOMCTL_INTERFACE_VERSION`, Xen 4.17's to 4.21's: what is asked for here is the same in all of them.
const VERSIONS: std::ops::RangeInclusive<u32> = 0x15..=0x18;

/// `struct xen_domctl` with `struct xen_domctl_getvcpuinfo` in it.
#[repr(C)]
#[derive(Clone, Copy)]
struct VcpuInfo {
    command: u32,
    interface_version: u32,
    domain: DomainId,
    pad: [u16; 3],
    vcpu: u32,
    online: u8,
    blocked: u8,
    running: u8,
    cpu_time_ns: u64,
    cpu: u32,
    rest: [u8; 128 - 24],
}

#[allow(unsafe_code, reason = "a promise about layout")]
// SAFETY: `repr(C)`, and numbers only.
unsafe impl Plain for VcpuInfo {}

/// Reads the CPU time of vCPUs, from dom0.
#[derive(Debug)]
pub struct VcpuClock {
    calls: Hypercalls,
    version: u32,
}

impl VcpuClock {
    /// Looks for the version of Xen's interface.
    ///
    /// # Errors
    /// If this is not dom0, or not root, or Xen is of a version that is unknown here.
    pub fn open() -> Result<Self, Error> {
        let mut clock = VcpuClock { calls: Hypercalls::open()?, version: 0 };
        let mut last = io::Error::from_raw_os_error(libc::EACCES);
        for version in VERSIONS {
            clock.version = version;
            match clock.read(0, 0) {
                Ok(_) => return Ok(clock),
                Err(Error::CpuTime { source, .. }) => last = source,
                Err(other) => return Err(other),
            }
        }
        Err(Error::CpuTime { domain: 0, vcpu: 0, source: last })
    }

    /// CPU time of a vCPU since it was made.
    ///
    /// # Errors
    /// If there is no such vCPU.
    pub fn read(&mut self, domain: DomainId, vcpu: u32) -> Result<Duration, Error> {
        let question = VcpuInfo {
            command: GET_VCPU_INFO,
            interface_version: self.version,
            domain,
            pad: [0; 3],
            vcpu,
            online: 0,
            blocked: 0,
            running: 0,
            cpu_time_ns: 0,
            cpu: 0,
            rest: [0; 104],
        };
        let answer = self.calls.ask(DOMCTL, question);
        let answer = answer.map_err(|source| Error::CpuTime { domain, vcpu, source })?;
        Ok(Duration::from_ns(answer.cpu_time_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `public/domctl.h`: a header of 16 bytes, and a union of 128.
    #[test]
    fn as_large_as_in_xen() {
        assert_eq!(size_of::<VcpuInfo>(), 16 + 128);
        assert_eq!(std::mem::offset_of!(VcpuInfo, vcpu), 16);
        assert_eq!(std::mem::offset_of!(VcpuInfo, cpu_time_ns), 16 + 8);
    }
}
