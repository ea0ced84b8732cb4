//! What tells one VM from all others.

use lowtail_discover::Vm;

/// A VM: its process, and when that started in clock ticks since boot: no two VMs have both.
pub(crate) type VmKey = (u32, u64);

/// The key of a VM.
pub(crate) fn key(vm: &Vm) -> VmKey {
    (vm.pid, vm.started_ticks)
}
