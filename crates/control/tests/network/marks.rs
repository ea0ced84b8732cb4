//! Marks: the bits that the policy gives a tagger carry a VM's number from its tap to the uplink, and all others come
//! out as they went in.

use lowtail_control::flow::{KEEP, Tagger};
use lowtail_kernel::marks::Mask;
use lowtail_policy::FlowParams;
use lowtail_testkit::seed;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::kernel;
use crate::net::Namespace;
use crate::program::{Kernel, VMS};

/// Through a tap and then an uplink, each.
const PACKETS: u32 = 100_000;
/// Masks of contiguous bits, of others' leavings, of every second bit, and of all; the others are random.
const MASKS: [u32; 6] = [0xffff_0000, 0x0000_30ff, 0x5555_5555, u32::MAX, 0x8000_0003, 0x1ff];

/// The bits of `number` at those of `mask`, one after another: what `bpf/mark.h` does in steps.
fn spread(number: u32, mask: u32) -> u32 {
    let bits = (0..32).filter(|bit| mask >> bit & 1 == 1).enumerate();
    bits.map(|(i, bit)| (number >> i & 1) << bit).sum()
}

fn packet(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut packet = vec![0u8; random.random_range(14..200)];
    random.fill(&mut packet[..]);
    // Half of them are IP, and so tagged.
    if random.random() {
        packet.resize(packet.len().max(60), 0);
        packet[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        packet[20..22].copy_from_slice(&[0, 0]);
    }
    packet
}

#[test]
fn others_bits_survive_a_hundred_thousand_packets() {
    let Some(_kernel) = kernel() else { return };
    let seed = seed::seed();
    Namespace::new().within(move || {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rounds = 20;
        for round in 0..rounds {
            let mask = MASKS.get(round).copied().unwrap_or_else(|| random.random::<u32>() | 0x300);
            let kernel = Kernel::load_marked(&FlowParams::default(), 1, [KEEP; 5], Mask(mask));
            let most = Mask(mask).vms().min(VMS - 1);
            for _ in 0..PACKETS / rounds as u32 / 50 {
                // Fifty packets of one VM.
                let machine = random.random_range(1..=most);
                let mut sent = Vec::new();
                kernel.become_tap(Some(machine));
                for _ in 0..50 {
                    let (before, packet): (u32, _) = (random.random(), packet(&mut random));
                    let (_, after, priority, mark) = kernel.send_marked(&packet, before);
                    let what =
                        format!("seed {seed}, mask {mask:#x}, VM {machine}, mark {before:#x}");
                    assert_eq!((&after, priority), (&packet, 7), "{what}");
                    assert_eq!(mark, before & !mask | spread(machine + 1, mask), "{what}");
                    sent.push((packet, mark));
                }
                kernel.become_uplink();
                let marked = kernel.counts()[15];
                for (packet, mark) in sent {
                    let (_, _, _, after) = kernel.send_marked(&packet, mark);
                    assert_eq!(after, mark & !mask, "seed {seed}, mask {mask:#x}, mark {mark:#x}");
                }
                assert_eq!(kernel.counts()[15] - marked, 50, "seed {seed}: each is known");
            }
        }
    });
}

/// Without `taps` no bit of any mark is looked at or changed.
#[test]
fn without_taps_marks_are_not_ours() {
    let Some(_kernel) = kernel() else { return };
    let seed = seed::seed();
    Namespace::new().within(move || {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let kernel = Kernel::load_marked(&FlowParams::default(), 1, [KEEP; 5], Mask::NONE);
        for tap in [false, true] {
            if tap {
                kernel.become_tap(Some(3));
            } else {
                kernel.become_uplink();
            }
            for _ in 0..1000 {
                let mark = random.random();
                let (_, _, _, after) = kernel.send_marked(&packet(&mut random), mark);
                assert_eq!(after, mark, "seed {seed}");
            }
        }
        assert_eq!(kernel.counts()[15], 0, "nobody is told by a mark");
    });
}

/// A number that does not fit would be another VM's.
#[test]
fn a_machine_that_does_not_fit_is_refused() {
    let Some(_kernel) = kernel() else { return };
    Namespace::new().within(|| {
        let tagger = Tagger::load(&FlowParams::default(), Mask(0x7)).expect("root may");
        tagger.set_owners(&[(7, 6)]).expect("six VMs fit into three bits");
        let error = tagger.set_owners(&[(7, 7)]).expect_err("seven do not").to_string();
        assert!(error.contains("VM 7: there is room for 6"), "{error}");
    });
}

/// Whether this kernel has what a command needs.
fn takes(host: &Namespace, command: &str) -> bool {
    let command = command.to_string();
    let takes = host.within(move || {
        let mut words = command.split(' ');
        let output =
            std::process::Command::new(words.next().expect("a program")).args(words).output();
        output.is_ok_and(|output| output.status.success()).then_some(()).ok_or(command)
    });
    takes.inspect_err(|command| eprintln!("left out, as this kernel has it not: {command}")).is_ok()
}

/// The rules of the four whose marks are known best, as they write them: Tailscale's and Cilium's of routing, kube-proxy's of
/// nftables, Calico's of iptables; and somebody's filter.
#[test]
fn who_uses_marks_is_found_and_named() {
    let Some(_kernel) = kernel() else { return };
    let all = Namespace::new();
    let survey = |host: &Namespace| host.within(lowtail_kernel::marks::survey);
    assert_eq!(survey(&all).uses, [], "nobody");
    type Says<'a> = (&'a str, &'a str, u32, &'a str);
    let cases: [Says; 9] = [
        ("ip", "rule add pref 5210 fwmark 0x80000/0xff0000 table main", 0x00ff_0000, "Tailscale"),
        ("ip", "-6 rule add pref 9 fwmark 0x200/0xf00 table main", 0xffff_0f00, "Cilium"),
        ("ip", "rule add pref 77 fwmark 0x1 table main", u32::MAX, "ip rule 77"),
        (
            "nft",
            "add rule inet t c meta mark set meta mark or 0x4000",
            0x4000,
            "nft table t, chain c",
        ),
        ("nft", "add rule inet t c meta mark and 0x30 == 0x10 drop", 0x30, "nft table t"),
        (
            "iptables-nft",
            "-t mangle -A INPUT -m mark --mark 0x10000/0xf0000 -j ACCEPT",
            0xf_0000,
            "mangle",
        ),
        (
            "iptables-legacy",
            "-t mangle -A INPUT -j MARK --set-xmark 0x8000/0x8000",
            0x8000,
            "mangle",
        ),
        ("ip6tables-nft", "-t mangle -A cali-x -j MARK --or-mark 0x20000", 0x2_0000, "Calico"),
        (
            "tc",
            "filter add dev lo ingress matchall action skbedit mark 0x5/0xff",
            0xff,
            "tc filter",
        ),
    ];
    // A namespace that has gone leaves its number to the next, which is by what it is remembered.
    let mut hosts = vec![all];
    for (program, rule, bits, who) in cases {
        let host = Namespace::new();
        match program {
            "nft" => {
                host.run("nft", "add table inet t");
                host.run("nft", "add chain inet t c");
            }
            "ip6tables-nft" => drop(host.run(program, "-t mangle -N cali-x")),
            "tc" => {
                host.run("tc", "qdisc add dev lo clsact");
                if !takes(&host, &format!("tc {rule}")) {
                    continue;
                }
                host.run("tc", "filter del dev lo ingress");
            }
            // Its tables need modules that not each kernel has.
            "iptables-legacy" if !takes(&host, "iptables-legacy -t mangle -S") => continue,
            _ => {}
        }
        host.run(program, rule);
        let survey = survey(&host);
        let sum = survey.uses.iter().fold(0, |all, own| all | own.bits);
        assert_eq!(sum, bits, "{program} {rule}: {survey:?}");
        assert!(survey.uses.iter().any(|own| own.who.contains(who)), "{rule}: {survey:?}");
        assert_eq!(survey.unread, [""; 0], "{rule}");
        hosts.push(host);
    }
    assert!(hosts.len() >= 8);
}

