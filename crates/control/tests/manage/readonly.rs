//! The ledger's directory becomes read-only under us: nothing is changed that is not written down, and what is in force is
//! restored nevertheless.

use std::path::Path;
use std::process::Command;

use lowtail_control::manage::{Error, HostLock, OnError};

use super::{child, nobody};

#[test]
fn a_read_only_directory() {
    child::with_mounts_of_its_own("readonly", &["a", "b"]);
}

pub(crate) fn inside(dir: &Path) {
    let settings = child::settings(dir);
    let run = dir.join("run");
    std::fs::create_dir(&run).expect("a directory");
    let run_as = |what: &str, words: &[&str]| {
        let status = Command::new(what).args(words).arg(&run).status();
        assert!(status.expect("there is a `mount`").success(), "{what} {words:?}");
    };
    // A mount that has files open for writing cannot become read-only: the lock is one. So one that is goes on top.
    let read_only = || {
        run_as("mount", &["--bind", &run.display().to_string()]);
        run_as("mount", &["-o", "remount,bind,ro"]);
    };
    let writable = || run_as("umount", &[]);
    let values = || {
        let read = settings.iter().map(|setting| setting.knob.read().expect("a file"));
        read.flatten().collect::<Vec<_>>()
    };
    let before = values();
    run_as("mount", &["-t", "tmpfs", "-o", "size=1m", "none"]);
    let mut hold = HostLock::take(&run).expect("nobody holds it");
    read_only();
    let plan = hold.plan(&settings, false).expect("a plan");
    let error = hold.apply(&plan, OnError::Stop, &mut nobody).expect_err("read-only");
    let text = error.to_string();
    assert!(text.contains("nothing was changed") && text.contains("Read-only"), "{text}");
    assert_eq!(values(), before);
    writable();
    hold.apply(&plan, OnError::Stop, &mut nobody).expect("written down");
    assert_eq!(values(), ["300"; 2]);
    read_only();
    // That it cannot be written down is told; what was there before is there again.
    let error = hold.revert(false, &mut nobody).expect_err("read-only");
    assert!(matches!(error, Error::File { .. }), "{error}");
    assert_eq!(values(), before);
    drop(hold);
    let error = HostLock::take(&run).expect_err("its lock is a file");
    assert!(error.to_string().contains("Read-only"), "{error}");
    writable();
    let mut hold = HostLock::take(&run).expect("nobody holds it");
    let reverted = hold.revert(false, &mut nobody).expect("it can be written down");
    assert_eq!((reverted.already, reverted.restored, reverted.foreign.len()), (2, 0, 0));
    assert!(!run.join("host.ledger").exists());
}
