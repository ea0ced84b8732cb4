//! Hints to the processor's cache.

/// Asks for the cache line at `at`, which will be read or written soon. A hint only: whatever the
/// address, nothing is read and nothing changes but how long it takes.
#[inline(always)]
pub fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: SSE is part of x86-64, and PREFETCHT0 reads nothing that the program can see and
    // raises no exception for any address (Intel SDM, volume 2, "PREFETCHh").
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for all cache lines of `value`.
#[inline(always)]
pub fn prefetch_all<T>(value: &T) {
    let at = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(64) {
        prefetch(at.wrapping_add(offset));
    }
}
