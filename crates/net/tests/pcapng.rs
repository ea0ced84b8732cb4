//! Frames written as pcapng, read by tshark: what the simulator sent is what a tool sees that
//! knows nothing of it.
//!
//! Without tshark the test is skipped and says so, unless CI is `true`.

use std::path::{Path, PathBuf};
use std::process::Command;

use lowtail_engine::{Distribution, Duration, Time};
use lowtail_net::packet::{Kind, Packet};
use lowtail_net::pcapng::Head;
use lowtail_net::port::PortId;
use lowtail_net::{
    End, EndConfig, LinkConfig, Net, NetConfig, Pattern, Place, Port, Rate, Shape, TapConfig,
    TrafficConfig,
};

/// A sends to C over a switch with little room, while B sends there, too, and over a link that loses some: frames are lost. Some
/// are marked, pings go to and fro, and datagrams one way.
fn network() -> Net {
    let shape = Shape::Star { hosts: 3 };
    let traffic = |name: &str, from: u32, pattern| {
        TrafficConfig::new(name, vec![(End(from), End(2))], pattern)
    };
    let transfer = Pattern::Transfer { bytes: 2_000_000 };
    let mut marked = traffic("marked", 0, Pattern::Transfer { bytes: 300_000 });
    marked.tcp.ecn = true;
    let gap = Distribution::Fixed(Duration::from_ms(7));
    // 17 bytes of payload: a frame that Ethernet pads, and an odd number for checksums.
    let mut ping = traffic("ping", 0, Pattern::Ping { bytes: 17, gap, closed: false });
    let mut grams =
        traffic("grams", 0, Pattern::Datagrams { bytes: lowtail_net::Size::Fixed(901), gap });
    for kind in [&mut ping, &mut grams] {
        kind.until = Duration::from_ms(500);
    }
    let kinds = [traffic("a", 0, transfer), traffic("b", 1, transfer), marked, ping, grams];
    let config = NetConfig {
        shape,
        ends: (0..3).map(|host| EndConfig { host, attached: false }).collect(),
        traffic: kinds.to_vec(),
        datagrams: Vec::new(),
        local_delay: Duration::ZERO,
    };
    let link = LinkConfig {
        rate: Rate::from_mbit_s(100),
        delay: Duration::from_ms(2),
        buffer_bytes: 40_000,
        mark_bytes: Some(20_000),
        loss_per_billion: 0,
    };
    let port = |place| match place {
        Place::Host(_) => {
            Port::plain(LinkConfig { buffer_bytes: 1 << 40, mark_bytes: None, ..link })
        }
        Place::ToHost(2) => Port::plain(LinkConfig { loss_per_billion: 20_000_000, ..link }),
        _ => Port::plain(link),
    };
    let ports = shape.places().map(port).collect();
    Net::new(&config, ports, 3)
}

/// Both directions of A's link, all traffic done.
fn tapped(frames: usize) -> Net {
    let mut net = network();
    for port in [0, 3] {
        net.tap(PortId(port), TapConfig { frames, samples: 0 });
    }
    net.run(Time::ZERO + Duration::from_ms(60_000));
    net
}

fn file(net: &Net) -> Vec<u8> {
    let head = Head { application: "lowtail test", comment: "seed 3" };
    let links = ["A", "to:A"].map(|name| (name.to_string(), format!("link {name}")));
    let names = ["a", "b", "c"].map(str::to_string);
    net.write_frames(Vec::new(), &head, &links, &names).unwrap()
}

/// All frames as the file has them: in order of time, with the number of their tap.
fn frames(net: &Net) -> Vec<(Time, usize, Packet)> {
    let of = |(i, tap): (usize, &lowtail_net::Tap)| -> Vec<(Time, usize, Packet)> {
        tap.frames().map(|(at, packet)| (at, i, *packet)).collect()
    };
    let mut all: Vec<_> = net.taps().iter().enumerate().flat_map(of).collect();
    all.sort_by_key(|&(at, tap, _)| (at, tap));
    all
}

fn tshark() -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&dirs).map(|dir| dir.join("tshark")).find(|p| p.is_file());
    if found.is_none() {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "tshark is not installed; nothing is skipped where CI=true");
        println!("skipped: tshark is not installed");
    }
    found
}

