//! What was reported of conditions that last.

use std::collections::BTreeSet;

/// What was reported and still holds. What no longer holds is forgotten, so that it is reported again when it comes back.
#[derive(Debug, Default)]
pub(crate) struct Reported(BTreeSet<String>);

impl Reported {
    /// Of all that holds now, what has not been reported.
    pub(crate) fn new_ones(&mut self, all: impl IntoIterator<Item = String>) -> Vec<String> {
        let all: BTreeSet<String> = all.into_iter().collect();
        let new = all.difference(&self.0).cloned().collect();
        self.0 = all;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_comes_back_is_said_again() {
        let mut reported = Reported::default();
        let mut say = |all: &[&str]| reported.new_ones(all.iter().map(ToString::to_string));
        assert_eq!(say(&["a", "b"]), ["a", "b"]);
        assert_eq!(say(&["a", "b", "a"]), [""; 0]);
        assert_eq!(say(&["b"]), [""; 0]);
        assert_eq!(say(&["a"]), ["a"]);
        assert_eq!(reported.0.len(), 1, "what is gone is forgotten");
    }
}
