//! What an interval says of each VM in a few figures, for those who change the host.

use lowtail_kernel::{Histogram, VmEffect, VmSample};

use lowtail_out::seconds::of_us;

use super::{Snapshot, ThreadSnapshot, VmSnapshot};

impl Snapshot {
    /// The figures of each VM over this interval.
    pub fn effects(&self) -> Vec<VmEffect> {
        self.vms.iter().map(|vm| effect(vm, self.interval_ms)).collect()
    }

    /// What each VM that lives has waited and run for in this interval.
    pub fn samples(&self) -> Vec<VmSample> {
        let living = self.vms.iter().filter(|vm| !vm.ended);
        living.map(|vm| sample(vm, self.interval_ms)).collect()
    }
}

fn wakes(vm: &VmSnapshot) -> Histogram {
    let mut wakes = Histogram::default();
    vm.vcpus().for_each(|thread| wakes.merge(&thread.wakeup_latency));
    wakes
}

fn run_ns(vm: &VmSnapshot) -> u64 {
    vm.threads.iter().map(|thread| thread.run_time_ns).sum()
}

fn sample(vm: &VmSnapshot, interval_ms: f64) -> VmSample {
    VmSample {
        id: (vm.pid, vm.started_ticks),
        interval_ns: (interval_ms * 1e6) as u64,
        wakes: wakes(vm),
        run_ns: run_ns(vm),
        ready_ns: vm.vcpus().map(ThreadSnapshot::ready_ns).sum(),
    }
}

fn effect(vm: &VmSnapshot, interval_ms: f64) -> VmEffect {
    let wakes = wakes(vm);
    let run_time_ns = run_ns(vm);
    VmEffect {
        name: vm.name.as_given().to_string(),
        pid: vm.pid,
        wakeup_latency_p50_seconds: wakes.percentile_us(0.5).map(of_us),
        wakeup_latency_p99_seconds: wakes.percentile_us(0.99).map(of_us),
        cpus_used: if interval_ms > 0.0 { run_time_ns as f64 / 1e6 / interval_ms } else { 0.0 },
        ready_ratio: vm.ready_ratio(),
    }
}
