//! Uplinks of all kinds: where lowtail can help it is in force and gone again without a trace; where it cannot, it says so and changes
//! nothing.

use std::process::Command;

use lowtail_control::manage::{HostLock, OnError, status};

use crate::kernel;
use crate::net::Namespace;
use crate::policy::{notes, resolve};
use crate::restore::tc_state;

/// A kind of uplink.
struct Kind {
    /// As `ip -d link` calls it.
    name: &'static str,
    /// The module that makes it, where it is none of the kernel itself.
    module: &'static str,
    /// What `ip` is told so that there is `nic` of this kind.
    made: &'static [&'static str],
    expected: Expected,
}

/// What lowtail does at it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It is in force, with a rate and without.
    Applied,
    /// The same, and without a rate it says where packets wait.
    Below(&'static str),
    /// It is refused, with these words.
    Refused(&'static str),
}

const KINDS: [Kind; 10] = [
    Kind {
        name: "veth",
        module: "veth",
        made: &["link add nic type veth peer name end", "link set end up"],
        expected: Expected::Applied,
    },
    Kind {
        name: "veth with eight queues",
        module: "veth",
        made: &["link add nic numtxqueues 8 type veth peer name end", "link set end up"],
        expected: Expected::Applied,
    },
    Kind {
        name: "tap",
        module: "tun",
        made: &["tuntap add dev nic mode tap"],
        expected: Expected::Applied,
    },
    Kind {
        name: "ifb",
        module: "ifb",
        made: &["link add nic type ifb"],
        expected: Expected::Applied,
    },
    Kind {
        name: "bond",
        module: "bonding",
        made: &[
            "link add p1 type veth peer name q1",
            "link add p2 type veth peer name q2",
            "link add nic type bond mode active-backup miimon 100",
            "link set p1 master nic",
            "link set p2 master nic",
        ],
        expected: Expected::Below("a bond, but below it (p1, p2)"),
    },
    Kind {
        name: "team",
        module: "team",
        made: &[
            "link add p1 type veth peer name q1",
            "link add nic type team",
            "link set p1 master nic",
        ],
        expected: Expected::Below("a team, but below it (p1)"),
    },
    Kind {
        name: "vlan",
        module: "8021q",
        made: &[
            "link add p1 type veth peer name q1",
            "link set p1 up",
            "link add link p1 name nic type vlan id 7",
        ],
        expected: Expected::Below("a vlan, but below it (p1)"),
    },
    Kind {
        name: "macvlan",
        module: "macvlan",
        made: &[
            "link add p1 type veth peer name q1",
            "link set p1 up",
            "link add link p1 name nic type macvlan mode bridge",
        ],
        expected: Expected::Below("a macvlan, but below it (p1)"),
    },
    Kind {
        name: "vxlan",
        module: "vxlan",
        made: &["link add nic type vxlan id 5 dstport 4789"],
        expected: Expected::Below("a vxlan, but below it (there is none now)"),
    },
    Kind {
        name: "bridge",
        module: "bridge",
        made: &[
            "link add p1 type veth peer name q1",
            "link add nic type bridge",
            "link set p1 master nic",
        ],
        expected: Expected::Refused("name the port by which it leaves the host (p1)"),
    },
];

/// A host with a `nic` of this kind; `None` if the kernel has none.
fn host(kind: &Kind) -> Option<Namespace> {
    let host = Namespace::new();
    for words in kind.made {
        // Whether the kernel has the kind only its answer tells.
        let said = Command::new("nsenter")
            .arg(format!("--net={}", host.path()))
            .arg("ip")
            .args(words.split(' '))
            .output()
            .expect("nsenter is there");
        if !said.status.success() {
            let why = String::from_utf8_lossy(&said.stderr);
            assert!(why.contains("Unknown device type"), "{words}: {why}");
            return None;
        }
    }
    // Not by a timer that begins with that, which `ip` tells of.
    host.run("sysctl", "-q -w net.ipv6.conf.all.disable_ipv6=1");
    host.ip("link set nic up");
    Some(host)
}

/// Applies and reverts the policy; what `tc` and `ip` tell in force.
fn in_force(host: &Namespace, policy: &str, wanted: usize) -> String {
    host.within(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, all) = resolve(policy);
        let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
        let plan = hold.plan(&all.settings, false).expect("a plan");
        assert!(plan.unread.is_empty() && plan.refused.is_empty(), "{plan:?}");
        let applied = hold.apply(&plan, OnError::Stop, &mut |_| {}).expect("written down");
        assert_eq!(applied.failed, [], "{policy}");
        let there = tc_state(host);
        assert_eq!(there.matches("qdisc clsact").count(), 1, "{there}");
        assert!(status(dir.path()).expect("a ledger").rows.len() >= wanted);
        let reverted = hold.revert(false, &mut |_| {}).expect("written down");
        assert_eq!(reverted.failed, []);
        there
    })
}

