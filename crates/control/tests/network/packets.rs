//! Packets of all forms, right and wrong: none is dropped, and of those that are tagged six bits differ, and a sum.

use lowtail_control::flow::LOW_LATENCY;
use lowtail_policy::FlowParams;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::kernel;
use crate::net::Namespace;
use crate::program::Kernel;

/// Random ones.
const PACKETS: usize = 60_000;
/// `TC_ACT_UNSPEC`: it goes on its way.
const ON: i32 = -1;
/// Where `struct passed` counts what is not tagged.
const NOT_IP: usize = 10;
const ODD: usize = 11;
const FRAGMENTS: usize = 12;

/// The sum of an IPv4 header is right if this is 0xffff (RFC 791).
pub(crate) fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A whole packet: link header with `kinds` before that of IP, then `ip`, then filled.
fn frame(kinds: &[[u8; 4]], kind: [u8; 2], ip: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(kinds.concat());
    frame.extend(kind);
    frame.extend(ip);
    frame.resize(frame.len().max(74), 0x55);
    frame
}

/// An IPv4 header with a right sum: of so many bytes, with TOS and fragment field.
fn ipv4(words: u8, tos: u8, fragment: [u8; 2]) -> Vec<u8> {
    let mut header = vec![0x40 | words, tos, 0, 60, 1, 2, fragment[0], fragment[1], 64, 17, 0, 0];
    header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    header.resize(usize::from(words.max(5)) * 4, 1);
    let right = !sum(&header);
    header[10..12].copy_from_slice(&right.to_be_bytes());
    header
}

/// An IPv6 header with a traffic class and a next header.
fn ipv6(class: u8, next: u8) -> Vec<u8> {
    let mut header = vec![0x60 | class >> 4, class << 4 | 0xa, 0xbc, 0xde, 0, 20, next, 64];
    header.extend([0xfd; 32]);
    header
}

#[test]
fn each_form_is_known_and_only_its_dscp_changes() {
    let Some(_kernel) = kernel() else { return };
    Namespace::new().within(|| {
        let kernel = Kernel::load(&FlowParams::default(), 1, LOW_LATENCY);
        let (q, ad) = ([0x81, 0, 0, 7], [0x88, 0xa8, 0, 9]);
        let (v4, v6, arp) = ([8, 0], [0x86, 0xdd], [8, 6]);
        let whole = [0x40, 0];
        // What, and where its IP header begins if it is to be tagged, else which counter counts it.
        let table: [(&str, Vec<u8>, Result<usize, usize>); 20] = [
            ("IPv4", frame(&[], v4, &ipv4(5, 0, whole)), Ok(14)),
            ("IPv4 with ECN", frame(&[], v4, &ipv4(5, 0xbb, whole)), Ok(14)),
            ("IPv4 with options", frame(&[], v4, &ipv4(8, 1, whole)), Ok(14)),
            ("IPv4 with all options", frame(&[], v4, &ipv4(15, 2, whole)), Ok(14)),
            ("IPv4 in a VLAN", frame(&[q], v4, &ipv4(5, 3, whole)), Ok(18)),
            ("IPv4 in a VLAN in another", frame(&[ad, q], v4, &ipv4(5, 0xff, whole)), Ok(22)),
            ("IPv6", frame(&[], v6, &ipv6(0, 6)), Ok(14)),
            ("IPv6 with ECN", frame(&[], v6, &ipv6(0xff, 17)), Ok(14)),
            ("IPv6 in a VLAN", frame(&[q], v6, &ipv6(0x57, 58)), Ok(18)),
            ("IPv6 in a VLAN in another", frame(&[ad, q], v6, &ipv6(3, 6)), Ok(22)),
            ("first fragment", frame(&[], v4, &ipv4(5, 0, [0x20, 0])), Err(FRAGMENTS)),
            ("middle fragment", frame(&[q], v4, &ipv4(5, 0, [0x20, 9])), Err(FRAGMENTS)),
            ("last fragment", frame(&[], v4, &ipv4(5, 0, [0, 9])), Err(FRAGMENTS)),
            ("fragment of IPv6", frame(&[], v6, &ipv6(0, 44)), Err(FRAGMENTS)),
            ("ARP", frame(&[], arp, &[0; 28]), Err(NOT_IP)),
            ("three VLANs", frame(&[ad, q, q], v4, &ipv4(5, 0, whole)), Err(NOT_IP)),
            ("IPv4 of version 6", frame(&[], v4, &ipv6(0, 6)), Err(ODD)),
            ("a header of 16 bytes", frame(&[], v4, &ipv4(4, 0, whole)), Err(ODD)),
            ("IPv6 of version 4", frame(&[], v6, &ipv4(5, 0, whole)), Err(ODD)),
            ("cut behind a VLAN", frame(&[q], v4, &ipv4(5, 0, whole))[..30].to_vec(), Err(ODD)),
        ];
        for (what, packet, wanted) in table {
            let before = kernel.counts();
            let (returned, after, priority) = kernel.send(&packet);
            let counts = kernel.counts();
            assert_eq!((returned, after.len()), (ON, packet.len()), "{what}");
            match wanted {
                Err(counter) => {
                    assert_eq!((&after, priority), (&packet, 7), "{what}");
                    let mut wanted = before;
                    wanted[counter] += 1;
                    assert_eq!(counts, wanted, "{what}");
                }
                Ok(at) => {
                    // All of it is a little: the first band, 18 for switches.
                    assert_eq!((priority, counts[0]), (100, before[0] + 1), "{what}");
                    assert_eq!(counts[5] - before[5], packet.len() as u64, "{what}");
                    let mut wanted = packet.clone();
                    if packet[at] >> 4 == 4 {
                        wanted[at + 1] = 18 << 2 | packet[at + 1] & 3;
                        let length = usize::from(packet[at] & 15) * 4;
                        assert_eq!(sum(&after[at..at + length]), 0xffff, "{what}");
                        wanted[at + 10..at + 12].copy_from_slice(&after[at + 10..at + 12]);
                    } else {
                        let class = (packet[at] << 4 | packet[at + 1] >> 4) & 3 | 18 << 2;
                        wanted[at] = 0x60 | class >> 4;
                        wanted[at + 1] = class << 4 | packet[at + 1] & 15;
                    }
                    assert_eq!(after, wanted, "{what}");
                }
            }
        }
    });
}

