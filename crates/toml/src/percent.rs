//! Shares in percent.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::number::with_unit;

/// A share, written `"12.5%"`, of at most `MAX` percent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent<const MAX: u32 = 1000>(pub f64);

impl<const MAX: u32> Percent<MAX> {
    /// The share that `text` is, for readers of values that may be one.
    ///
    /// # Errors
    /// If it is none, or too large.
    pub fn parse<E: de::Error>(text: &str) -> Result<Self, E> {
        match with_unit(text, &[("%", 1.0)]) {
            Some(percent) if percent <= f64::from(MAX) => Ok(Percent(percent)),
            Some(_) => Err(E::custom(format!("`{text}`: 0% to {MAX}%"))),
            None => Err(E::custom(format!("`{text}` is no share; write a number and %"))),
        }
    }
}

struct PercentVisitor<const MAX: u32>;

impl<const MAX: u32> Visitor<'_> for PercentVisitor<MAX> {
    type Value = Percent<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share such as \"50%\" or \"12.5%\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Percent::parse(text)
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for Percent<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(PercentVisitor)
    }
}

impl<const MAX: u32> JsonSchema for Percent<MAX> {
    fn schema_name() -> Cow<'static, str> {
        if MAX == 1000 { "Percent".into() } else { format!("PercentUpTo{MAX}").into() }
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$",
            "description": format!("A share such as `50%` or `12.5%`; at most {MAX}%."),
        })
    }
}
