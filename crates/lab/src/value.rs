//! Values of scenario files that TOML has no type for; what other files have, too, is config-text's.

use std::borrow::Cow;
use std::fmt;

use lowtail_config_text::PercentText;
use lowtail_config_text::scalar::{self, Scalar, ScalarError};
pub use lowtail_config_text::{
    BytesText, DistributionText, DurationText, LongDurationText, RateText,
};
use lowtail_engine::Duration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// How far a measured figure may be from the published one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// `"10%"`: a share of the published figure.
    Relative(f64),
    /// `"5us"`: a span.
    Duration(Duration),
    /// `0.5`: in the claim's unit.
    Absolute(f64),
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Rounded, because 0.15 * 100 is not 15 in binary.
            Tolerance::Relative(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Tolerance::Duration(span) => write!(f, "{span}"),
            Tolerance::Absolute(amount) => write!(f, "{amount}"),
        }
    }
}

impl Scalar for Tolerance {
    const EXPECTED: &'static str = "a tolerance: \"10%\", \"5us\", or a number in the claim's unit";

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        if text.trim_end().ends_with('%') {
            return Ok(Tolerance::Relative(PercentText::<1000>::parse(text)?.0 / 100.0));
        }
        Ok(Tolerance::Duration(DurationText::<1000>::parse(text)?.0))
    }

    fn from_float(amount: f64) -> Result<Self, ScalarError> {
        if amount.is_finite() && amount >= 0.0 {
            Ok(Tolerance::Absolute(amount))
        } else {
            Err(format!("a tolerance is a number of zero or more, not {amount}").into())
        }
    }

    fn from_integer(amount: i64) -> Result<Self, ScalarError> {
        Self::from_float(amount as f64)
    }
}

impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for Tolerance {
    fn schema_name() -> Cow<'static, str> {
        "Tolerance".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How far off is near enough: `10%`, `5us`, or a number in the claim's \
                            unit.",
            "oneOf": [
                { "type": "string", "pattern": r"^\s*[0-9.]+\s*(%|ps|ns|us|ms|s)\s*$" },
                { "type": "number", "minimum": 0 },
            ],
        })
    }
}
