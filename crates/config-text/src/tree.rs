//! Files as trees of values that remember where in the file they stand.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::SpanError;
use crate::explain::explain;

/// A value and where it stands.
pub type Node<'a> = Spanned<DeValue<'a>>;

/// The tree of a whole file of at most `bytes_max` bytes.
///
/// # Errors
/// If it is larger, or no TOML.
pub fn parse(text: &str, bytes_max: usize) -> Result<Node<'_>, SpanError> {
    if text.len() > bytes_max {
        return Err(SpanError::new(0..0, format!("larger than {} MiB", bytes_max >> 20)));
    }
    let root = DeTable::parse(text).map_err(|error| fault(&error))?;
    let span = root.span();
    Ok(Spanned::new(span, DeValue::Table(root.into_inner())))
}

/// Reads a value of type `T` out of a tree.
///
/// # Errors
/// What does not fit, and where.
pub fn decode<T: DeserializeOwned>(node: Node<'_>) -> Result<T, SpanError> {
    T::deserialize(ValueDeserializer::from(node)).map_err(|error| fault(&error))
}

fn fault(error: &toml::de::Error) -> SpanError {
    SpanError::new(error.span().unwrap_or(0..0), explain(error.message()))
}

/// The table in `node`, if it is one.
pub fn table<'n, 'a>(node: &'n Node<'a>) -> Option<&'n DeTable<'a>> {
    node.get_ref().as_table()
}

/// The table in `node`, to change.
pub fn table_mut<'n, 'a>(node: &'n mut Node<'a>) -> Option<&'n mut DeTable<'a>> {
    match node.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// The elements of the array in `node`; none if it is not one.
pub fn elements<'n, 'a>(node: Option<&'n Node<'a>>) -> &'n [Node<'a>] {
    node.and_then(|node| node.get_ref().as_array()).map_or(&[], |array| array)
}

/// What stands at `path`; array elements are named by their number.
pub fn at<'n, 'a>(root: &'n Node<'a>, path: &[&str]) -> Option<&'n Node<'a>> {
    path.iter().try_fold(root, |node, key| match node.get_ref() {
        DeValue::Table(table) => table.get(*key),
        DeValue::Array(array) => array.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Where the value at `path` stands, or what of the path there is.
pub fn span_at(root: &Node<'_>, path: &[&str]) -> Range<usize> {
    (0..=path.len()).rev().find_map(|n| at(root, &path[..n])).map_or(0..0, Spanned::span)
}
