//! The rule gives the same answers in the simulator and in the kernel: random calls go to both,
//! and what each returns, and the state after it, must be equal bit for bit.
//!
//! Needs root, clang-16 and a kernel with BPF. `LOWTAIL_SEED=n` runs another sequence.

mod kernel;

use kernel::{Kernel, skip};
use lowtail_policy::{
    Cap, LtPcpu, LtVcpu, LtVm, Params, VIF_BURST_NS, VIF_RATE, Vif, entitled, share_at,
};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// As in `bpf/policy_test.bpf.c`.
const STEPS: usize = 2048;
/// At least a million calls for vCPUs, and 100,000 for interfaces: one in eight.
const BATCHES: usize = 1_250_000 / STEPS + 1;

/// `struct world` there.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct World {
    params: Params,
    pad: u32,
    cpu: LtPcpu,
    vms: [LtVm; 2],
    vcpus: [LtVcpu; 4],
    vtime_ns: u64,
    vifs: [Vif; 4],
}

/// `struct call`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    function: u32,
    vcpu: u32,
    other: u32,
    small: u32,
    now: u64,
    amount: u64,
}

/// Those of `bucket.h` and `vcpu.h`; those of `vif.h` follow.
const FUNCTIONS: u32 = 28;
const CALL_BYTES: usize = size_of::<Call>();
const WORLD_AT: usize = 16;
const CALLS_AT: usize = WORLD_AT + size_of::<World>();
const ANSWERS_AT: usize = CALLS_AT + STEPS * CALL_BYTES;

/// The bytes of a value made of numbers.
fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: any T is size_of::<T>() bytes; those used here have explicit padding only.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

unsafe extern "C" {
    fn lowtail_overdue(v: *const LtVcpu, vm: *const LtVm, now: u64) -> i32;
    fn lowtail_boosted(v: *const LtVcpu, p: *const Params, now: u64) -> i32;
}

/// `lt_overdue`: whether `v` has waited too long. The rule alone asks that; here it is compared.
fn overdue(v: &LtVcpu, vm: &LtVm, now: u64) -> bool {
    // SAFETY: C reads what the references are to, which have the layouts of its structs.
    unsafe { lowtail_overdue(v, vm, now) != 0 }
}

/// `lt_boosted`: whether nobody is to interrupt `v` yet.
fn boosted(v: &LtVcpu, params: &Params, now: u64) -> bool {
    // SAFETY: as above.
    unsafe { lowtail_boosted(v, params, now) != 0 }
}

impl World {
    fn checksum(&self) -> u64 {
        let words = bytes(self).chunks_exact(8);
        words.fold(0xcbf2_9ce4_8422_2325, |sum, word| {
            let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            (sum ^ word).wrapping_mul(0x100_0000_01b3)
        })
    }

    /// Makes the call natively.
    fn make(&mut self, call: &Call) -> u64 {
        if call.function >= FUNCTIONS {
            return self.make_vif(call);
        }
        let World { params: p, cpu, vms, vcpus, vtime_ns, .. } = self;
        let (i, j) = (call.vcpu as usize & 3, call.other as usize & 3);
        let other = vcpus[j];
        let other_vm = vms[j >> 1];
        let (v, vm) = (&mut vcpus[i], &mut vms[i >> 1]);
        let (now, amount) = (call.now, call.amount);
        let (low, high) = (amount as u32, (amount >> 32) as u32);
        match call.function {
            0 => {
                v.wake(vm, p, *vtime_ns, now);
                u64::from(v.class)
            }
            1 => {
                v.kick();
                0
            }
            2 => {
                v.yielded();
                0
            }
            3 => v.grant(vm, p, now),
            4 => v.turn(p, amount),
            5 => {
                v.charge(vm, amount, now);
                0
            }
            6 => {
                v.preempt_over(cpu, now);
                v.block(vm, now);
                0
            }
            7 => v.cap_grant(vm, p, amount, now),
            8 => v.cap_when(vm, p),
            9 => v.left(amount),
            10 => v.due(),
            11 => u64::from(overdue(v, vm, now)),
            12 => u64::from(boosted(v, p, now)),
            13 => u64::from(v.before(vm, &other, &other_vm, now)),
            14 => {
                *vtime_ns = v.vtime(vm, p, *vtime_ns, now);
                *vtime_ns
            }
            15 => v.beats_when(vm, (&other, &other_vm), p, amount, now),
            16 => v.preempt_when(vm, cpu, p, now),
            17 => u64::from(v.preempt_take(vm, cpu, p)),
            18 => {
                vm.entitle(low, now);
                0
            }
            19 => {
                *vm = LtVm::new(p, low as u16, i as u16, j as u32, now);
                vm.cap = Cap::new(high, low, i as u16, now);
                0
            }
            20 => {
                *v = LtVcpu::new(p, now);
                v.cap = Cap::new(high, low, 1, now);
                0
            }
            21 => {
                *cpu = LtPcpu::new(p, now);
                0
            }
            22 => u64::from(share_at(low, high as u16, now as u32)),
            23 => {
                let (level, spare) = (now as u32, (now >> 32) as u32);
                u64::from(entitled(low, high as u16, level, spare, call.other))
            }
            24 => {
                v.small.fill(now);
                v.small.tokens_ns
            }
            25 => v.small.take(amount),
            26 => {
                v.small.give(amount);
                0
            }
            _ => v.small.when(amount),
        }
    }

