//! A value of a Xen host, read and written through `xl`.

use std::fmt;
use std::io;

use lowtail_kernel::Name;
use lowtail_xen::{Affinity, DomainKey, RATELIMIT_US, Scheduler, TIMESLICE_MS, live};
use serde::{Deserialize, Serialize};

use super::cpus;
use super::kind::Kind;

/// Weights that Xen takes: 16 bits (`xen/include/public/domctl.h`).
const WEIGHT_MAX: u32 = 65_535;
/// All pCPUs, as `xl` reads and prints them.
const ALL: &str = "all";

/// One value of a Xen host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Xen {
    /// What each vCPU of a domain gets beside others: `512`.
    Weight(OfDomain),
    /// CPU time of a domain at most, in percent of a pCPU, 0 for no limit: `80`.
    Cap(OfDomain),
    /// Where a vCPU may run, and where it does if it can: `hard=0-3 soft=all`. Who wants only one says only that.
    Affinity(OfVcpu),
    /// The parameters of a pool's scheduler: `ratelimit_us=1000`, with credit also `tslice_ms=30`.
    Pool(OfPool),
}

/// A domain, under a scheduler with weights and caps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OfDomain {
    /// Which.
    pub domain: DomainKey,
    /// Its scheduler: another one has other values.
    pub scheduler: Scheduler,
}

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OfVcpu {
    /// Whose.
    pub domain: DomainKey,
    /// Its number within the domain.
    pub vcpu: u32,
}

/// A pool of pCPUs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OfPool {
    /// Its name.
    pub pool: String,
    /// Its scheduler: another one has other parameters.
    pub scheduler: Scheduler,
}

/// The parameters of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parameters {
    ratelimit_us: u32,
    /// credit's.
    slice_ms: Option<u32>,
}

impl Xen {
    /// The domain that it is of, if it is of one.
    pub fn domain(&self) -> Option<&DomainKey> {
        match self {
            Xen::Weight(of) | Xen::Cap(of) => Some(&of.domain),
            Xen::Affinity(of) => Some(&of.domain),
            Xen::Pool(_) => None,
        }
    }
}

impl Kind for Xen {
    fn label(&self) -> String {
        match self {
            Xen::Weight(of) => format!("weight of {}", of.domain),
            Xen::Cap(of) => format!("cap of {}", of.domain),
            Xen::Affinity(of) => format!("pCPUs of vCPU {} of {}", of.vcpu, of.domain),
            Xen::Pool(of) => format!("{} of pool {}", of.scheduler, Name::new(of.pool.as_str())),
        }
    }

    fn read(&self) -> io::Result<Option<String>> {
        let read = match self {
            Xen::Weight(of) => {
                let shares = live::shares(&of.domain, of.scheduler);
                shares.map(|shares| shares.map(|shares| shares.weight.to_string()))
            }
            Xen::Cap(of) => {
                let shares = live::shares(&of.domain, of.scheduler);
                shares.map(|shares| shares.map(|shares| shares.cap_percent.to_string()))
            }
            Xen::Affinity(of) => {
                live::affinity(&of.domain, of.vcpu).map(|found| found.as_ref().map(text))
            }
            Xen::Pool(of) => live::parameters(&of.pool, of.scheduler).map(|found| {
                let found = found?;
                let slice_ms = found.timeslice_ms.filter(|_| of.scheduler == Scheduler::Credit);
                Some(Parameters { ratelimit_us: found.ratelimit_us?, slice_ms }.to_string())
            }),
        };
        read.map_err(io::Error::other)
    }

    fn write(&self, value: &str) -> io::Result<bool> {
        let written = match self {
            Xen::Weight(of) => live::set_weight(&of.domain, of.scheduler, number(value)?),
            Xen::Cap(of) => live::set_cap(&of.domain, of.scheduler, number(value)?),
            Xen::Affinity(of) => {
                let (hard, soft) = parts(value).map_err(io::Error::other)?;
                let (Some(hard), Some(soft)) = (hard, soft) else {
                    return Err(io::Error::other("half of an affinity"));
                };
                let to = Affinity { hard: hard.to_string(), soft: soft.to_string() };
                live::set_affinity(&of.domain, of.vcpu, &to)
            }
            Xen::Pool(of) => {
                let to = Parameters::parse(value).map_err(io::Error::other)?;
                live::set_parameters(&of.pool, of.scheduler, to.ratelimit_us, to.slice_ms)
            }
        };
        written.map_err(io::Error::other)
    }

