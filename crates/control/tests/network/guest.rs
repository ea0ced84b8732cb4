//! The same on a kernel that has cake, prio and fq_codel: `scripts/guest` boots one, in which this test runs again.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use lowtail_kernel::tc::{Bands, Choice, Link, Outer, Queue, Shape, Splitting, Tree, Wanted};
use lowtail_testkit::guest::Guest;

use crate::kernel;
use crate::needs::skip;
use crate::restore::{there_and_back, without_a_rate};
use crate::uplink::Net;

/// As much as the emulated processor can do beside everything else.
const RATE: u64 = 20_000_000;
/// What the guest's kernel has in modules.
const MODULES: [&str; 12] = [
    "failover",
    "net_failover",
    "virtio_net",
    "veth",
    "bridge",
    "sch_ingress",
    "cls_bpf",
    "sch_tbf",
    "sch_htb",
    "sch_prio",
    "sch_cake",
    "sch_fq",
];

#[test]
fn with_cake_and_fq_codel() {
    let tools = ["/usr/sbin/ip", "/usr/sbin/tc", "/usr/bin/nsenter"];
    let there = tools.iter().all(|tool| Path::new(tool).exists());
    if skip((!there).then_some("no iproute2 or nsenter")) {
        return;
    }
    let inside = ["/bin/lowtail", "--ignored", "--exact", "guest::inside", "--nocapture"];
    let guest = tools.into_iter().fold(Guest::of_this_test().command(inside), Guest::also);
    let guest = guest.set("MODULES", "yes").set("NIC", "virtio-net-pci");
    let Some(said) = guest.run() else { return };
    assert!(said.contains("1 passed"), "it ran there");
}

#[test]
#[ignore = "runs in the guest"]
fn inside() {
    // As in the guest alone: its first process is a shell.
    assert!(std::fs::exists("/command").expect("a root"), "this is for the guest");
    let _kernel = kernel().expect("root is all there is");
    for module in MODULES {
        let loaded = Command::new("modprobe").arg(module).status().expect("busybox has it");
        assert!(loaded.success(), "{module}");
    }
    a_limited_ring_is_known();
    crate::kinds::all_kinds();
    // Nobody takes this processor away: its clock counts instructions.
    let before = Net::new(RATE).measure(false);
    println!("before {before:?}");
    let shape = |outer, bands| Some(Shape { outer, bands, queue: Queue::FqCodel });
    let cake = shape(Outer::Cake, Bands::Prio);
    for (shape, outer, bands) in [
        (None, Outer::Tbf, Bands::Vms),
        (cake, Outer::Cake, Bands::Prio),
        (shape(Outer::Tbf, Bands::Prio), Outer::Tbf, Bands::Prio),
    ] {
        let net = Net::new(RATE);
        let choice = net.apply(Wanted { rate: Some(RATE), shape, ..Wanted::default() });
        assert_eq!((choice.shape.outer, choice.shape.bands), (outer, bands));
        assert_eq!(choice.splitting, Splitting::Discipline);
        let after = net.measure(false);
        println!("{choice}\nafter  {after:?}\n{:?}", net.counts());
        let (better, share) = (before.p99_us / after.p99_us, after.bulk_mbit / before.bulk_mbit);
        assert!(better >= 5.0 && share >= 0.97 && after.lost == 0, "{better} {share}");
    }
    assert_eq!(without_a_rate(), Outer::Mq, "it has prio, and the interface has four queues");
    there_and_back(&["qdisc add dev nic root handle 9: cake bandwidth 77mbit besteffort nat"]);
    there_and_back(&["qdisc add dev nic root handle 9: fq_codel target 3ms limit 777 noecn"]);
    there_and_back(&["qdisc add dev nic root handle 9: fq maxrate 77mbit"]);
    there_and_back(&[
        "qdisc add dev nic root handle 9: mq",
        "qdisc add dev nic parent 9:2 handle 10: fq_codel flows 64",
        "qdisc add dev nic parent 9:3 handle 11: prio bands 4",
        "qdisc add dev nic parent 11:2 handle 12: cake",
    ]);
}

/// The emulated NIC's driver has BQL (since Linux 6.11); the kernel's limit is 0 until something has been sent.
fn a_limited_ring_is_known() {
    let nic = Link::find("eth0").expect("QEMU has made it");
    let find = || Choice::find(&nic, &Wanted::default()).expect("something suits");
    assert!(!find().limited, "nothing has been sent");
    for words in [
        "link set eth0 up",
        "address add 10.33.0.1/24 dev eth0",
        "neigh add 10.33.0.2 lladdr 02:00:00:00:00:02 dev eth0",
    ] {
        let done = Command::new("/bin/ip").args(words.split(' ')).status().expect("it is there");
        assert!(done.success(), "{words}");
    }
    let socket = UdpSocket::bind("10.33.0.1:0").expect("a free port");
    let send = || {
        for _ in 0..100 {
            socket.send_to(&[0; 1400], "10.33.0.2:9").expect("there is room");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    send();
    let choice = find();
    assert!(choice.limited && !choice.to_string().contains("nothing limits"), "{choice}");
    let was = Tree::read(&nic).expect("it can be read").expect("it is there");
    choice.tree.put(&nic).expect("its dry run went well");
    send();
    assert!(find().limited);
    was.put(&nic).expect("it was the kernel's own");
    assert_eq!(Tree::read(&nic).expect("it can be read"), Some(was));
}
