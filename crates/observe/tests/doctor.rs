//! The doctor, in trees of files and here.

use lowtail_kernel::marks::{Survey, Use};
use lowtail_kernel::sched_ext::NEEDS;
use lowtail_observe::doctor::{Check, Command, Diagnosis, Host, Program, Qdisc, State, examine};

use lowtail_testkit::needs::{is_root, skip};
use lowtail_testkit::tree::{Groups, Tree};

fn yes(_: Program) -> Result<(), String> {
    Ok(())
}

fn no(_: Program) -> Result<(), String> {
    Err("not today".to_string())
}

fn fair() -> Result<Vec<Qdisc>, String> {
    let qdisc = |parent, kind: &str| Qdisc { ifindex: 2, parent, kind: kind.to_string() };
    Ok(vec![qdisc(u32::MAX, "mq"), qdisc(1 << 16 | 1, "fq_codel")])
}

fn unfair() -> Result<Vec<Qdisc>, String> {
    Ok(vec![Qdisc { ifindex: 2, parent: u32::MAX, kind: "pfifo_fast".to_string() }])
}

/// A host that has everything.
fn good() -> (Tree, Host) {
    let tree = Tree::new(Groups::V2);
    tree.process(1, "init", "/sbin/init", "/sbin/init", "init.scope");
    tree.write("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n");
    tree.write("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    tree.link("proc/self/ns/pid", "pid:[4026531836]");
    tree.link("proc/self/ns/cgroup", "cgroup:[4026531835]");
    let names = "sched_switch sched_wakeup sched_wakeup_new sched_waking sched_migrate_task task_newtask \
        task_rename net_dev_queue net_dev_start_xmit netif_receive_skb kfree_skb";
    let strings = names.split_whitespace().map(|name| format!("x\0btf_trace_{name}\0"));
    let strings: String = strings.chain(NEEDS.map(|name| format!("{name}\0"))).collect();
    // Its length, no types, and where names are behind it: `struct btf_header`.
    let words = [24_u32, 0, 0, 0, strings.len() as u32].map(u32::to_ne_bytes);
    let header = [0x9f, 0xeb, 1, 0].into_iter().chain(words.into_iter().flatten());
    tree.write("sys/kernel/btf/vmlinux", header.chain(strings.bytes()).collect::<Vec<u8>>());
    tree.write("proc/sys/net/core/bpf_jit_enable", "1\n");
    tree.write("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
    tree.write("sys/kernel/sched_ext/state", "disabled\n");
    tree.write("sys/module/kvm/parameters/halt_poll_ns", "0\n");
    tree.write("sys/module/kvm_amd/x", "");
    tree.write("proc/misc", "232 kvm\n200 tun\n238 vhost-net\n");
    tree.write("sys/devices/system/cpu/smt/active", "0\n");
    tree.write("sys/devices/system/cpu/smt/control", "off\n");
    tree.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    tree.interface("eth0", 2);
    tree.write("sys/class/net/eth0/operstate", "up\n");
    tree.write("sys/class/net/eth0/device/vendor", "");
    tree.write("sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit", "3028\n");
    // A bridge has no device behind it.
    tree.interface("br0", 3);
    tree.write("sys/class/net/br0/operstate", "up\n");
    tree.write(
        "proc/kallsyms",
        "0000000000000000 t clsact_init\n0000000000000000 t fq_codel_init\n",
    );
    let modules =
        "kernel/net/sched/cls_bpf.ko.xz: \nkernel/drivers/vhost/vhost_net.ko: kernel/x.ko\n";
    tree.write("modules/6.12.48+deb13-amd64/modules.dep", modules);
    let host = Host {
        roots: tree.roots(),
        modules: tree.path("modules"),
        load: yes,
        qdiscs: fair,
        marks: Survey::default,
        xen: || unreachable!("no host of Xen's"),
        installed: |_| false,
    };
    (tree, host)
}

fn check<'a>(diagnosis: &'a Diagnosis, id: &str) -> &'a Check {
    let check = diagnosis.checks.iter().find(|check| check.id == id);
    check.unwrap_or_else(|| panic!("no {id}"))
}

/// Without processes it is not known which VMs there are: no command can work.
#[test]
fn a_host_without_processes() {
    let (tree, host) = good();
    tree.remove("proc/1");
    let diagnosis = examine(&host);
    let check = check(&diagnosis, "vms");
    assert_eq!((check.state, check.found.as_str()), (State::Missing, "unknown"));
}

#[test]
fn a_host_that_has_everything() {
    let (_tree, host) = good();
    let diagnosis = examine(&host);
    for check in &diagnosis.checks {
        assert_eq!(check.state, State::Ok, "{check:?}");
    }
    assert_eq!(diagnosis.worst(), State::Ok);
    assert!(check(&diagnosis, "qdisc").found.contains("eth0: fq_codel"));
    assert!(!check(&diagnosis, "qdisc").found.contains("br0"));
}

