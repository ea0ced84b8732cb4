//! Hosts as libvirt sets them up: the tree of control groups, the threads of a machine, and the
//! limits on both, in libvirt's words.

pub mod cputune;
pub(crate) mod figures;
pub mod group;
pub mod import;
pub mod layout;
pub mod machine;
pub mod micros;
pub mod table;
pub mod thread;
