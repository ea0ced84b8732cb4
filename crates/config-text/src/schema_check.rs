//! The part of JSON Schema that schemas of ours use, for tests that compare a schema with a reader.

use regex_lite::Regex;
use serde_json::Value;

/// Whether `value` is what `schema` describes; if not, where it is not.
///
/// # Errors
/// What does not fit.
///
/// # Panics
/// If the schema is none, or has a keyword that no schema of ours has.
pub fn check(value: &Value, schema: &Value) -> Result<(), String> {
    below(value, schema, schema)
}

fn below(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == false { Err(format!("{value} not allowed")) } else { Ok(()) };
    };
    let branches = |list: &Value| {
        let list = list.as_array().expect("a list of schemas");
        list.iter().filter(|branch| below(value, branch, root).is_ok()).count()
    };
    for (keyword, rule) in keywords {
        let good = match keyword.as_str() {
            "$ref" => {
                let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
                below(value, root.pointer(path).expect(path), root)?;
                true
            }
            "type" => is_type(value, rule),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|x| x >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|x| x <= rule.as_f64().unwrap()),
            "oneOf" => branches(rule) == 1,
            "anyOf" => branches(rule) >= 1,
            "required" => value.as_object().is_none_or(|object| {
                rule.as_array()
                    .unwrap()
                    .iter()
                    .all(|key| object.contains_key(key.as_str().unwrap()))
            }),
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|x| below(x, rule, root))?;
                true
            }
            "properties" | "additionalProperties" => {
                properties(value, keywords, root)?;
                true
            }
            "pattern" => value.as_str().is_none_or(|text| {
                let pattern = Regex::new(rule.as_str().unwrap()).expect("a pattern");
                pattern.is_match(text)
            }),
            "minLength" => value.as_str().is_none_or(|text| text.chars().count() >= count(rule)),
            "maxLength" => value.as_str().is_none_or(|text| text.chars().count() <= count(rule)),
            "minItems" => value.as_array().is_none_or(|list| list.len() >= count(rule)),
            "maxItems" => value.as_array().is_none_or(|list| list.len() <= count(rule)),
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
            other => panic!("the check does not know `{other}`"),
        };
        if !good {
            return Err(format!("{value}: {keyword} {rule}"));
        }
    }
    Ok(())
}

fn properties(
    value: &Value,
    schema: &serde_json::Map<String, Value>,
    root: &Value,
) -> Result<(), String> {
    for (key, value) in value.as_object().into_iter().flatten() {
        let known = schema.get("properties").and_then(|known| known.get(key));
        let Some(rule) = known.or_else(|| schema.get("additionalProperties")) else { continue };
        below(value, rule, root).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(())
}

fn count(rule: &Value) -> usize {
    rule.as_u64().unwrap() as usize
}

fn is_type(value: &Value, rule: &Value) -> bool {
    if let Some(list) = rule.as_array() {
        return list.iter().any(|rule| is_type(value, rule));
    }
    match rule.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => value.is_null(),
    }
}
