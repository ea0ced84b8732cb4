//! System calls that have no safe wrapper.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use nix::unistd::Pid;

/// `sched_setattr(2)` with these values for thread `tid`.
#[allow(unsafe_code, reason = "neither std nor nix has sched_setattr(2)")]
pub fn sched_setattr(tid: Pid, attr: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: the kernel reads `attr.size` bytes at `attr`, which is a structure of that size
    // (the first published form, 48 bytes), and writes there at most the size that it knows.
    // That goes through a copy of our own.
    let mut copy = *attr;
    copy.size = size_of::<libc::sched_attr>() as u32;
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setattr, tid.as_raw(), &raw mut copy, 0 as libc::c_uint)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `sched_getattr(2)` of thread `tid`.
#[allow(unsafe_code, reason = "neither std nor nix has sched_getattr(2)")]
pub fn sched_getattr(tid: Pid) -> io::Result<libc::sched_attr> {
    let mut attr = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes at `attr`, which is a structure of that size.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid.as_raw(), &raw mut attr, size, 0 as libc::c_uint)
    };
    if result == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}

/// `pidfd_open(2)` of thread `tid`, which need not be the first of its process (Linux 6.9).
#[allow(unsafe_code, reason = "neither std nor nix has pidfd_open(2)")]
pub fn pidfd_open(tid: Pid) -> io::Result<OwnedFd> {
    // PIDFD_THREAD of include/uapi/linux/pidfd.h.
    let flags = libc::O_EXCL as libc::c_uint;
    // SAFETY: no memory is given to the kernel; what it returns is a descriptor of our own, or -1.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, tid.as_raw(), flags) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd as i32)),
        }
    }
}
