//! What it costs to find a packet's band, with 10, 10,000 and 1,000,000 pairs. Budget: 60 ns in
//! the kernel above an empty program; what is met of it says docs/explanation/small-first.md.
//!
//! Each packet is of another pair, in an order that no cache foresees, in turn of 64 VMs; 1 us
//! passes between two packets. How large a table has to be follows from the line, not from how
//! many pairs there are: 2^13 sets are half a megabyte, 2^14 are for 10 Gbit/s. With a million
//! pairs hardly any finds an entry there and each is a new one; with 2^19 sets, 34 MB, each has
//! an entry, and what a packet costs is memory. Of ten pairs each sends more than it may, so that
//! their packets are large and no VM's bucket is asked.
//!
//! In the kernel a single packet is run over and over; the program `many` in
//! `bpf/flow_test.bpf.c` makes another pair of it each time, behind parsing and in front of hash
//! and table, so that all of both is measured. A first round fills the table. Beside it is what
//! cannot be left out: to find the set and write to it, with its lock and without.

#[path = "../tests/kernel/mod.rs"]
mod kernel;

use divan::{Bencher, black_box};
use lowtail_policy::{FlowParams, FlowSeed, FlowTable};

const VMS: u32 = 64;
/// Pairs, and sets of the table.
const TABLES: [(u32, u32); 5] = [
    (10, 1 << 13),
    (10_000, 1 << 13),
    (1_000_000, 1 << 13),
    (1_000_000, 1 << 14),
    (1_000_000, 1 << 19),
];

fn main() {
    divan::main();
    in_kernel();
}

/// Any packet's pair, as `many` chooses it.
fn pair(count: u32, pairs: u32) -> u64 {
    (u64::from(count.wrapping_mul(0x9e37_79b1)) * u64::from(pairs)) >> 32
}

#[divan::bench(args = TABLES)]
fn classify(bencher: Bencher<'_, '_>, (pairs, sets): (u32, u32)) {
    let table = FlowTable::new(FlowParams::default(), sets, VMS, 1);
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

/// The kernel measures its own programs: the least of many means of short runs, so
/// that one of them is not interrupted.
fn in_kernel() {
    const ROUNDS: u32 = 60;
    const RUNS: u32 = 50_000;
    // UDP over IPv4, 64 bytes.
    let mut packet = [0u8; 64];
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    for (pairs, sets) in TABLES {
        let entries = [("sets", sets)];
        let kernel = match kernel::Kernel::load_program("flow_test", &[], &entries) {
            Ok(kernel) => kernel,
            Err(reason) => return println!("in the kernel: skipped, {reason}"),
        };
        let rule = FlowParams::default().rule().expect("defaults are valid");
        let numbers = [sets - 1, pairs, 0, 0, 0, 0, 0, 0];
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
            "in the kernel, {pairs} pairs, {sets} sets: empty {empty} ns; a packet of any pair {many} ns, net \
             {}; of one pair {flow} ns, net {}; finding and writing to any pair's set alone {touch} \
             ns, with its lock {locked} ns",
            many.saturating_sub(empty),
            flow.saturating_sub(empty)
        );
    }
}
