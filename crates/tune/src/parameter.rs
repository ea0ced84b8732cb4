//! A parameter of a problem: a key, and the values that it may have.

/// A parameter. Its values are a list, so that each is one that people would write, and none is simulated twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// What it is called where changes are told in short, such as `batch weight`.
    pub name: String,
    /// Its values as they are written, in order; that there is none is no value.
    pub levels: Vec<String>,
    /// Whether neighbours in the list are like each other.
    pub ordered: bool,
}

impl Parameter {
    /// One whose values are in order: those in between are in between.
    pub fn ordered(name: &str, levels: impl IntoIterator<Item = String>) -> Self {
        Parameter { name: name.to_owned(), levels: levels.into_iter().collect(), ordered: true }
    }

    /// One that is one of these, or is not said.
    pub fn choice(name: &str, levels: &[&str]) -> Self {
        let levels = levels.iter().map(|&level| level.to_owned()).collect();
        Parameter { name: name.to_owned(), levels, ordered: false }
    }
}
