//! Virtual machines that run on this host, found without anyone's help.

mod name;
mod vm;

pub use name::Name;
pub use vm::{Kind, Role, Tap, Vm, VmThread};
