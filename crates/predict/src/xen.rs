//! Xen's schedulers: what they are called, and how the one of a recording was set.

use lowtail_engine::Duration;
use lowtail_host::SchedulerConfig;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_kernel::release;
use lowtail_trace::events::{XenScheduler, XenSettings};

use crate::error::Error;
use crate::recording::Recording;
use crate::shares::USUAL;

/// The scheduler of Xen's that is called so, with its defaults: `credit` and `credit2` of a Xen of today, `credit2-4.8` and so on of another
/// release, `credit-2007`, and `credit-mended` and `credit2-mended` with the patches of patches/xen. `None`: there is none.
pub fn xen_scheduler(name: &str) -> Option<SchedulerConfig> {
    let (kind, version) = name.split_once('-').unwrap_or((name, "today"));
    let of = |text: &str| release::version(text).filter(|_| text.contains('.'));
    match kind {
        "credit" => {
            let version = match version {
                "2007" => CreditVersion::Xen2007,
                "today" => CreditVersion::Today,
                "mended" => CreditVersion::Mended,
                // The rules of 4.8 are those of 4.0 on, as far as they are modelled.
                _ => match of(version)? {
                    (4, minor) if minor > 8 => CreditVersion::Today,
                    (4, _) => CreditVersion::Xen48,
                    _ => return None,
                },
            };
            Some(SchedulerConfig::Credit(CreditConfig::new(version)))
        }
        "credit2" => {
            let version = match version {
                "today" => Credit2Version::Xen410,
                "mended" => Credit2Version::Mended,
                _ => match of(version)? {
                    (4, minor) if minor >= 21 => Credit2Version::Xen421,
                    (4, minor) if minor >= 10 => Credit2Version::Xen410,
                    (4, 8 | 9) => Credit2Version::Xen481,
                    _ => return None,
                },
            };
            Some(SchedulerConfig::Credit2(Credit2Config::new(version)))
        }
        _ => None,
    }
}

/// Gives a scheduler of Xen's another rate limit or time slice.
///
/// # Errors
/// If it has none, in words.
pub fn set_xen(
    scheduler: &mut SchedulerConfig,
    ratelimit: Option<Duration>,
    timeslice: Option<Duration>,
) -> Result<(), &'static str> {
    match scheduler {
        SchedulerConfig::Credit(config) => {
            config.ratelimit = ratelimit.unwrap_or(config.ratelimit);
            config.timeslice = timeslice.unwrap_or(config.timeslice);
            if config.ratelimit > config.timeslice {
                return Err("a rate limit above the time slice: Xen refuses it");
            }
            Ok(())
        }
        SchedulerConfig::Credit2(_) if timeslice.is_some() => {
            Err("credit2 has no time slice that can be set; credit has one")
        }
        SchedulerConfig::Credit2(config) => {
            config.ratelimit = ratelimit.unwrap_or(config.ratelimit);
            Ok(())
        }
        _ if ratelimit.is_some() => {
            Err("the scheduler has no rate limit; credit and credit2 have one")
        }
        _ if timeslice.is_some() => Err("the scheduler has no time slice of Xen's; credit has one"),
        _ => Ok(()),
    }
}

/// How a scheduler of Xen's is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XenTerms {
    /// `credit` or `credit2`.
    pub name: &'static str,
    /// Its rate limit; zero is none.
    pub ratelimit: Duration,
    /// credit's time slice.
    pub slice: Option<Duration>,
}

/// How a scheduler is set; `None`: it has no such terms.
pub fn xen_terms(scheduler: &SchedulerConfig) -> Option<XenTerms> {
    match scheduler {
        SchedulerConfig::Credit(of) => {
            let slice = Some(of.timeslice);
            Some(XenTerms { name: "credit", ratelimit: of.ratelimit, slice })
        }
        SchedulerConfig::Credit2(of) => {
            Some(XenTerms { name: "credit2", ratelimit: of.ratelimit, slice: None })
        }
        _ => None,
    }
}

/// Whether it is one of Xen's.
pub fn is_of_xen(scheduler: &SchedulerConfig) -> bool {
    matches!(
        scheduler,
        SchedulerConfig::Credit(_) | SchedulerConfig::Credit2(_) | SchedulerConfig::Null
    )
}

