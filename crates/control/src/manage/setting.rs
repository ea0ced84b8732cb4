//! What is wanted.

use serde::Serialize;

use super::Place;

/// What a place shall have, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Where.
    pub place: Place,
    /// What; it may leave open what the place's kind says that it may.
    pub to: String,
    /// In words to people.
    pub why: String,
}
