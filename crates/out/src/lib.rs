//! What leaves lowtail.
//!
//! * [`line()`], [`lines()`] and [`path()`]: text for people, in which nothing moves the cursor of a terminal or turns
//!   the direction of writing. Names, titles and paths are chosen by others; this is the one place that makes them fit
//!   to be shown.
//! * [`Output`]: a file that the user names. What was there before stays until all is written; what is no regular file
//!   is written into; links that others have laid are not followed.
//!
//! It knows nobody.
#![warn(missing_docs)]

mod output;
mod place;
mod text;

pub use output::{Access, Output, is_standard_output};
pub use text::{coloured, cut, json, line, lines, name, path};
