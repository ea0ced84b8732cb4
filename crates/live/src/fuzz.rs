//! The readers of what a live host gives, as functions of bytes that panic where something does not hold. For `lowtail-fuzz`.
//!
//! Each room has its own file `fuzz.rs` beside its readers; here are their names.

pub use crate::cgroup::fuzz::{cpu_stat, mountinfo};
pub use crate::discover::fuzz::{
    cgroup, cmdline, declared, fdinfo, group_name, name, stat, thread_names,
};
pub use crate::doctor::fuzz::qdiscs;
pub use crate::flow::fuzz::{flow_maps, tagger_text};
pub use crate::manage::fuzz::{cpu_list, ledger};
pub use crate::observe::fuzz::maps;
pub use crate::record::fuzz::record_maps;
pub use crate::tc::fuzz::{netlink, tree_text};
