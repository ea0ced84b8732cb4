//! What CPU time Xen has given to a vCPU.
//!
//! `xl list` shows tenths of a second. The hypercall behind it has nanoseconds, up to now also of a vCPU that runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

use lowtail_engine::Duration;
use nix::sys::mman::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};

use crate::error::Error;

/// Linux has it in dom0.
const DEVICE: &str = "/dev/xen/privcmd";
/// `__HYPERVISOR_domctl`.
const DOMCTL: u64 = 36;
/// `XEN_DOMCTL_getvcpuinfo`.
const GET_VCPU_INFO: u32 = 14;
/// Of `XEN_DOMCTL_INTERFACE_VERSION`, Xen 4.17's to 4.21's: what is asked for here is the same in all of them.
const VERSIONS: std::ops::RangeInclusive<u32> = 0x15..=0x19;
/// `IOCTL_PRIVCMD_HYPERCALL`, `_IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))`, of Linux' `uapi/xen/privcmd.h`.
const HYPERCALL: libc::c_ulong = (size_of::<Hypercall>() as libc::c_ulong) << 16 | 0x5000;
/// A page, which Xen reads and writes.
const PAGE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// `struct privcmd_hypercall`.
#[repr(C)]
struct Hypercall {
    op: u64,
    arguments: [u64; 5],
}

/// `struct xen_domctl` with `struct xen_domctl_getvcpuinfo` in it.
#[repr(C)]
#[derive(Clone, Copy)]
struct VcpuInfo {
    command: u32,
    interface_version: u32,
    domain: u16,
    pad: [u16; 3],
    vcpu: u32,
    online: u8,
    blocked: u8,
    running: u8,
    cpu_time_ns: u64,
    cpu: u32,
    rest: [u8; 128 - 24],
}

/// Reads the CPU time of vCPUs, from dom0.
#[derive(Debug)]
pub struct VcpuClock {
    device: File,
    /// Where the question is: in memory that stays where it is.
    page: NonNull<libc::c_void>,
    version: u32,
}

impl VcpuClock {
    /// Looks for the version of Xen's interface.
    ///
    /// # Errors
    /// If this is not dom0, or not root, or Xen is of a version that is unknown here.
    #[allow(unsafe_code, reason = "neither std nor a library has hypercalls")]
    pub fn open() -> Result<Self, Error> {
        let failed = |what, source| Error::Device { what, path: Path::new(DEVICE).into(), source };
        let device = OpenOptions::new().read(true).write(true).open(DEVICE);
        let device = device.map_err(|error| failed("cannot open", error))?;
        let (all, private) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: new memory, at no address that is in use.
        let page = unsafe { mmap_anonymous(None, PAGE, all, private) };
        let page = page.map_err(|error| failed("no memory for", error.into()))?;
        let mut clock = VcpuClock { device, page, version: 0 };
        // SAFETY: a whole page of our own, which lives until the clock is dropped.
        unsafe { mlock(page, PAGE.get()) }
            .map_err(|error| failed("no memory for", error.into()))?;
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
    #[allow(unsafe_code, reason = "neither std nor a library has hypercalls")]
    pub fn read(&mut self, domain: u16, vcpu: u32) -> Result<Duration, Error> {
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
        let at = self.page.cast::<VcpuInfo>();
        // SAFETY: the page is ours and longer than the structure. Xen writes there what it knows about the vCPU, in the
        // layout of its public/domctl.h, and the kernel reads the call, of the size that its number says.
        let (result, answer) = unsafe {
            at.write_volatile(question);
            let mut call =
                Hypercall { op: DOMCTL, arguments: [at.as_ptr() as u64, 0, 0, 0, 0] };
            let result =
                libc::ioctl(self.device.as_raw_fd(), HYPERCALL as _, &raw mut call);
            (result, at.read_volatile())
        };
        if result < 0 {
            let source = io::Error::last_os_error();
            return Err(Error::CpuTime { domain, vcpu, source });
        }
        Ok(Duration::from_ns(answer.cpu_time_ns))
    }
}

impl Drop for VcpuClock {
    #[allow(unsafe_code, reason = "the page was mapped by hand")]
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and nobody else has its address.
        let _ = unsafe { munmap(self.page, PAGE.get()) };
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
        assert_eq!(size_of::<Hypercall>(), 48);
        assert_eq!(HYPERCALL, 0x30_5000);
    }
}
