//! Virtual machines that run on this host, found without anyone's help.
//!
//! A process is a machine by the program that it runs, or by being in a control group of libvirt's; its threads are
//! told apart by the names that QEMU, Firecracker and Cloud Hypervisor give them. Names are data: of the guest's, of
//! the user's, of anybody's. They decide what a thread of a machine is called, never which file is opened.

mod declared;
pub(crate) mod file;
mod group;
mod libvirt;
mod name;
mod part;
mod process;
mod roots;
mod scanner;
mod tap;
mod task;
mod vm;

pub use declared::{Declared, Target, Undeclared};
pub use name::Name;
pub use roots::Roots;
pub(crate) use scanner::hierarchy;
pub use scanner::{Found, Scanner};
pub use vm::{Group, Kind, Role, Tap, Vm, VmThread};

/// Looks once. Who looks again and again keeps a [`Scanner`], which is cheaper.
pub fn scan(roots: &Roots, declared: &[Declared]) -> Found {
    Scanner::new(roots.clone(), declared.to_vec()).scan()
}
