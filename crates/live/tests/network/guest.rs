//! The same on a kernel that has cake, prio and fq_codel: `scripts/guest` boots one, in which this test runs again.

use std::path::Path;
use std::process::Command;

use lowtail_live::tc::{Bands, Outer, Queue, Shape, Splitting, Wanted};

use crate::kernel;
use crate::needs::{has, skip};
use crate::restore::{there_and_back, without_a_rate};
use crate::uplink::Net;

/// As much as the emulated processor can do beside everything else.
const RATE: u64 = 20_000_000;
/// What the guest's kernel has in modules.
const MODULES: [&str; 9] = [
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
    let there = ["qemu-system-x86_64", "busybox"].into_iter().all(has);
    let there = there && tools.iter().all(|tool| Path::new(tool).exists());
    if skip((!there).then_some("no QEMU, busybox, iproute2 or nsenter")) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest");
    let output = Command::new(script)
        .arg("run")
        .arg(std::env::current_exe().expect("this test"))
        .args(["/bin/lowtail", "--ignored", "--exact", "guest::inside", "--nocapture"])
        .env("LOWTAIL_GUEST_ALSO", tools.join(":"))
        .env("LOWTAIL_GUEST_MODULES", "yes")
        .env("LOWTAIL_GUEST_SECONDS", "300")
        .output()
        .expect("the script is there");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "it failed in the guest");
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
    let before = Net::new(RATE).measure();
    println!("before {before:?}");
    let bands = Shape { outer: Outer::Tbf, bands: Bands::Prio, queue: Queue::FqCodel };
    for (shape, outer) in [(None, Outer::Cake), (Some(bands), Outer::Tbf)] {
        let net = Net::new(RATE);
        let choice = net.apply(Wanted { rate: Some(RATE), shape, ..Wanted::default() });
        assert_eq!((choice.shape.outer, choice.splitting), (outer, Splitting::Discipline));
        let after = net.measure();
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