    /// The functions of `vif.h`.
    fn make_vif(&mut self, call: &Call) -> u64 {
        let other = self.vifs[call.other as usize & 3];
        let vif = &mut self.vifs[call.vcpu as usize & 3];
        let (bytes, more) = (call.amount as u32, (call.amount >> 32) as u32);
        match call.function {
            28 => {
                *vif = Vif::new(bytes, more, call.now);
                0
            }
            29 => {
                vif.join(call.amount);
                vif.vtime_ns
            }
            30 => u64::from(vif.small(bytes, call.now)),
            31 => {
                vif.charge(bytes);
                vif.vtime_ns
            }
            _ => {
                let small = |bit: u32| call.small >> bit & 1 == 1;
                let (own, others) = ((small(0), bytes.into()), (small(1), more.into()));
                u64::from(vif.before(own, &other, others))
            }
        }
    }
}

/// A source of calls: mostly what a scheduler would do, some of it absurd.
struct Calls {
    random: Xoshiro256PlusPlus,
    now: u64,
}

impl Calls {
    /// A length between nothing and hours, short ones more often.
    fn span(&mut self) -> u64 {
        let bits = self.random.random_range(0..=43u32);
        self.random.random_range(0..=(1u64 << bits))
    }

    fn next(&mut self) -> Call {
        let kind = self.random.random_range(0..1000u32);
        match kind {
            // The clock steps back, a little or a lot.
            0..5 => self.now = self.now.saturating_sub(self.span()),
            // A long idle.
            5..10 => self.now += self.span(),
            _ => self.now += self.random.random_range(0..300_000u64),
        }
        // A host that has run for weeks, or has wrapped around in a bad moment.
        self.now %= 1 << 52;
        if self.random.random_range(0..8u32) == 0 {
            return self.next_vif();
        }
        // Setting up again is rare; the life of a vCPU is not.
        let function = match self.random.random_range(0..100u32) {
            0..1 => self.random.random_range(18..22u32),
            1..10 => self.random.random_range(22..FUNCTIONS),
            _ => self.random.random_range(0..19u32),
        };
        let amount = match self.random.random_range(0..4u32) {
            0 => self.random.random::<u64>(),
            1 => self.span(),
            // Rates, weights and run times that occur.
            _ => self.random.random_range(0..2_000_000u64),
        };
        let amount = match function {
            18 => amount % (129 << 16),
            // A weight up to 65535 and a limit up to eight pCPUs, often none; what it saves.
            19 | 20 => {
                let cap = if amount.is_multiple_of(3) { 0 } else { amount % (8 << 16) };
                cap << 32 | amount >> 20 & 0xffff_ffff
            }
            // The Rust face has weights of 16 bits.
            22 | 23 => amount & 0xffff_ffff_ffff,
            _ => amount,
        };
        let vcpu = self.random.random_range(0..4);
        let other = self.random.random_range(0..4);
        Call { function, vcpu, other, small: 0, now: self.now, amount }
    }

