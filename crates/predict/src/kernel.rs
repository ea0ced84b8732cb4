//! The scheduler under which a recording was made: that of a Linux kernel, or of Xen.

use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_kernel::release;
use lowtail_trace::events::RecordedHost;

use crate::error::Error;
use crate::xen;

/// The fair class of the recorded host's kernel, as it was set; of a Xen host, its scheduler as its records tell. `release` is that of
/// the kernel, or a name of [`xen_scheduler`](crate::xen_scheduler), where the recording does not say it.
///
/// # Errors
/// If the recording does not say which kernel or scheduler it was, and `release` neither.
pub fn recorded_scheduler(
    host: &RecordedHost,
    release: Option<&str>,
) -> Result<SchedulerConfig, Error> {
    if let Some(settings) = &host.xen {
        return xen::recorded(settings, release);
    }
    let release = release.or(host.kernel.as_deref());
    let version = release.and_then(version);
    let Some(version) = version else {
        return Err(Error::Unsaid {
            what: "under which kernel it was made",
            option: "--kernel 6.12",
        });
    };
    let mut fair = FairConfig::new(version);
    let Some(facts) = &host.facts.kernel else { return Ok(SchedulerConfig::Fair(fair)) };
    if let Some(hz) = facts.hz {
        fair.hz = hz.clamp(100, 1000);
    }
    // As it is set is scaled by the number of CPUs; the simulator scales it again.
    let cpus = facts.online.count().clamp(1, 8) as u64;
    let factor = 1 + u64::from(cpus.ilog2());
    let set = |tunable: &mut Duration, ns: Option<u64>| {
        if let Some(ns) = ns.filter(|&ns| ns > 0) {
            let (least, most) = (Duration::from_us(100), Duration::from_s(1));
            *tunable = Duration::from_ns(ns / factor).clamp(least, most);
        }
    };
    set(&mut fair.base_slice, facts.base_slice_ns);
    set(&mut fair.min_granularity, facts.min_granularity_ns);
    set(&mut fair.wakeup_granularity, facts.wakeup_granularity_ns);
    set(&mut fair.latency, facts.latency_ns);
    Ok(SchedulerConfig::Fair(fair))
}

/// The rules of this release: those of the newest that is modelled and not newer.
fn version(release: &str) -> Option<FairVersion> {
    let (major, minor) = release::version(release)?;
    let rules = [
        ((6, 18), FairVersion::Linux618),
        ((6, 12), FairVersion::Linux612),
        ((6, 6), FairVersion::Linux66),
        // `sched_slice` of 5.13.
        ((5, 13), FairVersion::Linux61),
        ((5, 4), FairVersion::Linux54),
        ((4, 18), FairVersion::Linux418),
        ((2, 6), FairVersion::Linux2639),
    ];
    rules.iter().find(|(since, _)| (major, minor) >= *since).map(|&(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_rules() {
        for (release, expected) in [
            ("6.18.0-1-amd64", Some(FairVersion::Linux618)),
            ("7.0.1", Some(FairVersion::Linux618)),
            ("6.17.9", Some(FairVersion::Linux612)),
            ("6.8.0-45-generic", Some(FairVersion::Linux66)),
            ("5.15.0", Some(FairVersion::Linux61)),
            ("5.10.0-30-amd64", Some(FairVersion::Linux54)),
            ("2.4.1", None),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }
}