/// The same modules, for another release.
fn another_kernel(tree: &Tree, host: &mut Host, release: &str) {
    tree.write("proc/sys/kernel/osrelease", release);
    host.modules = tree.path("modules");
    let list = std::fs::read_to_string(tree.path("modules/6.12.48+deb13-amd64/modules.dep"));
    tree.write(&format!("modules/{release}/modules.dep"), list.expect("ours"));
}

/// Each thing that may be wrong is found alone, with its severity, a consequence and a remedy, and nothing else is.
#[test]
fn each_thing_that_may_be_wrong() {
    use State::{Degraded, Missing, Note};
    type Break = fn(&Tree, &mut Host);
    let cases: [(&str, State, &str, Break); 24] = [
        ("kernel", Missing, "5.12", |tree, host| {
            another_kernel(tree, host, "5.4.0-42-generic");
        }),
        ("kernel", Note, "slices", |tree, host| {
            another_kernel(tree, host, "6.11.0-8-generic");
        }),
        ("sched-ext", Note, "issues/3687", |tree, host| {
            another_kernel(tree, host, "7.1.3-amd64");
        }),
        ("marks", Note, "mark_mask = 0xffff", |_, host| {
            host.marks = || Survey {
                uses: vec![Use { who: "Calico".to_string(), bits: 0xffff_0000 }],
                unread: vec![],
            };
        }),
        ("marks", Note, "nft: it fails", |_, host| {
            host.marks = || Survey { uses: vec![], unread: vec!["nft: it fails".to_string()] };
        }),
        ("capabilities", Missing, "root", |tree, _| {
            tree.write("proc/self/status", "CapEff:\t0000000000000000\n");
        }),
        // All but CAP_SYS_PTRACE, which is bit 19.
        ("capabilities", Degraded, "CAP_SYS_PTRACE", |tree, _| {
            tree.write("proc/self/status", "CapEff:\t000001fffff7ffff\n");
        }),
        ("bpf", Missing, "not today", |_, host| host.load = no),
        ("bpf", Missing, "lockdown", |tree, _| {
            tree.write("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
        }),
        ("tracepoints", Degraded, "packets that the host drops", |tree, _| {
            let path = tree.path("sys/kernel/btf/vmlinux");
            let bytes = std::fs::read(&path).expect("ours");
            let text = String::from_utf8_lossy(&bytes).replace("kfree_skb", "kfree_sbk");
            tree.write("sys/kernel/btf/vmlinux", text);
        }),
        ("bpf-jit", Degraded, "bpf_jit_enable=1", |tree, _| {
            tree.write("proc/sys/net/core/bpf_jit_enable", "0");
        }),
        ("cgroup-cpu", Note, "+cpu", |tree, _| {
            tree.write("sys/fs/cgroup/cgroup.subtree_control", "memory\n");
        }),
        ("sched-ext", Degraded, "6.17", |tree, _| tree.remove("sys/kernel/sched_ext")),
        // Linux 6.16.
        ("sched-ext", Degraded, "without cgroup_set_bandwidth", |tree, _| {
            let path = tree.path("sys/kernel/btf/vmlinux");
            let bytes = std::fs::read(&path).expect("ours");
            let text = String::from_utf8_lossy(&bytes).replace("cgroup_set_bandwidth", "x");
            tree.write("sys/kernel/btf/vmlinux", text);
        }),
        ("sched-ext", Degraded, "scx_x\\u{1b}", |tree, _| {
            tree.write("sys/kernel/sched_ext/state", "enabled\n");
            tree.write("sys/kernel/sched_ext/root/ops", "scx_x\u{1b}\n");
        }),
        ("halt-polling", Note, "200 us", |tree, _| {
            tree.write("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
        }),
        ("smt", Note, "core", |tree, _| tree.write("sys/devices/system/cpu/smt/active", "1\n")),
        ("clock", Degraded, "hpet", |tree, _| {
            let file = "sys/devices/system/clocksource/clocksource0/current_clocksource";
            tree.write(file, "hpet\n");
        }),
        ("qdisc", Note, "tc qdisc replace dev eth0 root fq_codel", |_, host| host.qdiscs = unfair),
        ("bql", Note, "not on eth0", |tree, _| {
            tree.write("sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit", "0\n");
        }),
        ("clsact", Degraded, "CONFIG_NET_SCH_INGRESS", |tree, _| {
            tree.write("proc/kallsyms", "0000000000000000 t fq_codel_init\n");
        }),
        ("namespaces", Missing, "--pid=host", |tree, _| {
            tree.link("proc/self/ns/pid", "pid:[4026532000]");
        }),
        ("kvm", Note, "modprobe", |tree, _| tree.write("proc/misc", "238 vhost-net\n")),
        ("vms", Note, "debug-threads=on", |tree, _| {
            tree.process(20, "kvm", "/usr/bin/kvm", "kvm -name dumb", "/u");
            tree.thread(20, 21, "kvm", "/u");
            tree.thread(20, 22, "kvm", "/u");
        }),
    ];
    for (id, state, word, breaks) in cases {
        let (tree, mut host) = good();
        breaks(&tree, &mut host);
        let diagnosis = examine(&host);
        let found = check(&diagnosis, id);
        assert_eq!(found.state, state, "{found:?}");
        let (Some(consequence), Some(remedy)) = (&found.consequence, &found.remedy) else {
            panic!("{found:?}")
        };
        let all = format!("{} {consequence} {remedy}", found.found);
        assert!(all.contains(word) && !all.contains('\u{1b}'), "`{word}`: {all}");
        for other in diagnosis.checks.iter().filter(|other| other.id != id) {
            assert_eq!(other.state, State::Ok, "{id}: {other:?}");
        }
        assert_eq!(diagnosis.worst(), state);
    }
}

/// Without BTF nothing at a tracepoint works, and a host that tells nothing is no reason to panic.
#[test]
fn a_host_that_has_nothing() {
    let (tree, host) = good();
    tree.remove("sys/kernel/btf");
    let diagnosis = examine(&host);
    for id in ["btf", "sched-tracepoints"] {
        assert_eq!(check(&diagnosis, id).state, State::Missing);
    }
    let (tree, mut host) = good();
    tree.write("proc/kallsyms", "0000000000000000 T schedule\n");
    host.modules = tree.path("none");
    let diagnosis = examine(&host);
    for (id, state) in
        [("clsact", State::Degraded), ("qdiscs", State::Degraded), ("vhost", State::Ok)]
    {
        assert_eq!(check(&diagnosis, id).state, state, "{id}");
    }
    // An empty list tells nothing.
    tree.write("proc/kallsyms", "");
    assert_eq!(check(&examine(&host), "clsact").state, State::Note);
    let empty = Tree::new(Groups::None);
    let roots = empty.roots();
    let nothing = Host {
        roots,
        modules: empty.path("none"),
        load: no,
        qdiscs: || Err("no".into()),
        marks: Survey::default,
        xen: || unreachable!("no host of Xen's"),
        installed: |_| false,
    };
    let diagnosis = examine(&nothing);
    assert_eq!(diagnosis.worst(), State::Missing);
    assert_eq!(check(&diagnosis, "cgroup-cpu").state, State::Missing);
    for check in diagnosis.checks.iter().filter(|check| check.state != State::Ok) {
        assert!(check.consequence.is_some() && check.remedy.is_some(), "{check:?}");
    }
}

/// What is asked in dom0, where the toolstack has an answer or none, and in a guest.
#[test]
fn a_host_of_xen() {
    let (tree, mut host) = good();
    tree.write("sys/hypervisor/type", "xen\n");
    let guest = examine(&host);
    assert_eq!(check(&guest, "xen").state, State::Note);
    assert!(guest.works(Command::Observe), "a guest may have guests of its own");
    tree.write("proc/xen/capabilities", "control_d\n");
    host.xen = || Err(lowtail_xen::Error::NotInstalled { program: "xl" });
    let bare = examine(&host);
    assert_eq!((bare.worst(), check(&bare, "xentrace").state), (State::Missing, State::Missing));
    assert!(check(&bare, "xen").consequence.as_ref().expect("one").contains("xen-utils"));
    for command in [Command::Vms, Command::Observe, Command::Apply] {
        assert!(!bare.works(command), "{command:?} without a toolstack");
    }
    host.xen = || Ok(lowtail_xen::Survey::default());
    host.installed = |program| program == "xentrace";
    let whole = examine(&host);
    assert_eq!(whole.worst(), State::Note, "{whole:?}");
    assert!(whole.works(Command::Vms) && whole.works(Command::Record));
    assert!(whole.works(Command::Apply), "a policy changes a host of Xen's, too");
    assert!(whole.checks.iter().all(|check| check.id != "bpf" && check.id != "kvm"));
}

/// Here, where the rest of the tests loads programs as root: so the doctor must say that it can be done. The
/// disciplines are those that `tc` shows.
#[test]
fn here() {
    let diagnosis = examine(&Host::default());
    if skip((!is_root()).then_some("not root")) {
        assert_eq!(check(&diagnosis, "capabilities").state, State::Missing);
        return;
    }
    assert_ne!(check(&diagnosis, "bpf").state, State::Missing, "{diagnosis:?}");
    let Ok(tc) = std::process::Command::new("tc").args(["qdisc", "show"]).output() else { return };
    let tc = String::from_utf8_lossy(&tc.stdout).into_owned();
    let of_host = (Host::default().qdiscs)().expect("rtnetlink");
    let own: Vec<String> = of_host.into_iter().map(|qdisc| qdisc.kind).collect();
    let theirs: Vec<String> =
        tc.lines().filter_map(|line| line.split(' ').nth(1).map(String::from)).collect();
    for kind in &theirs {
        assert!(own.contains(kind), "{kind}: {own:?}");
    }
}
