//! serde's messages in this project's words.

use crate::name::nearest;

/// What serde says, in the words of this project.
pub(crate) fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let Some((&word, known)) = quoted.split_first() {
        let what = [("unknown field", "key"), ("unknown variant", "value")];
        if let Some((_, what)) = what.iter().find(|(start, _)| message.starts_with(start)) {
            let hint = match nearest(word, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "nothing can be set here".to_string(),
                None => format!("known here: {}", known.join(", ")),
            };
            return format!("unknown {what} `{word}`; {hint}");
        }
        if message.starts_with("missing field") {
            return format!("`{word}` is missing");
        }
    }
    let types = [
        ("expected u16", "expected a whole number from 0 to 65535"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number of zero or more"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list in [ ]"),
        ("expected a map", "expected a table"),
    ];
    let mut message = message.to_string();
    for (rust, words) in types {
        if message.ends_with(rust) {
            message = message.replace(rust, words);
        }
    }
    if message.starts_with("wanted exactly 1 element") {
        return "give exactly one key, which says what it is".to_string();
    }
    if let Some(at) = message.find("expected struct ") {
        message.replace_range(at.., "expected a table");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_would_be_right() {
        let known = "unknown field `vpus`, expected one of `vcpus`, `weight`";
        assert_eq!(explain(known), "unknown key `vpus`; did you mean `vcpus`?");
        let far = "unknown variant `zz`, expected `us` or `ms`";
        assert_eq!(explain(far), "unknown value `zz`; known here: us, ms");
        assert_eq!(explain("missing field `kind`"), "`kind` is missing");
    }
}