    /// `xl` may be stopped when it has done it, and before it says so.
    fn is_whole(&self) -> bool {
        false
    }

    fn in_words(&self, value: &str) -> String {
        let words = match self {
            Xen::Weight(_) => None,
            Xen::Cap(_) => Some(match value {
                "0" => "none".to_string(),
                percent => format!("{percent}%"),
            }),
            Xen::Affinity(_) => parts(value).ok().map(|both| match both {
                (Some(hard), Some(ALL)) => hard.to_string(),
                (Some(hard), Some(soft)) => format!("{hard}, {soft} if it can"),
                _ => value.to_string(),
            }),
            Xen::Pool(_) => Parameters::parse(value).ok().map(Parameters::in_words),
        };
        words.unwrap_or_else(|| value.to_string())
    }

    fn normalize(&self, to: &str, was: &str) -> Result<String, String> {
        let most = |most: u32, what: &str| {
            let number = to.parse::<u32>().ok().filter(|number| *number <= most);
            number.ok_or_else(|| format!("`{}` is no {what} up to {most}", Name::new(to)))
        };
        match self {
            Xen::Weight(_) => match most(WEIGHT_MAX, "weight")? {
                0 => Err("a weight is 1 at least".to_string()),
                weight => Ok(weight.to_string()),
            },
            Xen::Cap(_) => most(WEIGHT_MAX, "cap in percent").map(|cap| cap.to_string()),
            Xen::Affinity(_) => {
                let ((hard, soft), (hard_was, soft_was)) = (parts(to)?, parts(was)?);
                let before = [hard_was, soft_was];
                if before.into_iter().any(|list| !list.is_some_and(can_be_put_back)) {
                    return Err(format!("xl could not put `{}` back", Name::new(was)));
                }
                let new = |list: Option<&str>, was: Option<&str>| match list {
                    Some(list) => canonical(list),
                    None => Ok(was.unwrap_or(ALL).to_string()),
                };
                let (hard, soft) = (new(hard, hard_was)?, new(soft, soft_was)?);
                Ok(text(&Affinity { hard, soft }))
            }
            Xen::Pool(of) => {
                let new = Parameters::parse(was)?.with(to)?;
                new.check(of.scheduler)?;
                Ok(new.to_string())
            }
        }
    }
}

impl Parameters {
    fn parse(text: &str) -> Result<Self, String> {
        Parameters { ratelimit_us: 0, slice_ms: None }.with(text)
    }

    /// The same with what the text says.
    fn with(mut self, text: &str) -> Result<Self, String> {
        for word in text.split_whitespace() {
            let wrong = || format!("`{}` is no parameter of a scheduler of Xen's", Name::new(word));
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            let value = value.parse().map_err(|_| wrong())?;
            match key {
                "ratelimit_us" => self.ratelimit_us = value,
                "tslice_ms" => self.slice_ms = Some(value),
                _ => return Err(wrong()),
            }
        }
        Ok(self)
    }

    fn check(self, scheduler: Scheduler) -> Result<(), String> {
        let Parameters { ratelimit_us: limit, slice_ms: slice } = self;
        if limit != 0 && !RATELIMIT_US.contains(&limit) {
            return Err(format!(
                "a rate limit of {limit} us: Xen takes 100 us to 500 ms, and 0 for none"
            ));
        }
        match (scheduler, slice) {
            (Scheduler::Credit2, Some(_)) => Err("credit2 has no slice".to_string()),
            (Scheduler::Credit, None) => Err("credit has a slice".to_string()),
            (Scheduler::Credit, Some(ms)) if !TIMESLICE_MS.contains(&ms) => {
                Err(format!("a slice of {ms} ms: credit takes 1 ms to 1 s"))
            }
            (Scheduler::Credit, Some(ms)) if limit > ms * 1000 => {
                Err(format!("a rate limit of {limit} us is above the slice, {ms} ms"))
            }
            _ => Ok(()),
        }
    }

    fn in_words(self) -> String {
        let limit = match self.ratelimit_us {
            0 => "no rate limit".to_string(),
            us => format!("rate limit {us} us"),
        };
        match self.slice_ms {
            Some(ms) => format!("{limit}, slice {ms} ms"),
            None => limit,
        }
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ratelimit_us={}", self.ratelimit_us)?;
        match self.slice_ms {
            Some(ms) => write!(f, " tslice_ms={ms}"),
            None => Ok(()),
        }
    }
}

