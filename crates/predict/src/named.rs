//! Schedulers and Xen's spans by what people call them.

use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_xen::{RATELIMIT_US, TIMESLICE_MS};

use crate::xen::xen_scheduler;

/// The scheduler called so: `eevdf-6.12`, `cfs-5.4`, `small-first`; of Xen `credit`, `credit2`, `null`, or one of another release, such as
/// `credit2-4.8`.
///
/// # Errors
/// If there is none: what there is.
pub fn scheduler(name: &str) -> Result<SchedulerConfig, String> {
    let fair = |version| Ok(SchedulerConfig::Fair(FairConfig::new(version)));
    match name {
        "eevdf-6.6" => fair(FairVersion::Linux66),
        "eevdf-6.12" => fair(FairVersion::Linux612),
        "eevdf-6.18" => fair(FairVersion::Linux618),
        "cfs-5.4" => fair(FairVersion::Linux54),
        "cfs-6.1" => fair(FairVersion::Linux61),
        "small-first" => Ok(SchedulerConfig::SmallFirst(SmallFirstConfig::default())),
        "null" => Ok(SchedulerConfig::Null),
        name => xen_scheduler(name).ok_or_else(|| {
            let known = "eevdf-6.6, eevdf-6.12, eevdf-6.18, cfs-5.4, cfs-6.1, small-first, null, credit, credit2, or of another release \
                         of Xen, such as credit2-4.8 or credit2-mended";
            known.to_owned()
        }),
    }
}

/// A rate limit that Xen takes.
///
/// # Errors
/// If it is none: what it takes.
pub fn ratelimit(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let us = |us: &u32| Duration::from_us((*us).into());
    let all = us(RATELIMIT_US.start())..=us(RATELIMIT_US.end());
    let is_right = span.is_zero() || all.contains(&span);
    is_right.then_some(span).ok_or_else(|| "0us (none), or 100us to 500ms".to_owned())
}

/// A time slice that Xen's credit takes.
///
/// # Errors
/// If it is none: what it takes.
pub fn slice(text: &str) -> Result<Duration, String> {
    let span: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let ms = |ms: &u32| Duration::from_ms((*ms).into());
    let all = ms(TIMESLICE_MS.start())..=ms(TIMESLICE_MS.end());
    let is_right = span.as_ps().is_multiple_of(ms(&1).as_ps()) && all.contains(&span);
    is_right.then_some(span).ok_or_else(|| "whole milliseconds from 1ms to 1s".to_owned())
}
