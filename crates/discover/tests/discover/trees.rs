//! Trees of files: each hypervisor, hostile names, files that are not there.

use lowtail_discover::{Kind, Role, Scanner, scan};
use lowtail_kernel::Name;

use super::tree::{Groups, Tree};
use super::{roles, vm};

const QEMU: &str = "/usr/bin/qemu-system-x86_64";
const SCOPE: &str = r"/machine.slice/machine-qemu\x2d7\x2dweb1.scope";

/// libvirt with systemd: vCPUs, an I/O thread, a helper, a vhost worker of before Linux 6.4, interfaces, on both versions.
#[test]
fn libvirt_with_systemd() {
    for (groups, between) in [(Groups::V1, ""), (Groups::V2, "/libvirt")] {
        let tree = Tree::new(groups);
        let group = |name: &str| format!("{SCOPE}{between}/{name}");
        tree.process(100, "qemu-system-x86", QEMU, "q -name guest=web_1,x=y", &group("emulator"));
        tree.thread(100, 101, "CPU 0/KVM", &group("vcpu0"));
        tree.thread(100, 102, "CPU 1/KVM", &group("vcpu1"));
        tree.thread(100, 103, "IO iothread4", &group("iothread4"));
        tree.thread(100, 104, "worker", &group("emulator"));
        tree.process(110, "swtpm", "/usr/bin/swtpm", "swtpm socket", &group("emulator"));
        tree.kernel_thread(120, "vhost-100", &group("emulator"));
        tree.kernel_thread(121, "vhost-999", "/");
        tree.file(100, 30, "/dev/net/tun", "iff:\tvnet3\n");
        tree.file(100, 31, "/dev/tap12", "");
        tree.file(100, 32, "/dev/net/tun", "iff:\t\n");
        tree.file(100, 33, "anon_inode:kvm-vcpu:0", "");
        tree.interface("vnet3", 9);
        tree.interface("macvtap0", 12);
        let found = scan(&tree.roots(), &[]);
        assert_eq!(found.troubles, [""; 0]);
        let web = vm(&found, "web_1");
        assert_eq!((web.kind, web.pid, web.started_ticks), (Kind::Libvirt, 100, 1100));
        let wanted = [
            (100, Role::Emulator),
            (101, Role::Vcpu(0)),
            (102, Role::Vcpu(1)),
            (103, Role::IoThread(4)),
            (104, Role::Worker),
            (110, Role::Worker),
            (120, Role::Vhost(0)),
        ];
        assert_eq!(roles(web), wanted);
        let scope = SCOPE.trim_start_matches('/');
        assert_eq!(web.cgroup.as_deref(), Some(scope.as_ref()));
        let groups: Vec<(&str, bool)> =
            web.groups.iter().map(|group| (group.label.as_given(), group.shared)).collect();
        let between = (!between.is_empty()).then_some(("libvirt", false));
        let below = ["emulator", "iothread4", "vcpu0", "vcpu1"].map(|name| (name, false));
        let above = [("machine.slice", true), ("all", false)];
        assert_eq!(groups, above.into_iter().chain(between).chain(below).collect::<Vec<_>>());
        let taps: Vec<(u32, &str)> =
            web.taps.iter().map(|tap| (tap.ifindex, tap.name.as_given())).collect();
        assert_eq!(taps, [(9, "vnet3"), (12, "macvtap0")]);
    }
}

/// Before systemd; and without names of threads, where libvirt's groups still tell vCPUs.
#[test]
fn libvirt_without_systemd() {
    for top in
        ["/libvirt/qemu/old1", "/machine/old1.libvirt-qemu", "/machine/qemu-3-old1.libvirt-qemu"]
    {
        let tree = Tree::new(Groups::V1);
        tree.process(100, "qemu-kvm", "/usr/libexec/qemu-kvm", "q", &format!("{top}/emulator"));
        tree.thread(100, 101, "qemu-kvm", &format!("{top}/vcpu0"));
        tree.thread(100, 102, "qemu-kvm", &format!("{top}/vcpu1"));
        let found = scan(&tree.roots(), &[]);
        assert_eq!(found.troubles, [""; 0]);
        let wanted = [(100, Role::Emulator), (101, Role::Vcpu(0)), (102, Role::Vcpu(1))];
        assert_eq!(roles(vm(&found, "old1")), wanted);
    }
}

/// A program of another name in a group of libvirt's is a VM; a container of libvirt's is none.
#[test]
fn the_group_is_enough() {
    let tree = Tree::new(Groups::V2);
    tree.process(100, "my-emulator", "/opt/my-emulator", "x", &format!("{SCOPE}/libvirt/emulator"));
    tree.process(90, "init", "/sbin/init", "init", r"/machine.slice/machine-lxc\x2d1\x2dc.scope");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(found.vms.len(), 1);
    assert_eq!(vm(&found, "web1").kind, Kind::Libvirt);
}

