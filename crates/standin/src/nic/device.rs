//! A device of vhost-net, set up as QEMU does it: `linux/vhost.h` and `linux/vhost_types.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::ring::{BYTES, ENTRIES, Ring};
use crate::tap;
use crate::vhost;

// `_IOW(0xAF, …)` and `_IOW('T', 216, int)`; a pointer to what each takes.
const SET_FEATURES: u64 = 0x4008_af00;
const SET_MEM_TABLE: u64 = 0x4008_af03;
const SET_VRING_NUM: u64 = 0x4008_af10;
const SET_VRING_ADDR: u64 = 0x4028_af11;
const SET_VRING_BASE: u64 = 0x4008_af12;
const SET_VRING_KICK: u64 = 0x4008_af20;
const SET_VRING_CALL: u64 = 0x4008_af21;
const SET_BACKEND: u64 = 0x4008_af30;
const TUN_SET_HEADER_BYTES: u64 = 0x4004_54d8;

/// `VIRTIO_F_VERSION_1`, `VIRTIO_F_EVENT_IDX`, `VIRTIO_NET_F_MRG_RXBUF`: what Linux as a guest agrees upon, as far as it is about rings.
const FEATURES: u64 = 1 << 32 | 1 << 29 | 1 << 15;
/// `struct virtio_net_hdr_v1`, before each frame.
pub(super) const HEADER: usize = 12;
/// A page, to which rings are aligned.
const PAGE: usize = 4096;

/// `struct vhost_vring_state` and `struct vhost_vring_file`.
#[repr(C)]
struct Pair(u32, i32);

/// `struct vhost_vring_addr`.
#[repr(C)]
struct Addresses {
    index: u32,
    flags: u32,
    descriptors: u64,
    used: u64,
    available: u64,
    log: u64,
}

/// `struct vhost_memory` with one region: the guest's addresses are this process's.
#[repr(C)]
struct Memory {
    regions: u32,
    padding: u32,
    guest: u64,
    bytes: u64,
    user: u64,
    flags: u64,
}

/// A queue: the ring, the eventfd that kicks vhost, and the one by which it calls.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) ring: Ring,
    pub(super) kick: EventFd,
    pub(super) call: EventFd,
}

/// A virtual NIC on a tap, served by a worker of the kernel's.
#[derive(Debug)]
pub(crate) struct Device {
    /// What it receives, and what it sends.
    pub(super) receive: Queue,
    pub(super) send: Queue,
    pub(super) worker: vhost::Worker,
    _tap: File,
}

impl Device {
    /// One on the tap `name`, which is made if there is none.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let tap = tap::open_with_headers(name)?;
        ioctl(tap.as_raw_fd(), TUN_SET_HEADER_BYTES, &(HEADER as i32))?;
        let worker = vhost::start()?;
        let vhost = worker.file.as_raw_fd();
        ioctl(vhost, SET_FEATURES, &FEATURES)?;
        // The kernel's until this process ends.
        let room = Box::leak(vec![0_u8; 2 * BYTES + PAGE].into_boxed_slice());
        let first = room.as_ptr().align_offset(PAGE);
        let base = room[first..].as_mut_ptr();
        let at = base as u64;
        let bytes = 2 * BYTES as u64;
        ioctl(
            vhost,
            SET_MEM_TABLE,
            &Memory { regions: 1, padding: 0, guest: at, bytes, user: at, flags: 0 },
        )?;
        let mut receive = queue(vhost, 0, Ring::new(base, true))?;
        let second = base.wrapping_add(BYTES);
        let mut send = queue(vhost, 1, Ring::new(second, false))?;
        for _ in 0..ENTRIES {
            receive.ring.push(super::ring::BUFFER, |_| ());
        }
        receive.ring.wants_kick();
        send.ring.be_deaf();
        for index in 0..2 {
            ioctl(vhost, SET_BACKEND, &Pair(index, tap.as_raw_fd()))?;
        }
        Ok(Device { receive, send, worker, _tap: tap })
    }
}

/// Has the device `vhost` use `ring` as its queue number `index`.
fn queue(vhost: RawFd, index: u32, ring: Ring) -> io::Result<Queue> {
    let eventfd = || EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
    let (kick, call) = (eventfd()?, eventfd()?);
    ioctl(vhost, SET_VRING_NUM, &Pair(index, i32::from(ENTRIES as i16)))?;
    ioctl(vhost, SET_VRING_BASE, &Pair(index, 0))?;
    let [descriptors, available, used] = ring.addresses();
    let addresses = Addresses { index, flags: 0, descriptors, used, available, log: 0 };
    ioctl(vhost, SET_VRING_ADDR, &addresses)?;
    ioctl(vhost, SET_VRING_KICK, &Pair(index, kick.as_fd().as_raw_fd()))?;
    ioctl(vhost, SET_VRING_CALL, &Pair(index, call.as_fd().as_raw_fd()))?;
    Ok(Queue { ring, kick, call })
}

#[allow(unsafe_code, reason = "neither std nor nix has requests of vhost")]
fn ioctl<T>(fd: RawFd, request: u64, argument: &T) -> io::Result<()> {
    // SAFETY: each request here reads one `T` at the pointer, which lives as long as the call; what it points to is leaked memory.
    let result = unsafe { libc::ioctl(fd, request as _, std::ptr::from_ref(argument)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
