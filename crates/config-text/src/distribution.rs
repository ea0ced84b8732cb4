//! Durations that may vary.

use std::borrow::Cow;
use std::fmt;

use lowtail_engine::Distribution;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::duration::DurationText;

/// A duration that may vary: `"200us"`, `{ exponential = "1ms" }` (the mean) or
/// `{ uniform = ["0us", "1ms"] }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DistributionText(pub Distribution);

struct DistributionVisitor;

impl<'de> Visitor<'de> for DistributionVisitor {
    type Value = DistributionText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a span of time such as \"200us\", { exponential = \"1ms\" } \
             or { uniform = [\"0us\", \"1ms\"] }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let span = DurationText::<1000>::parse(text).map_err(E::custom)?;
        Ok(DistributionText(Distribution::Fixed(span.0)))
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
        Ok(DistributionText(spread))
    }
}

impl<'de> Deserialize<'de> for DistributionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DistributionVisitor)
    }
}

impl JsonSchema for DistributionText {
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
                    "description": "Exponential with this mean.",
                    "type": "object", "additionalProperties": false, "required": ["exponential"],
                    "properties": { "exponential": span },
                },
                {
                    "description": "Uniform from the first to the second.",
                    "type": "object", "additionalProperties": false, "required": ["uniform"],
                    "properties": {
                        "uniform": { "type": "array", "items": span, "minItems": 2, "maxItems": 2 },
                    },
                },
            ],
        })
    }
}

/// A duration that may vary, or `"never"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaybeDistributionText(pub Option<Distribution>);

impl<'de> Deserialize<'de> for MaybeDistributionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MaybeVisitor;
        impl<'de> Visitor<'de> for MaybeVisitor {
            type Value = MaybeDistributionText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                DistributionVisitor.expecting(f)?;
                f.write_str(", or \"never\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "never" {
                    return Ok(MaybeDistributionText(None));
                }
                DistributionVisitor
                    .visit_str(text)
                    .map(|spread| MaybeDistributionText(Some(spread.0)))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                DistributionVisitor
                    .visit_map(map)
                    .map(|spread| MaybeDistributionText(Some(spread.0)))
            }
        }
        deserializer.deserialize_any(MaybeVisitor)
    }
}

impl JsonSchema for MaybeDistributionText {
    fn schema_name() -> Cow<'static, str> {
        "MaybeSpread".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let spread = generator.subschema_for::<DistributionText>();
        json_schema!({ "anyOf": [{ "const": "never" }, spread] })
    }
}
