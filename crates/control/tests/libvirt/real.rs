//! A libvirtd of our own, and a QEMU without KVM and without an operating system.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lowtail_control::libvirt::{Connection, Error, Options};
use lowtail_discover::{self, Kind, Role};
use lowtail_kernel::Roots;
use nix::sys::signal::{Signal, kill};

use super::libvirtd::{Libvirtd, missing};
use super::{alone, key, options, read, skip, write};

/// Values of keys, other ones, and the file of which group has them: libvirt's `docs/cgroups.rst`. The other quotas are
/// half a CPU in a period of 100 ms, and a part's is not above that of the whole, which the kernel refuses.
const FILES: [(&str, &str, &str, &str); 9] = [
    ("cpu_shares", "2048", "", "cpu.shares"),
    ("global_period", "50000", "", "cpu.cfs_period_us"),
    ("global_quota", "200000", "", "cpu.cfs_quota_us"),
    ("vcpu_period", "50000", "vcpu1", "cpu.cfs_period_us"),
    ("vcpu_quota", "25000", "vcpu1", "cpu.cfs_quota_us"),
    ("emulator_period", "20000", "emulator", "cpu.cfs_period_us"),
    ("emulator_quota", "10000", "emulator", "cpu.cfs_quota_us"),
    ("iothread_period", "20000", "iothread1", "cpu.cfs_period_us"),
    ("iothread_quota", "10000", "iothread1", "cpu.cfs_quota_us"),
];

/// Pins, and the group that has their CPUs.
const PINS: [(&str, &str); 4] = [
    ("vcpupin.0", "vcpu0"),
    ("vcpupin.1", "vcpu1"),
    ("emulatorpin", "emulator"),
    ("iothreadpin.1", "iothread1"),
];

/// All files below these groups that say who runs when and where.
pub(crate) fn files(groups: &[PathBuf]) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut todo = groups.to_vec();
    while let Some(group) = todo.pop() {
        for path in
            fs::read_dir(&group).expect("a group").map(|entry| entry.expect("an entry").path())
        {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let changes = ["cpu.stat", "cpu.pressure"].iter().any(|stat| name.starts_with(stat));
            if path.is_dir() {
                todo.push(path);
            } else if name.starts_with("cpu.") && !changes || name.starts_with("cpuset.") {
                // Some can only be written.
                if let Ok(bytes) = fs::read(&path) {
                    found.insert(path, bytes);
                }
            }
        }
    }
    found
}

/// What a group of the VM's has in a file: there is one VM, so one group of this name with such a file.
fn says(groups: &[PathBuf], group: &str, file: &str) -> String {
    let of_machine = |path: &Path| {
        let dir = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if group.is_empty() { dir.ends_with(".libvirt-qemu") } else { dir == group }
    };
    let files = files(groups);
    let mut found = files.iter().filter(|(path, _)| path.ends_with(file) && of_machine(path));
    let (_, bytes) =
        found.next().unwrap_or_else(|| panic!("no {file} of `{group}`: {:?}", files.keys()));
    assert_eq!(found.next(), None);
    String::from_utf8_lossy(bytes).trim().to_string()
}

/// CPUs that each thread of the process may use.
fn affinities(pid: u32) -> BTreeMap<u32, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let line = |tid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"))?;
        Some((tid, line.to_string()))
    };
    tids.filter_map(line).collect()
}

#[test]
fn values_are_those_of_the_control_groups_and_come_back_byte_for_byte() {
    let _alone = alone();
    if skip(missing()) {
        return;
    }
    let libvirtd = Libvirtd::start();
    let connection = libvirtd.connect();
    let web = libvirtd.create(&connection, "web", "<iothreads>1</iothreads>");
    let groups = libvirtd.groups();
    let found = lowtail_discover::scan(&Roots::default(), &[]);
    let vm = found.vms.iter().find(|vm| web.is(vm)).unwrap_or_else(|| panic!("{:#?}", found.vms));
    let (before, cpus_before) = (files(groups), affinities(vm.pid));
    let mut was = Vec::new();
    for (name, other, group, file) in FILES {
        let now = read(&connection, &web.domain, name);
        assert_eq!(now, says(groups, group, file), "{name}");
        assert_ne!(now, other, "{name}");
        was.push((name, now));
        write(&connection, &web.domain, name, other);
        assert_eq!(read(&connection, &web.domain, name), other);
        assert_eq!(says(groups, group, file), other, "{name}");
    }
    for (name, group) in PINS {
        let now = read(&connection, &web.domain, name);
        assert_eq!(now, says(groups, group, "cpuset.cpus"), "{name}");
        was.push((name, now));
        write(&connection, &web.domain, name, "0");
        assert_eq!(says(groups, group, "cpuset.cpus"), "0", "{name}");
    }
    let vcpu0 = vm.threads.iter().find(|thread| thread.role == Role::Vcpu(0)).expect("a vCPU");
    let line = affinities(vm.pid).remove(&vcpu0.tid).expect("the vCPU");
    assert_eq!(line.split_whitespace().last(), Some("0"), "{line}");
    let changed =
        before.iter().filter(|(path, bytes)| files(groups).get(*path) != Some(*bytes)).count();
    // A file each at least; that of vCPU 1 is one of two.
    assert!(changed >= FILES.len() + PINS.len(), "{changed}");
    // As the ledger does it: the last first.
    for (name, value) in was.iter().rev() {
        write(&connection, &web.domain, name, value);
    }
    assert_eq!(files(groups), before);
    let cpus = affinities(vm.pid);
    for (tid, line) in cpus_before {
        // Threads that serve a disk for a moment may have gone.
        assert!(cpus.get(&tid).is_none_or(|now| *now == line), "{tid}: {line}, {cpus:?}");
    }
}

