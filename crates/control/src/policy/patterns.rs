//! Patterns of names.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// One of these fits: texts in which `*` stands for any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Patterns(Vec<String>);

impl Patterns {
    /// Whether one of them fits all of `text`.
    pub(super) fn fit(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, text))
    }
}

/// Whether `pattern`, in which `*` stands for any characters or none, fits all of `text`.
// Each part between two asterisks is taken where it comes first; that leaves most room for the others.
pub fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (between, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in between.split('*') {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

struct PatternsVisitor;

impl<'de> Visitor<'de> for PatternsVisitor {
    type Value = Patterns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pattern such as \"web-*\", or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.is_empty() {
            return Err(E::custom("an empty pattern fits nothing; `*` fits all"));
        }
        Ok(Patterns(vec![text.to_string()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut patterns = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            patterns.extend(PatternsVisitor.visit_str(&text)?.0);
        }
        if patterns.is_empty() {
            return Err(de::Error::custom("an empty list fits nothing; `*` fits all"));
        }
        Ok(Patterns(patterns))
    }
}

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PatternsVisitor)
    }
}

impl JsonSchema for Patterns {
    fn schema_name() -> Cow<'static, str> {
        "Patterns".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A pattern, in which `*` stands for any characters, or a list of them of which one has to fit.",
            "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asterisks_stand_for_anything() {
        for (pattern, text, wanted) in [
            ("web", "web", true),
            ("web", "web1", false),
            ("web*", "web", true),
            ("*web", "my-web", true),
            ("*web", "my-webs", false),
            ("w*b", "wb", true),
            ("w*b", "w", false),
            // What stands before and behind may not be the same character.
            ("a*a", "a", false),
            ("*a*b*", "xxbaxb", true),
            ("*a*b*", "xxba", false),
            ("**", "", true),
            ("*é*", "café!", true),
            ("a*b*c", "abbc", true),
            ("a*bc*c", "abc", false),
        ] {
            assert_eq!(fits(pattern, text), wanted, "{pattern} {text}");
        }
    }
}
