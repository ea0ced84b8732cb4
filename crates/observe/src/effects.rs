//! What an interval says of each VM in a few figures, for those who change the host.

use lowtail_kernel::{Histogram, VmEffect};

use super::{Snapshot, VmSnapshot};

impl Snapshot {
    /// The figures of each VM over this interval.
    pub fn effects(&self) -> Vec<VmEffect> {
        self.vms.iter().map(|vm| effect(vm, self.interval_ms)).collect()
    }
}

fn effect(vm: &VmSnapshot, interval_ms: f64) -> VmEffect {
    let mut wakes = Histogram::default();
    vm.vcpus().for_each(|thread| wakes.merge(&thread.wake_to_run));
    let cpu_ns: u64 = vm.threads.iter().map(|thread| thread.cpu_ns).sum();
    VmEffect {
        name: vm.name.as_given().to_string(),
        wake_p50_us: wakes.percentile_us(0.5),
        wake_p99_us: wakes.percentile_us(0.99),
        cpu_percent: if interval_ms > 0.0 { cpu_ns as f64 / 1e4 / interval_ms } else { 0.0 },
        waits_percent: vm.waits_share().map(|share| 100.0 * share),
    }
}
