//! What a real kernel says of a real VM of KVM's, in the guest: QEMU's emulation has AMD's virtualization in it.

use std::collections::BTreeMap;
use std::fs;

use lowtail_control::desired::{HostCapabilities, settings};
use lowtail_control::policy::Policy;
use lowtail_discover::{self, KnownBy, NamedBy, Role, Scanner, Vm};
use lowtail_kernel::Roots;

use super::guest::within;
use super::host;

#[test]
fn vcpus_of_a_real_machine() {
    let script = "modprobe kvm-amd && mount -t debugfs none /sys/kernel/debug; \
                  CI=true lowtail --ignored --exact kvm::inside --nocapture";
    let Some(said) = within(script, |guest| guest.set("MODULES", "yes")) else { return };
    assert!(said.contains("1 passed"), "it ran there: {said}");
}

fn vcpus(vm: &Vm) -> BTreeMap<u32, u16> {
    let number = |role| if let Role::Vcpu(n) = role { Some(n) } else { None };
    vm.threads.iter().filter_map(|thread| Some((thread.tid, number(thread.role)?))).collect()
}

#[test]
#[ignore = "runs in the guest"]
fn inside() {
    // As in the guest alone: its first process is a shell.
    assert!(fs::exists("/command").expect("a root"), "this is for the guest");
    host().expect("root, and control groups");
    // Forty threads say that they are vCPUs, three run one.
    let standin = lowtail_standin::start("--name web-1 --vcpus 40 --vhost 2 --kvm 3");
    let standin = standin.expect("it begins");
    let pid = standin.begun.pid;
    let runners = standin.begun.threads.iter().filter(|(_, name)| name.starts_with("runner-"));
    let wanted: BTreeMap<u32, u16> = runners.map(|(tid, _)| *tid).zip(0..).collect();
    assert_eq!(wanted.len(), 3, "{:?}", standin.begun.threads);
    let of = |found: &lowtail_discover::Found| {
        found.vms.iter().find(|vm| vm.pid == pid).expect("it is found").clone()
    };
    let vm = of(&lowtail_discover::scan(&Roots::default(), &[]));
    assert_eq!((vm.origin.known_by, vm.origin.named_by), (KnownBy::Kvm, NamedBy::Root));
    assert_eq!(vcpus(&vm), wanted, "by debugfs");
    assert!(!vm.threads.iter().any(|thread| matches!(thread.role, Role::Vhost(_))));
    // One CPU, so one vCPU counts.
    let capabilities = HostCapabilities::read(&Roots::default(), None).expect("a host");
    assert_eq!(vm.vcpus(capabilities.cpus.len()), 1);

    // Without debugfs by where its threads are, over some looks.
    let elsewhere = tempfile::tempdir().expect("a directory");
    let sys = elsewhere.path().join("sys");
    fs::create_dir(&sys).expect("a directory");
    std::os::unix::fs::symlink("/sys/fs", sys.join("fs")).expect("a link");
    let mut scanner = Scanner::new(Roots { sys, ..Roots::default() }, Vec::new());
    let seen = (0..50).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let found = vcpus(&of(&scanner.scan()));
        wanted.iter().all(|(tid, number)| found.get(tid) == Some(number))
    });
    assert!(seen.is_some(), "each was seen in KVM_RUN");

    // Nothing is done for a name that an ordinary user has chosen.
    let text = "scheduler = \"fair\"\n[[vm]]\nname = \"web-*\"\nweight = 1000";
    let policy = Policy::parse("x.toml", text).expect("a policy");
    let mut found = lowtail_discover::scan(&Roots::default(), &[]);
    let of_root = settings(&policy, &found, &capabilities);
    assert_eq!(of_root.settings.len(), 3, "{of_root:?}");
    for vm in &mut found.vms {
        (vm.origin.uid, vm.origin.named_by) = (Some(1000), NamedBy::User(1000));
    }
    assert_eq!(settings(&policy, &found, &capabilities).settings, []);
}
