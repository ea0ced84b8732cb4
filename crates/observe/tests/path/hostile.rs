//! VMs that send what nobody would.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::net::{FAR, Net, v4};
use crate::traffic::{ask, connect, echo_server};
use crate::{kernel, observe, read};

/// An IP packet to `far` that says that it is TCP: of another sender and connection each time, with a
/// time stamp of its own, or with lengths and options that are nonsense.
fn packet(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut packet = vec![0; 20 + 60 + 100];
    random.fill(&mut packet[..]);
    let nonsense = random.random_range(0..4) == 0;
    packet[0] = 0x45;
    packet[6..8].fill(0);
    packet[9] = 6;
    packet[16..20].copy_from_slice(&Ipv4Addr::new(10, 77, 0, FAR).octets());
    if nonsense {
        return packet[..20 + random.random_range(0..160)].to_vec();
    }
    // A header of 32 bytes, flags, and no checksum, which nobody looks at on the way.
    packet[32] = 0x80;
    packet[33] = [2, 16, 18, 24][random.random_range(0..4)];
    packet[40..44].copy_from_slice(&[1, 1, 8, 10]);
    packet
}

#[test]
fn a_flood_of_connections_does_not_end_what_is_known_of_others() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    net.host.tc("qdisc add dev uplink root tbf rate 1gbit burst 100000 limit 10000000");
    let path = observe(&net);
    let server = echo_server(&net.far, v4(FAR));
    let mut connection = connect(&net.a, server);
    ask(&mut connection, 3);
    let before = read(&path).0;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let raw = net.b.within(|| {
        let kind = (AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw);
        socket(kind.0, kind.1, kind.2, kind.3).expect("root may")
    });
    let flood = thread::spawn(move || {
        use std::os::fd::AsRawFd;
        let (mut random, mut sent) = (Xoshiro256PlusPlus::seed_from_u64(1), 0u64);
        let to = SockaddrIn::new(10, 77, 0, FAR, 0);
        while !stopped.load(Ordering::Relaxed) || sent < 100_000 {
            let packet = packet(&mut random);
            sent += u64::from(sendto(raw.as_raw_fd(), &packet, &to, MsgFlags::empty()).is_ok());
        }
        sent
    });
    let took = ask(&mut connection, 200).len() as u64;
    stop.store(true, Ordering::Relaxed);
    let sent = flood.join().expect("it does not panic");
    let (a, b) = read(&path);
    let a = a.since(&before);
    assert!(b.transmitted_packets * 10 >= sent * 9, "{} of {sent}", b.transmitted_packets);
    assert!(a.round_trip.count() * 20 >= took * 19, "{} of {took}", a.round_trip.count());
    assert!(a.drops.is_empty(), "{:?}", a.drops);
    let lost = path.lost().unwrap();
    assert!(lost.flows > 0 && lost.odd > 0, "{lost:?}");
}
