//! Workers of vhost: the kernel's own threads for a machine's network, without a machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// `VHOST_SET_OWNER` of `linux/vhost.h`: `_IO(0xAF, 0x01)`. The kernel starts the worker.
const SET_OWNER: libc::c_ulong = 0xaf01;

/// A worker, which is there as long as this is.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The device.
    pub(crate) file: File,
    /// Its number and name, where it is a thread of this process: since Linux 6.4.
    pub(crate) thread: Option<(u32, String)>,
}

/// Has the kernel start one.
pub(crate) fn start() -> io::Result<Worker> {
    let before = threads()?;
    let file = OpenOptions::new().read(true).write(true).open("/dev/vhost-net")?;
    own(&file)?;
    let thread = threads()?.into_iter().find(|thread| !before.contains(thread));
    Ok(Worker { file, thread })
}

#[allow(unsafe_code, reason = "neither std nor nix has VHOST_SET_OWNER")]
fn own(file: &File) -> io::Result<()> {
    // SAFETY: VHOST_SET_OWNER takes no argument and touches no memory of ours.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), SET_OWNER as _, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Threads of this process that are called like a worker of vhost's (`vhost_worker_create` in `drivers/vhost/vhost.c`).
fn threads() -> io::Result<Vec<(u32, String)>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")?.flatten() {
        let name = fs::read(entry.path().join("comm")).unwrap_or_default();
        let name = String::from_utf8_lossy(&name);
        let tid = entry.file_name().to_str().and_then(|tid| tid.parse().ok());
        if let Some(tid) = tid.filter(|_| name.starts_with("vhost-")) {
            threads.push((tid, name.trim_end().to_string()));
        }
    }
    Ok(threads)
}
