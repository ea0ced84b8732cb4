//! Flows get the same bands in the simulator and in the kernel: random packets go through
//! `bpf/flow_test.bpf.c` and, parsed once more here, through the native rule. Each band, and the
//! table after it, must be equal bit for bit; what is no whole IP packet passes untouched.
//!
//! Needs root, clang-16 and a kernel with BPF. `LOWTAIL_SEED=n` runs another sequence.

mod kernel;

use kernel::{Kernel, skip};
use lowtail_policy::{FlowParams, FlowRule, FlowSeed, FlowSet, FlowVm, flow_index, flow_ports};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Few sets, so that they are full at times.
const SETS: u32 = 16;
/// As in `bpf/flow_test.bpf.c`; a packet comes from one of a few more, which do not exist.
const VMS: u32 = 64;
const PACKETS: usize = 150_000;
/// Tables are compared whenever so many packets have passed.
const LOOK: usize = 1_000;
/// Where `struct __sk_buff` has mark and cb, and how long it is.
const MARK_AT: usize = 8;
const CB_AT: usize = 48;
const CONTEXT: usize = 192;

/// The bytes of a value made of numbers.
fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: any T is size_of::<T>() bytes; those used here have no implicit padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// What the kernel's tables are to be.
struct Native {
    rule: FlowRule,
    seed: FlowSeed,
    sets: Vec<FlowSet>,
    vms: Vec<FlowVm>,
}

/// What has passed.
#[derive(Debug, Default)]
struct Passed {
    bands: [usize; 5],
    untouched: usize,
    unknown: u64,
    refused: u64,
}

impl Native {
    fn new(random: &mut Xoshiro256PlusPlus) -> Self {
        // VMs with less than the usual, so that it does not last.
        let params = FlowParams { vm_rate: 1966, vm_burst_ns: 800_000, ..FlowParams::default() };
        Native {
            rule: params.rule().expect("valid"),
            seed: FlowSeed::new(random.random()),
            sets: vec![FlowSet::default(); SETS as usize],
            vms: vec![FlowVm::default(); VMS as usize],
        }
    }

    /// Gives the kernel rule and seed, and empty tables.
    fn tell(&self, kernel: &Kernel) {
        let mut shared = kernel.read();
        let rule = size_of::<FlowRule>();
        let seed = rule + size_of::<FlowSeed>();
        assert_eq!(shared.len(), seed + 32, "the layouts differ");
        shared[..rule].copy_from_slice(bytes(&self.rule));
        shared[rule..seed].copy_from_slice(bytes(&self.seed));
        shared[seed..seed + 4].copy_from_slice(&(SETS - 1).to_ne_bytes());
        kernel.write(&shared);
        for (i, vm) in self.vms.iter().enumerate() {
            kernel.set_entry("vms", i as u32, bytes(vm));
        }
    }

    /// Whether the kernel's tables are these. A reader sees its locks as 0.
    fn equals(&self, kernel: &Kernel) -> Result<(), String> {
        for (i, set) in self.sets.iter().enumerate() {
            if kernel.entry("sets", i as u32) != *bytes(set) {
                return Err(format!("set {i} differs from {set:?}"));
            }
        }
        for (i, vm) in self.vms.iter().enumerate() {
            if kernel.entry("vms", i as u32) != *bytes(vm) {
                return Err(format!("VM {i} differs from {vm:?}"));
            }
        }
        Ok(())
    }

    /// The pair of a packet, if it is a whole IP header behind Ethernet and up to two tags. By
    /// the formats, not by how the kernel's program does it.
    fn pair(&self, packet: &[u8]) -> Option<(u64, u64, u64)> {
        let kind = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
        let mut at = 12;
        while matches!(kind(at)?, 0x8100 | 0x88a8) && at < 20 {
            at += 4;
        }
        let network = &packet[at + 2..];
        // Protocols with ports, which come first: TCP, UDP, DCCP, SCTP, UDP-Lite.
        let ports = |protocol: u8, at: usize| match network.get(at..at + 4) {
            Some(ports) if matches!(protocol, 6 | 17 | 33 | 132 | 136) => {
                let half = |at: usize| u16::from_ne_bytes([ports[at], ports[at + 1]]);
                flow_ports(protocol, half(0), half(2))
            }
            _ => flow_ports(protocol, 0, 0),
        };
        match kind(at)? {
            0x0800 => {
                let header = network.get(..20)?;
                let word = |at: usize| {
                    let word = header[at..at + 4].try_into().expect("four bytes");
                    u64::from(u32::from_ne_bytes(word))
                };
                let valid = header[0] >> 4 == 4 && header[0] & 15 >= 5;
                let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
                let protocol = header[9];
                let ports = match fragment {
                    true => flow_ports(protocol, 0, 0),
                    false => ports(protocol, usize::from(header[0] & 15) * 4),
                };
                valid.then(|| (word(12), word(16), ports))
            }
            0x86dd => {
                let header = network.get(..40)?;
                let fold = |at: usize| {
                    let half = |at: usize| {
                        u64::from_ne_bytes(header[at..at + 8].try_into().expect("eight bytes"))
                    };
                    self.seed.fold(half(at), half(at + 8))
                };
                (header[0] >> 4 == 6).then(|| (fold(8), fold(24), ports(header[6], 40)))
            }
            _ => None,
        }
    }

