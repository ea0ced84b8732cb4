//! Spans of time.

use std::borrow::Cow;
use std::fmt;

use lowtail_engine::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A span of time, written `"1000us"`, of at most `MAX_S` seconds.
///
/// The limit keeps every sum that a run can form far from the end of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span<const MAX_S: u64 = 1000>(pub Duration);

/// A day, for the length of whole runs.
pub type LongSpan = Span<86_400>;

impl<const MAX_S: u64> Span<MAX_S> {
    /// The span that `text` is, for readers of values that may be one.
    ///
    /// # Errors
    /// If it is none, or too long.
    pub fn parse<E: de::Error>(text: &str) -> Result<Self, E> {
        let span: Duration = text.parse().map_err(E::custom)?;
        if span > Duration::from_s(MAX_S) {
            return Err(E::custom(format!("`{text}` is too long: at most {MAX_S}s here")));
        }
        Ok(Span(span))
    }
}

struct SpanVisitor<const MAX_S: u64>;

impl<const MAX_S: u64> Visitor<'_> for SpanVisitor<MAX_S> {
    type Value = Span<MAX_S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a span of time such as \"1000us\" or \"2.5ms\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Span::parse(text)
    }
}

impl<'de, const MAX_S: u64> Deserialize<'de> for Span<MAX_S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SpanVisitor)
    }
}

/// What a span of time looks like, for schemas.
pub const SPAN_PATTERN: &str = r"^\s*[0-9]+(\.[0-9]{1,12})?\s*(ps|ns|us|ms|s)\s*$";

impl<const MAX_S: u64> JsonSchema for Span<MAX_S> {
    fn schema_name() -> Cow<'static, str> {
        if MAX_S == 1000 { "Span".into() } else { format!("SpanUpTo{MAX_S}s").into() }
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": SPAN_PATTERN,
            "description": format!("A span of time with its unit, such as `1000us` or `2.5ms`; at most \
                                    {MAX_S}s."),
        })
    }
}
