//! What is wanted.

use serde::Serialize;

use super::Knob;

/// What a knob shall have, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Where.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// What; it may leave open what the knob's kind says that it may.
    #[serde(rename = "desired")]
    pub to: String,
    /// In words to people.
    #[serde(rename = "reason")]
    pub why: String,
}
