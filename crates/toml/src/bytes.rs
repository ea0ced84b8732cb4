//! Amounts of bytes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::number::with_unit;

/// An amount of bytes: a number, or a text such as `"30KB"` (1 KB is 1000 bytes) or `"64KiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Most bytes: a terabyte.
const BYTES_MAX: u64 = 1_000_000_000_000;

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, or a text such as \"30KB\" or \"64KiB\"")
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Self::Value, E> {
        u64::try_from(n)
            .ok()
            .filter(|&n| n <= BYTES_MAX)
            .map(Bytes)
            .ok_or_else(|| E::custom(format!("{n} bytes: 0 to a terabyte")))
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Self::Value, E> {
        self.visit_i64(n.min(i64::MAX as u64) as i64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let units = [
            ("KiB", 1024.0),
            ("MiB", 1024.0 * 1024.0),
            ("KB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("B", 1.0),
        ];
        match with_unit(text, &units) {
            Some(bytes) if bytes <= BYTES_MAX as f64 => Ok(Bytes(bytes as u64)),
            Some(_) => Err(E::custom(format!("`{text}`: at most a terabyte"))),
            None => Err(E::custom(format!(
                "`{text}` is no amount of bytes; write a number and B, KB, MB, GB, KiB or MiB"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

impl JsonSchema for Bytes {
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
