//! Values of scenario files that TOML has no type for: how spans of time vary, and tolerances.

use std::borrow::Cow;
use std::fmt;

use lowtail_engine::Duration;
use lowtail_host::guest::Distribution;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use lowtail_config_text::PercentText;
use lowtail_config_text::scalar::{self, Scalar, ScalarError};
pub use lowtail_config_text::{BytesText, DurationText, LongDurationText, RateText};

/// A span of time that may vary: `"200us"`, `{ exponential = "1ms" }` (the mean) or
/// `{ uniform = ["0us", "1ms"] }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadValue(pub Distribution);

struct SpreadVisitor;

impl<'de> Visitor<'de> for SpreadVisitor {
    type Value = SpreadValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a span of time such as \"200us\", { exponential = \"1ms\" } \
             or { uniform = [\"0us\", \"1ms\"] }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let span = DurationText::<1000>::parse(text).map_err(E::custom)?;
        Ok(SpreadValue(Distribution::Fixed(span.0)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Key {
            Exponential,
            Uniform,
        }
        let spread = match map.next_key::<Key>()? {
            Some(Key::Exponential) => {
                Distribution::Exponential(map.next_value::<DurationText>()?.0)
            }
            Some(Key::Uniform) => {
                let [low, high] = map.next_value::<[DurationText; 2]>()?;
                if low > high {
                    let message =
                        format!("uniform from {} to {}: the first is longer", low.0, high.0);
                    return Err(de::Error::custom(message));
                }
                Distribution::Uniform(low.0, high.0)
            }
            None => return Err(de::Error::custom("empty: give `exponential` or `uniform`")),
        };
        if map.next_key::<Key>()?.is_some() {
            return Err(de::Error::custom("give one of `exponential` and `uniform`, not both"));
        }
        Ok(SpreadValue(spread))
    }
}

impl<'de> Deserialize<'de> for SpreadValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpreadVisitor)
    }
}

impl JsonSchema for SpreadValue {
    fn schema_name() -> Cow<'static, str> {
        "Distribution".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<DurationText>();
        json_schema!({
            "description": "A span of time that may vary.",
            "oneOf": [
                span,
                {
                    "type": "object", "additionalProperties": false, "required": ["exponential"],
                    "properties": { "exponential": span },
                },
                {
                    "type": "object", "additionalProperties": false, "required": ["uniform"],
                    "properties": {
                        "uniform": { "type": "array", "items": span, "minItems": 2, "maxItems": 2 },
                    },
                },
            ],
        })
    }
}

/// A spread of time, or `"never"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaybeSpread(pub Option<Distribution>);

impl<'de> Deserialize<'de> for MaybeSpread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Never;
        impl<'de> Visitor<'de> for Never {
            type Value = MaybeSpread;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                SpreadVisitor.expecting(f)?;
                f.write_str(", or \"never\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "never" {
                    return Ok(MaybeSpread(None));
                }
                SpreadVisitor.visit_str(text).map(|spread| MaybeSpread(Some(spread.0)))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                SpreadVisitor.visit_map(map).map(|spread| MaybeSpread(Some(spread.0)))
            }
        }
        deserializer.deserialize_any(Never)
    }
}

impl JsonSchema for MaybeSpread {
    fn schema_name() -> Cow<'static, str> {
        "MaybeSpread".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let spread = generator.subschema_for::<SpreadValue>();
        json_schema!({ "anyOf": [{ "const": "never" }, spread] })
    }
}

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
