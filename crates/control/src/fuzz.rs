//! The readers of this crate as functions of bytes that panic where something does not hold. For `lowtail-fuzz`.

pub use crate::flow::fuzz::{flow_maps, tagger_text};
pub use crate::guard::fuzz::guard;
pub use crate::manage::fuzz::{cpu_list, ledger};
