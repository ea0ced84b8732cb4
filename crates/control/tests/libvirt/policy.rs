//! A policy for a VM of libvirt's: what it owns goes through it.

use std::path::Path;

use lowtail_control::desired::{HostCapabilities, Settings, settings};
use lowtail_control::libvirt::Running;
use lowtail_control::manage::{HostLock, Knob, OnError, Setting};
use lowtail_control::policy::Policy;
use lowtail_discover::{self, Found};
use lowtail_kernel::Roots;

use super::libvirtd::{Libvirtd, missing};
use super::real::files;
use super::{alone, skip};

fn resolve(uri: &str, entry: &str, found: &Found) -> Settings {
    let text = format!("libvirt = \"{uri}\"\nscheduler = \"fair\"\n{entry}");
    let policy = Policy::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let capabilities = HostCapabilities::read(&Roots::default(), found.hierarchy.as_ref());
    settings(&policy, found, &capabilities.expect("a host of Linux"))
}

/// The VM, and no other of this host's.
fn found(web: &Running) -> Found {
    let mut found = lowtail_discover::scan(&Roots::default(), &[]);
    found.vms.retain(|vm| web.is(vm));
    assert_eq!(found.vms.len(), 1, "{found:#?}");
    found
}

/// `cpu_shares=4096` of those that go through libvirt; the others are bursts, which it has not.
fn through(all: &[Setting]) -> Vec<String> {
    let text = |setting: &Setting| match &setting.knob {
        Knob::Libvirt(libvirt) => Some(format!("{}={}", libvirt.key, setting.to)),
        other => {
            assert!(other.to_string().contains("burst"), "{other}");
            None
        }
    };
    let mut all: Vec<String> = all.iter().filter_map(text).collect();
    all.sort();
    all
}

fn apply(dir: &Path, all: &Settings) {
    let mut hold = HostLock::take(dir).expect("nobody holds it");
    let plan = hold.plan(&all.settings, false).expect("a plan");
    assert_eq!((&plan.unread, &plan.foreign), (&vec![], &vec![]));
    let applied = hold.apply(&plan, OnError::Stop, &mut |_| {}).expect("written down");
    assert_eq!(applied.failed, []);
}

#[test]
fn a_policy_goes_through_libvirt() {
    let _alone = alone();
    if skip(missing()) {
        return;
    }
    let libvirtd = Libvirtd::start();
    let connection = libvirtd.connect();
    let more = "<title>a shop</title><iothreads>1</iothreads><metadata><x:team xmlns:x='urn:x'><x:name>blue</x:name>\
                </x:team></metadata>";
    let web = libvirtd.create(&connection, "web", more);
    let (uri, found) = (libvirtd.uri(), found(&web));
    let dir = tempfile::tempdir().expect("a directory");
    let before = files(libvirtd.groups());

    // By its title; 100 of two vCPUs are 2048 shares of cgroup v1, and the period is the kernel's 100 ms.
    let limits = |all: &str, vcpu: &str| {
        format!(
            "[[vm]]\ntitle = \"*shop\"\nweight = 200\ncap = {all}\nvcpu_cap = {vcpu}\nemulator_cap = \"20%\"\n\
             iothread_cap = \"30%\"\n[[vm]]\nmanage = false"
        )
    };
    let wanted = resolve(&uri, &limits("\"150%\"", "\"50%\""), &found);
    assert_eq!(
        through(&wanted.settings),
        [
            "cpu_shares=4096",
            "emulator_period=100000",
            "emulator_quota=20000",
            "global_period=100000",
            "global_quota=150000",
            "iothread_period=100000",
            "iothread_quota=30000",
            "vcpu_period=100000",
            "vcpu_quota=50000",
        ]
    );
    assert_eq!(wanted.notes, []);
    apply(dir.path(), &wanted);
    let said = libvirtd.virsh(&["schedinfo", &web.domain.uuid, "--live"]);
    let said: Vec<String> =
        said.lines().map(|line| line.split_whitespace().collect::<String>()).collect();
    for line in [
        "cpu_shares:4096",
        "vcpu_quota:50000",
        "emulator_quota:20000",
        "global_quota:150000",
        "iothread_quota:30000",
    ] {
        assert!(said.iter().any(|said| said == line), "{line} in {said:#?}");
    }

    // Less for the whole than a vCPU had, and more for a vCPU than the whole had: cgroup v1 refuses the wrong order.
    let other = "{ quota = \"15ms\", period = \"50ms\" }";
    for (all, vcpu) in [("\"35%\"", other), ("\"180%\"", "\"90%\""), (other, "\"30%\"")] {
        let narrow =
            limits(all, vcpu).replace("emulator_cap = \"20%\"\niothread_cap = \"30%\"\n", "");
        apply(dir.path(), &resolve(&uri, &narrow, &found));
    }
    let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
    let reverted = hold.revert(false, &mut |_| {}).expect("written down");
    assert_eq!((reverted.failed, reverted.foreign), (vec![], vec![]));
    assert_eq!(files(libvirtd.groups()), before);
    drop(hold);

    // What others have written on it, and what is written on it while it runs, in one line of the shell.
    let team = "[[vm]]\nmetadata = { \"team/name\" = \"blue\" }\nlabel = { tier = \"front\" }\nweight = 300";
    let unlabelled = resolve(&uri, team, &found);
    // No entry fits it: it keeps its weight.
    assert_eq!(through(&unlabelled.settings), Vec::<String>::new());
    let label =
        ["metadata", &web.domain.uuid, "urn:lowtail:labels", "--key", "lowtail", "--live", "--set"];
    libvirtd.virsh(&[&label[..], &["<labels tier=\"front\"/>"]].concat());
    assert_eq!(through(&resolve(&uri, team, &found).settings), ["cpu_shares=6144"]);

    // Another title, another rule; and where nobody answers the groups are there still.
    let bank = "others = \"weigh\"\n[[vm]]\ntitle = \"bank\"\nmanage = false";
    let plain = resolve(&uri, bank, &found);
    assert_eq!(through(&plain.settings), ["cpu_shares=2048"]);
    let nobody = "qemu+unix:///system?socket=/nowhere/libvirt-sock";
    let direct = resolve(nobody, "", &found);
    assert!(direct.settings.iter().all(|one| matches!(one.knob, Knob::Group(_))), "{direct:?}");
    let [note] = direct.notes.as_slice() else { panic!("{:?}", direct.notes) };
    assert!(note.what.contains("written to their control groups directly"), "{note}");
    apply(dir.path(), &direct);
    let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
    hold.revert(false, &mut |_| {}).expect("written down");
    assert_eq!(files(libvirtd.groups()), before);
}
