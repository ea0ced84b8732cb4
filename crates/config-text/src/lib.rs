//! What files in TOML need beyond serde: errors with file, line, column and what would be right, and values with
//! units. Scenario files and policy files are read with it.
//!
//! A text becomes a [`tree`] that keeps the place of each value, and that a value of a type of serde's. What is wrong
//! with either is a [`SpanError`]; [`SpanError::locate`] makes a [`LocatedError`] of it, with file, line and column. What is
//! wrong with a value after it was read is a [`KeyError`], at a path of keys.

mod bytes;
#[cfg(feature = "damage")]
mod damage;
mod distribution;
mod duration;
mod error;
mod explain;
pub mod field;
mod file;
mod key_error;
mod name;
mod number;
mod percent;
mod rate;
pub mod scalar;
#[cfg(feature = "schema-check")]
pub mod schema_check;
mod small_first;
pub mod tree;

pub use bytes::BytesText;
#[cfg(feature = "damage")]
pub use damage::damage;
pub use distribution::{DistributionText, MaybeDistributionText};
pub use duration::{DURATION_PATTERN, DurationText, LongDurationText};
pub use error::{LocatedError, SpanError};
pub use file::{FileError, read};
pub use key_error::KeyError;
pub use lowtail_policy::Params;
pub use name::{hint, nearest};
pub use percent::PercentText;
pub use rate::RateText;
