//! VLAN tags beside the frame: the kernel takes the outer tag out of what comes in by a tap (`skb_vlan_untag`), and a
//! bridge sends it on so. The tagger gives it its band and DSCP as it would without.

use std::process::Command;

use lowtail_control::flow::{LOW_LATENCY, Tagger, TaggerConfig};
use lowtail_kernel::marks::Mask;
use lowtail_kernel::tc::{self, Link};
use lowtail_policy::FlowParams;

use crate::kernel;
use crate::net::{Net, v4};

/// A UDP packet of the VM `a` to `far`: Ethernet, tags, IPv4 with TOS `tos`, and a last word that is its own.
fn frame(tags: &[[u8; 4]], tos: u8, number: u64) -> Vec<u8> {
    let mut ip = vec![0x45, tos, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    for address in [v4(1), v4(9)] {
        let std::net::IpAddr::V4(address) = address else { unreachable!("they are of IPv4") };
        ip.extend(address.octets());
    }
    ip.extend([0x0f, 0xa0, 0, 9, 0, 40, 0, 0]);
    ip.resize(52, 0);
    ip.extend(number.to_be_bytes());
    let length = ip.len() as u16;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = !sum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
    frame.extend(tags.concat());
    frame.extend([8, 0]);
    frame.extend(ip);
    frame
}

/// The sum of a header, which is 0xffff if it is right (RFC 791).
fn sum(header: &[u8]) -> u16 {
    let mut sum: u32 =
        header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn a_tag_beside_the_frame_makes_no_difference() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    net.host.within(|| {
        let uplink = Link::find("uplink").expect("it is there");
        tc::set_hooks(&uplink, true).expect("there are none");
        let params = FlowParams::default();
        let mut config = TaggerConfig::new(&params, [0; 5]);
        config.dscp = LOW_LATENCY;
        let tagger = Tagger::load(&params, Mask::NONE).expect("root may");
        tagger.attach(&uplink, &config).expect("nobody else is there");
    });
    let (q, ad, inner) = ([0x81, 0, 0, 7], [0x88, 0xa8, 0x60, 9], [0x81, 0, 0x20, 3]);
    // Tags that it leaves with, and what of them is beside the frame when it has come.
    let forms: [(&[[u8; 4]], &str); 5] = [
        (&[], "0 0"),
        (&[q], "8100 7"),
        (&[ad], "88a8 6009"),
        (&[ad, inner], "88a8 6009"),
        (&[q, inner], "8100 7"),
    ];
    let frames: Vec<Vec<u8>> =
        forms.iter().zip(1..).map(|((tags, _), n)| frame(tags, 0xb9, n)).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/network/vlan.py");
    let output = Command::new("nsenter")
        .arg(format!("--net={}", net.a.path()))
        .args(["python3", script])
        // Not by this process' number, which is not that of the script.
        .arg(net.far.path())
        .args(frames.iter().map(|frame| hex(frame)))
        .output()
        .expect("nsenter is there");
    if output.stdout.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "{}", String::from_utf8_lossy(&output.stderr));
        return eprintln!("skipped: no python3, or it has no raw sockets");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), forms.len(), "{said}");
    for (line, (tags, beside)) in lines.into_iter().zip(forms) {
        let came = line.strip_prefix(beside).unwrap_or_else(|| panic!("{tags:x?}: {line}"));
        let came: Vec<u8> = (0..came.trim().len() / 2)
            .map(|n| u8::from_str_radix(&came.trim()[2 * n..2 * n + 2], 16).expect("hexadecimal"))
            .collect();
        // The tags that are still in it, then IP: AF21, as a pair's first packets are brief, and ECN as it was.
        let at = 14 + 4 * tags.len().saturating_sub(1);
        assert_eq!(came[at], 0x45, "{tags:x?}");
        assert_eq!(came[at + 1], 18 << 2 | 0xb9 & 3, "{tags:x?}");
        assert_eq!(sum(&came[at..at + 20]), 0xffff, "{tags:x?}");
    }
    let counts = net.host.within(|| {
        let uplink = Link::find("uplink").expect("it is there");
        let tagger = Tagger::running(&uplink).expect("it is ours").expect("it runs");
        tagger.counts().expect("they can be read")
    });
    // A kernel may send something by itself.
    assert!(counts.packets[0] >= 5, "{counts:?}");
    assert_eq!((counts.odd, counts.unwritten), (0, 0));
}
