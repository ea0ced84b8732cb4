//! Shares in percent.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::number::with_unit;
use crate::scalar::{self, Scalar, ScalarError};

/// A share, written `"12.5%"`, of at most `MAX` percent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct PercentText<const MAX: u32 = 1000>(pub f64);

impl<const MAX: u32> PercentText<MAX> {
    /// The share that `text` stands for.
    ///
    /// # Errors
    /// If it is none, or too large.
    pub fn parse(text: &str) -> Result<Self, String> {
        match with_unit(text, &[("%", 1.0)]) {
            Some(percent) if percent <= f64::from(MAX) => Ok(PercentText(percent)),
            Some(_) => Err(format!("`{text}`: 0% to {MAX}%")),
            None => Err(format!("`{text}` is no share; write a number and %")),
        }
    }
}

impl<const MAX: u32> Scalar for PercentText<MAX> {
    const EXPECTED: &'static str = "a share such as \"50%\" or \"12.5%\"";

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        Ok(Self::parse(text)?)
    }
}

impl<'de, const MAX: u32> Deserialize<'de> for PercentText<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl<const MAX: u32> JsonSchema for PercentText<MAX> {
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
