//! Rates of links.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::number::with_unit;

/// Bits per second, written `"1Gbit/s"`; 1 kbit/s to 400 Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate(pub u64);

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate such as \"1Gbit/s\" or \"100Mbit/s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let units = [("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
        match with_unit(text, &units) {
            Some(rate) if (1e3..=400e9).contains(&rate) => Ok(Rate(rate as u64)),
            Some(_) => Err(E::custom(format!("`{text}`: 1kbit/s to 400Gbit/s"))),
            None => Err(E::custom(format!(
                "`{text}` is no rate; write a number and kbit/s, Mbit/s or Gbit/s"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(RateVisitor)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(kbit/s|Mbit/s|Gbit/s)\s*$",
            "description": "A rate with its unit, such as `1Gbit/s`; 1kbit/s to 400Gbit/s.",
        })
    }
}