    /// Its mark afterwards: band and one, or 0.
    fn send(&mut self, packet: &[u8], vm: u32, now: u64) -> u32 {
        let Some((src, dst, ports)) = self.pair(packet) else { return 0 };
        let Some(owner) = self.vms.get_mut(vm as usize) else { return 0 };
        let hash = self.seed.hash(vm, src, dst, ports);
        let set = &mut self.sets[flow_index(hash, SETS - 1) as usize];
        let band = set.classify(owner, &self.rule, (vm, hash), packet.len() as u32, now);
        u32::from(band) + 1
    }
}

/// A source of packets: what guests send, and what they should not.
struct Packets {
    random: Xoshiro256PlusPlus,
    now: u64,
}

impl Packets {
    fn next(&mut self) -> (Vec<u8>, u32) {
        let random = &mut self.random;
        match random.random_range(0..2_000u32) {
            // The clock steps back, a little or a lot; a long idle.
            0 => self.now = self.now.saturating_sub(random.random_range(0..1u64 << 33)),
            1 => self.now = self.now.saturating_sub(random.random_range(0..1_000_000u64)),
            2 => self.now += random.random_range(0..1u64 << 40),
            // Some ms of quiet, so that sets empty.
            3..5 => self.now += random.random_range(0..50_000_000u64),
            _ => self.now += random.random_range(0..8_000u64),
        }
        let length = match random.random_range(0..10u32) {
            0..5 => random.random_range(15..200),
            5..7 => random.random_range(15..78),
            _ => 1514,
        };
        let mut packet: Vec<u8> = (0..length).map(|_| random.random()).collect();
        // Most is a VM with much to send; few addresses, so that pairs come again.
        let vm = match random.random_range(0..100u32) {
            0 => random.random_range(0..VMS + 2),
            1..50 => 0,
            _ => random.random_range(0..6),
        };
        if random.random_range(0..50u32) == 0 {
            return (packet, vm);
        }
        let mut at = 12;
        let mut put = |at: usize, bytes: &[u8]| {
            for (place, byte) in packet.iter_mut().skip(at).zip(bytes) {
                *place = *byte;
            }
        };
        // Up to three tags, of which one is too many.
        for _ in 0..[0, 0, 0, 0, 0, 1, 1, 2, 2, 3][random.random_range(0..10usize)] {
            put(at, if random.random() { &[0x81, 0x00] } else { &[0x88, 0xa8] });
            at += 4;
        }
        let (src, dst) = match random.random_range(0..20u32) {
            // A spoofed source.
            0 => (random.random(), 1),
            1..8 => (1, 1),
            _ => (random.random_range(0..12), random.random_range(0..3)),
        };
        let (src, dst) = (u32::to_be_bytes(src), u32::to_be_bytes(dst));
        // Most have one flow, so that it becomes long.
        let (protocol, ports) = match random.random_range(0..10u32) {
            0 => (
                [6, 6, 17, 1, 44, 132, 255][random.random_range(0..7usize)],
                [0, random.random_range(0..2), 0, random.random_range(0..2)],
            ),
            _ => (6, [0; 4]),
        };
        if random.random_range(0..3u32) > 0 {
            put(at, &[0x08, 0x00]);
            // Options now and then, and now and then what is not version 4.
            let junk = random.random_range(0..30u32) == 0;
            let first = if junk { random.random() } else { 0x45 + random.random_range(0..2u8) };
            put(at + 2, &[first]);
            // Fragments: first, middle, last ones.
            let fragment = [[0, 0], [0, 0], [0x20, 0], [0x20, 0xb9], [0, 0xb9]];
            put(at + 8, &fragment[random.random_range(0..5usize)]);
            put(at + 11, &[protocol]);
            put(at + 14, &src);
            put(at + 18, &dst);
            let header = if first & 15 < 5 { 20 } else { usize::from(first & 15) * 4 };
            put(at + 2 + header, &ports);
        } else {
            put(at, &[0x86, 0xdd]);
            let junk = random.random_range(0..30u32) == 0;
            put(at + 2, &[if junk { random.random() } else { 0x60 }]);
            put(at + 10, &[0xfd; 12]);
            put(at + 22, &src);
            put(at + 26, &[0xfd; 12]);
            put(at + 38, &dst);
            put(at + 8, &[protocol]);
            put(at + 42, &ports);
        }
        // The kernel's test run itself refuses a header that is cut short right behind Ethernet,
        // not one behind a tag.
        let whole = match packet[12..14] {
            [0x08, 0x00] => 34,
            [0x86, 0xdd] => 54,
            _ => 0,
        };
        if packet.len() < whole {
            packet.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
        }
        (packet, vm)
    }
}