/// Without what changes by itself.
fn state(host: &Namespace) -> String {
    let all = tc_state(host);
    // The state of a bond or a team follows its ports; how long it takes is of no interest.
    let lines = all.lines().map(|line| match line.split_once("miimon") {
        Some((before, _)) => before,
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn check(kind: &Kind, host: &Namespace) {
    let before = state(host);
    let of = |keys: &str| format!("[[uplink]]\nname = \"nic\"\n{keys}");
    let (with, without) = (of("rate = \"100Mbit/s\"\n"), of(""));
    let said = |policy: &str| host.within(|| notes(&resolve(policy).1));
    if let Expected::Refused(words) = kind.expected {
        for policy in [&with, &without] {
            assert!(said(policy).contains(words), "{}: {}", kind.name, said(policy));
            assert_eq!(host.within(|| resolve(policy).1.settings.len()), 0, "{}", kind.name);
        }
        return;
    }
    let told = in_force(host, &with, 3);
    assert!(told.contains("7a11:"), "{}: {told}", kind.name);
    assert_eq!(state(host), before, "{}", kind.name);
    assert!(!said(&with).contains("below it"), "{}: {}", kind.name, said(&with));
    in_force(host, &without, 3);
    assert_eq!(state(host), before, "{}", kind.name);
    match kind.expected {
        Expected::Below(words) => assert!(said(&without).contains(words), "{}", said(&without)),
        _ => assert!(!said(&without).contains("below it"), "{}", said(&without)),
    }
}

/// All kinds that this kernel has; their names.
fn each() -> Vec<&'static str> {
    let there = KINDS.iter().filter_map(|kind| Some((kind, host(kind)?)));
    let checked = there.map(|(kind, host)| {
        check(kind, &host);
        kind.name
    });
    checked.collect()
}

#[test]
fn kinds_of_uplinks_that_this_kernel_has() {
    let Some(_kernel) = kernel() else { return };
    let checked = each();
    println!("{checked:?}");
    assert!(checked.len() >= 5, "{checked:?}: those without modules, at least");
}

/// In the guest: none is left out. Two ports of a bond are uplinks of their own, whichever of them is active.
pub(crate) fn all_kinds() {
    for kind in &KINDS {
        let loaded = Command::new("modprobe").arg(kind.module).status().expect("busybox has it");
        assert!(loaded.success(), "{}", kind.module);
    }
    assert_eq!(each().len(), KINDS.len());
    let bond = KINDS.iter().find(|kind| kind.name == "bond").expect("there is one");
    let host = host(bond).expect("the module is there");
    let ports = ["p1", "p2"];
    for port in ["p1", "p2", "q1", "q2"] {
        host.ip(&format!("link set {port} up"));
    }
    let told = |port: &str| host.tc(&format!("-d qdisc show dev {port}"));
    let before = ports.map(told);
    host.within(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let uplink = |port: &str| format!("[[uplink]]\nname = \"{port}\"\nrate = \"100Mbit/s\"\n");
        let policy = ports.map(uplink).concat();
        let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
        let plan = hold.plan(&resolve(&policy).1.settings, false).expect("a plan");
        let applied = hold.apply(&plan, OnError::Stop, &mut |_| {}).expect("written down");
        assert_eq!(applied.failed, []);
        let ours = ports.map(told);
        assert!(ours.iter().all(|told| told.contains("7a11:") && told.contains("clsact")));
        // The active one goes: the other one has all that it needs, and what the first had is there when it comes back.
        host.ip("link set p1 down");
        assert_eq!(told("p2"), ours[1]);
        host.ip("link set p1 up");
        assert_eq!(ports.map(told), ours);
        let again = hold.plan(&resolve(&policy).1.settings, false).expect("a plan");
        assert_eq!(again.changes, [], "nothing is left to do");
        let reverted = hold.revert(false, &mut |_| {}).expect("written down");
        assert_eq!(reverted.failed, []);
    });
    assert_eq!(ports.map(told), before);
}
