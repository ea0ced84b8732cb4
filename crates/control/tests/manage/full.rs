//! No room on disk for the ledger: nothing is changed that is not written down.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use lowtail_control::manage::{Error, HostLock, OnError};

use super::world::set;
use super::{child, nobody};

/// The test is in a mount namespace of its own, where the ledger's directory is a small file system.
#[test]
fn a_full_disk() {
    child::with_mounts_of_its_own("full", &["a", "b", "c"]);
}

pub(crate) fn inside(dir: &Path) {
    let settings = child::settings(dir);
    let small = dir.join("small");
    fs::create_dir(&small).expect("a directory");
    let mut mount = Command::new("mount");
    let mount = mount.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&small).status();
    assert!(mount.expect("there is a `mount`").success());
    let values = || {
        let read = settings.iter().map(|setting| setting.knob.read().expect("a file"));
        read.flatten().collect::<Vec<_>>()
    };
    let before = values();
    let mut filler = File::create(small.join("filler")).expect("room for a name");
    let fill = |filler: &mut File| while filler.write(&[0; 512]).is_ok() {};
    fill(&mut filler);
    let mut failures = 0;
    let mut hold = HostLock::take(&small).expect("a lock needs no room");
    // Page by page, until there is enough.
    loop {
        let plan = hold.plan(&settings, false).expect("a plan");
        match hold.apply(&plan, OnError::Stop, &mut nobody) {
            Ok(applied) => {
                assert_eq!((applied.changed, applied.failed.len()), (3, 0));
                break;
            }
            Err(error) => {
                assert!(matches!(error, Error::File { .. }), "{error}");
                let text = error.to_string();
                assert!(text.contains("No space left") && text.contains("host.ledger"), "{text}");
                assert!(text.contains("nothing was changed"), "{text}");
                assert_eq!(values(), before);
                assert!(!small.join("host.ledger").exists());
                failures += 1;
            }
        }
        let size = filler.metadata().expect("a file").len();
        filler.set_len(size.saturating_sub(4096)).expect("shorter");
    }
    assert!(failures > 0, "it was not full");
    fill(&mut filler);
    // More than there is room for beside what is there: it stays as it is, and so does its ledger.
    let more: Vec<_> = settings.iter().map(|setting| set(setting.knob.clone(), "400")).collect();
    let plan = hold.plan(&more, false).expect("a plan");
    hold.apply(&plan, OnError::Stop, &mut nobody).expect_err("no room");
    assert_eq!(values(), ["300"; 3]);
    // To restore takes none.
    drop(hold);
    let mut hold = HostLock::take(&small).expect("nobody holds it");
    let reverted = hold.revert(false, &mut nobody).expect("it needs no room");
    assert_eq!((reverted.restored, reverted.failed.len()), (3, 0));
    assert_eq!(values(), before);
    assert!(!small.join("host.ledger").exists());
}
