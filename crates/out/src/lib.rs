//! What leaves lowtail.
//!
//! * [`line()`], [`lines()`] and [`path()`]: text for people, in which nothing moves the cursor of a terminal or turns
//!   the direction of writing. Names, titles and paths are not to be trusted; this is the one place that makes them fit
//!   to be shown.
//! * [`Output`]: a file that the user names. What was there before stays until all is written; what is no regular file
//!   is written into; links that other users have laid are not followed.
//! * [`seconds`]: spans of time for JSON, in the base unit.
//!
//! It builds on no other crate.
#![warn(missing_docs)]

mod columns;
mod output;
mod place;
pub mod seconds;
mod text;

pub use columns::align;
pub use output::{Access, Output, is_standard_output};
pub use text::{coloured, cut, json, line, lines, name, path};
