//! Token buckets: `policy/bucket.h`.

/// One nanosecond of tokens per nanosecond of time; rates have 16 bits behind the point.
pub const RATE_ONE: u32 = 1 << 16;
/// The highest rate: 128 pCPUs.
pub const RATE_MAX: u32 = 128 << 16;
/// A moment that does not come.
pub const NEVER: u64 = u64::MAX;

/// `struct lt_bucket`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// What it holds, 0 to `burst_ns`.
    pub tokens_ns: u64,
    /// The clock up to which it has been filled.
    pub filled_ns: u64,
    /// How fast it fills, 0 to [`RATE_MAX`].
    pub rate: u32,
    /// The most that it holds.
    pub burst_ns: u32,
}

unsafe extern "C" {
    fn lowtail_bucket_init(b: *mut Bucket, rate: u32, burst_ns: u32, tokens_ns: u64, now: u64);
    fn lowtail_bucket_fill(b: *mut Bucket, now: u64);
    fn lowtail_bucket_take(b: *mut Bucket, want_ns: u64) -> u64;
    fn lowtail_bucket_give(b: *mut Bucket, back_ns: u64);
    fn lowtail_bucket_when(b: *const Bucket, want_ns: u64) -> u64;
}

// SAFETY (of every call here): C reads and writes the bucket that the reference is to, which
// has the layout of `struct lt_bucket`, and keeps no pointer.
impl Bucket {
    /// `lt_bucket_init`: holds `tokens_ns` at `now`.
    pub fn new(rate: u32, burst_ns: u32, tokens_ns: u64, now: u64) -> Self {
        let mut bucket = Bucket::default();
        // SAFETY: see above.
        unsafe { lowtail_bucket_init(&mut bucket, rate, burst_ns, tokens_ns, now) };
        bucket
    }

    /// `lt_bucket_fill`: adds the tokens of the time up to `now`.
    pub fn fill(&mut self, now: u64) {
        // SAFETY: see above.
        unsafe { lowtail_bucket_fill(self, now) }
    }

    /// `lt_bucket_take`: takes up to `want_ns`, returns how much it was.
    pub fn take(&mut self, want_ns: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_bucket_take(self, want_ns) }
    }

    /// `lt_bucket_give`: puts back what an earlier take has not used.
    pub fn give(&mut self, back_ns: u64) {
        // SAFETY: see above.
        unsafe { lowtail_bucket_give(self, back_ns) }
    }

    /// `lt_bucket_when`: when it will hold `want_ns`; 0 is now.
    pub fn when(&self, want_ns: u64) -> u64 {
        // SAFETY: see above.
        unsafe { lowtail_bucket_when(self, want_ns) }
    }
}