/// Fields of each frame, as text.
fn fields(tshark: &Path, file: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(tshark);
    command.arg("-r").arg(file).args(["-n", "-T", "fields", "-E", "separator=/t"]);
    for check in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{check}.check_checksum:TRUE")]);
    }
    // As they are, not relative to the first.
    command.args(["-o", "tcp.relative_sequence_numbers:FALSE"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect()
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn tshark_sees_what_was_sent() {
    let Some(tshark) = tshark() else { return };
    let net = tapped(1 << 20);
    let frames = frames(&net);
    let path = write("seen.pcapng", &file(&net));
    let names = [
        "frame.time_epoch",
        "frame.len",
        "frame.interface_name",
        "ip.len",
        "tcp.seq",
        "tcp.ack",
        "tcp.len",
        "icmp.seq",
        "ip.dsfield.ecn",
        "tcp.flags.ece",
        "tcp.options.sack.count",
        "_ws.malformed",
        "tcp.analysis.ack_lost_segment",
        "tcp.analysis.lost_segment",
    ];
    let seen = fields(&tshark, &path, &names);
    assert_eq!(seen.len(), frames.len());
    assert!(frames.len() > 2_000);
    for (seen, (at, tap, packet)) in seen.iter().zip(&frames) {
        let ns = at.as_ns();
        assert_eq!(seen[0], format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
        assert_eq!(seen[2], ["A", "to:A"][*tap]);
        let tcp = matches!(packet.kind, Kind::Data | Kind::Ack);
        let blocks = seen[10].parse().unwrap_or(0);
        let sack = if blocks > 0 { 4 + 8 * blocks } else { 0 };
        // RFC 791, 9293, 768, 792: 20 and 20 with 12 of time stamps, or 20 and 8.
        let ip = packet.payload + if tcp { 52 + sack } else { 28 };
        assert_eq!(seen[3], ip.to_string());
        assert_eq!(seen[1], (ip + 14).max(60).to_string());
        // The first byte is number 1.
        match packet.kind {
            Kind::Data => {
                assert_eq!(seen[4], (packet.seq + 1).to_string());
                assert_eq!((seen[5].as_str(), &seen[6]), ("1", &packet.payload.to_string()));
            }
            Kind::Ack => {
                assert_eq!((seen[4].as_str(), seen[6].as_str()), ("1", "0"));
                assert_eq!(seen[5], (packet.ack + 1).to_string());
            }
            Kind::Ping | Kind::Pong => assert_eq!(seen[7], packet.seq.to_string()),
            _ => {}
        }
        assert_eq!(
            seen[8],
            (match packet.ecn {
                lowtail_net::packet::Ecn::Not => "0",
                lowtail_net::packet::Ecn::Capable => "2",
                lowtail_net::packet::Ecn::Marked => "3",
            })
        );
        let echo = packet.kind == Kind::Ack && packet.flags & lowtail_net::tcp::FLAG_ECHO != 0;
        if tcp {
            assert_eq!(["1", "True"].contains(&seen[9].as_str()), echo, "{}", seen[9]);
        }
        // Nothing is missing at A's own link.
        assert!(seen[11..].iter().all(String::is_empty), "{seen:?}");
    }
    assert!(seen.iter().any(|seen| seen[9] == "1" || seen[9] == "True"), "no mark is echoed");
    assert!(seen.iter().any(|seen| !seen[10].is_empty()), "nothing is acknowledged selectively");
}

/// A connection that is opened for a message and closed after it is one to tshark, too.
#[test]
fn tshark_sees_a_connection() {
    let Some(tshark) = tshark() else { return };
    let gap = Distribution::Fixed(Duration::from_ms(1_000));
    let bytes = lowtail_net::Size::Fixed(5_000);
    let pattern = Pattern::Messages { bytes, gap, anywhere: false };
    let traffic = TrafficConfig {
        connection: lowtail_net::Connection::PerMessage,
        until: Duration::from_ms(999),
        ..TrafficConfig::new("a", vec![(End(0), End(1))], pattern)
    };
    let shape = Shape::Star { hosts: 2 };
    let config = NetConfig {
        shape,
        ends: (0..2).map(|host| EndConfig { host, attached: false }).collect(),
        traffic: vec![traffic],
        datagrams: Vec::new(),
        local_delay: Duration::ZERO,
    };
    let link = LinkConfig {
        rate: Rate::from_mbit_s(100),
        delay: Duration::from_ms(2),
        buffer_bytes: 1 << 40,
        mark_bytes: None,
        loss_per_billion: 0,
    };
    let mut net = Net::new(&config, shape.places().map(|_| Port::plain(link)).collect(), 3);
    for port in [0, 2] {
        net.tap(PortId(port), TapConfig { frames: 100, samples: 0 });
    }
    net.run(Time::ZERO + Duration::from_ms(5_000));
    let path = write("connection.pcapng", &file(&net));
    let names = [
        "tcp.flags.str",
        "tcp.seq",
        "tcp.ack",
        "tcp.len",
        "tcp.options.mss_val",
        "tcp.checksum.status",
        "tcp.analysis.flags",
        "_ws.malformed",
    ];
    let seen = fields(&tshark, &path, &names);
    let flags: Vec<String> = seen
        .iter()
        .map(|seen| seen[0].chars().filter(char::is_ascii_uppercase).collect())
        .collect();
    // Four segments, of which the last pushes. The receiver acknowledges the first ones at once, and the answer to FIN.
    assert_eq!(flags[..3], ["S", "AS", "A"], "{seen:?}");
    assert_eq!(flags.iter().filter(|flags| flags.contains('F')).count(), 1, "{seen:?}");
    let column = |i: usize| -> Vec<&str> { seen.iter().map(|seen| seen[i].as_str()).collect() };
    assert_eq!((&column(1)[..3], &column(2)[1..3]), (&["0", "0", "1"][..], &["1", "1"][..]));
    assert_eq!(column(4)[..3], ["1460", "1460", ""]);
    // Right, or (2) not to be checked, where the file leaves out the payload.
    let checked = column(5).into_iter().zip(column(3));
    assert!(checked.clone().all(|(status, len)| status == if len == "0" { "1" } else { "2" }));
    assert_eq!(column(2).last(), Some(&"5002"));
    assert!(column(6).iter().chain(&column(7)).all(|odd| odd.is_empty()), "{seen:?}");
    let bytes: u64 = column(3).iter().map(|len| len.parse::<u64>().unwrap()).sum();
    assert_eq!(bytes, 5_000);
}

/// At the sender's own link nothing overtakes: what comes below what has been sent is sent again.
/// tshark, which goes by the time between frames, calls some of that out of order.
#[test]
fn what_is_sent_again_is_flagged() {
    let Some(tshark) = tshark() else { return };
    let net = tapped(1 << 20);
    let path = write("again.pcapng", &file(&net));
    let names =
        ["tcp.analysis.retransmission", "tcp.analysis.out_of_order", "tcp.analysis.duplicate_ack"];
    let seen = fields(&tshark, &path, &names);
    let mut ends = std::collections::BTreeMap::new();
    let mut again = 0;
    for (seen, (_, _, packet)) in seen.iter().zip(frames(&net)) {
        let flagged = seen[..2].iter().any(|flag| !flag.is_empty());
        if packet.kind != Kind::Data {
            assert!(!flagged);
            continue;
        }
        let end = ends.entry(packet.flow).or_insert(0);
        assert_eq!(flagged, packet.seq < *end, "{packet:?}");
        again += u64::from(flagged);
        *end = (packet.seq + u64::from(packet.payload)).max(*end);
    }
    let mine = net.flows().iter().filter(|flow| flow.src == End(0));
    let resent: u64 = mine.map(|flow| flow.sender.counts.resent).sum();
    assert!(resent > 20, "{resent} sent again");
    assert_eq!(again, resent);
    assert!(seen.iter().any(|seen| !seen[2].is_empty()), "no acknowledgement comes twice");
}

/// With the payload put back, all zeros, every checksum can be verified.
#[test]
fn checksums_are_right() {
    const ENHANCED_PACKET: u32 = 6;
    let Some(tshark) = tshark() else { return };
    let net = tapped(1 << 20);
    let file = file(&net);
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    // The format before pcapng: magic, version 2.4, no zone, no snapping, Ethernet.
    let mut whole: Vec<u8> = Vec::new();
    for field in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1u32] {
        whole.extend(field.to_le_bytes());
    }
    let (mut at, mut n) = (0, 0);
    while at < file.len() {
        if word(at) == ENHANCED_PACKET {
            let (kept, all) = (word(at + 20) as usize, word(at + 24) as usize);
            for field in [0, n, all as u32, all as u32] {
                whole.extend(field.to_le_bytes());
            }
            whole.extend(&file[at + 28..at + 28 + kept]);
            whole.resize(whole.len() + all - kept, 0);
            n += 1;
        }
        at += word(at + 4) as usize;
    }
    let path = write("whole.pcap", &whole);
    let names = [
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "icmp.checksum.status",
        "_ws.malformed",
        "_ws.short",
    ];
    let seen = fields(&tshark, &path, &names);
    assert_eq!(seen.len(), frames(&net).len());
    for status in &seen {
        // 1 is good.
        assert_eq!((status[0].as_str(), status[1..4].concat().as_str()), ("1", "1"), "{status:?}");
        assert!(status[4..].iter().all(String::is_empty), "{status:?}");
    }
}

/// What there is no room for is counted, and the file says so.
#[test]
fn a_tap_is_bounded() {
    let (all, few) = (tapped(1 << 20), tapped(100));
    let some = few.taps().iter().zip(all.taps());
    for (few, all) in some {
        assert!(few.frames().eq(all.frames().take(100)));
        assert_eq!(few.more(), all.frames().len() as u64 - 100);
        let text = format!("{} later frames are not in this file", few.more());
        assert!(String::from_utf8_lossy(&file(&tapped(100))).contains(&text));
    }
    assert!(!String::from_utf8_lossy(&file(&all)).contains("later frames"));
}
