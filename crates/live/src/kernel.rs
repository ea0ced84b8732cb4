//! System calls that have no safe wrapper.

use std::io;

use nix::unistd::Pid;

/// `sched_setattr(2)` with these values for thread `tid`.
#[allow(unsafe_code, reason = "neither std nor nix has sched_setattr(2)")]
pub(crate) fn sched_setattr(tid: Pid, attr: &libc::sched_attr) -> io::Result<()> {
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
pub(crate) fn sched_getattr(tid: Pid) -> io::Result<libc::sched_attr> {
    // SAFETY: all bytes zero is a value of that structure of integers. The kernel writes at most as many bytes as it
    // is told, which is the structure's size; it takes any from 48 on, the first published form.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid.as_raw(), &raw mut attr, size, 0 as libc::c_uint)
    };
    if result == 0 { Ok(attr) } else { Err(io::Error::last_os_error()) }
}
