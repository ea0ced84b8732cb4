//! A real tap, with a process behind it as VMs have.

use crate::interface;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::needs::skip;
use crate::net::{FAR, Net, v4};
use crate::traffic::udp;
use crate::{SLOT_A, SLOT_B, kernel, nearly, observe, read};

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
    let script = lowtail_testkit::TAP_SCRIPT;
    let within = format!("--net={}", net.host.path());
    let mut command = Command::new("nsenter");
    command.args([&within, "python3", script, "tap-c", "50"]);
    let mut machine =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("nsenter is there");
    let mut line = String::new();
    let output = machine.stdout.take().expect("it has one");
    BufReader::new(output).read_line(&mut line).expect("it prints");
    if skip(line.is_empty().then_some("no python3, or it cannot open the tap")) {
        machine.wait().expect("it has ended");
        return;
    }
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
    drop(machine.stdin.take());
    machine.wait().expect("it ends with its input");
}