    /// A call for an interface: packets as they occur, and some that do not.
    fn next_vif(&mut self) -> Call {
        let function = match self.random.random_range(0..100u32) {
            0..1 => 28,
            1..20 => 29,
            20..50 => 30,
            50..70 => 31,
            _ => 32,
        };
        let absurd = self.random.random_range(0..100u32) == 0;
        let amount = match function {
            // Near the end of virtual time.
            29 if absurd => u64::MAX - self.span(),
            _ if absurd => self.random.random::<u64>(),
            // Rates up to ten times the usual one, and bursts.
            28 => {
                let burst = self.random.random_range(0..4 * u64::from(VIF_BURST_NS));
                burst << 32 | self.random.random_range(0..10 * u64::from(VIF_RATE))
            }
            29 => self.span(),
            // Frames, and what is yet to be cut up into frames.
            30 | 31 => {
                let most = if self.random.random::<bool>() { 1515 } else { 65_536 };
                self.random.random_range(0..most)
            }
            // What waits, often as much for both.
            _ => {
                let waiting = self.random.random_range(0..65_536u64);
                (waiting << 32) | (waiting + self.random.random_range(0..2u64))
            }
        };
        let mut four = || self.random.random_range(0..4u32);
        let (vcpu, other, small) = (four(), four(), four());
        Call { function, vcpu, other, small, now: self.now, amount }
    }
}

fn first_world() -> World {
    let params = Params::default();
    let vm = |weight, cap| LtVm {
        cap: Cap::new(cap, 0, 2, 0),
        ..LtVm::new(&params, weight, 2, 1 << 15, 0)
    };
    World {
        params,
        pad: 0,
        cpu: LtPcpu::new(&params, 0),
        vms: [vm(256, 0), vm(1024, 1 << 15)],
        vcpus: [LtVcpu::new(&params, 0); 4],
        vtime_ns: 0,
        vifs: [Vif::new(VIF_RATE, VIF_BURST_NS, 0); 4],
    }
}

/// Feeds both; returns the number of calls for vCPUs and for interfaces, or the first difference.
fn compare(kernel: &Kernel, seed: u64, batches: usize) -> Result<(usize, usize), String> {
    let mut calls = Calls { random: Xoshiro256PlusPlus::seed_from_u64(seed), now: 1 << 40 };
    let mut world = first_world();
    let mut shared = kernel.read();
    let mut for_vifs = 0;
    assert_eq!(shared.len(), ANSWERS_AT + STEPS * 16, "the layouts differ");
    shared[..8].copy_from_slice(&(STEPS as u64).to_ne_bytes());
    shared[WORLD_AT..CALLS_AT].copy_from_slice(bytes(&world));
    for batch in 0..batches {
        let batch_calls: Vec<Call> = (0..STEPS).map(|_| calls.next()).collect();
        for (i, call) in batch_calls.iter().enumerate() {
            let at = CALLS_AT + i * CALL_BYTES;
            shared[at..at + CALL_BYTES].copy_from_slice(bytes(call));
        }
        kernel.write(&shared);
        kernel.run("steps", 0);
        shared = kernel.read();
        for (i, call) in batch_calls.iter().enumerate() {
            for_vifs += usize::from(call.function >= FUNCTIONS);
            let before = world;
            let result = world.make(call);
            let at = ANSWERS_AT + i * 16;
            let theirs = (word(&shared, at), word(&shared, at + 8));
            if theirs != (result, world.checksum()) {
                let step = batch * STEPS + i;
                return Err(format!(
                    "step {step}: {call:?}\nnative {result:#x}, kernel {:#x}\nbefore: {before:#?}\n\
                     native after: {world:#?}",
                    theirs.0
                ));
            }
        }
        if shared[WORLD_AT..CALLS_AT] != *bytes(&world) {
            return Err(format!("the world differs after batch {batch}"));
        }
    }
    Ok((batches * STEPS - for_vifs, for_vifs))
}

fn seed() -> u64 {
    std::env::var("LOWTAIL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn kernel_and_simulator_agree_bit_for_bit() {
    let kernel = match Kernel::load(&[]) {
        Ok(kernel) => kernel,
        Err(reason) => return skip(&reason),
    };
    let seed = seed();
    match compare(&kernel, seed, BATCHES) {
        Ok((vcpus, vifs)) => {
            assert!(vcpus >= 1_000_000 && vifs >= 100_000, "{vcpus} and {vifs} are too few");
        }
        Err(difference) => panic!(
            "seed {seed}: {difference}\nrepeat: LOWTAIL_SEED={seed} cargo test -p lowtail-policy \
             --test bpf"
        ),
    }
}

/// The comparison finds a difference where there is one: the kernel's side is compiled with
/// another weight as the usual one, or another line time.
#[test]
fn a_difference_is_found() {
    for flag in ["-DLT_WEIGHT_USUAL=255", "-DLT_BYTES_MIN=65u"] {
        match Kernel::load(&[flag]) {
            Ok(kernel) => assert!(compare(&kernel, seed(), 10).is_err(), "{flag}"),
            Err(reason) => skip(&reason),
        }
    }
}
