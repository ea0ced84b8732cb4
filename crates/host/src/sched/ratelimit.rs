//! Rate limits that Xen accepts.

use lowtail_engine::Duration;

/// Refuses a rate limit outside of what Xen accepts: 0 (off) or 100 us to 500 ms
/// (`XEN_SYSCTL_SCHED_RATELIMIT_MIN`, `_MAX` in `public/sysctl.h`).
pub(super) fn check_ratelimit(ratelimit: Duration) -> Result<(), String> {
    let range = Duration::from_us(100)..=Duration::from_ms(500);
    if ratelimit.is_zero() || range.contains(&ratelimit) {
        return Ok(());
    }
    Err(format!("rate limit {ratelimit}: Xen accepts 0us (off) or 100us to 500ms"))
}
