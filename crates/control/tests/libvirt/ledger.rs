//! Values through libvirt, applied and reverted with the ledger.

use std::path::Path;

use lowtail_control::libvirt::Domain;
use lowtail_control::manage::{Checkpoint, HostLock, Knob, Libvirt, OnError, Setting};

use super::libvirtd::{Libvirtd, missing};
use super::real::files;
use super::{alone, key, skip};

/// What is wanted: each kind of value once.
const WANTED: [(&str, &str); 4] = [
    ("cpu_shares", "512"),
    ("vcpu_quota", "50000"),
    ("emulator_quota", "20000"),
    ("vcpupin.1", "0"),
];

fn settings(uri: &str, domain: &Domain) -> Vec<Setting> {
    let setting = |(name, to): &(&str, &str)| {
        let (uri, domain) = (uri.to_string(), domain.clone());
        let knob = Knob::Libvirt(Libvirt { uri, domain, key: key(name) });
        Setting { knob, to: to.to_string(), why: "a test".to_string() }
    };
    WANTED.iter().map(setting).collect()
}

fn apply(dir: &Path, settings: &[Setting], tell: &mut dyn FnMut(Checkpoint<'_>)) {
    let mut hold = HostLock::take(dir).expect("nobody holds it");
    let plan = hold.plan(settings, false).expect("a plan");
    assert_eq!((plan.changes.len(), &plan.unread), (WANTED.len(), &vec![]));
    let applied = hold.apply(&plan, OnError::Stop, tell).expect("written down");
    assert_eq!((applied.changed, applied.failed), (WANTED.len(), vec![]));
}

#[test]
fn what_is_applied_is_reverted_and_what_others_set_is_left_alone() {
    let _alone = alone();
    if skip(missing()) {
        return;
    }
    let libvirtd = Libvirtd::start();
    let connection = libvirtd.connect();
    let web = libvirtd.create(&connection, "web", "");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = settings(&libvirtd.uri(), &web.domain);
    let before = files(libvirtd.groups());

    // Stopped before each step by a panic, as the process's end would: the ledger is what there is then.
    for stop in 0..WANTED.len() {
        let mut step = 0;
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            apply(dir.path(), &settings, &mut |moment| {
                if let Checkpoint::Before(_) = moment {
                    assert_ne!(step, stop, "the end, as planned");
                    step += 1;
                }
            });
        }));
        assert!(died.is_err(), "step {stop}");
        let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
        let reverted = hold.revert(false, &mut |_| {}).expect("written down");
        assert_eq!((reverted.restored, reverted.failed), (stop, vec![]));
        assert_eq!(files(libvirtd.groups()), before, "step {stop}");
    }

    apply(dir.path(), &settings, &mut |_| {});
    assert_ne!(files(libvirtd.groups()), before);
    // With virsh, as an administrator does it.
    libvirtd.virsh(&["schedinfo", &web.domain.uuid, "--live", "--set", "cpu_shares=777"]);
    let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
    let reverted = hold.revert(false, &mut |_| {}).expect("written down");
    assert_eq!((reverted.restored, reverted.failed), (WANTED.len() - 1, vec![]));
    let [foreign] = reverted.foreign.as_slice() else { panic!("{:?}", reverted.foreign) };
    assert_eq!((foreign.was.as_str(), foreign.now.as_str()), ("1024", "777"));
    libvirtd.virsh(&["schedinfo", &web.domain.uuid, "--live", "--set", "cpu_shares=1024"]);
    assert_eq!(files(libvirtd.groups()), before);
    drop(hold);

    // A VM that ends takes all with it.
    apply(dir.path(), &settings, &mut |_| {});
    libvirtd.virsh(&["destroy", &web.domain.uuid]);
    let mut hold = HostLock::take(dir.path()).expect("nobody holds it");
    let reverted = hold.revert(false, &mut |_| {}).expect("written down");
    assert_eq!((reverted.gone, reverted.failed), (WANTED.len(), vec![]));
}
