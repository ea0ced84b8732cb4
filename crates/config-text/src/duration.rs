//! Durations.

use std::borrow::Cow;

use lowtail_engine::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::scalar::{self, Scalar, ScalarError};

/// A duration, written `"1000us"`, of at most `MAX_S` seconds.
///
/// The limit keeps every sum that a run can form far from the end of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationText<const MAX_S: u64 = 1000>(pub Duration);

/// At most a day, for the length of whole runs.
pub type LongDurationText = DurationText<86_400>;

impl<const MAX_S: u64> DurationText<MAX_S> {
    /// The duration that `text` stands for.
    ///
    /// # Errors
    /// If it is none, or too long.
    pub fn parse(text: &str) -> Result<Self, String> {
        let duration = text.parse::<Duration>().map_err(|error| error.to_string())?;
        if duration > Duration::from_s(MAX_S) {
            return Err(format!("`{text}` is too long: at most {MAX_S}s here"));
        }
        Ok(DurationText(duration))
    }
}

impl<const MAX_S: u64> From<DurationText<MAX_S>> for Duration {
    fn from(text: DurationText<MAX_S>) -> Self {
        text.0
    }
}

impl<const MAX_S: u64> Scalar for DurationText<MAX_S> {
    const EXPECTED: &'static str = "a span of time such as \"1000us\" or \"2.5ms\"";

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        Ok(Self::parse(text)?)
    }
}

impl<'de, const MAX_S: u64> Deserialize<'de> for DurationText<MAX_S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

/// What a duration looks like, for schemas.
pub const DURATION_PATTERN: &str = r"^\s*[0-9]+(\.[0-9]{1,12})?\s*(ps|ns|us|ms|s)\s*$";

impl<const MAX_S: u64> JsonSchema for DurationText<MAX_S> {
    fn schema_name() -> Cow<'static, str> {
        if MAX_S == 1000 { "Span".into() } else { format!("SpanUpTo{MAX_S}s").into() }
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": DURATION_PATTERN,
            "description": format!("A span of time with its unit, such as `1000us` or `2.5ms`; at most \
                                    {MAX_S}s."),
        })
    }
}
