//! Ten million packets through the tagger and through the native rule: the same bands, the same bytes, the same tables.

use lowtail_policy::{FlowParams, FlowRule, FlowSeed, FlowSet, FlowVm, flow_index, flow_ports};

use crate::kernel;
use crate::net::Namespace;
use crate::program::{Kernel, SETS, Test, VMS, bytes};

const PACKETS: u32 = 10_000_000;
/// Classes for VMs of each band: fewer than there are VMs.
const VM_CLASSES: u32 = 16;
const DSCP: [u8; 5] = [18, 20, 0xff, 12, 14];

/// A form of a packet, of which many are sent.
#[derive(Clone, Copy)]
enum Form {
    Ipv4,
    Ipv6,
    Fragment,
    Arp,
}

/// What the tables and the packet are to be.
struct Native {
    rule: FlowRule,
    seed: FlowSeed,
    sets: Vec<FlowSet>,
    vms: Vec<FlowVm>,
}

impl Native {
    /// As `many` does it, by the formats of RFC 791 and RFC 8200, with the rule as it is for the simulator.
    fn run(&mut self, test: &mut Test, packet: &[u8], form: Form, repeat: u32) {
        let header = test.header_at as usize;
        let mut first = [0u8; 40];
        first[..16].copy_from_slice(bytes(&test.words));
        let rest = packet.len().min(header + 40).saturating_sub(header + 16);
        first[16..16 + rest].copy_from_slice(&packet[header + 16..header + 16 + rest]);
        let source = (test.source_at - test.header_at) as usize;
        for _ in 0..repeat {
            test.state ^= test.state << 13;
            test.state ^= test.state >> 7;
            test.state ^= test.state << 17;
            let s = test.state;
            let address = (s >> 8 & 0x3f) as u32 * (s >> 4 & 1) as u32;
            test.now += s >> 16 & 0x1fff;
            let vm = ((s >> 40) % u64::from(test.vms)) as u32;
            let mut bytes = first;
            bytes[source..source + 4].copy_from_slice(&address.to_ne_bytes());
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight"));
            let ports = |protocol: u8, at: usize| {
                let port = |at: usize| {
                    u16::from_ne_bytes(
                        packet[header + at..header + at + 2].try_into().expect("two"),
                    )
                };
                match protocol {
                    17 => flow_ports(protocol, port(at), port(at + 2)),
                    _ => flow_ports(protocol, 0, 0),
                }
            };
            let half = |at: usize| {
                u64::from(u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four")))
            };
            let pair = match form {
                Form::Ipv4 => Some((half(12), half(16), ports(bytes[9], 20))),
                Form::Ipv6 => {
                    let fold = |at| self.seed.fold(word(at), word(at + 8));
                    Some((fold(8), fold(24), ports(bytes[6], 40)))
                }
                Form::Fragment | Form::Arp => None,
            };
            // In the last band if it has none.
            let of_vm = 100 + vm % VM_CLASSES * 16;
            let mut priority = 4 * 16 * VM_CLASSES + of_vm;
            if let Some((src, dst, ports)) = pair {
                let hash = self.seed.hash(vm, src, dst, ports);
                let set = &mut self.sets[flow_index(hash, SETS - 1) as usize];
                let owner = &mut self.vms[vm as usize];
                let length = packet.len() as u32;
                let band = set.classify(owner, &self.rule, (vm, hash), length, test.now);
                priority = u32::from(band) * 16 * VM_CLASSES + of_vm;
                let dscp = DSCP[usize::from(band)];
                if dscp != 0xff {
                    retag(&mut bytes, form, dscp);
                }
            }
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight"));
            test.digest ^= word(0) ^ u64::from(priority) << 20;
            test.digest = test.digest.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word(8));
        }
    }
}

