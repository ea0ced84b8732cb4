//! The shipped JSON Schema is current, and the shipped experiments follow it.

use serde_json::Value;

const SHIPPED: &str = include_str!("../../../../schema/scenario.json");

#[test]
fn the_shipped_schema_is_current() {
    let renew = "renew it with: lowtail lab schema > schema/scenario.json";
    assert_eq!(SHIPPED, lowtail_lab::schema(), "{renew}");
}

#[test]
fn experiments_follow_the_schema() {
    let schema: Value = serde_json::from_str(SHIPPED).unwrap();
    for experiment in lowtail_lab::catalogue() {
        let table: toml::Table = experiment.text.parse().unwrap();
        let value = serde_json::to_value(table).unwrap();
        if let Err(error) = check(&value, &schema, &schema) {
            panic!("{}: {error}", experiment.name);
        }
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema: Value = serde_json::from_str(SHIPPED).unwrap();
    let refused = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        check(&serde_json::to_value(table).unwrap(), &schema, &schema).is_err()
    };
    assert!(!refused(crate::SMALL));
    assert!(!refused(crate::NET));
    for (from, to) in [
        ("pcpus = 4", "pcpu = 4"),
        ("pcpus = 4", "pcpus = 0"),
        ("\"null\"", "\"cfs\""),
        ("requests = 500", "requests = \"a\""),
        ("title = \"small\"", ""),
    ] {
        assert!(crate::SMALL.contains(from) && refused(&crate::SMALL.replace(from, to)), "{to}");
    }
    for (from, to) in [
        ("moderation = \"125us\"", "ring = 15"),
        ("[nic.eth]\ncount = 2", "[nic.eth]\ncount = 0"),
        ("\"line\"", "{ window = 0 }"),
        ("\"line\"", "\"lin\""),
        ("payload = 1400", "payload = 65001"),
        ("{ in = \"eth\" }", "{ inn = \"eth\" }"),
        ("grant_lock = \"global\"", "groups = 0"),
        ("\"net-guest\"", "\"net-guest\", queues = 65"),
    ] {
        assert!(crate::NET.contains(from) && refused(&crate::NET.replacen(from, to, 1)), "{to}");
    }
}

/// The part of JSON Schema that our schema uses, patterns excepted.
fn check(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == false { Err(format!("{value} not allowed")) } else { Ok(()) };
    };
    let branches = |list: &Value| {
        let list = list.as_array().expect("a list of schemas");
        list.iter().filter(|branch| check(value, branch, root).is_ok()).count()
    };
    for (keyword, rule) in keywords {
        let good = match keyword.as_str() {
            "$ref" => {
                let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(value, root.pointer(path).expect(path), root)?;
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
                value.as_array().into_iter().flatten().try_for_each(|x| check(x, rule, root))?;
                true
            }
            "properties" | "additionalProperties" => {
                properties(value, keywords, root)?;
                true
            }
            "$schema" | "$defs" | "title" | "description" | "default" | "format" | "pattern"
            | "minItems" | "maxItems" => true,
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
        check(value, rule, root).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(())
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