/// Bytes that differ where they may: of an IPv4 or IPv6 header behind up to two tags.
fn differs_only_where_it_may(before: &[u8], after: &[u8]) -> bool {
    let changed: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    let allowed = |at: usize| -> Vec<usize> {
        match before.get(at).map(|first| first >> 4) {
            Some(4) => vec![at + 1, at + 10, at + 11],
            _ => vec![at, at + 1],
        }
    };
    [14, 18, 22].iter().any(|at| changed.iter().all(|one| allowed(*at).contains(one)))
}

#[test]
fn whatever_comes_goes_on() {
    let Some(_kernel) = kernel() else { return };
    let seed: u64 = std::env::var("LOWTAIL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| u64::from(std::process::id()));
    println!("repeat: LOWTAIL_SEED={seed} cargo test -p lowtail-control --test network whatever");
    Namespace::new().within(move || {
        let kernel = Kernel::load(&FlowParams::default(), seed, LOW_LATENCY);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut sent = 0;
        for number in 0..PACKETS {
            if number % 100 == 0 {
                // Long enough for all buckets to be full again: 24 ms.
                kernel.set_clock((1 << 42) + number as u64 * 300_000);
            }
            let packet = any(&mut random);
            let (returned, after, priority) = kernel.send(&packet);
            let fine = returned == ON
                && after.len() == packet.len()
                && (priority == 7 || (100..105).contains(&priority))
                && differs_only_where_it_may(&packet, &after)
                && (priority != 7 || after == packet);
            assert!(fine, "seed {seed}, packet {number}: {packet:02x?}, {returned}, {after:02x?}");
            sent += 1;
        }
        let counts = kernel.counts();
        let all: u64 = counts[..5].iter().chain(&counts[10..14]).sum();
        assert_eq!(all, sent, "{counts:?}");
        // Each kind was among them.
        for kind in [0, NOT_IP, ODD, FRAGMENTS] {
            assert!(counts[kind] > 500, "{counts:?}");
        }
    });
}

/// A packet with some right in it, or nothing.
fn any(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let length = match random.random_range(0..4u32) {
        0 => random.random_range(15..90),
        1 => random.random_range(15..1600),
        2 => 1514,
        _ => 74,
    };
    let mut packet: Vec<u8> = (0..length).map(|_| random.random()).collect();
    let mut at = 12;
    let mut put = |at: usize, bytes: &[u8]| {
        for (place, byte) in packet.iter_mut().skip(at).zip(bytes) {
            *place = *byte;
        }
    };
    for _ in 0..random.random_range(0..4u32) {
        put(at, if random.random() { &[0x81, 0] } else { &[0x88, 0xa8] });
        at += 4;
    }
    let junk = random.random_range(0..8u32) == 0;
    match random.random_range(0..5u32) {
        0..2 => put(at, &[8, 0, if junk { random.random() } else { 0x45 }]),
        2..4 => put(at, &[0x86, 0xdd, if junk { random.random() } else { 0x60 }]),
        _ => {}
    }
    if random.random_range(0..3u32) > 0 {
        // No fragment.
        put(at + 8, &[0, 0]);
    }
    // The kernel's test run itself refuses a header that is cut short right behind Ethernet, not one behind a tag.
    let whole = match packet[12..14] {
        [8, 0] => 34,
        [0x86, 0xdd] => 54,
        _ => 0,
    };
    if packet.len() < whole {
        packet.splice(12..12, [0x81, 0, 0, 7]);
    }
    packet
}
