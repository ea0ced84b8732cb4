//! Rules of nftables, as `nft --json list ruleset` prints them (libnftables-json(5)).

use serde_json::Value;

use super::survey::{Survey, known};
use crate::Name;
use crate::tool;

pub(super) fn read(survey: &mut Survey) {
    match tool::output("nft", &["--json", "list", "ruleset"]) {
        Ok(Some(text)) => match parse(&text, survey) {
            Ok(()) => {}
            Err(why) => survey.unread.push(format!("nft: {why}")),
        },
        Ok(None) => {}
        Err(why) => survey.unread.push(why),
    }
}

fn parse(text: &str, survey: &mut Survey) -> Result<(), String> {
    // serde_json itself refuses what is nested too deep for the stack.
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Some(things) = all.get("nftables").and_then(Value::as_array) else {
        return Err("it prints no list".to_string());
    };
    for rule in things.iter().filter_map(|thing| thing.get("rule")) {
        let name = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
        let (table, chain) = (name("table"), name("chain"));
        let place = format!("nft table {}, chain {}", Name::new(table), Name::new(chain));
        let who = match known(table).or_else(|| known(chain)) {
            Some(who) => format!("{who} ({place})"),
            None => place,
        };
        survey.add(&who, rule.get("expr").map_or(0, used));
    }
    Ok(())
}

/// Whether this is the packet's mark.
fn is_mark(value: &Value) -> bool {
    value.get("meta").and_then(|meta| meta.get("key")).and_then(Value::as_str) == Some("mark")
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// The two sides of an operation.
fn sides<'v>(value: &'v Value, operator: &str) -> Option<(&'v Value, &'v Value)> {
    match value.get(operator)?.as_array()?.as_slice() {
        [left, right] => Some((left, right)),
        _ => None,
    }
}

/// The bits of the mark that are looked at or set anywhere in this.
fn used(value: &Value) -> u32 {
    if let Some(mangle) = value.get("mangle")
        && mangle.get("key").is_some_and(is_mark)
    {
        let new = mangle.get("value").unwrap_or(&Value::Null);
        return !kept(new);
    }
    if is_mark(value) {
        return u32::MAX;
    }
    if let Some((left, right)) = sides(value, "&")
        && is_mark(left)
        && let Some(mask) = number(right)
    {
        return mask;
    }
    match value {
        Value::Array(all) => all.iter().map(used).fold(0, |a, b| a | b),
        Value::Object(all) => all.values().map(used).fold(0, |a, b| a | b),
        _ => 0,
    }
}

/// The bits that a new mark has of the one before, whatever that is.
fn kept(value: &Value) -> u32 {
    if is_mark(value) {
        return u32::MAX;
    }
    if let Some((left, right)) = sides(value, "&") {
        return number(right).map_or(0, |mask| kept(left) & mask);
    }
    for operator in ["|", "^"] {
        if let Some((left, right)) = sides(value, operator) {
            return number(right).map_or(0, |bits| kept(left) & !bits);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bits_of_expressions() {
        let mark = || json!({ "meta": { "key": "mark" } });
        let matched = |left| json!([{ "match": { "op": "==", "left": left, "right": 5 } }]);
        let set =
            |value| json!([{ "mangle": { "key": { "meta": { "key": "mark" } }, "value": value } }]);
        for (expression, wanted) in [
            (matched(json!({ "meta": { "key": "iifname" } })), 0),
            (matched(mark()), u32::MAX),
            (matched(json!({ "&": [mark(), 0xff00] })), 0xff00),
            (set(json!(7)), u32::MAX),
            (set(json!({ "|": [mark(), 0x4000] })), 0x4000),
            (set(json!({ "&": [mark(), 0xffff_bfffu32] })), 0x4000),
            (set(json!({ "^": [{ "&": [mark(), 0xffff_0fffu32] }, 0x10000] })), 0x1_f000),
            (set(json!({ "ct": { "key": "mark" } })), u32::MAX),
            (
                json!([{ "mangle": { "key": { "ct": { "key": "mark" } }, "value": mark() } }]),
                u32::MAX,
            ),
            (json!([{ "vmap": { "key": mark(), "data": "@m" } }]), u32::MAX),
            (json!([{ "counter": null }, 3, "mark"]), 0),
        ] {
            assert_eq!(used(&expression), wanted, "{expression}");
        }
    }

    #[test]
    fn what_is_no_ruleset() {
        for text in ["", "{}", "[]", "{\"nftables\": 3}", &"[".repeat(100_000)] {
            assert!(parse(text, &mut Survey::default()).is_err());
        }
    }
}