#[test]
fn firecracker_and_cloud_hypervisor() {
    let tree = Tree::new(Groups::V2);
    let jail = "/srv/jailer/firecracker/f1/root/firecracker";
    tree.process(200, "firecracker", jail, "firecracker --id f1", "/firecracker/f1");
    tree.thread(200, 201, "fc_api", "/firecracker/f1");
    tree.thread(200, 202, "fc_vcpu 0", "/firecracker/f1");
    tree.thread(200, 203, "fc_vcpu 1", "/firecracker/f1");
    let cloud = "/usr/bin/cloud-hypervisor";
    tree.process(300, "cloud-hyperviso", cloud, "ch --api-socket /run/c1.sock", "/user.slice");
    tree.thread(300, 301, "vmm", "/user.slice");
    tree.thread(300, 302, "vcpu0", "/user.slice");
    tree.thread(300, 303, "_net1_qp0", "/user.slice");
    tree.thread(300, 304, "vhost-300", "/user.slice");
    // It forks for its terminal.
    tree.process(305, "cloud-hyperviso", cloud, "ch --api-socket /run/c1.sock", "/user.slice");
    tree.child(305, "cloud-hyperviso", 300);
    tree.process(400, "bash", "/bin/bash", "bash", "/user.slice");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(found.vms.len(), 2, "{found:#?}");
    let fire = vm(&found, "f1");
    assert_eq!(
        (fire.kind, fire.cgroup.as_deref()),
        (Kind::Firecracker, Some("firecracker/f1".as_ref()))
    );
    let wanted =
        [(200, Role::Emulator), (201, Role::Worker), (202, Role::Vcpu(0)), (203, Role::Vcpu(1))];
    assert_eq!(roles(fire), wanted);
    let cloud = vm(&found, "c1");
    // Others are in its group.
    assert_eq!((cloud.kind, cloud.cgroup.as_deref()), (Kind::CloudHypervisor, None));
    assert_eq!(cloud.groups.len(), 1);
    assert!(cloud.groups[0].shared);
    let wanted = [
        (300, Role::Emulator),
        (301, Role::Emulator),
        (302, Role::Vcpu(0)),
        (303, Role::IoThread(0)),
        (304, Role::Vhost(0)),
    ];
    assert_eq!(roles(cloud), wanted);
}

/// What everybody can choose: names of processes and threads, command lines, interfaces.
#[test]
fn hostile_names() {
    let tree = Tree::new(Groups::V2);
    // Not VMs, whatever they call themselves.
    tree.process(10, "CPU 0/KVM", "/bin/bash", "bash -name guest=fake", "/u");
    tree.process(11, "qemu-system-x86", "/tmp/evil", "qemu-system-x86_64 -name guest=fake", "/u");
    tree.process(12, "vhost-20", "/tmp/evil", "x", "/u");
    // One whose threads lie.
    let name = "\u{1b}[2J\u{202e}../../etc/passwd";
    tree.process(20, ") S 1 (", QEMU, &format!("q -name guest={name}"), "/u");
    tree.thread(20, 21, "CPU 0/KVM", "/u");
    tree.thread(20, 22, "CPU 0/KVM", "/u");
    tree.thread(20, 23, "CPU 65535/KVM", "/u");
    tree.thread(20, 24, "CPU -1/KVM", "/u");
    tree.thread(20, 25, "\u{1b}]0;x\u{7}", "/u");
    tree.thread(20, 26, "vcpu0", "/../../outside");
    tree.file(20, 5, "/dev/net/tun", "iff:\t../../../proc/self\n");
    tree.file(20, 6, "/dev/tap99999999999", "");
    tree.file(20, 7, "/dev/net/tun", "iff:\tgone0\n");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(found.vms.len(), 1, "{found:#?}");
    let vm = &found.vms[0];
    assert_eq!((vm.pid, vm.name.as_given()), (20, name));
    assert!(!vm.name.to_string().contains('\u{1b}') && !vm.name.to_string().contains('\u{202e}'));
    let vcpus: Vec<u32> =
        vm.threads.iter().filter(|t| matches!(t.role, Role::Vcpu(_))).map(|t| t.tid).collect();
    assert_eq!(vcpus, [21], "the first of two that say to be vCPU 0");
    assert!(!vm.threads.iter().any(|thread| thread.tid == 12));
    assert_eq!(vm.taps, []);
    let troubles = found.troubles.join("\n");
    for word in ["vCPU 0", "gone0"] {
        assert!(troubles.contains(word), "{troubles}");
    }
    assert!(!troubles.contains('\u{1b}') && !troubles.contains("proc/self"), "{troubles}");
}

/// Names of a megabyte, lists without an end: what is kept is bounded.
#[test]
fn sizes_are_bounded() {
    let tree = Tree::new(Groups::V2);
    let long = "n".repeat(1 << 20);
    tree.process(20, "q", QEMU, &format!("q -name guest={}", &long[..60_000]), "/u");
    tree.write("proc/20/task/21/comm", &long);
    tree.write("proc/20/task/21/cgroup", &long);
    tree.process(30, "q", QEMU, &format!("q {long} -name guest=late"), "/u");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(found.vms.len(), 2);
    assert!(found.vms.iter().all(|vm| vm.name.as_given().len() <= 256));
    let comms = found.vms.iter().flat_map(|vm| &vm.threads);
    assert!(comms.map(|thread| thread.comm.as_given().len()).max() <= Some(64));
}

