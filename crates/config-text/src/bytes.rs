//! Amounts of bytes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::number::with_unit;
use crate::scalar::{self, Scalar, ScalarError};

/// An amount of bytes: a number, or a text such as `"30KB"` (1 KB is 1000 bytes) or `"64KiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesText(pub u64);

/// Most bytes: a terabyte.
const BYTES_MAX: u64 = 1_000_000_000_000;

impl Scalar for BytesText {
    const EXPECTED: &'static str = "a number of bytes, or a text such as \"30KB\" or \"64KiB\"";

    fn from_integer(n: i64) -> Result<Self, ScalarError> {
        match u64::try_from(n) {
            Ok(bytes) if bytes <= BYTES_MAX => Ok(BytesText(bytes)),
            _ => Err(format!("{n} bytes: 0 to a terabyte").into()),
        }
    }

    fn from_text(text: &str) -> Result<Self, ScalarError> {
        let units = [
            ("KiB", 1024.0),
            ("MiB", 1024.0 * 1024.0),
            ("KB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("B", 1.0),
        ];
        match with_unit(text, &units) {
            Some(bytes) if bytes <= BYTES_MAX as f64 => Ok(BytesText(bytes as u64)),
            Some(_) => Err(format!("`{text}`: at most a terabyte").into()),
            None => Err(format!(
                "`{text}` is no amount of bytes; write a number and B, KB, MB, GB, KiB or MiB"
            )
            .into()),
        }
    }
}

impl<'de> Deserialize<'de> for BytesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::deserialize(deserializer)
    }
}

impl JsonSchema for BytesText {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes: a number, or a text such as `30KB` (1 KB is 1000 bytes) or `64KiB`.",
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": BYTES_MAX },
                { "type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(B|KB|MB|GB|KiB|MiB)\s*$" },
            ],
        })
    }
}
