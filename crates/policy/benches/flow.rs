//! What it costs to find a packet's band, with 10, 10,000 and 1,000,000 pairs. Budget: 60 ns in
//! the kernel above an empty program; met with 10 pairs only, see LIMITATIONS.md.
//!
//! Each packet is of another pair, in an order that no cache foresees, in turn of 64 VMs; 1 us
//! passes between two packets. Tables have 2^18 sets, two million entries, for a million pairs,
//! and 2^12 for fewer. In the kernel a single packet is run over and over; the program `many` in
//! `bpf/flow_test.bpf.c` makes another pair of it each time, behind parsing and in front of hash
//! and table, so that all of both is measured. A first round fills the table.

#[path = "../tests/kernel/mod.rs"]
mod kernel;

use divan::{Bencher, black_box};
use lowtail_policy::{FlowParams, FlowSeed, FlowTable};

const VMS: u32 = 64;
const PAIRS: [u32; 3] = [10, 10_000, 1_000_000];

fn sets(pairs: u32) -> u32 {
    if pairs > 100_000 { 1 << 13 } else { 1 << 13 }
}

fn main() {
    divan::main();
    in_kernel();
}

/// Any packet's pair, as `many` chooses it.
fn pair(count: u32, pairs: u32) -> u64 {
    (u64::from(count.wrapping_mul(0x9e37_79b1)) * u64::from(pairs)) >> 32
}

#[divan::bench(args = PAIRS)]
fn classify(bencher: Bencher<'_, '_>, pairs: u32) {
    let table = FlowTable::new(FlowParams::default(), sets(pairs), VMS, 1);
    let mut table = table.expect("defaults are valid");
    let mut count = 0u32;
    let mut packet = || {
        count = count.wrapping_add(1);
        let src = pair(count, pairs);
        let now = (1 << 40) + u64::from(count) * 1_000;
        table.classify(src as u32 % VMS, src, 1, 64, now)
    };
    for _ in 0..4 * pairs {
        black_box(packet());
    }
    bencher.bench_local(packet);
}

/// The bytes of a value made of numbers.
fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: any T is size_of::<T>() bytes; those used here have no implicit padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The kernel measures its own programs: the least of five means of a million runs.
fn in_kernel() {
    const ROUNDS: u32 = 60;
    const RUNS: u32 = 50_000;
    // UDP over IPv4, 64 bytes.
    let mut packet = [0u8; 64];
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    for pairs in PAIRS {
        let entries = [("sets", sets(pairs))];
        let kernel = match kernel::Kernel::load_program("flow_test", &[], &entries) {
            Ok(kernel) => kernel,
            Err(reason) => return println!("in the kernel: skipped, {reason}"),
        };
        let rule = FlowParams::default().rule().expect("defaults are valid");
        let numbers = [sets(pairs) - 1, pairs, 0, 0, 0, 0, 0, 0];
        let shared = [bytes(&rule), bytes(&FlowSeed::new(1)), bytes(&numbers)].concat();
        kernel.write(&shared);
        kernel.run_on("many", 4 * pairs, &packet);
        let programs = ["empty", "many", "flow", "touch_locked", "touch"];
        let mut best = [u128::MAX; 5];
        for _ in 0..ROUNDS {
            for (best, program) in best.iter_mut().zip(programs) {
                *best = kernel.run_on(program, RUNS, &packet).min(*best);
            }
        }
        let [empty, many, flow, locked, touch] = best;
        println!(
            "in the kernel, {pairs} pairs: empty {empty} ns; a packet of any pair {many} ns, net \
             {}; of one pair {flow} ns, net {}; finding and writing to any pair's set alone {touch} \
             ns, with its lock {locked} ns",
            many.saturating_sub(empty),
            flow.saturating_sub(empty)
        );
    }
}