/// The scheduler of a recording, set as its records tell: `name` says which one it was, where they do not or where its rules are those of
/// another release.
pub(crate) fn recorded(
    settings: &XenSettings,
    name: Option<&str>,
) -> Result<SchedulerConfig, Error> {
    let name = name.or(match settings.scheduler {
        XenScheduler::Credit => Some("credit"),
        XenScheduler::Credit2 => Some("credit2"),
        XenScheduler::Unknown => None,
    });
    let unsaid = Error::Unsaid {
        what: "under which of Xen's schedulers it was made",
        option: "--kernel credit, --kernel credit2, or with a release, such as --kernel credit2-4.21",
    };
    let mut scheduler = name.and_then(xen_scheduler).ok_or(unsaid)?;
    let ratelimit = settings.ratelimit.map(|of| Duration::from_ns(of.ns));
    let timeslice = settings.timeslice_ns.and_then(whole_ms);
    match &mut scheduler {
        SchedulerConfig::Credit(config) => {
            config.timeslice = timeslice.unwrap_or(config.timeslice);
            config.ratelimit = ratelimit.unwrap_or(config.ratelimit).min(config.timeslice);
        }
        SchedulerConfig::Credit2(config) => {
            config.ratelimit = ratelimit.unwrap_or(config.ratelimit);
        }
        _ => {}
    }
    Ok(scheduler)
}

/// A time slice, which Xen has in whole milliseconds from 1 ms to 1 s: the nearest.
fn whole_ms(ns: u64) -> Option<Duration> {
    let ms = ns.saturating_add(500_000) / 1_000_000;
    (1..=1000).contains(&ms).then(|| Duration::from_ms(ms))
}

/// Under what the recording was made, and what of that is taken for granted; nothing of a Linux host.
pub(crate) fn notes(recording: &Recording, scheduler: &SchedulerConfig) -> Vec<String> {
    let Some(settings) = &recording.host.xen else { return Vec::new() };
    let mut notes = recording.notes.clone();
    let (name, ratelimit) = match scheduler {
        SchedulerConfig::Credit(config) => {
            (format!("credit, time slice {}", config.timeslice), config.ratelimit)
        }
        SchedulerConfig::Credit2(config) => ("credit2".to_owned(), config.ratelimit),
        _ => return notes,
    };
    let limit = if ratelimit.is_zero() {
        "no rate limit".to_owned()
    } else {
        format!("rate limit {ratelimit}")
    };
    let why = match settings.ratelimit {
        Some(of) if Duration::from_ns(of.ns) == ratelimit => {
            format!("{} of its {} decisions say so", of.decisions - of.against, of.decisions)
        }
        Some(_) => "as you say".to_owned(),
        None => "nothing in the recording tells".to_owned(),
    };
    notes.push(format!("recorded under {name}, {limit} ({why})"));
    let unusual = recording.shares.iter().zip(&recording.host.vms);
    let unusual = unusual.filter(|(share, _)| **share != USUAL);
    let unusual: Vec<String> = unusual
        .map(|(share, vm)| format!("{} {share}", lowtail_out::name(vm)))
        .take(SHOWN_MAX)
        .collect();
    if !unusual.is_empty() {
        notes.push(format!("weights and caps when it was recorded: {}", unusual.join(", ")));
    } else if !recording.shares_known {
        notes.push(
            "weights and caps are not in the recording: 256 and none are taken; --recorded-policy says others"
                .to_owned(),
        );
    }
    if settings.others {
        notes.push(
            "there are pools under another scheduler: all vCPUs are simulated under this one, where they ran"
                .to_owned(),
        );
    }
    notes
}

/// So many domains with weights or caps of their own are named.
const SHOWN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_have_names() {
        let credit2 = |version| Some(SchedulerConfig::Credit2(Credit2Config::new(version)));
        let credit = |version| Some(SchedulerConfig::Credit(CreditConfig::new(version)));
        for (name, expected) in [
            ("credit2", credit2(Credit2Version::Xen410)),
            ("credit2-4.8", credit2(Credit2Version::Xen481)),
            ("credit2-4.17", credit2(Credit2Version::Xen410)),
            ("credit2-4.20", credit2(Credit2Version::Xen410)),
            ("credit2-4.21", credit2(Credit2Version::Xen421)),
            ("credit2-mended", credit2(Credit2Version::Mended)),
            ("credit", credit(CreditVersion::Today)),
            ("credit-2007", credit(CreditVersion::Xen2007)),
            ("credit-4.4", credit(CreditVersion::Xen48)),
            ("credit-4.20", credit(CreditVersion::Today)),
            ("credit-mended", credit(CreditVersion::Mended)),
            ("credit2-4.5", None),
            ("credit2-2007", None),
            ("credit-5.1", None),
            ("credit3", None),
            ("credit-", None),
            ("", None),
        ] {
            assert_eq!(xen_scheduler(name), expected, "{name}");
        }
    }

    #[test]
    fn what_xen_refuses_is_refused() {
        let mut credit = xen_scheduler("credit").unwrap();
        let ms = |ms| Some(Duration::from_ms(ms));
        assert!(set_xen(&mut credit, None, ms(5)).is_ok());
        assert!(set_xen(&mut credit, ms(6), None).is_err());
        let mut credit2 = xen_scheduler("credit2").unwrap();
        assert!(set_xen(&mut credit2, None, ms(5)).is_err());
        assert!(set_xen(&mut SchedulerConfig::Null, ms(5), None).is_err());
    }
}
