//! Hosts as libvirt sets them up: the tree of control groups, the threads of a VM, and the
//! limits on both, in libvirt's words.

pub mod cgroup_tree;
pub mod cputune;
pub(crate) mod figures;
pub mod import;
pub mod layout;
pub mod micros;
pub mod table;
pub mod thread;
pub mod vm;
