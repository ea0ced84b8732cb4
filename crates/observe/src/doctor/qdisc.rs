//! Queueing disciplines of interfaces, by rtnetlink(7).

use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// A message has this many bytes before its content (`struct nlmsghdr`), an answer about a discipline this many more
/// (`struct tcmsg`), an attribute this many (`struct rtattr`).
const HEADER: usize = 16;
const TCMSG: usize = 20;
const ATTRIBUTE: usize = 4;
/// `TCA_KIND` of `linux/rtnetlink.h`.
const TCA_KIND: u16 = 1;
/// `NLMSG_ERROR`, `NLMSG_DONE` of `linux/netlink.h`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Answers that are read at most; each has a discipline at least.
const ANSWERS_MAX: usize = 10_000;

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The interface's number.
    pub ifindex: u32,
    /// The class that it belongs to, or 0xffffffff for the root.
    pub parent: u32,
    /// Its name, such as `fq_codel`.
    pub kind: String,
}

/// All of this network namespace.
///
/// # Errors
/// What the kernel says.
pub(super) fn all() -> Result<Vec<Qdisc>, String> {
    ask().map_err(|error| format!("rtnetlink: {error}"))
}

fn ask() -> Result<Vec<Qdisc>, nix::Error> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut request = Vec::with_capacity(HEADER + TCMSG);
    request.extend(((HEADER + TCMSG) as u32).to_ne_bytes());
    request.extend(libc::RTM_GETQDISC.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    request.resize(HEADER + TCMSG, 0);
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &request, &kernel, MsgFlags::empty())?;
    let mut found = Vec::new();
    let mut bytes = vec![0; 64 << 10];
    for _ in 0..ANSWERS_MAX {
        let n = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
        if parse(&bytes[..n], &mut found)? {
            break;
        }
    }
    Ok(found)
}

/// Reads one datagram; says whether it was the last.
pub(super) fn parse(mut bytes: &[u8], found: &mut Vec<Qdisc>) -> Result<bool, nix::Error> {
    while let Some(length) = u32_at(bytes, 0) {
        let length = length as usize;
        let Some(message) = bytes.get(HEADER..length) else { return Ok(true) };
        match u16_at(bytes, 4) {
            Some(DONE) => return Ok(true),
            Some(ERROR) => {
                let code = u32_at(message, 0).map_or(0, |code| (code as i32).wrapping_neg());
                return Err(nix::Error::from_raw(code));
            }
            _ => found.extend(discipline(message)),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn discipline(message: &[u8]) -> Option<Qdisc> {
    let (ifindex, parent) = (u32_at(message, 4)?, u32_at(message, 12)?);
    let mut attributes = message.get(TCMSG..)?;
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE..length)?;
        if u16_at(attributes, 2)? == TCA_KIND {
            let name = value.split(|b| *b == 0).next().unwrap_or_default();
            let kind = String::from_utf8_lossy(name).into_owned();
            return Some(Qdisc { ifindex, parent, kind });
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as the kernel's headers lay them out, whole and cut anywhere: no panic, and nothing that is not there.
    #[test]
    fn answers_cut_anywhere() {
        let mut message = Vec::new();
        let kind = b"\x0b\0\x01\0fq_pie\0\0";
        let length = (HEADER + TCMSG + 12) as u32;
        message.extend(length.to_ne_bytes());
        message.extend([36u16, 0].map(u16::to_ne_bytes).concat());
        message.extend([0u32, 0, 0, 7, 0, u32::MAX, 0].map(u32::to_ne_bytes).concat());
        message.extend(kind);
        let qdisc = Qdisc { ifindex: 7, parent: u32::MAX, kind: "fq_pie".into() };
        let mut found = Vec::new();
        assert_eq!(parse(&message, &mut found), Ok(false));
        assert_eq!(found, [qdisc]);
        for end in 0..message.len() {
            let mut found = Vec::new();
            let _ = parse(&message[..end], &mut found);
            assert!(found.is_empty(), "{end}");
        }
        // No room for a longer one than there is, and no endless loop at a length of nothing.
        let _ = parse(&[0; 64], &mut found);
    }
}
