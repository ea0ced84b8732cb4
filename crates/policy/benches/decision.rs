//! What a decision costs. Budgets: 10 ns native, 60 ns in the kernel above an empty program.

#[path = "../tests/kernel/mod.rs"]
mod kernel;

use divan::{Bencher, black_box};
use lowtail_policy::{LtPcpu, LtVcpu, LtVm, Params, VIF_BURST_NS, VIF_RATE, Vif};

struct World {
    params: Params,
    cpu: LtPcpu,
    vms: [LtVm; 2],
    vcpus: [LtVcpu; 2],
    vtime_ns: u64,
    now: u64,
}

impl World {
    fn new() -> Self {
        let params = Params::default();
        let vm = LtVm::new(&params, 256, 1, 1 << 15, 0);
        let v = LtVcpu::new(&params, 0);
        let cpu = LtPcpu::new(&params, 0);
        World { params, cpu, vms: [vm; 2], vcpus: [v; 2], vtime_ns: 0, now: 1 << 40 }
    }
}

fn main() {
    divan::main();
    in_kernel();
}

/// A whole life of a wake-up, as `decision` in `bpf/policy_test.bpf.c`: seven functions.
#[divan::bench]
fn wake_to_block(bencher: Bencher<'_, '_>) {
    let mut w = World::new();
    bencher.bench_local(|| {
        let World { params: p, cpu, vms: [vm, vm_cur], vcpus: [v, cur], vtime_ns, now } = &mut w;
        *now += 700_000;
        v.wake(vm, p, *vtime_ns, *now);
        if v.beats_when(vm, (cur, vm_cur), p, 30_000, *now) == 0
            && v.preempt_when(vm, cpu, p, *now) == 0
        {
            v.preempt_take(vm, cpu, p);
        }
        let grant = v.grant(vm, p, *now);
        *vtime_ns = v.vtime(vm, p, *vtime_ns, *now);
        v.charge(vm, 20_000, *now + 20_000);
        v.block(vm, *now + 20_000);
        black_box(grant)
    });
}

/// The decision proper: does who woke interrupt who runs, and may it?
#[divan::bench]
fn interrupt_or_not(bencher: Bencher<'_, '_>) {
    let mut w = World::new();
    w.vcpus[0].wake(&mut w.vms[0], &w.params, 0, w.now);
    bencher.bench_local(|| {
        let World { params: p, cpu, vms: [vm, vm_cur], vcpus: [v, cur], now, .. } = &mut w;
        *now += 1_000_000;
        let beats = v.beats_when(vm, (cur, vm_cur), p, 30_000, *now) == 0;
        beats && v.preempt_when(vm, cpu, p, *now) == 0 && v.preempt_take(vm, cpu, p)
    });
}

/// Who of two goes first.
#[divan::bench]
fn before(bencher: Bencher<'_, '_>) {
    let w = World::new();
    let (vms, vcpus) = (black_box(&w.vms), black_box(&w.vcpus));
    bencher.bench_local(|| vcpus[0].before(&vms[0], &vcpus[1], &vms[1], w.now));
}

/// A small vCPU gets its stretch and gives it back.
#[divan::bench]
fn grant_and_charge(bencher: Bencher<'_, '_>) {
    let mut w = World::new();
    w.vcpus[0].wake(&mut w.vms[0], &w.params, 0, w.now);
    bencher.bench_local(|| {
        let World { params: p, vms: [vm, _], vcpus: [v, _], now, .. } = &mut w;
        *now += 700_000;
        let grant = v.grant(vm, p, *now);
        v.charge(vm, 20_000, *now + 20_000);
        black_box(grant)
    });
}

/// A back end's choice between two interfaces, and that the winner pays: `serve` in
/// `bpf/policy_test.bpf.c`. Four functions.
#[divan::bench]
fn serve_one_of_two(bencher: Bencher<'_, '_>) {
    let mut now = 1 << 40;
    let mut vifs = [Vif::new(VIF_RATE, VIF_BURST_NS, now); 2];
    bencher.bench_local(|| {
        now += 700_000;
        let [a, b] = &mut vifs;
        let (small_a, small_b) = (a.small(200, now), b.small(1500, now));
        let first = a.before((small_a, 200), b, (small_b, 65_536));
        if first {
            a.charge(200);
        } else {
            b.charge(1500);
        }
        first
    });
}

/// The kernel measures its own programs: the mean of a million runs.
fn in_kernel() {
    const RUNS: u32 = 1_000_000;
    let kernel = match kernel::Kernel::load(&[]) {
        Ok(kernel) => kernel,
        Err(reason) => return println!("in the kernel: skipped, {reason}"),
    };
    let mut world = kernel.read();
    // Variables: count, clock, then the parameters.
    let params = Params::default();
    // SAFETY: Params is 13 numbers of four bytes.
    let bytes = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(&params).cast::<u8>(), size_of::<Params>())
    };
    world[16..16 + bytes.len()].copy_from_slice(bytes);
    kernel.write(&world);
    let best = |program| (0..5).map(|_| kernel.run(program, RUNS)).min().unwrap_or(0);
    let (empty, decision, interrupt) = (best("empty"), best("decision"), best("interrupt"));
    let serve = best("serve");
    println!(
        "in the kernel: empty {empty} ns; interrupt or not {interrupt} ns, net {}; ",
        interrupt - empty
    );
    println!("               from wake to block {decision} ns, net {}", decision - empty);
    println!("               one of two interfaces {serve} ns, net {}", serve - empty);
}
