//! What a tenant says of itself decides nothing: what is a VM, what it is called, how many vCPUs it has.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use lowtail_discover::{Found, Kind, KnownBy, NamedBy, Role, Scanner, Users, Vm, scan};

use super::tree::{Groups, Tree};
use super::vm;

const QEMU: &str = "/tmp/qemu-system-x86_64";
const SCOPE: &str = r"/machine.slice/machine-qemu\x2d1\x2dweb1.scope";
const TENANT: u32 = 1000;

fn vcpus(vm: &Vm) -> Vec<(u32, u16)> {
    let number = |role| if let Role::Vcpu(n) = role { Some(n) } else { None };
    vm.threads.iter().filter_map(|thread| Some((thread.tid, number(thread.role)?))).collect()
}

fn trusting(tree: &Tree, uid: u32) -> Found {
    Scanner::new(tree.roots(), Vec::new()).trusting(Users::new(vec![uid..=uid])).scan()
}

/// A program that is called like a hypervisor is a VM for root, and for users that the policy names.
#[test]
fn a_name_makes_no_machine() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "qemu-system-x86", QEMU, "q -name web-1", "/u");
    tree.process(30, "bash", "/bin/bash", "bash", "/u");
    for number in 0..200 {
        tree.thread(20, 100 + number, &format!("CPU {number}/KVM"), "/u");
    }
    let found = scan(&tree.roots(), &[]);
    let web = vm(&found, "web-1");
    assert_eq!((web.origin.known_by, web.origin.named_by), (KnownBy::Program, NamedBy::Root));
    assert_eq!((web.vcpus(usize::MAX), web.vcpus(2)), (200, 2));
    tree.owner(20, TENANT);
    let found = scan(&tree.roots(), &[]);
    assert_eq!(found.vms, []);
    assert!(found.troubles.iter().any(|why| why.contains("users 1000")), "{:?}", found.troubles);
    let found = trusting(&tree, TENANT);
    assert_eq!(vm(&found, "web-1").origin.named_by, NamedBy::User(TENANT));
    assert_eq!(trusting(&tree, TENANT + 1).vms, []);
    // Root within a container.
    tree.owner(20, 0);
    for namespace in ["user", "pid"] {
        tree.link(&format!("proc/self/ns/{namespace}"), format!("{namespace}:[1]"));
        tree.link(&format!("proc/20/ns/{namespace}"), format!("{namespace}:[1]"));
        assert_eq!(scan(&tree.roots(), &[]).vms.len(), 1);
        tree.link(&format!("proc/20/ns/{namespace}"), format!("{namespace}:[2]"));
        assert_eq!(scan(&tree.roots(), &[]).vms, [], "{namespace}");
        tree.link(&format!("proc/20/ns/{namespace}"), format!("{namespace}:[1]"));
    }
    // With the rights of another, as a program with set-user-ID has them: whoever has started it counts.
    tree.write("proc/20/status", format!("Name:\tx\nUid:\t{TENANT}\t0\t0\t0\n"));
    assert_eq!(scan(&tree.roots(), &[]).vms, []);
}

/// Whoever holds a VM of KVM's is one, whatever its program is called; its name is its user's.
#[test]
fn who_holds_a_kvm_is_a_machine() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "anything", "/home/x/vmm", "vmm -name web-1", "/u");
    tree.owner(20, TENANT);
    tree.kvm(20, 2);
    tree.process(30, "qemu-system-x86", QEMU, "q -name web-2", "/u");
    tree.owner(30, TENANT);
    tree.kvm(30, 1);
    // Files of these names that are no VM's.
    tree.process(40, "bash", "/bin/bash", "bash", "/u");
    tree.file(40, 3, "/anon_inode:kvm-vm", "");
    tree.file(40, 4, "anon_inode:kvm-vcpu:0", "");
    tree.file(40, 5, "/memfd:anon_inode:kvm-vm (deleted)", "");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(found.vms.len(), 2, "{found:#?}");
    let other = vm(&found, "kvm-20");
    assert_eq!((other.kind, other.origin.known_by), (Kind::Kvm, KnownBy::Kvm));
    let web = vm(&found, "web-2");
    assert_eq!((web.kind, web.origin.known_by), (Kind::Qemu, KnownBy::Kvm));
    assert_eq!(web.origin.named_by, NamedBy::User(TENANT));
}