/// Sends to both; returns what has passed, or the first difference.
fn compare(kernel: &Kernel, seed: u64, count: usize) -> Result<Passed, String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut native = Native::new(&mut random);
    native.tell(kernel);
    let mut packets = Packets { random, now: 1 << 42 };
    let mut passed = Passed::default();
    for i in 0..count {
        let (packet, vm) = packets.next();
        let now = packets.now;
        let mut context = [0u8; CONTEXT];
        context[CB_AT..CB_AT + 8].copy_from_slice(&now.to_le_bytes());
        context[CB_AT + 8..CB_AT + 12].copy_from_slice(&vm.to_ne_bytes());
        let before = context;
        let (returned, after) = kernel.send("flow", &packet, &mut context);
        let theirs: [u8; 4] = context[MARK_AT..MARK_AT + 4].try_into().expect("four bytes");
        let theirs = u32::from_ne_bytes(theirs);
        let ours = native.send(&packet, vm, now);
        if returned != 0 || after != packet || theirs != ours {
            return Err(format!(
                "packet {i} of VM {vm} at {now}: native {ours}, kernel {theirs}, which returned \
                 {returned}: {packet:02x?}, after it {after:02x?}"
            ));
        }
        if context[CB_AT..CB_AT + 20] != before[CB_AT..CB_AT + 20] {
            return Err(format!("packet {i}: the kernel's context differs"));
        }
        match ours.checked_sub(1) {
            Some(band) => passed.bands[band as usize] += 1,
            None => passed.untouched += 1,
        }
        if (i + 1) % LOOK == 0 || i + 1 == count {
            native.equals(kernel).map_err(|error| format!("after packet {i}: {error}"))?;
        }
    }
    passed.unknown = native.vms.iter().map(|vm| vm.unknown).sum();
    passed.refused = native.vms.iter().map(|vm| vm.refused).sum();
    Ok(passed)
}

fn load(flags: &[&str]) -> Result<Kernel, String> {
    Kernel::load_program("flow_test", flags, &[("sets", SETS)])
}

fn seed() -> u64 {
    std::env::var("LOWTAIL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn kernel_and_native_bands_agree_bit_for_bit() {
    let kernel = match load(&[]) {
        Ok(kernel) => kernel,
        Err(reason) => return skip(&reason),
    };
    let seed = seed();
    match compare(&kernel, seed, PACKETS) {
        Ok(passed) => {
            // Each case occurs: each band, no IP, full sets, VMs without tokens.
            let Passed { bands, untouched, unknown, refused } = passed;
            let least = bands.iter().min().copied().unwrap_or(0).min(untouched);
            assert!(least >= 1_000 && unknown >= 1_000 && refused >= 100, "{passed:?}");
        }
        Err(difference) => panic!(
            "seed {seed}: {difference}\nrepeat: LOWTAIL_SEED={seed} cargo test -p lowtail-policy \
             --test flow"
        ),
    }
}

/// The comparison finds a difference where there is one: the kernel's side is compiled with
/// another share of a set for each VM, or another shortest packet.
#[test]
fn a_difference_is_found() {
    for flag in ["-DLT_FLOW_WAYS_VM=2", "-DLT_BYTES_MIN=65u"] {
        match load(&[flag]) {
            Ok(kernel) => assert!(compare(&kernel, seed(), 10_000).is_err(), "{flag}"),
            Err(reason) => skip(&reason),
        }
    }
}

/// Each set and each VM is one line of the cache, also in the kernel's maps.
#[test]
fn a_set_is_a_line_of_the_cache() {
    assert_eq!([size_of::<FlowSet>(), size_of::<FlowVm>()], [64, 64]);
    let kernel = match load(&[]) {
        Ok(kernel) => kernel,
        Err(reason) => return skip(&reason),
    };
    kernel.run_on("place", 1, &[0; 64]);
    let shared = kernel.read();
    let where_at = size_of::<FlowRule>() + size_of::<FlowSeed>() + 16;
    for map in [0, 8] {
        let place = shared[where_at + map..][..8].try_into().expect("eight bytes");
        let place = u64::from_ne_bytes(place);
        assert!(place != 0 && place.is_multiple_of(64), "{place:x}");
    }
}
