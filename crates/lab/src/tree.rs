//! Scenario files as trees of values that remember where in the file they stand.
//!
//! A case overrides values of the tree before it is read, so that an impossible value is
//! reported where it was written: in the case that set it.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(crate) use lowtail_config_text::tree::{Node, at, decode, elements, span_at, table, table_mut};

use crate::error::SpanError;

/// Largest scenario file.
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;

/// The tree of a whole file.
pub(crate) fn parse(text: &str) -> Result<Node<'_>, SpanError> {
    lowtail_config_text::tree::parse(text, FILE_BYTES_MAX)
}

/// Keys of tables that hold one of them: setting one takes the place of another.
const ALTERNATIVES: [&str; 5] = ["think", "paced", "open", "exponential", "uniform"];

/// Puts `value` in place of what stands at `path`, making tables on the way.
pub(crate) fn set<'a>(
    node: &mut Node<'a>,
    path: &[&str],
    value: Node<'a>,
) -> Result<(), SpanError> {
    let Some((&key, rest)) = path.split_first() else {
        *node = value;
        return Ok(());
    };
    let span = value.span();
    if let DeValue::Array(array) = node.get_mut() {
        let n = array.len();
        let child = key.parse().ok().and_then(|i: usize| array.get_mut(i));
        let Some(child) = child else {
            let message = format!("`{key}` cannot be set: a list of {n}, numbered from 0");
            return Err(SpanError::new(span, message));
        };
        return set(child, rest, value);
    }
    let Some(table) = table_mut(node) else {
        return Err(SpanError::new(
            span,
            format!("`{key}` cannot be set: it is no part of a table"),
        ));
    };
    if let Some(child) = table.get_mut(key) {
        return set(child, rest, value);
    }
    let mut child = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
    if rest.is_empty() {
        child = value;
    } else {
        set(&mut child, rest, value)?;
    }
    if ALTERNATIVES.contains(&key) {
        table.clear();
    }
    table.insert(Spanned::new(span, Cow::Owned(key.to_string())), child);
    Ok(())
}

/// A variable of a case and its value.
pub(crate) type Variable<'a> = (String, Node<'a>);

/// The value of a variable as it appears within a text.
pub(crate) fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_string()),
        DeValue::Float(number) => Some(number.as_str().to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Puts the values of variables in place of `{their names}`, in keys and texts. A text
/// that is nothing but `{name}` becomes the value itself, with its type.
pub(crate) fn substitute<'a>(node: &mut Node<'a>, variables: &[Variable<'a>]) {
    match node.get_mut() {
        DeValue::String(text) if text.contains('{') => {
            let whole = variables.iter().find(|(name, _)| *text == format!("{{{name}}}"));
            let new = match whole {
                Some((_, value)) => value.get_ref().clone(),
                None => DeValue::String(Cow::Owned(filled(text, variables))),
            };
            *node.get_mut() = new;
        }
        DeValue::Array(array) => array.iter_mut().for_each(|node| substitute(node, variables)),
        DeValue::Table(table) => {
            for (key, mut value) in std::mem::take(table) {
                substitute(&mut value, variables);
                let name = Cow::Owned(filled(key.get_ref(), variables));
                table.insert(Spanned::new(key.span(), name), value);
            }
        }
        _ => {}
    }
}

/// `text` with each `{name}` replaced, in one pass: a value is not looked into again.
fn filled(text: &str, variables: &[Variable<'_>]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let known = variables.iter().find_map(|(name, value)| {
            let after = after.strip_prefix(name.as_str())?.strip_prefix('}')?;
            Some((plain(value.get_ref())?, after))
        });
        match known {
            Some((value, after)) => {
                out.push_str(&value);
                rest = after;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

/// Turns `{ kind = "x", … }` into `{ x = { … } }`, the form in which serde reads an enum
/// without losing the places of its values.
pub(crate) fn tag(node: &mut Node<'_>, what: &str, kinds: &str) -> Result<(), SpanError> {
    let span = node.span();
    let Some(table) = table_mut(node) else { return Ok(()) };
    let Some((_, kind)) = table.remove_entry("kind") else {
        return Err(SpanError::new(span, format!("{what}: `kind` is missing: {kinds}")));
    };
    let DeValue::String(name) = kind.get_ref() else {
        return Err(SpanError::new(kind.span(), format!("{what}: `kind` is a text: {kinds}")));
    };
    let key = Spanned::new(kind.span(), name.clone());
    let parameters = std::mem::take(table);
    table.insert(key, Spanned::new(span, DeValue::Table(parameters)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_replace_and_keep_their_place() {
        let mut root = parse("a = { b = 1, c = 2 }\nk = { kind = 'x', d = 1 }").unwrap();
        let text = "a = { b = 3 }\nk = { kind = 'y' }\nn = 5";
        for (key, value) in table(&parse(text).unwrap()).unwrap() {
            set(&mut root, &[key.get_ref()], value.clone()).unwrap();
        }
        assert_eq!(at(&root, &["a", "b"]).unwrap().span(), 10..11);
        assert!(at(&root, &["a", "c"]).is_none());
        assert!(at(&root, &["k", "d"]).is_none());
        let mut load = parse("load = { paced = 1 }").unwrap();
        set(&mut load, &["load", "think"], Spanned::new(0..1, DeValue::Boolean(true))).unwrap();
        assert!(at(&load, &["load", "paced"]).is_none() && at(&load, &["load", "think"]).is_some());
        let deep = Spanned::new(7..8, DeValue::Boolean(true));
        set(&mut root, &["p", "q", "r"], deep.clone()).unwrap();
        assert_eq!(span_at(&root, &["p", "q", "r"]), 7..8);
        assert!(set(&mut root, &["n", "x"], deep).is_err());
    }

    #[test]
    fn variables_keep_their_type_when_alone() {
        let mut node = parse("a = '{n}'\nb = 'x{n}y{m}'\n'k{n}' = [ '{n}' ]").unwrap();
        let variables = [("n".to_string(), Spanned::new(0..0, DeValue::Boolean(true)))];
        substitute(&mut node, &variables);
        assert_eq!(at(&node, &["a"]).unwrap().get_ref().as_bool(), Some(true));
        assert_eq!(at(&node, &["b"]).unwrap().get_ref().as_str(), Some("xtruey{m}"));
        assert_eq!(at(&node, &["ktrue", "0"]).unwrap().get_ref().as_bool(), Some(true));
    }
}
