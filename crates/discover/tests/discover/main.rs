//! VMs found in trees of files, and on the real kernel: stand-ins, and a QEMU.
//!
//! What needs root or QEMU says so and passes without, unless `CI` is set.

mod declared;
mod kernel;
mod trees;
mod trust;

use lowtail_discover::{Found, Role, Vm};
use lowtail_testkit::{needs, tree};
use needs::{has, is_root, skip};

/// The VM of this name, of which there must be one.
fn vm<'a>(found: &'a Found, name: &str) -> &'a Vm {
    let mut named = found.vms.iter().filter(|vm| vm.name.as_given() == name);
    let vm = named.next().unwrap_or_else(|| panic!("no `{name}`: {found:#?}"));
    assert_eq!(named.next(), None);
    vm
}

/// Threads and what they do.
fn roles(vm: &Vm) -> Vec<(u32, Role)> {
    vm.threads.iter().map(|thread| (thread.tid, thread.role)).collect()
}
