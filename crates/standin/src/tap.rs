//! Taps, held as a VM holds them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// Opens the tap `name`; if there is none it is made, and goes when the file is closed. See the kernel's
/// `Documentation/networking/tuntap.rst`.
pub(crate) fn open(name: &str) -> io::Result<File> {
    open_as(name, libc::IFF_TAP | libc::IFF_NO_PI)
}

/// The same with a `virtio_net_hdr` before each frame, as vhost wants it.
pub(crate) fn open_with_headers(name: &str) -> io::Result<File> {
    open_as(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR)
}

fn open_as(name: &str, flags: libc::c_int) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    attach(&file, name, flags)?;
    Ok(file)
}

#[allow(unsafe_code, reason = "neither std nor nix has TUNSETIFF")]
fn attach(file: &File, name: &str, flags: libc::c_int) -> io::Result<()> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::other("an interface's name has 1 to 15 bytes"));
    }
    // SAFETY: zero bytes are a valid `ifreq`: numbers, and a union of numbers and a null pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq` at the pointer, which lives as long as the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
