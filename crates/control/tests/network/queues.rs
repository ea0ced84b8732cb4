//! An interface of several queues, whose discipline is replaced and restored while packets leave by all of them.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lowtail_control::manage::{HostLock, OnError};
use lowtail_kernel::tc::{Link, Tree};

use crate::kernel;
use crate::net::Namespace;
use crate::policy::{resolve, revert};
use crate::restore;

/// Each from a port of its own, so that the kernel spreads them over the queues.
const SOCKETS: usize = 16;
/// So many have to arrive, however slow the VM is.
const ARRIVE: u64 = 500;

/// What is told of it, without the flows that have packets at this moment, which cake and fq_codel show as classes.
fn tc_state(host: &Namespace) -> String {
    let is_flow =
        |line: &&str| line.starts_with("class cake") || line.starts_with("class fq_codel");
    let config = restore::tc_state(host);
    config.lines().filter(|line| !is_flow(line)).collect::<Vec<_>>().join("\n")
}

/// A policy for `nic`, which has `mq` with `leaves`, put in force and taken back under traffic. Its text, and whether the
/// disciplines are those of `mq` then.
fn under_traffic(leaves: &[&str], text: &str, is_mq: bool) {
    let [host, far] = [(); 2].map(|()| Namespace::new());
    let peer = far.path();
    host.ip(&format!("link add nic numtxqueues 4 type veth peer name end netns {peer}"));
    host.ip("address add 10.44.0.1/24 dev nic");
    host.ip("link set nic up");
    far.ip("address add 10.44.0.2/24 dev end");
    far.ip("link set end up");
    host.tc("qdisc add dev nic root handle 9: mq");
    for leaf in leaves {
        host.tc(leaf);
    }
    let before = tc_state(&host);
    assert!(before.contains("qdisc mq 9: root"), "{before}");
    let stop = Arc::new(AtomicBool::new(false));
    let arrived = Arc::new(AtomicU64::new(0));
    let receiver = far.within(|| UdpSocket::bind("10.44.0.2:9").expect("a free port"));
    receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let sockets = host.within(|| {
        let sockets = (0..SOCKETS).map(|_| UdpSocket::bind("10.44.0.1:0").expect("a free port"));
        sockets.collect::<Vec<_>>()
    });
    let threads = [
        thread::spawn({
            let (stop, arrived) = (stop.clone(), arrived.clone());
            move || {
                let mut bytes = [0; 1500];
                while !stop.load(Ordering::Relaxed) {
                    if receiver.recv(&mut bytes).is_ok() {
                        arrived.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }),
        thread::spawn({
            let stop = stop.clone();
            move || {
                while !stop.load(Ordering::Relaxed) {
                    for socket in &sockets {
                        // With a full queue there is none.
                        let _ = socket.send_to(&[0; 600], "10.44.0.2:9");
                    }
                    thread::sleep(Duration::from_micros(200));
                }
            }
        }),
    ];
    let flows = |when: &str| {
        let (from, begin) = (arrived.load(Ordering::Relaxed), Instant::now());
        while arrived.load(Ordering::Relaxed) < from + ARRIVE {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing arrives {when}");
            thread::sleep(Duration::from_millis(5));
        }
    };
    flows("before");
    let dir = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        let (at, text) = (dir.path().to_path_buf(), text.to_string());
        host.within(move || {
            let (_, all) = resolve(&text);
            let mut hold = HostLock::take(&at).expect("nobody holds it");
            let plan = hold.plan(&all.settings, false).expect("a plan");
            let applied = hold.apply(&plan, OnError::Stop, &mut |_| {}).expect("written down");
            assert_eq!((applied.failed, plan.unread), (vec![], vec![]));
            let nic = Link::find("nic").expect("it is there");
            let tree = Tree::read(&nic).expect("it can be read").expect("it is there");
            assert!(tree.is_ours());
            assert_eq!(tree.to_text().contains("\"mq\""), is_mq, "{}", tree.to_text());
        });
        flows("with ours");
        // Each time another instant of the traffic.
        let at = dir.path().to_path_buf();
        host.within(move || revert(&at));
        assert_eq!(tc_state(&host), before);
        flows("afterwards");
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("it does not panic");
    }
}

/// Leaves that this kernel has.
const LEAVES: [&str; 3] = [
    "qdisc add dev nic parent 9:1 handle 10: pfifo limit 77",
    "qdisc add dev nic parent 9:2 handle 11: bfifo limit 77777",
    "qdisc add dev nic parent 9:4 handle 12: tbf rate 700mbit burst 30k limit 123456",
];

#[test]
fn mq_is_replaced_under_traffic_and_restored() {
    let Some(_kernel) = kernel() else { return };
    under_traffic(&LEAVES, "[[uplink]]\nname = \"nic\"\nrate = \"1Gbit/s\"\n", false);
}
