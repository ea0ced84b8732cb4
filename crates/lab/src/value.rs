//! Values of scenario files that TOML has no type for: spans of time, how they vary,
//! and tolerances.

use std::borrow::Cow;
use std::fmt;

use lowtail_engine::Duration;
use lowtail_host::guest::Spread;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// A span of time, written `"1000us"`, of at most `MAX_S` seconds.
///
/// The limit keeps every sum that a run can form far from the end of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span<const MAX_S: u64 = 1000>(pub Duration);

/// A day, for the length of whole runs.
pub type LongSpan = Span<86_400>;

impl<const MAX_S: u64> Span<MAX_S> {
    fn parse<E: de::Error>(text: &str) -> Result<Self, E> {
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

const SPAN_PATTERN: &str = r"^\s*[0-9]+(\.[0-9]{1,12})?\s*(ps|ns|us|ms|s)\s*$";

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

/// A span of time that may vary: `"200us"`, `{ exponential = "1ms" }` (the mean) or
/// `{ uniform = ["0us", "1ms"] }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpreadValue(pub Spread);

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
        Span::<1000>::parse(text).map(|span| SpreadValue(Spread::Fixed(span.0)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Key {
            Exponential,
            Uniform,
        }
        let spread = match map.next_key::<Key>()? {
            Some(Key::Exponential) => Spread::Exponential(map.next_value::<Span>()?.0),
            Some(Key::Uniform) => {
                let [low, high] = map.next_value::<[Span; 2]>()?;
                if low > high {
                    let message =
                        format!("uniform from {} to {}: the first is longer", low.0, high.0);
                    return Err(de::Error::custom(message));
                }
                Spread::Uniform(low.0, high.0)
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
        "Spread".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<Span>();
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
        let rate = units.iter().find_map(|(unit, factor)| {
            let number = text.trim().strip_suffix(unit)?.trim_end();
            let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            Some(number.parse::<f64>().ok().filter(|_| plain)? * factor)
        });
        match rate {
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
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("KB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("B", 1),
        ];
        let bytes = units.iter().find_map(|(unit, factor)| {
            let number = text.trim().strip_suffix(unit)?.trim_end();
            let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            Some(number.parse::<f64>().ok().filter(|_| plain)? * f64::from(*factor))
        });
        match bytes {
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

/// A spread of time, or `"never"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaybeSpread(pub Option<Spread>);

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
    Span(Duration),
    /// `0.5`: in the claim's unit.
    Absolute(f64),
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Rounded, because 0.15 * 100 is not 15 in binary.
            Tolerance::Relative(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Tolerance::Span(span) => write!(f, "{span}"),
            Tolerance::Absolute(amount) => write!(f, "{amount}"),
        }
    }
}

struct ToleranceVisitor;

impl Visitor<'_> for ToleranceVisitor {
    type Value = Tolerance;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tolerance: \"10%\", \"5us\", or a number in the claim's unit")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if let Some(percent) = text.trim().strip_suffix('%') {
            let percent: Option<f64> = percent.trim_end().parse().ok();
            return percent
                .filter(|p| (0.0..=1000.0).contains(p))
                .map(|p| Tolerance::Relative(p / 100.0))
                .ok_or_else(|| E::custom(format!("`{text}`: 0% to 1000%")));
        }
        Span::<1000>::parse(text).map(|span| Tolerance::Span(span.0))
    }

    fn visit_f64<E: de::Error>(self, amount: f64) -> Result<Self::Value, E> {
        if amount.is_finite() && amount >= 0.0 {
            Ok(Tolerance::Absolute(amount))
        } else {
            Err(E::custom(format!("a tolerance is a number of zero or more, not {amount}")))
        }
    }

    fn visit_i64<E: de::Error>(self, amount: i64) -> Result<Self::Value, E> {
        self.visit_f64(amount as f64)
    }
}

impl<'de> Deserialize<'de> for Tolerance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ToleranceVisitor)
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
