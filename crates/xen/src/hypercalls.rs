//! Calls of Xen from a program, by the device that Linux has for them.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mlock, mmap_anonymous, munmap};

use crate::error::Error;

/// Linux has it in dom0, for root; in other domains if it is told to (`xen-privcmd.unrestricted`).
pub(crate) const DEVICE: &str = "/dev/xen/privcmd";
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

/// A way to call Xen.
#[derive(Debug)]
pub(crate) struct Hypercalls {
    device: File,
    /// Memory that stays where it is, for what is asked and answered.
    page: NonNull<libc::c_void>,
}

// The page belongs to this value alone.
#[allow(unsafe_code, reason = "a page that was mapped by hand")]
// SAFETY: nobody else has the address of the page.
unsafe impl Send for Hypercalls {}

impl Hypercalls {
    /// Opens the device.
    ///
    /// # Errors
    /// If this is not dom0, or not root.
    #[allow(unsafe_code, reason = "neither std nor a library has hypercalls")]
    pub(crate) fn open() -> Result<Self, Error> {
        let failed = |what, source| Error::Device { what, path: Path::new(DEVICE).into(), source };
        let device = OpenOptions::new().read(true).write(true).open(DEVICE);
        let device = device.map_err(|error| failed("cannot open", error))?;
        let (all, private) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: new memory, at no address that is in use.
        let page = unsafe { mmap_anonymous(None, PAGE, all, private) };
        let page = page.map_err(|error| failed("no memory for", error.into()))?;
        let calls = Hypercalls { device, page };
        // SAFETY: a whole page of our own, which lives until the value is dropped.
        unsafe { mlock(page, PAGE.get()) }
            .map_err(|error| failed("no memory for", error.into()))?;
        Ok(calls)
    }

    /// Asks with a structure, which Xen reads and may change; gives what it is then.
    #[allow(unsafe_code, reason = "neither std nor a library has hypercalls")]
    pub(crate) fn ask<T: Plain>(&mut self, op: u64, question: T) -> io::Result<T> {
        const { assert!(size_of::<T>() <= PAGE.get()) };
        let at = self.page.cast::<T>();
        // SAFETY: the page is ours and longer than the structure. `Plain` structures are as Xen has them, and have no bytes
        // that may not be as Xen writes them.
        unsafe { at.write_volatile(question) };
        let mut call = Hypercall { op, arguments: [at.as_ptr() as u64, 0, 0, 0, 0] };
        // SAFETY: the kernel reads the call, of the size that its number says; what its argument points to is our page.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), HYPERCALL as _, &raw mut call) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(unsafe { at.read_volatile() })
    }

    /// Calls with a number alone; gives what Xen returns.
    #[allow(unsafe_code, reason = "neither std nor a library has hypercalls")]
    pub(crate) fn call(&self, op: u64, number: u64) -> io::Result<i64> {
        let mut call = Hypercall { op, arguments: [number, 0, 0, 0, 0] };
        // SAFETY: the kernel reads the call, of the size that its number says; nothing in it points anywhere.
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), HYPERCALL as _, &raw mut call) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result.into()) }
    }
}

impl Drop for Hypercalls {
    #[allow(unsafe_code, reason = "the page was mapped by hand")]
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and nobody else has its address.
        let _ = unsafe { munmap(self.page, PAGE.get()) };
    }
}

/// A structure of Xen's public interface.
///
/// # Safety
/// Its layout is C's, and any bytes are a value of it.
#[allow(unsafe_code, reason = "a promise about layout")]
pub(crate) unsafe trait Plain: Copy {}

#[cfg(test)]
mod tests {
    use super::*;

    /// `uapi/xen/privcmd.h`.
    #[test]
    fn as_large_as_in_linux() {
        assert_eq!(size_of::<Hypercall>(), 48);
        assert_eq!(HYPERCALL, 0x30_5000);
    }
}
