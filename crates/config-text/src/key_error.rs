//! What is wrong with a value that has been read.

use crate::error::SpanError;
use crate::tree::{self, Node};

/// Something wrong with the value at a path of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    /// The keys that lead to it; elements of lists are named by their number.
    pub path: Vec<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl KeyError {
    /// One with the value of `key`.
    pub fn new(key: &str, message: impl Into<String>) -> Self {
        KeyError { path: vec![key.to_string()], message: message.into() }
    }

    /// The same, seen from further up.
    pub fn under(mut self, prefix: &[&str]) -> Self {
        self.path.splice(0..0, prefix.iter().map(|key| key.to_string()));
        self
    }

    /// The same at its place in the tree `root`, or at what there is of the path.
    pub fn within(self, root: &Node<'_>) -> SpanError {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        SpanError::new(tree::span_at(root, &path), self.message)
    }
}
