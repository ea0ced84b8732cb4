//! Names that others have chosen, guests among them.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// A name that is data: never part of a path, and never printed as it is.
///
/// [`Display`] gives what a terminal can show without obeying it: control characters, bidirectional
/// marks and the like are written as `\u{..}`, as is a backslash that would read as one. JSON has the name itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    /// A name from anywhere.
    pub fn new(name: impl Into<String>) -> Self {
        Name(name.into())
    }

    /// As it was given, for comparing and for JSON.
    pub fn as_given(&self) -> &str {
        &self.0
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&lowtail_out::name(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_does_not_reach_the_terminal_as_it_is() {
        assert_eq!(Name::new("web-1").to_string(), "web-1");
        assert_eq!(Name::new("a\x1b[2Jb\n").to_string(), "a\\u{1b}[2Jb\\u{a}");
        assert_eq!(Name::new("\u{202e}gnp").to_string(), "\\u{202e}gnp");
        assert_eq!(Name::new("a\\u{1b}").to_string(), "a\\u{5c}u{1b}");
    }
}
