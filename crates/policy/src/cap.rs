//! Limits on run time: `policy/cap.h`.

use crate::bucket::Bucket;

/// `struct lt_cap`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cap {
    /// Run time; with the rate 0 there is no limit.
    pub run: Bucket,
    /// What one waits for that has run up to it.
    pub turn_ns: u32,
    /// Part that is for small vCPUs.
    pub small_reserve_ns: u32,
}

unsafe extern "C" {
    fn lowtail_cap_init(cap: *mut Cap, rate: u32, burst_ns: u32, vcpus: u32, now: u64);
}

impl Cap {
    /// `lt_cap_init`: a limit of `rate` (0: none) for `vcpus` that saves up to `burst_ns`, or two
    /// quotas of 10 ms if that is more.
    pub fn new(rate: u32, burst_ns: u32, vcpus: u16, now: u64) -> Self {
        let mut cap = Cap::default();
        // SAFETY: C writes what the reference is to, which has the layout of its struct.
        unsafe { lowtail_cap_init(&mut cap, rate, burst_ns, u32::from(vcpus), now) };
        cap
    }

    /// Whether there is a limit: `lt_capped`.
    pub fn is_limit(&self) -> bool {
        self.run.rate != 0
    }
}
