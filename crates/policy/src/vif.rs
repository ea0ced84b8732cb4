//! Interfaces of a back end: `policy/vif.h`.

use std::ffi::c_int;

use crate::bucket::Bucket;

/// `LT_VIF_RATE`: 10 Mbit/s.
pub const VIF_RATE: u32 = 655;
/// `LT_VIF_BURST_NS`: 30 KB.
pub const VIF_BURST_NS: u32 = 30_000 << 3;

/// `struct lt_vif`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vif {
    /// Line time as a small interface.
    pub small: Bucket,
    /// Line time served.
    pub vtime_ns: u64,
}

unsafe extern "C" {
    fn lowtail_vif_init(vif: *mut Vif, rate: u32, burst_ns: u32, now: u64);
    fn lowtail_vif_join(vif: *mut Vif, vtime_ns: u64);
    fn lowtail_vif_small(vif: *mut Vif, bytes: u32, now: u64) -> c_int;
    fn lowtail_vif_charge(vif: *mut Vif, bytes: u32);
    fn lowtail_vif_before(
        a: *const Vif,
        small_a: c_int,
        waiting_a: u64,
        b: *const Vif,
        small_b: c_int,
        waiting_b: u64,
    ) -> c_int;
}

// SAFETY (of every call here): C reads and writes the interfaces that the references are to,
// which have the layout of `struct lt_vif`, and keeps no pointer.
impl Vif {
    /// `lt_vif_init`.
    pub fn new(rate: u32, burst_ns: u32, now: u64) -> Self {
        let mut vif = Vif::default();
        // SAFETY: see above.
        unsafe { lowtail_vif_init(&mut vif, rate, burst_ns, now) };
        vif
    }

    /// `lt_vif_join`: it has a packet again.
    pub fn join(&mut self, vtime_ns: u64) {
        // SAFETY: see above.
        unsafe { lowtail_vif_join(self, vtime_ns) }
    }

    /// `lt_vif_small`: whether it is small for a packet of `bytes`.
    pub fn small(&mut self, bytes: u32, now: u64) -> bool {
        // SAFETY: see above.
        unsafe { lowtail_vif_small(self, bytes, now) != 0 }
    }

    /// `lt_vif_charge`: a packet of `bytes` is served.
    pub fn charge(&mut self, bytes: u32) {
        // SAFETY: see above.
        unsafe { lowtail_vif_charge(self, bytes) }
    }

    /// `lt_vif_before`: whether it goes before `other`; each is small or not and has bytes
    /// waiting.
    pub fn before(&self, own: (bool, u64), other: &Vif, others: (bool, u64)) -> bool {
        let (a, b) = (c_int::from(own.0), c_int::from(others.0));
        // SAFETY: see above.
        unsafe { lowtail_vif_before(self, a, own.1, other, b, others.1) != 0 }
    }
}
