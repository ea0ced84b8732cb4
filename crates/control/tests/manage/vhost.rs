//! Workers of vhost as the kernel starts them, in the guest: its kernel has the module.

use std::fs;

use lowtail_control::desired::{HostCapabilities, settings};
use lowtail_control::policy::Policy;
use lowtail_discover::{self, Role};
use lowtail_kernel::Roots;
use lowtail_testkit::guest::Guest;

use super::guest::within;
use super::{apply, host, revert};

#[test]
fn workers_of_the_kernels_own() {
    let script =
        "modprobe vhost_net && CI=true lowtail --ignored --exact vhost::inside --nocapture";
    let set = |guest: Guest| guest.set("MODULES", "yes").set("CPUS", 3);
    let Some(said) = within(script, set) else { return };
    assert!(said.contains("1 passed"), "it ran there: {said}");
}

/// The threads' CPUs and nice values, as the kernel shows them.
fn dump(tids: &[u32]) -> Vec<String> {
    let read = |tid: &u32| {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).expect("it lives");
        let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives");
        // proc(5): nice value 19, policy 41; the first behind the name is field 3.
        let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
        format!("{} {} {}", cpus.expect("as documented"), fields[19 - 3], fields[41 - 3])
    };
    tids.iter().map(read).collect()
}

#[test]
#[ignore = "runs in the guest"]
fn inside() {
    // As in the guest alone: its first process is a shell.
    assert!(fs::exists("/command").expect("a root"), "this is for the guest");
    host().expect("root, and control groups");
    let standin = lowtail_standin::start("--name v --vcpus 1 --vhost-net 4").expect("it begins");
    let tids: Vec<u32> = standin.begun.threads[1..].iter().map(|(tid, _)| *tid).collect();
    assert_eq!(tids.len(), 4, "{:?}", standin.begun.threads);
    let found = lowtail_discover::scan(&Roots::default(), &[]);
    let vm = found.vms.iter().find(|vm| vm.pid == standin.begun.pid).expect("it is found");
    let workers = vm.threads.iter().filter(|thread| matches!(thread.role, Role::Vhost(_)));
    assert_eq!(workers.map(|thread| thread.tid).collect::<Vec<_>>(), tids);

    // Three CPUs, of which the first is left to everybody else; a weight of 305 is five steps of 1.25 (sched(7)).
    let text = "scheduler = \"none\"\n[workers]\ncpus = \"all-but-first\"\nweight = 305";
    let policy = Policy::parse("x.toml", text).expect("a policy");
    let capabilities =
        HostCapabilities::read(&Roots::default(), found.hierarchy.as_ref()).expect("a host");
    let before = dump(&tids);
    let dir = tempfile::tempdir().expect("a directory");
    let wanted = settings(&policy, &found, &capabilities);
    assert_eq!(wanted.notes, []);
    apply(dir.path(), &wanted.settings);
    let placed = dump(&tids);
    for cpu in ["1", "2"] {
        let here =
            placed.iter().filter(|shown| **shown == format!("Cpus_allowed_list:\t{cpu} -5 0"));
        assert_eq!(here.count(), 2, "{placed:?}");
    }
    // They keep an ordinary policy, so that what else wants these CPUs gets its part.
    revert(dir.path());
    assert_eq!(dump(&tids), before);
}
