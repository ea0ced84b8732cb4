//! A real tap, with a process behind it as VMs have.

use crate::interface;
use std::thread;
use std::time::Duration;

use lowtail_observe::PathLost;

use crate::net::{FAR, Net, v4};
use crate::traffic::udp;
use crate::{SLOT_A, SLOT_B, kernel, nearly, observe, read};
use lowtail_testkit::tap::TapProcess;

/// What the interface itself has counted as dropped on the way out.
fn dropped(net: &Net, interface: &str) -> u64 {
    let said = net.host.ip(&format!("-s link show dev {interface}"));
    let mut lines = said.lines().skip_while(|line| !line.trim().starts_with("TX:"));
    let numbers = lines.nth(1).expect("ip says it");
    numbers.split_whitespace().nth(3).and_then(|word| word.parse().ok()).expect("a number")
}

#[test]
fn a_tap_is_followed_both_ways() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    net.host.ip("tuntap add dev tap-c mode tap");
    net.host.ip("link set dev tap-c master br0 up");
    net.host.tc("qdisc add dev uplink root tbf rate 10mbit burst 1600 limit 10000000");
    let mut path = observe(&net);
    let tap = interface(&net, "tap-c");
    path.track(&[(SLOT_A, vec![tap]), (SLOT_B, vec![interface(&net, "tap-b")])]).unwrap();
    let Some(mut machine) = TapProcess::start(&net.host, "tap-c", 50) else { return };
    thread::sleep(Duration::from_millis(300));
    let (a, b) = read(&path);
    assert!(
        nearly(a.transmitted_packets, 50)
            && nearly(a.queueing_delay.count(), a.transmitted_packets),
        "{a:?}"
    );
    assert!(
        a.queueing_delay.percentile_us(0.5).unwrap() > 10_000.0,
        "{:?}",
        a.queueing_delay.percentile_us(0.5)
    );
    assert!(a.drops.is_empty(), "{:?}", a.drops);
    // It reads nothing: what is sent to it fills its ring, and then is dropped.
    let from = udp(&net.far, v4(FAR));
    net.far.ip("neigh replace 10.77.0.3 lladdr 02:00:00:00:00:03 dev end nud permanent");
    for _ in 0..3000 {
        from.send_to(&[0; 64], "10.77.0.3:9").expect("a way");
    }
    thread::sleep(Duration::from_millis(300));
    let (a, _) = read(&path);
    let lost = dropped(&net, "tap-c");
    let seen = a.drops.iter().map(|drop| drop.packets).sum();
    assert!(lost > 500 && nearly(seen, lost), "{:?}, {lost} by ip", a.drops);
    assert_eq!(a.drops[0].reason, "FULL_RING", "{:?}", a.drops);
    assert!(b.transmitted_packets == 0 && b.drops.is_empty(), "{b:?}");
    // What is in its ring waits until it reads. The device holds as many as its queue is long.
    assert_eq!((a.received_packets, a.receive_queueing_delay.count()), (0, 0), "{a:?}");
    let held = 3000 - lost as usize;
    machine.take(held, 0);
    let (a, _) = read(&path);
    assert_eq!(path.lost().unwrap(), PathLost::default());
    assert_eq!((a.received_packets, a.receive_queueing_delay.count()), (held as u64, held as u64));
    assert!(a.receive_queueing_delay.percentile_us(0.0).unwrap() > 300_000.0, "{a:?}");
    // Who reads as soon as something comes has it soon.
    for _ in 0..20 {
        from.send_to(&[0; 64], "10.77.0.3:9").expect("a way");
        machine.take(1, 0);
    }
    let (b, earlier) = (read(&path).0, a);
    let late = b.receive_queueing_delay.since(&earlier.receive_queueing_delay);
    assert_eq!(late.count(), 20);
    assert!(late.percentile_us(0.5).unwrap() < 5_000.0, "{:?}", late.percentile_us(0.5));
}
