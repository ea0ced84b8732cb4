//! VMs by the user's word.

use lowtail_discover::{Declared, Kind, Role, Scanner, scan};

use super::tree::{Groups, Tree};
use super::{roles, vm};

const QEMU: &str = "/usr/bin/qemu-system-x86_64";

fn declared(all: &[&str]) -> Vec<Declared> {
    all.iter().map(|text| text.parse().expect("as documented")).collect()
}

fn tree(groups: Groups) -> Tree {
    let tree = Tree::new(groups);
    tree.process(20, "crosvm", "/usr/bin/crosvm", "crosvm run", "/boxes/one");
    tree.thread(20, 21, "crosvm_vcpu0", "/boxes/one");
    tree.thread(20, 22, "vcpu1", "/boxes/one/inner");
    tree.process(30, "helper", "/usr/bin/helper", "helper", "/boxes/one");
    tree.process(40, "qemu-system-x86", QEMU, "q -name own", "/boxes/two");
    tree.thread(40, 41, "CPU 0/KVM", "/boxes/two");
    for (tid, pid) in [(21, 20), (22, 20), (41, 40)] {
        // Each thread has a directory, which is not listed but can be opened: links do the same here.
        tree.link(&format!("proc/{tid}"), tree.path(&format!("proc/{pid}/task/{tid}")));
    }
    tree.interface("tap7", 7);
    tree
}

/// A group with all that is in it, named in each of the ways.
#[test]
fn a_group() {
    for (groups, mount) in [(Groups::V1, "/sys/fs/cgroup/cpu"), (Groups::V2, "/sys/fs/cgroup")] {
        let tree = tree(groups);
        let mounted = tree.path(mount.trim_start_matches('/')).display().to_string();
        for path in ["boxes/one".to_string(), "/boxes/one".into(), format!("{mounted}/boxes/one")] {
            let found = scan(&tree.roots(), &declared(&[&format!("box={path},tap=tap7")]));
            assert_eq!(found.troubles, [""; 0]);
            let vm = vm(&found, "box");
            assert_eq!((vm.kind, vm.pid, vm.taps[0].ifindex), (Kind::Declared, 20, 7));
            let wanted =
                [(20, Role::Worker), (21, Role::Worker), (22, Role::Vcpu(1)), (30, Role::Worker)];
            assert_eq!(roles(vm), wanted);
            let labels: Vec<&str> = vm.groups.iter().map(|group| group.label.as_given()).collect();
            assert_eq!(labels, ["boxes", "all", "inner"]);
            assert_eq!(found.vms.len(), 2);
        }
    }
}

/// One that is found anyhow gets another name, and interfaces; it is not there twice.
#[test]
fn another_name_for_one_that_is_found() {
    let tree = tree(Groups::V2);
    for what in ["mine=40,tap=tap7", "mine=boxes/two,tap=tap7"] {
        let found = scan(&tree.roots(), &declared(&[what]));
        assert_eq!((found.vms.len(), &found.troubles), (1, &Vec::new()));
        let vm = vm(&found, "mine");
        assert_eq!((vm.kind, vm.taps[0].name.as_given()), (Kind::Qemu, "tap7"));
        assert_eq!(roles(vm), [(40, Role::Emulator), (41, Role::Vcpu(0))]);
    }
    // A group above has all of it; a thread is in one VM only.
    let found = scan(&tree.roots(), &declared(&["all=boxes"]));
    assert_eq!(found.vms.len(), 1, "{found:#?}");
    assert!(vm(&found, "all").threads.iter().any(|thread| thread.tid == 41));
}

#[test]
fn a_process() {
    let tree = tree(Groups::V2);
    let found = scan(&tree.roots(), &declared(&["p=20"]));
    let wanted = [(20, Role::Worker), (21, Role::Worker), (22, Role::Vcpu(1))];
    assert_eq!(roles(vm(&found, "p")), wanted);
}

/// What is not there is told, and found when it comes; a number that is used again is not what was meant.
#[test]
fn comes_and_goes() {
    let tree = tree(Groups::V2);
    let wanted = declared(&["a=boxes/three", "b=50", "c=20", "d=boxes/one,tap=none0"]);
    let mut scanner = Scanner::new(tree.roots(), wanted);
    let found = scanner.scan();
    let troubles = found.troubles.join("\n");
    for word in
        ["`a`: there is no control group boxes/three", "`b`: there is no process 50", "none0"]
    {
        assert!(troubles.contains(word), "{troubles}");
    }
    tree.process(50, "x", "/bin/x", "x", "/boxes/three");
    tree.restarted(20, "another", 9000);
    let found = scanner.scan();
    let (a, troubles) = (vm(&found, "b"), found.troubles.join("\n"));
    assert_eq!((a.pid, a.kind), (50, Kind::Declared));
    assert!(troubles.contains("`c`: process 20 has ended; its number is another's"), "{troubles}");
}