/// vCPUs are the threads that run them, as the kernel tells; names count for vCPUs that are held and not seen yet.
#[test]
fn vcpus_are_who_runs_them() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "qemu-system-x86", QEMU, "q -name web", "/u");
    tree.kvm(20, 3);
    tree.thread(20, 21, "CPU 0/KVM", "/u");
    tree.thread(20, 22, "CPU 1/KVM", "/u");
    tree.thread(20, 23, "other", "/u");
    tree.thread(20, 24, "CPU 2/KVM", "/u");
    for number in 3..200 {
        tree.thread(20, 100 + number, &format!("CPU {number}/KVM"), "/u");
    }
    // By name, as far as they are held.
    assert_eq!(vcpus(vm(&scan(&tree.roots(), &[]), "web")), [(21, 0), (22, 1), (24, 2)]);
    // Seen in KVM_RUN of the open file of vCPU 1; a name says otherwise.
    tree.write("proc/20/task/23/syscall", "16 0x15 0xae80 0x0 0x0 0x0 0x0 0x7f 0x7f\n");
    for odd in [
        "running\n",
        "16 0x15 0xae81 0x0\n",
        "0 0x15 0xae80\n",
        "16 0x99 0xae80\n",
        "16 zz 0xae80\n",
        "",
    ] {
        tree.write("proc/20/task/24/syscall", odd);
        let found = scan(&tree.roots(), &[]);
        assert_eq!(vcpus(vm(&found, "web")), [(21, 0), (23, 1), (24, 2)], "{odd}");
    }
    // What was seen once is remembered.
    let mut scanner = Scanner::new(tree.roots(), Vec::new());
    scanner.scan();
    tree.write("proc/20/task/23/syscall", "running\n");
    for _ in 0..20 {
        assert_eq!(vcpus(vm(&scanner.scan(), "web")), [(21, 0), (23, 1), (24, 2)]);
    }
    // debugfs knows best; a thread of somebody else's is none of its.
    tree.write("sys/kernel/debug/kvm/20-10/vcpu0/pid", "24\n");
    tree.write("sys/kernel/debug/kvm/20-10/vcpu1/pid", "22\n");
    tree.write("sys/kernel/debug/kvm/20-10/vcpu2/pid", "1\n");
    tree.write("sys/kernel/debug/kvm/20-11/vcpu2/pid", "21\n");
    tree.write("sys/kernel/debug/kvm/30-10/vcpu2/pid", "21\n");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(vcpus(vm(&found, "web")), [(22, 1), (24, 0)]);
}

/// Threads that call themselves workers of vhost get no place of theirs.
#[test]
fn vhost_workers_are_the_kernels() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "qemu-system-x86", QEMU, "q -name web", "/u");
    tree.kvm(20, 1);
    tree.thread(20, 21, "vhost-20", "/u");
    tree.thread(20, 22, "vhost-20", "/u");
    tree.thread(20, 23, "vhost-20", "/u");
    let stat = |tid: u32, flags: u32| {
        let text =
            format!("{tid} (vhost-20) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
        tree.write(&format!("proc/20/task/{tid}/stat"), text);
    };
    stat(21, 0x4040);
    stat(22, 0x40);
    // A worker of io_uring's, which the process has renamed.
    stat(23, 0x4050);
    let found = scan(&tree.roots(), &[]);
    let roles: Vec<Role> = vm(&found, "web").threads.iter().map(|thread| thread.role).collect();
    assert_eq!(roles, [Role::Emulator, Role::Vhost(0), Role::Worker, Role::Worker]);
}

