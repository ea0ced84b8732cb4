//! What is wanted of the schedulers of a Xen host.

use lowtail_config_text::scalar::{self, Scalar, ScalarError};
use lowtail_config_text::{DURATION_PATTERN, DurationText, KeyError};
use lowtail_engine::Duration;
use lowtail_xen::{RATELIMIT_US, TIMESLICE_MS};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// What is wanted of the schedulers of a Xen host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct XenWishes {
    /// The rate limit of pools with credit or credit2.
    pub ratelimit: Ratelimit,
    /// The slice of pools with credit, in ms.
    pub slice_ms: Option<u32>,
}

/// For how long nobody preempts a vCPU that has begun to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ratelimit {
    /// What comes nearest to what the policy's scheduler would do.
    #[default]
    Nearest,
    /// What it is now.
    Keep,
    /// So many us; 0 is none.
    Us(u32),
}

/// What is wanted of the schedulers of a Xen host.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct XenFile {
    /// For how long nobody preempts a vCPU that has begun to run, in pools with managed domains: `0us` for no limit, 100us to 500ms, or
    /// `keep`. Absent, `0us` where credit2 lets a wake-up wait for a slice (Xen 4.10 and later) and `scheduler` is `auto`; else what it is.
    ratelimit: Option<RatelimitFile>,
    /// The slice of pools with the scheduler credit that have managed domains: 1ms to 1s. Absent, the shortest `slice` of their domains, if any has one.
    slice: Option<DurationText>,
}

impl XenFile {
    pub(super) fn build(&self) -> Result<XenWishes, KeyError> {
        let slice_ms = self.slice.map(|DurationText(span)| {
            let ms = span.as_ps() / Duration::from_ms(1).as_ps();
            let whole = u32::try_from(ms).ok().filter(|_| span == Duration::from_ms(ms));
            whole.filter(|ms| TIMESLICE_MS.contains(ms)).ok_or_else(|| {
                KeyError::new(
                    "slice",
                    format!("slice {span}: credit takes 1ms to 1s, in whole milliseconds"),
                )
            })
        });
        let wishes = XenWishes {
            ratelimit: self.ratelimit.map_or(Ratelimit::Nearest, |file| file.0),
            slice_ms: slice_ms.transpose()?,
        };
        if let (Ratelimit::Us(us), Some(ms)) = (wishes.ratelimit, wishes.slice_ms)
            && us > ms * 1000
        {
            let message =
                format!("ratelimit {us}us is above the slice, {ms}ms: credit refuses that");
            return Err(KeyError::new("ratelimit", message));
        }
        Ok(wishes)
    }
}

/// A span, or `keep`.
#[derive(Debug, Clone, Copy)]
struct RatelimitFile(Ratelimit);

impl Scalar for RatelimitFile {
    const EXPECTED: &'static str = "a span such as \"0us\" or \"1ms\", or \"keep\"";

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        if text == "keep" {
            return Ok(RatelimitFile(Ratelimit::Keep));
        }
        let DurationText(span): DurationText = DurationText::from_text(text)?;
        let us = span.as_ns() / 1000;
        let whole = u32::try_from(us).ok().filter(|_| span == Duration::from_us(us));
        match whole.filter(|us| *us == 0 || RATELIMIT_US.contains(us)) {
            Some(us) => Ok(RatelimitFile(Ratelimit::Us(us))),
            None => Err(format!(
                "ratelimit {span}: Xen takes 100us to 500ms in whole microseconds, and 0us for none"
            )
            .into()),
        }
    }
}

impl<'de> Deserialize<'de> for RatelimitFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for RatelimitFile {
    fn schema_name() -> Cow<'static, str> {
        "Ratelimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string", "pattern": DURATION_PATTERN }, { "const": "keep" }] })
    }
}
