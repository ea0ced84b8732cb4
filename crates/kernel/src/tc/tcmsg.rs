//! `struct tcmsg`, with which each message about a discipline, class or filter begins.

/// Bytes of `struct tcmsg`.
pub(super) const TCMSG: usize = 20;
/// `TCA_*` of `linux/rtnetlink.h`.
pub(super) const KIND: u16 = 1;
pub(super) const OPTIONS: u16 = 2;

/// `struct tcmsg`.
pub(super) fn tcmsg(ifindex: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, ifindex, handle, parent, info].map(u32::to_ne_bytes).concat()
}