/// A path that looks like libvirt's is libvirt's if root has made it.
#[test]
fn a_group_of_libvirts_is_roots() {
    for groups in [Groups::V1, Groups::V2] {
        let tree = Tree::new(groups);
        let mount = if groups == Groups::V1 { "sys/fs/cgroup/cpu" } else { "sys/fs/cgroup" };
        let path = format!("/user.slice/tenant{SCOPE}/vcpu0");
        tree.process(20, "sleep", "/bin/sleep", "sleep", &path);
        tree.owner(20, TENANT);
        assert_eq!(vm(&scan(&tree.roots(), &[]), "web1").origin.known_by, KnownBy::Libvirt);
        let given = tree.path(&format!("{mount}/user.slice/tenant"));
        fs::set_permissions(&given, Permissions::from_mode(0o777)).expect("ours");
        assert_eq!(scan(&tree.roots(), &[]).vms, [], "{groups:?}");
        // With a VM of KVM's it is one, and not libvirt's; its groups say nothing of vCPUs.
        tree.kvm(20, 1);
        tree.thread(20, 21, "x", &path);
        let found = scan(&tree.roots(), &[]);
        assert_eq!(found.vms.len(), 1);
        assert_eq!(found.vms[0].origin.known_by, KnownBy::Kvm);
        assert!(!found.vms[0].origin.root_cgroup);
        assert_eq!(vcpus(&found.vms[0]), []);
    }
    // Without CPU controller of control groups nobody can tell whose they are.
    let tree = Tree::new(Groups::None);
    tree.process(20, "sleep", "/bin/sleep", "sleep", SCOPE);
    assert_eq!(scan(&tree.roots(), &[]).vms, []);
}

/// libvirt's groups say which threads are vCPUs; what a hypervisor that was taken over calls others does not.
#[test]
fn libvirts_groups_go_before_names() {
    let tree = Tree::new(Groups::V2);
    let group = |name: &str| format!("{SCOPE}/libvirt/{name}");
    tree.process(100, "qemu-system-x86", QEMU, "q -name web1", &group("emulator"));
    tree.owner(100, 107);
    tree.kvm(100, 100);
    tree.thread(100, 101, "CPU 0/KVM", &group("vcpu0"));
    for number in 1..100 {
        tree.thread(100, 200 + number, &format!("CPU {number}/KVM"), &group("emulator"));
    }
    // Begun by a vCPU, it is in the vCPU's group.
    tree.thread(100, 400, "CPU 7/KVM", &group("vcpu0"));
    let found = scan(&tree.roots(), &[]);
    let web = vm(&found, "web1");
    assert_eq!((web.kind, web.origin.named_by), (Kind::Libvirt, NamedBy::Libvirt));
    assert_eq!(vcpus(web), [(101, 0)]);
}

/// A group of root's with nobody else in it names the VM, whatever that calls itself.
#[test]
fn roots_group_names_it() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "qemu-system-x86", QEMU, "q -name web-1", "/system.slice/tenant7.service");
    tree.owner(20, TENANT);
    tree.kvm(20, 1);
    let found = scan(&tree.roots(), &[]);
    let own = vm(&found, "tenant7");
    assert_eq!((own.origin.named_by, own.origin.uid), (NamedBy::Cgroup, Some(TENANT)));
    let given = tree.path("sys/fs/cgroup/system.slice/tenant7.service");
    fs::set_permissions(&given, Permissions::from_mode(0o775)).expect("ours");
    let found = scan(&tree.roots(), &[]);
    assert_eq!(vm(&found, "web-1").origin.named_by, NamedBy::User(TENANT));
}

/// Names that are no UTF-8, everywhere: what is found is found all the same.
#[test]
fn bytes_that_are_no_text() {
    let tree = Tree::new(Groups::V2);
    tree.process(20, "q", QEMU, "q", "/u");
    tree.kvm(20, 1);
    tree.thread(20, 21, "x", "/u");
    let stat =
        [b"20 (\xff\xfe) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n".as_slice()].concat();
    tree.write("proc/20/stat", stat);
    tree.write("proc/20/status", b"Name:\t\xff\nUid:\t0\t0\t0\t0\n".as_slice());
    tree.write("proc/20/cmdline", b"q\0-name\0\xc3(".as_slice());
    tree.write("proc/20/task/21/comm", b"CPU 0/KVM \xe2\x82\n".as_slice());
    tree.write("proc/20/cgroup", b"0::/u\xff\n".as_slice());
    let found = scan(&tree.roots(), &[]);
    assert_eq!((found.vms.len(), found.vms[0].started_ticks), (1, 77));
    assert_eq!(found.vms[0].name.as_given(), "\u{fffd}(");
}