/// Six bits of the header become another DSCP; the sum of an IPv4 header stays right or wrong by as much as it was
/// (RFC 1624, equation 3).
fn retag(header: &mut [u8; 40], form: Form, dscp: u8) {
    let word = |header: &[u8; 40], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if matches!(form, Form::Ipv6) {
        let class = word(header, 0) & 0xf03f | u16::from(dscp) << 6;
        header[..2].copy_from_slice(&class.to_be_bytes());
        return;
    }
    let old = word(header, 0);
    header[1] = header[1] & 3 | dscp << 2;
    let new = word(header, 0);
    if old != new {
        let mut sum = u32::from(!word(header, 10)) + u32::from(!old) + u32::from(new);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// A packet of `length` bytes with so many VLAN tags; where its IP header begins.
fn packet(form: Form, tags: usize, length: usize) -> (Vec<u8>, usize) {
    let mut packet = vec![0u8; length];
    let at = 14 + 4 * tags;
    for tag in 0..tags {
        packet[12 + 4 * tag..14 + 4 * tag].copy_from_slice(&[0x81, 0]);
    }
    let kind = match form {
        Form::Ipv4 | Form::Fragment => [8, 0],
        Form::Ipv6 => [0x86, 0xdd],
        Form::Arp => [8, 6],
    };
    packet[at - 2..at].copy_from_slice(&kind);
    match form {
        Form::Ipv4 | Form::Fragment => {
            packet[at..at + 2].copy_from_slice(&[0x45, 0xb9]);
            packet[at + 9] = 17;
            packet[at + 20..at + 24].copy_from_slice(&[0x12, 0x34, 0, 53]);
        }
        Form::Ipv6 => {
            packet[at..at + 2].copy_from_slice(&[0x6b, 0x90]);
            // With tags without ports, as ICMP.
            packet[at + 6] = if tags == 0 { 17 } else { 58 };
            packet[at + 40..at + 44].copy_from_slice(&[0x12, 0x34, 0, 53]);
        }
        Form::Arp => {}
    }
    if matches!(form, Form::Fragment) {
        packet[at + 6] = 0x20;
    }
    (packet, at)
}

#[test]
fn ten_million_packets_get_the_native_rules_bands() {
    let Some(_kernel) = kernel() else { return };
    Namespace::new().within(|| {
        let seed = std::env::var("LOWTAIL_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed: u64 = seed.unwrap_or(1);
        // VMs with less than the usual, so that it does not last.
        let params = FlowParams { vm_rate: 1966, vm_burst_ns: 800_000, ..FlowParams::default() };
        let kernel = Kernel::load(&params, seed, DSCP);
        kernel.set_vm_classes(DSCP, VM_CLASSES);
        let mut native = Native {
            rule: params.rule().expect("in range"),
            seed: FlowSeed::new(seed),
            sets: vec![FlowSet::default(); SETS as usize],
            vms: vec![FlowVm::default(); VMS as usize],
        };
        let forms = [
            (Form::Ipv4, 0),
            (Form::Ipv6, 0),
            (Form::Ipv4, 1),
            (Form::Ipv6, 2),
            (Form::Ipv4, 2),
            (Form::Fragment, 1),
            (Form::Ipv6, 1),
            (Form::Arp, 0),
        ];
        // Few VMs, so that one has much, and all.
        let shapes = [(74, 3), (1514, VMS), (200, 8), (600, 40)];
        let batch = PACKETS / (forms.len() * shapes.len()) as u32;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (mut now, mut digest, mut each, mut empty) = (1 << 42, 0, Vec::new(), Vec::new());
        for (length, vms) in shapes {
            for (form, tags) in forms {
                let (packet, at) = packet(form, tags, length);
                let source = if matches!(form, Form::Ipv6) { 20 } else { 12 };
                let words = [0, 8].map(|n| {
                    u64::from_ne_bytes(packet[at + n..at + n + 8].try_into().expect("eight"))
                });
                let (source_at, header_at) = ((at + source) as u32, at as u32);
                let mut test = Test { state, now, digest, source_at, header_at, words, vms };
                kernel.set_test(&test);
                each.push(kernel.repeat("many", &packet, batch));
                empty.push(kernel.repeat("empty", &packet, 10_000));
                native.run(&mut test, &packet, form, batch);
                assert_eq!(
                    kernel.test(),
                    (test.now, test.digest),
                    "seed {seed}: packets of {length} bytes, {tags} tags; repeat: LOWTAIL_SEED={seed}"
                );
                (state, now, digest) = (test.state, test.now, test.digest);
            }
        }
        for (n, set) in native.sets.iter().enumerate() {
            assert_eq!(kernel.get("sets", n as u32), bytes(set), "set {n}");
        }
        for (n, vm) in native.vms.iter().enumerate() {
            assert_eq!(kernel.get("vms", n as u32), bytes(vm), "VM {n}");
        }
        // Each case has occurred, and each packet is in one of them.
        let counts = kernel.counts();
        let (bands, rest) = (&counts[..5], &counts[10..15]);
        assert!(bands.iter().all(|packets| *packets > 10_000), "{counts:?}");
        let total: u64 = bands.iter().chain(rest).sum();
        assert_eq!(total, u64::from(batch) * (forms.len() * shapes.len()) as u64);
        assert_eq!((rest[1], rest[3], rest[4]), (0, 0, 0), "{counts:?}");
        assert_eq!(counts[15], total, "each is told by its mark");
        println!("ns a packet, with making it: {each:?}; empty: {empty:?}");
        // For docs/explanation/flow.md: the tagger beside an empty program, the least of many means.
        for (form, what) in [(Form::Ipv4, "IPv4"), (Form::Ipv6, "IPv6"), (Form::Arp, "ARP")] {
            let (packet, _) = packet(form, 0, 200);
            let least = |program| {
                (0..50).map(|_| kernel.repeat(program, &packet, 20_000)).min().expect("some")
            };
            println!("ns a packet of {what}: {}, empty {}", least("tag"), least("empty"));
        }
    });
}