#[test]
fn machines_are_told_by_their_labels_and_by_what_is_discovered() {
    let _alone = alone();
    if skip(missing()) {
        return;
    }
    let libvirtd = Libvirtd::start();
    let connection = libvirtd.connect();
    // What a tenant may choose: nothing in it is to be obeyed.
    let name = "we b;$(reboot) -x \u{202e}\u{e9}";
    let more = "<title>gold</title><metadata><l:tier xmlns:l='urn:test'>1</l:tier></metadata>";
    let web = libvirtd.create(&connection, name, more);
    assert_eq!((web.name.as_given(), web.odd.as_deref()), (name, None));
    let labels: Vec<(&str, &str)> =
        web.labels.iter().map(|label| (label.path.as_str(), label.value.as_str())).collect();
    assert_eq!(labels, [("title", "gold"), ("tier", "1")]);
    assert_eq!(web.labels[1].namespace.as_deref(), Some("urn:test"));

    let found = lowtail_discover::scan(&Roots::default(), &[]);
    let vms: Vec<_> = found.vms.iter().filter(|vm| web.is(vm)).collect();
    let [vm] = vms.as_slice() else { panic!("{web:?} is not one of {:#?}", found.vms) };
    assert_eq!((vm.kind, &vm.name), (Kind::Libvirt, &web.name));
    let vcpus = vm.threads.iter().filter(|thread| matches!(thread.role, Role::Vcpu(_))).count();
    assert_eq!(vcpus, 2, "{vm:#?}");

    // It has no I/O threads: libvirt would take a quota for them, and nobody would have it.
    let error =
        connection.write(&web.domain, key("iothread_quota"), "10000").expect_err("no such threads");
    assert!(matches!(error, Error::NoSuch { .. }), "{error}");
    assert!(!libvirtd.virsh(&["dumpxml", &web.domain.uuid]).contains("iothread_quota"));
    // What libvirt does not take is an error in its words, and nothing has changed.
    let error = connection.write(&web.domain, key("vcpu_quota"), "999").expect_err("too short");
    assert!(
        matches!(error, Error::Refused { .. }) && error.to_string().contains("vcpu_quota"),
        "{error}"
    );
    assert_eq!(read(&connection, &web.domain, "vcpu_quota"), "-1");

    // Started again it is another VM.
    libvirtd.virsh(&["destroy", &web.domain.uuid]);
    let gone = |why: &str| {
        let value = connection.read(&web.domain, key("cpu_shares"));
        assert_eq!(value.unwrap_or_else(|error| panic!("{error}")), None, "{why}");
        let done = connection.write(&web.domain, key("cpu_shares"), "2048");
        assert!(!done.unwrap_or_else(|error| panic!("{error}")), "{why}");
    };
    gone("it has ended");
    let again = format!("<uuid>{}</uuid>", web.domain.uuid);
    let again = libvirtd.create(&connection, "again", &again);
    assert_eq!(again.domain.uuid, web.domain.uuid);
    gone("it was started again");
    assert_eq!(read(&connection, &again.domain, "cpu_shares"), "1024");
}

/// A libvirtd that is stopped in the middle of its work, more often than calls may hang at one time.
#[test]
fn a_libvirtd_that_stops_does_not_stop_us() {
    let _alone = alone();
    if skip(missing()) {
        return;
    }
    let libvirtd = Libvirtd::start();
    let first = libvirtd.connect();
    let web = libvirtd.create(&first, "web", "");
    let pid = libvirtd.pid();
    for round in 0..6 {
        let short = Options { deadline: Duration::from_millis(200), ..options(&libvirtd.uri()) };
        // It has come back from the round before, but may be busy.
        let until = Instant::now() + Duration::from_secs(10);
        let connection = loop {
            match Connection::open(short.clone()) {
                Ok(connection) => break connection,
                Err(error) => assert!(Instant::now() < until, "round {round}: {error}"),
            }
        };
        kill(pid, Signal::SIGSTOP).expect("libvirtd");
        let error =
            connection.write(&web.domain, key("cpu_shares"), "2048").expect_err("it is stopped");
        assert!(matches!(error, Error::Hangs { .. }), "{error}");
        // Given up: not even tried.
        let since = Instant::now();
        let error = connection.read(&web.domain, key("cpu_shares")).expect_err("given up");
        assert!(matches!(error, Error::Hangs { .. }), "{error}");
        assert!(since.elapsed() < short.deadline, "{:?}", since.elapsed());
        kill(pid, Signal::SIGCONT).expect("libvirtd");
    }
    // A connection that has waited for nothing meanwhile is as good as before.
    assert!(["1024", "2048"].contains(&read(&first, &web.domain, "cpu_shares").as_str()));
    // One that ends is gone, which is another thing than a VM's being gone.
    kill(pid, Signal::SIGKILL).expect("libvirtd");
    let error = first.read(&web.domain, key("cpu_shares")).expect_err("it has ended");
    assert!(matches!(error, Error::Closed { .. }), "{error}");
}
