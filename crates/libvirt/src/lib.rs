//! What of libvirt matters to who shares out processors: its ranges, and its names of control
//! groups.
//!
//! Written from libvirt's documentation (`formatdomain.rst`, `cgroups.rst`) and from what its
//! drivers do; knows no simulator and no live host.

pub mod name;
pub mod range;
