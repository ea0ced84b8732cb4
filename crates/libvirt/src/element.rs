//! Elements of XML: the children of an element, its text, its attributes, and what is wrong with it.

use std::fmt::Display;

use roxmltree::Node;

use crate::error::XmlError;
use crate::name::shown;

/// What is wrong with `node`; the message begins with the element's name.
pub(crate) fn fault(node: Node<'_, '_>, message: impl Display) -> XmlError {
    XmlError::new(node.range().start, format!("<{}>: {message}", node.tag_name().name()))
}

/// The number in attribute `key` of `node`.
pub(crate) fn attribute(node: Node<'_, '_>, key: &str) -> Result<u32, XmlError> {
    let Some(value) = node.attribute(key) else {
        return Err(fault(node, format!("`{key}` is missing, a number")));
    };
    let n = number(value).map_err(|message| fault(node, format!("{key}: {message}")))?;
    u32::try_from(n).map_err(|_| fault(node, format!("{key} {n}: a number from 0 to {}", u32::MAX)))
}

/// The elements called `name` in `node`.
pub(crate) fn elements<'a, 'i: 'a>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// The text in `node`, comments and what is around it left out.
pub(crate) fn text(node: Node<'_, '_>) -> String {
    let pieces = node.children().filter(Node::is_text).filter_map(|piece| piece.text());
    pieces.collect::<String>().trim().to_string()
}

/// A whole number.
pub(crate) fn number(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("`{}` is no whole number", shown(text)))
}