/// A policy whose bits are in use is refused as a whole, with who uses them and what would be free; with those it is taken.
#[test]
fn a_policy_whose_bits_are_in_use_is_refused() {
    let Some(_kernel) = kernel() else { return };
    let host = crate::restore::host();
    host.run("nft", "add table ip t");
    host.run("nft", "add chain ip t cali-c");
    host.run("nft", "add rule ip t cali-c meta mark set meta mark or 0xf0000");
    host.within(|| {
        let fatal = |network: &str| -> Vec<String> {
            let text = format!("{network}\n[[uplink]]\nname = \"nic\"\n");
            let (_, all) = crate::policy::resolve(&text);
            let fatal = all.notes.into_iter().filter(|note| note.fatal);
            fatal.map(|note| note.to_string()).collect()
        };
        let refused = fatal("[network]\ntaps = true");
        assert_eq!(
            refused,
            ["`[network] mark_mask` 0xffff0000 is in use: 0xf0000 by Calico (nft table t, chain cali-c); \
              free is `mark_mask = 0xfff0ffff`, for 4095 VMs"]
        );
        assert_eq!(fatal("[network]\ntaps = true\nmark_mask = 0xfff0ffff"), [""; 0]);
        assert_eq!(fatal("[network]\ntaps = false"), [""; 0], "marks are nobody's then");
    });
}