fn number(value: &str) -> io::Result<u32> {
    value.parse().map_err(|_| io::Error::other("no number"))
}

fn text(affinity: &Affinity) -> String {
    format!("hard={} soft={}", affinity.hard, affinity.soft)
}

/// Both lists, as far as the text has them.
fn parts(value: &str) -> Result<(Option<&str>, Option<&str>), String> {
    let (mut hard, mut soft) = (None, None);
    for word in value.split_whitespace() {
        match word.split_once('=') {
            Some(("hard", list)) => hard = Some(list),
            Some(("soft", list)) => soft = Some(list),
            _ => return Err(format!("`{}` is no affinity", Name::new(word))),
        }
    }
    Ok((hard, soft))
}

/// `xl` prints `none` for an empty list, and takes none.
fn can_be_put_back(list: &str) -> bool {
    list == ALL || cpus::parse(list).is_ok_and(|cpus| !cpus.is_empty())
}

/// As `xl` prints it: all pCPUs of a host are `all`.
fn canonical(list: &str) -> Result<String, String> {
    if list == ALL {
        return Ok(list.to_string());
    }
    let cpus = cpus::parse(list)?;
    let Some(&last) = cpus.last() else { return Err("a vCPU needs a pCPU".to_string()) };
    let pcpus = live::pcpus().map_err(|error| error.to_string())?;
    let Some(pcpus) = pcpus.and_then(|pcpus| usize::try_from(pcpus).ok()) else {
        return Ok(cpus::list(&cpus));
    };
    if last >= pcpus {
        return Err(format!("pCPU {last}: this host has {pcpus}, from 0 on"));
    }
    Ok(if cpus.len() == pcpus { ALL.to_string() } else { cpus::list(&cpus) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(scheduler: Scheduler) -> Xen {
        Xen::Pool(OfPool { pool: "Pool-0\x1b".to_string(), scheduler })
    }

    /// Ranges are Xen's (`public/sysctl.h`); credit refuses a limit above its slice.
    #[test]
    fn parameters_of_pools() {
        let (one, two) = (pool(Scheduler::Credit), pool(Scheduler::Credit2));
        let was = "ratelimit_us=1000 tslice_ms=30";
        let to = |to: &str| one.normalize(to, was);
        assert_eq!(to("tslice_ms=5"), Ok("ratelimit_us=1000 tslice_ms=5".to_string()));
        assert_eq!(to("ratelimit_us=0"), Ok("ratelimit_us=0 tslice_ms=30".to_string()));
        assert!(to("ratelimit_us=30001").is_err() && to("tslice_ms=0").is_err());
        assert!(to("tslice_ms=1 ratelimit_us=1001").is_err() && to("x").is_err());
        assert!(to("ratelimit_us=99").is_err() && to("ratelimit_us=-1").is_err());
        let to = |to: &str| two.normalize(to, "ratelimit_us=1000");
        assert_eq!(to("ratelimit_us=500000"), Ok("ratelimit_us=500000".to_string()));
        assert!(to("ratelimit_us=500001").is_err() && to("tslice_ms=5").is_err());
        assert_eq!(one.in_words(was), "rate limit 1000 us, slice 30 ms");
        assert_eq!(two.in_words("ratelimit_us=0"), "no rate limit");
        assert!(!two.label().contains('\x1b'), "{}", two.label());
    }

    #[test]
    fn what_is_no_value() {
        let domain = DomainKey { id: 1, uuid: String::new() };
        let of = OfDomain { domain: domain.clone(), scheduler: Scheduler::Credit2 };
        let weight = Xen::Weight(of.clone());
        assert_eq!(weight.normalize("65535", "256"), Ok("65535".to_string()));
        for wrong in ["0", "65536", "-1", "", "1 2"] {
            assert!(weight.normalize(wrong, "256").is_err(), "{wrong}");
        }
        let pins = Xen::Affinity(OfVcpu { domain, vcpu: 0 });
        assert_eq!(pins.normalize("soft=all", "hard=1 soft=0"), Ok("hard=1 soft=all".to_string()));
        assert!(pins.normalize("hard=all", "hard=1 soft=none").is_err());
        assert!(pins.normalize("firm=1", "hard=1 soft=all").is_err());
        assert_eq!(pins.in_words("hard=1 soft=all"), "1");
    }
}
