//! What an interval says of each VM in a few figures, for those who change the host.

use lowtail_kernel::{Histogram, VmEffect};

use lowtail_out::seconds::of_us;

use super::{Snapshot, VmSnapshot};

impl Snapshot {
    /// The figures of each VM over this interval.
    pub fn effects(&self) -> Vec<VmEffect> {
        self.vms.iter().map(|vm| effect(vm, self.interval_ms)).collect()
    }
}

fn effect(vm: &VmSnapshot, interval_ms: f64) -> VmEffect {
    let mut wakes = Histogram::default();
    vm.vcpus().for_each(|thread| wakes.merge(&thread.wakeup_latency));
    let run_time_ns: u64 = vm.threads.iter().map(|thread| thread.run_time_ns).sum();
    VmEffect {
        name: vm.name.as_given().to_string(),
        pid: vm.pid,
        wakeup_latency_p50_seconds: wakes.percentile_us(0.5).map(of_us),
        wakeup_latency_p99_seconds: wakes.percentile_us(0.99).map(of_us),
        cpus_used: if interval_ms > 0.0 { run_time_ns as f64 / 1e6 / interval_ms } else { 0.0 },
        ready_ratio: vm.ready_ratio(),
    }
}