/// What ends while it is looked at is left out, part by part.
#[test]
fn files_that_are_not_there() {
    for gone in [
        "stat",
        "exe",
        "cmdline",
        "cgroup",
        "comm",
        "task",
        "task/21",
        "task/21/comm",
        "task/21/cgroup",
        "fd",
        "fd/5",
        "fdinfo",
        "fdinfo/5",
        "ns",
    ] {
        let tree = Tree::new(Groups::V2);
        tree.process(10, "q", QEMU, "q -name stays", "/u");
        tree.process(20, "qemu-system-x86", QEMU, "q -name goes", "/u");
        tree.thread(20, 21, "CPU 0/KVM", "/u");
        tree.file(20, 5, "/dev/net/tun", "iff:\tvnet0\n");
        tree.interface("vnet0", 3);
        tree.remove(&format!("proc/20/{gone}"));
        let found = scan(&tree.roots(), &[]);
        vm(&found, "stays");
        let left = found.vms.iter().find(|vm| vm.pid == 20);
        match gone {
            "stat" | "task" => assert_eq!(left, None, "{gone}"),
            "task/21" | "task/21/comm" => assert_eq!(left.expect(gone).threads.len(), 1),
            "cmdline" => assert_eq!(left.expect(gone).name.as_given(), "qemu-20"),
            "fd" | "fd/5" | "fdinfo" | "fdinfo/5" => {
                assert_eq!(left.expect(gone).taps, [], "{gone}");
            }
            _ => assert_eq!(left.expect(gone).taps.len(), 1, "{gone}"),
        }
    }
    // Something else in place of a file.
    let tree = Tree::new(Groups::V2);
    tree.process(20, "q", QEMU, "q -name a", "/u");
    tree.remove("proc/20/cmdline");
    tree.write("proc/20/cmdline/x", "");
    tree.write("proc/30/stat", "garbage");
    tree.write("proc/31/stat", "");
    assert_eq!(scan(&tree.roots(), &[]).vms.len(), 1);
    let nothing = lowtail_kernel::Roots { proc: tree.path("none"), sys: tree.path("none") };
    let found = scan(&nothing, &[]);
    assert!(found.vms.is_empty() && found.troubles[0].contains("cannot be read"), "{found:?}");
    assert_eq!(found.unknown.as_ref(), found.troubles.first());
}

/// A QEMU that does not name its threads, one that is only asked what it can do, and one that has just begun.
#[test]
fn threads_without_names() {
    let tree = Tree::new(Groups::None);
    tree.process(20, "kvm", "/usr/bin/kvm", "kvm -name dumb", "/");
    tree.thread(20, 21, "kvm", "/");
    tree.thread(20, 22, "kvm", "/");
    tree.process(30, "kvm", "/usr/bin/kvm", "kvm -S -machine none,accel=kvm", "/");
    tree.process(40, "kvm", "/usr/bin/kvm", "kvm -name young", "/");
    let found = scan(&tree.roots(), &[]);
    let wanted = [(20, Role::Emulator), (21, Role::Worker), (22, Role::Worker)];
    assert_eq!(roles(vm(&found, "dumb")), wanted);
    vm(&found, "young");
    assert_eq!(found.vms.len(), 2);
    let troubles = found.troubles.join("\n");
    assert!(troubles.contains("`dumb`") && troubles.contains("debug-threads=on"), "{troubles}");
    assert!(!troubles.contains("`young`") && troubles.contains("quotas"), "{troubles}");
}

/// A number that is used again is another VM; a shell that becomes a QEMU is found within eight scans.
#[test]
fn from_scan_to_scan() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "q", QEMU, "q -name a", "/u");
    tree.process(30, "bash", "/bin/bash", "bash", "/u");
    let mut scanner = Scanner::new(tree.roots(), Vec::new());
    for _ in 0..10 {
        assert_eq!(scanner.scan().vms.len(), 1);
    }
    // The command line of one that is known is not read again: that could wait for a thread of its.
    tree.write("proc/20/cmdline", "q\0-name\0other");
    for _ in 0..10 {
        vm(&scanner.scan(), "a");
    }
    tree.restarted(20, "q", 5000);
    tree.write("proc/20/cmdline", "q\0-name\0b");
    let found = scanner.scan();
    assert_eq!(vm(&found, "b").started_ticks, 5000);
    tree.process(30, "qemu-system-x86", QEMU, "q -name late", "/u");
    let scans = (1..=8).find(|_| scanner.scan().vms.len() == 2);
    assert!(scans.is_some());
    tree.remove("proc/20");
    let found = scanner.scan();
    assert_eq!(found.vms.len(), 1);
    assert_eq!(found.vms[0].name, Name::new("late"));
}
