//! Back-end workers.

use lowtail_config_text::{DurationText, KeyError};
use lowtail_engine::Duration;
use lowtail_host::cgroup::check_slice;
use lowtail_libvirt::cpus;
use lowtail_libvirt::range::WEIGHT;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::workers::Cpus;

/// Where back-end workers go, vhost and I/O threads, and what they get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// CPUs that they may run on; `None` leaves them where they are.
    pub cpus: Option<Cpus>,
    /// Whether each of them gets one of those, in turn, or all of them all.
    pub spread: bool,
    /// What each of them gets beside a thread of weight 100.
    pub weight: Option<u64>,
    /// Slice of each of them, in the fair class.
    pub slice: Option<Duration>,
}

/// Where back-end workers go, vhost and I/O threads, and what they get.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorkersFile {
    /// CPUs that they may run on, as libvirt writes lists, `0-3,^2,8`; or `all`, or `all-but-first`. Absent, they are
    /// left where they are.
    cpus: Option<String>,
    /// Whether each of them gets one of those, in turn, or all of them all; default true.
    spread: Option<bool>,
    /// What each of them gets beside a thread of weight 100. Absent, what it has.
    #[schemars(range(min = 1, max = 10_000))]
    weight: Option<u64>,
    /// Slice of each of them in the kernel's fair class, since Linux 6.12: 0.1ms to 100ms. Absent, what it has.
    slice: Option<DurationText>,
}

impl WorkersFile {
    pub(super) fn build(&self) -> Result<Workers, KeyError> {
        let cpus = self.cpus.as_deref().map(|text| {
            Ok(match text {
                "all" => Cpus::All,
                "all-but-first" => Cpus::AllButFirst,
                list => {
                    let list = cpus::Cpus::parse(list);
                    let list = list.map_err(|message| KeyError::new("cpus", message))?;
                    Cpus::These(list.iter().map(usize::from).collect())
                }
            })
        });
        if self.spread.is_some() && self.cpus.is_none() {
            return Err(KeyError::new("spread", "over which CPUs? `cpus` is missing"));
        }
        if let Some(weight) = self.weight
            && !i64::try_from(weight).is_ok_and(|weight| WEIGHT.contains(&weight))
        {
            return Err(KeyError::new(
                "weight",
                format!("weight {weight}: 1 to 10000, usual is 100"),
            ));
        }
        let slice = self.slice.map(|DurationText(slice)| match check_slice(slice) {
            Ok(()) => Ok(slice),
            Err(message) => Err(KeyError::new("slice", message)),
        });
        Ok(Workers {
            cpus: cpus.transpose()?,
            spread: self.spread.unwrap_or(true),
            weight: self.weight,
            slice: slice.transpose()?,
        })
    }
}
