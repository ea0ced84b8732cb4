//! Times as libvirt writes them, and limits made of them.

use std::borrow::Cow;

use lowtail_config_text::DURATION_PATTERN;
use lowtail_config_text::scalar::{self, Scalar, ScalarError};
use lowtail_engine::Duration;
use lowtail_host::cgroup::Limit;
use lowtail_libvirt::range;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::error::KeyError;

/// More than any group can use of a period: 128 pCPUs for a second are less. Larger quotas are as
/// good as this one, and sums of them stay on the clock.
const QUOTA_MOST: Duration = Duration::from_s(1000);

/// A number of microseconds as in libvirt's XML, or a span of time with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Micros(pub i64);

impl Scalar for Micros {
    const EXPECTED: &'static str =
        "a whole number of microseconds, or a span of time such as \"100ms\"";

    fn from_integer(us: i64) -> Result<Self, ScalarError> {
        Ok(Micros(us))
    }

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        let duration = text.parse::<Duration>().map_err(|error| error.to_string())?;
        if !duration.as_ps().is_multiple_of(1_000_000) {
            return Err(format!("`{text}`: whole microseconds here").into());
        }
        Ok(Micros((duration.as_ps() / 1_000_000) as i64))
    }
}

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for Micros {
    fn schema_name() -> Cow<'static, str> {
        "Micros".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Microseconds as a whole number, or a span such as `100ms`.",
            "anyOf": [
                { "type": "integer" },
                { "type": "string", "pattern": DURATION_PATTERN },
            ],
        })
    }
}

/// A limit as a file writes it, with the names that its parts have there.
pub(crate) struct LimitFile<'a> {
    pub(crate) quota: (&'a str, Option<Micros>),
    pub(crate) period: (&'a str, Option<Micros>),
    pub(crate) burst: (&'a str, Option<Micros>),
}

impl LimitFile<'_> {
    /// The limit, if there is one. A period alone is none; without a period it is the kernel's.
    pub(crate) fn build(&self) -> Result<Option<Limit>, KeyError> {
        let (key, period) = self.period;
        let period = period.map_or(Ok(None), |us| range::period(key, us.0));
        let period = period.map_err(|message| KeyError::new(key, message))?;
        let (key, quota) = self.quota;
        let quota = quota.map_or(Ok(None), |us| range::quota(key, us.0));
        let quota = quota.map_err(|message| KeyError::new(key, message))?;
        let (burst_key, burst) = self.burst;
        let bad = |message: String| Err(KeyError::new(burst_key, message));
        let Some(quota) = quota else {
            return match burst {
                None => Ok(None),
                Some(_) => bad(format!("{burst_key} of what? `{key}` is no limit")),
            };
        };
        let burst = burst.map_or(0, |us| us.0);
        if !(0..=quota).contains(&burst) {
            return bad(format!(
                "{burst_key} {burst}: the kernel takes 0 to the quota, {quota} microseconds"
            ));
        }
        let span = |us: i64| Duration::from_us(us as u64).min(QUOTA_MOST);
        let period = period.unwrap_or(range::PERIOD_USUAL_US);
        Ok(Some(Limit { quota: span(quota), period: span(period), burst: span(burst) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(
        quota: i64,
        period: Option<i64>,
        burst: Option<i64>,
    ) -> Result<Option<Limit>, KeyError> {
        let part = |key, us: Option<i64>| (key, us.map(Micros));
        LimitFile {
            quota: part("quota", Some(quota)),
            period: part("period", period),
            burst: part("vcpu_burst", burst),
        }
        .build()
    }

    #[test]
    fn a_limit_needs_a_quota_and_has_the_kernels_period() {
        let ms = Duration::from_ms;
        let half = Limit { quota: ms(50), period: ms(100), burst: Duration::ZERO };
        assert_eq!(limit(50_000, None, None), Ok(Some(half)));
        // 0 is no value at all: as if it were absent.
        assert_eq!(limit(50_000, Some(0), Some(0)), Ok(Some(half)));
        assert_eq!(limit(-1, Some(10_000), None), Ok(None));
        assert_eq!(limit(0, Some(10_000), None), Ok(None));
        assert!(limit(-1, None, Some(1)).unwrap_err().message.contains("`quota` is no limit"));
        assert!(
            limit(50_000, None, Some(50_001)).is_err() && limit(50_000, None, Some(-1)).is_err()
        );
        // The largest that libvirt takes is more than the clock can add up often.
        let large = limit(17_592_186_044_415, None, None).unwrap().unwrap();
        assert_eq!(large.quota, QUOTA_MOST);
    }
}
