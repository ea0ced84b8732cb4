//! Limits on run time.

use std::borrow::Cow;
use std::fmt;

use lowtail_config_text::{DurationText, KeyError, PercentText};
use lowtail_engine::Duration;
use lowtail_host::cgroup::Limit;
use lowtail_libvirt::range::{PERIOD_US, PERIOD_USUAL_US, QUOTA_US};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// 4096 CPUs: no hypervisor here has more vCPUs (`KVM_MAX_VCPU_IDS` of x86).
const PERCENT_MAX: u32 = 409_600;

/// A limit on run time that somebody asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// None.
    Unlimited,
    /// So much in a period.
    Limited(Limit),
}

impl Cap {
    /// In percent of a CPU; `None` if it is no limit.
    pub fn percent(&self) -> Option<f64> {
        match self {
            Cap::Unlimited => None,
            Cap::Limited(limit) => {
                Some(limit.quota.as_ps() as f64 / limit.period.as_ps() as f64 * 100.0)
            }
        }
    }
}

/// A limit as the file has it: `"150%"`, `{ quota = "15ms", period = "10ms" }` or `"none"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CapFile {
    None,
    Percent(PercentText<PERCENT_MAX>),
    Quota(QuotaFile),
}

/// Run time in a period.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaFile {
    /// Run time of all threads together in each period: 1ms or more.
    quota: DurationText,
    /// From one refill to the next: 1ms to 1s.
    #[serde(default = "usual_period")]
    period: DurationText,
    /// Unused run time that is kept for later, up to the quota.
    burst: Option<DurationText>,
}

/// The kernel's.
fn usual_period() -> DurationText {
    DurationText(Duration::from_us(PERIOD_USUAL_US.unsigned_abs()))
}

impl CapFile {
    /// The limit called `key`.
    pub(super) fn build(&self, key: &str) -> Result<Cap, KeyError> {
        let bad = |part: &str, message: String| {
            let bad = KeyError::new(part, message);
            Err(if part == key { bad } else { bad.under(&[key]) })
        };
        match *self {
            CapFile::None => Ok(Cap::Unlimited),
            CapFile::Percent(PercentText(percent)) => {
                let quota_us = (percent / 100.0 * PERIOD_USUAL_US as f64).round() as i64;
                if !QUOTA_US.contains(&quota_us) {
                    return bad(key, format!("{percent}% of a CPU: the kernel takes 1% or more"));
                }
                let quota = Duration::from_us(quota_us.unsigned_abs());
                let DurationText(period) = usual_period();
                Ok(Cap::Limited(Limit { quota, period, burst: Duration::ZERO }))
            }
            CapFile::Quota(QuotaFile { quota, period, burst }) => {
                let burst = burst.map_or(Duration::ZERO, |span| span.0);
                let parts = [("quota", quota.0), ("period", period.0), ("burst", burst)];
                let odd = parts.iter().find(|(_, span)| !span.as_ps().is_multiple_of(1_000_000));
                if let Some((part, span)) = odd {
                    return bad(part, format!("{part} {span}: whole microseconds here"));
                }
                let us = |span: Duration| (span.as_ns() / 1000) as i64;
                if !PERIOD_US.contains(&us(period.0)) {
                    return bad(
                        "period",
                        format!("period {}: the kernel takes 1ms to 1s", period.0),
                    );
                }
                if !QUOTA_US.contains(&us(quota.0)) {
                    return bad(
                        "quota",
                        format!("quota {}: the kernel takes 1ms or more", quota.0),
                    );
                }
                if burst > quota.0 {
                    let most = quota.0;
                    return bad("burst", format!("burst {burst}: at most the quota, {most}"));
                }
                Ok(Cap::Limited(Limit { quota: quota.0, period: period.0, burst }))
            }
        }
    }
}

struct CapVisitor;

impl<'de> Visitor<'de> for CapVisitor {
    type Value = CapFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share of a CPU such as \"150%\", { quota = \"15ms\", period = \"10ms\" } or \"none\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "none" => Ok(CapFile::None),
            _ => PercentText::parse(text).map(CapFile::Percent).map_err(E::custom),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        QuotaFile::deserialize(MapAccessDeserializer::new(map)).map(CapFile::Quota)
    }
}

impl<'de> Deserialize<'de> for CapFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CapVisitor)
    }
}

impl JsonSchema for CapFile {
    fn schema_name() -> Cow<'static, str> {
        "Cap".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let percent = generator.subschema_for::<PercentText<PERCENT_MAX>>();
        let quota = generator.subschema_for::<QuotaFile>();
        json_schema!({
            "description": "A limit on run time: a share of a CPU, a quota in a period, or `none`.",
            "anyOf": [{ "const": "none" }, percent, quota],
        })
    }
}
