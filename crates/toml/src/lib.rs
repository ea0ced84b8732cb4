//! What files in TOML need beyond serde: errors with file, line, column and what would be right, and values with
//! units. Scenario files and policy files are read with it.
//!
//! A text becomes a [`tree`] that keeps the place of each value, and that a value of a type of serde's; what is wrong
//! with either is a [`Fault`], which [`Fault::locate`] turns into words to people.

mod bytes;
#[cfg(feature = "damage")]
mod damage;
mod explain;
mod fault;
mod file;
mod name;
mod number;
mod percent;
mod rate;
#[cfg(feature = "schema-check")]
pub mod schema_check;
mod small_first;
mod span;
pub mod tree;

pub use bytes::Bytes;
#[cfg(feature = "damage")]
pub use damage::damage;
pub use fault::{Bad, Fault, Located};
pub use file::{Unreadable, read};
pub use lowtail_policy::Params;
pub use name::{hint, nearest};
pub use percent::Percent;
pub use rate::Rate;
pub use span::{LongSpan, SPAN_PATTERN, Span};
