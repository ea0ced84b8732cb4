//! `apply --watch` while uplinks change: another MTU, another name, another interface of the name.

use std::net::UdpSocket;
use std::path::Path;

use lowtail_control::manage::{Now, status};
use lowtail_control::reconcile::{Options, Reconciler};

use crate::kernel;
use crate::policy::resolve;
use crate::restore::{host, tc_state};

const POLICY: &str = "[[uplink]]\nname = \"nic\"\nrate = \"200Mbit/s\"\n";

/// A round of `apply --watch` with this policy: how many places have got another value.
fn round(reconciler: &mut Reconciler, policy: &str) -> usize {
    let mut resolve = |_: &_| Ok(resolve(policy).1.wanted());
    let round = reconciler.round(&mut resolve).expect("it can be written down");
    let applied = round.applied.unwrap_or_default();
    assert_eq!((applied.failed, round.foreign), (vec![], vec![]));
    applied.changed
}

/// `apply --watch` in the namespace of this thread, with the policy in force.
fn start(dir: &Path) -> Reconciler {
    let mut reconciler = Reconciler::start(Options::new(dir)).expect("nobody holds it");
    assert!(round(&mut reconciler, POLICY) >= 3);
    reconciler
}

fn end(reconciler: Reconciler) {
    let reverted = reconciler.end().expect("written down").expect("all is restored");
    assert_eq!((reverted.failed, reverted.foreign), (vec![], vec![]));
}

/// tbf cuts what is longer than a frame, and drops what is longer than its own idea of one: after the MTU was raised, all that was
/// large.
#[test]
fn a_larger_mtu_is_followed_in_a_round() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    host.ip("address add 10.9.0.1/24 dev nic");
    host.ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev nic");
    let before = tc_state(&host).replace("mtu 1500", "mtu 9000");
    let dropped = host.within(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut reconciler = start(dir.path());
        assert_eq!(round(&mut reconciler, POLICY), 0);
        host.ip("link set end mtu 9000");
        host.ip("link set nic mtu 9000");
        assert!(round(&mut reconciler, POLICY) >= 1, "the next round, not the tenth");
        let socket = UdpSocket::bind("10.9.0.1:0").expect("an address of ours");
        for _ in 0..10 {
            socket.send_to(&[0; 8_000], "10.9.0.2:9").expect("there is room");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let told = host.tc("-s qdisc show dev nic");
        let root = told.split("qdisc ").find(|part| part.contains(" root ")).expect("a root");
        let sent = root.split("Sent ").nth(1).expect("what was sent").to_string();
        end(reconciler);
        sent
    });
    assert!(dropped.contains("dropped 0,"), "{dropped}");
    let bytes: u64 = dropped.split(' ').next().and_then(|n| n.parse().ok()).expect("bytes");
    assert!(bytes >= 80_000, "{dropped}");
    assert_eq!(tc_state(&host), before);
}

/// A renamed uplink is the same one. It counted as gone, its entries were dropped, and what we had put there stayed for ever.
#[test]
fn a_renamed_uplink_is_the_same_one() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    let before = tc_state(&host);
    let names = |from: &str, to: &str| {
        host.ip(&format!("link set {from} down"));
        host.ip(&format!("link set {from} name {to}"));
        host.ip(&format!("link set {to} up"));
    };
    let dir = tempfile::tempdir().expect("a directory");
    let mut reconciler = host.within(|| start(dir.path()));
    names("nic", "other");
    host.within(|| {
        // The policy knows the old name only: what is there stays.
        assert_eq!(round(&mut reconciler, POLICY), 0);
        let rows = status(dir.path()).expect("a ledger").rows;
        assert!(rows.len() >= 3 && rows.iter().all(|row| row.now == Now::InForce), "{rows:?}");
        // Then the new one.
        assert_eq!(round(&mut reconciler, &POLICY.replace("nic", "other")), 0);
        end(reconciler);
    });
    names("other", "nic");
    assert_eq!(tc_state(&host), before);
}

/// The uplink is deleted and made again, as drivers do that are loaded anew.
#[test]
fn another_uplink_of_the_name_gets_its_policy() {
    let Some(_kernel) = kernel() else { return };
    let host = host();
    let dir = tempfile::tempdir().expect("a directory");
    let mut reconciler = host.within(|| start(dir.path()));
    host.ip("link del nic");
    let mut reconciler = host.within(move || {
        assert_eq!(round(&mut reconciler, POLICY), 0);
        reconciler
    });
    host.ip("link add nic numtxqueues 4 type veth peer name end");
    host.ip("link set end up");
    host.ip("link set nic up");
    let before = tc_state(&host);
    let reconciler = host.within(move || {
        assert!(round(&mut reconciler, POLICY) >= 3, "the next round, not the tenth");
        reconciler
    });
    let shown = tc_state(&host);
    assert!(shown.contains(" 7a11: root") && shown.contains("lowtail"), "{shown}");
    host.within(move || end(reconciler));
    assert_eq!(tc_state(&host), before);
}
