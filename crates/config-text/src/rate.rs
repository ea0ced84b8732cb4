//! Rates of links.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::number::with_unit;
use crate::scalar::{self, Scalar, ScalarError};

/// Bits per second, written `"1Gbit/s"`; 1 kbit/s to 400 Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateText(pub u64);

impl Scalar for RateText {
    const EXPECTED: &'static str = "a rate such as \"1Gbit/s\" or \"100Mbit/s\"";

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        let units = [("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
        match with_unit(text, &units) {
            Some(rate) if (1e3..=400e9).contains(&rate) => Ok(RateText(rate as u64)),
            Some(_) => Err(format!("`{text}`: 1kbit/s to 400Gbit/s").into()),
            None => {
                Err(format!("`{text}` is no rate; write a number and kbit/s, Mbit/s or Gbit/s")
                    .into())
            }
        }
    }
}

impl<'de> Deserialize<'de> for RateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for RateText {
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
