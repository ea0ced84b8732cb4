//! Outputs destroy nothing, and nobody else says where they go.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use lowtail_out::{Access, Output};
use tempfile::TempDir;

fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn write(path: &Path, text: &str, access: Access) -> io::Result<()> {
    let mut output = Output::create(path, access)?;
    output.write_all(text.as_bytes())?;
    output.commit()
}

fn usual(path: &Path, text: &str) -> io::Result<()> {
    write(path, text, Access::Usual)
}

fn names(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Users that this machine knows or not: only the numbers count.
const MALLORY: u32 = 64_001;
const ALICE: u32 = 64_002;

/// Whether files can be given to others, which only root may do.
fn may_give_away(dir: &TempDir) -> bool {
    let probe = dir.path().join("probe");
    fs::write(&probe, "").unwrap();
    let may = lchown(&probe, Some(MALLORY), Some(MALLORY)).is_ok();
    fs::remove_file(probe).unwrap();
    if !may {
        println!("skipped: only root can make files of other users");
    }
    may
}

#[test]
fn whole_or_not_at_all() {
    let dir = dir();
    let target = dir.path().join("a");
    let mut dropped = Output::create(&target, Access::Usual).unwrap();
    dropped.write_all(b"half").unwrap();
    drop(dropped);
    assert!(names(&dir).is_empty());
    let mut whole = Output::create(&target, Access::Usual).unwrap();
    whole.write_all(b"whole").unwrap();
    whole.flush().unwrap();
    assert!(!target.exists());
    whole.commit().unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"whole");
    usual(&target, "two").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "two");
    assert_eq!(names(&dir), ["a"]);
}

#[test]
fn what_names_no_file_is_refused() {
    let dir = dir();
    let missing = usual(&dir.path().join("missing/r"), "").unwrap_err().to_string();
    assert!(
        missing.ends_with("/missing") && missing.contains("there is no directory"),
        "{missing}"
    );
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(usual(&dir.path().join("file/r"), "").is_err());
    for path in ["/", ".", "..", "", "new/", "new/."] {
        assert!(usual(Path::new(path), "x").is_err(), "{path}");
    }
    let error = usual(dir.path(), "").unwrap_err().to_string();
    assert_eq!(error, "is a directory; give a file in it");
    assert_eq!(names(&dir), ["file"]);
}

/// `-o /dev/null` as root has put a file in the place of the device.
#[test]
fn devices_stay_devices() {
    let dir = dir();
    let before = fs::metadata("/dev/null").unwrap();
    usual(Path::new("/dev/null"), "gone").unwrap();
    let link = dir.path().join("nothing");
    symlink("/dev/null", &link).unwrap();
    write(&link, "gone", Access::Private).unwrap();
    let after = fs::metadata("/dev/null").unwrap();
    assert!(after.file_type().is_char_device());
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
    // Writing into a device fails as such, and it is there afterwards.
    if Path::new("/dev/full").exists() {
        assert!(usual(Path::new("/dev/full"), "x").is_err());
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }
}

#[test]
fn pipes_are_written_into_and_sockets_refused() {
    let dir = dir();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(!Output::check(&pipe).unwrap());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    usual(&pipe, "through").unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    assert_eq!(usual(&socket, "x").unwrap_err().to_string(), "is a socket; give a file");
    assert_eq!(names(&dir), ["pipe", "socket"]);
}

#[test]
fn own_descriptors_are_written_into() {
    let dir = dir();
    let (mut reader, writer) = io::pipe().unwrap();
    use std::os::fd::AsRawFd;
    for root in ["/dev/fd", "/proc/self/fd", "/dev/../dev/fd"] {
        let path = PathBuf::from(format!("{root}/{}", writer.as_raw_fd()));
        assert!(!Output::check(&path).unwrap());
        usual(&path, "piped").unwrap();
        let mut text = [0; 5];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"piped");
    }
    // A regular file behind one is the same file afterwards.
    let file = fs::File::create(dir.path().join("f")).unwrap();
    let before = file.metadata().unwrap().ino();
    usual(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), "text").unwrap();
    let after = dir.path().join("f");
    assert_eq!(fs::read_to_string(&after).unwrap(), "text");
    assert_eq!(fs::metadata(after).unwrap().ino(), before);
    assert!(usual(Path::new("/dev/fd/987654"), "").is_err());
}

#[test]
fn own_links_stay_links() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/real"), "before").unwrap();
    symlink("d/real", path("link")).unwrap();
    symlink("link", path("link2")).unwrap();
    symlink("d/new", path("dangling")).unwrap();
    symlink("d", path("way")).unwrap();
    usual(&path("link2"), "after").unwrap();
    usual(&path("dangling"), "new").unwrap();
    usual(&path("way/third"), "third").unwrap();
    for (name, text) in [("d/real", "after"), ("d/new", "new"), ("d/third", "third")] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), text);
        assert!(!fs::symlink_metadata(path(name)).unwrap().is_symlink());
    }
    for link in ["link", "link2", "dangling", "way"] {
        assert!(fs::symlink_metadata(path(link)).unwrap().is_symlink(), "{link}");
    }
    symlink("loop", path("loop")).unwrap();
    assert!(usual(&path("loop"), "").is_err());
}

#[test]
fn modes_are_kept_and_recordings_private() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    let umask = u32::from_str_radix(umask.trim(), 8).unwrap();
    usual(&path("new"), "").unwrap();
    assert_eq!(mode(&path("new")), 0o666 & !umask);
    for kept in [0o600, 0o640, 0o664, 0o444] {
        fs::set_permissions(path("new"), Permissions::from_mode(kept)).unwrap();
        usual(&path("new"), "again").unwrap();
        assert_eq!(mode(&path("new")), kept);
    }
    write(&path("new"), "recording", Access::Private).unwrap();
    write(&path("recording"), "recording", Access::Private).unwrap();
    assert_eq!((mode(&path("new")), mode(&path("recording"))), (0o600, 0o600));
    // While it is written nobody else reads it either.
    let unfinished = Output::create(&path("slow"), Access::Usual).unwrap();
    for name in names(&dir).iter().filter(|name| name.ends_with(".part")) {
        assert_eq!(mode(&path(name)), 0o600);
    }
    drop(unfinished);
    if may_give_away(&dir) {
        lchown(path("new"), Some(ALICE), Some(MALLORY)).unwrap();
        fs::set_permissions(path("new"), Permissions::from_mode(0o4640)).unwrap();
        usual(&path("new"), "for alice").unwrap();
        let about = fs::metadata(path("new")).unwrap();
        assert_eq!((about.uid(), about.gid(), mode(&path("new"))), (ALICE, MALLORY, 0o640));
        write(&path("new"), "recording", Access::Private).unwrap();
        assert_ne!(fs::metadata(path("new")).unwrap().uid(), ALICE);
    }
}

/// What `/tmp` is to root: others lay links, pipes and files where its output will go.
#[test]
fn in_a_directory_of_all_nobody_elses_names_count() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    if !may_give_away(&dir) {
        return;
    }
    let victim = path("victim");
    for sticky in [0o1777, 0o777] {
        let all = path(&format!("all-{sticky:o}"));
        fs::create_dir(&all).unwrap();
        fs::set_permissions(&all, Permissions::from_mode(sticky)).unwrap();
        fs::write(&victim, "precious").unwrap();
        let hers = |name: &str| {
            lchown(all.join(name), Some(MALLORY), Some(MALLORY)).unwrap();
            all.join(name)
        };
        symlink(&victim, all.join("link")).unwrap();
        symlink(path("new"), all.join("dangling")).unwrap();
        symlink(dir.path(), all.join("way")).unwrap();
        fs::write(all.join("file"), "hers").unwrap();
        assert!(Command::new("mkfifo").arg(all.join("pipe")).status().unwrap().success());
        let mut targets: Vec<PathBuf> =
            ["link", "dangling", "file", "pipe"].iter().map(|name| hers(name)).collect();
        targets.push(hers("way").join("victim"));
        // Own link, but it leads on over hers.
        symlink(all.join("link"), path("own")).unwrap();
        targets.push(path("own"));
        for target in &targets {
            let error = usual(target, "root's").unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::PermissionDenied,
                "{}: {error}",
                target.display()
            );
            assert!(error.to_string().contains("somebody else"), "{error}");
            assert!(Output::check(target).is_err());
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(all.join("file")).unwrap(), "hers");
        assert!(!path("new").exists());
        // What is one's own is as anywhere.
        symlink(&victim, all.join("mine")).unwrap();
        usual(&all.join("mine"), "mine").unwrap();
        usual(&all.join("fresh"), "fresh").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        fs::remove_file(path("own")).unwrap();
    }
}

/// In somebody's own directory a link leads to what is that one's, and nowhere else.
#[test]
fn links_of_others_lead_to_what_is_theirs() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name);
    if !may_give_away(&dir) {
        return;
    }
    let own = |name: &str, uid| lchown(path(name), Some(uid), Some(uid)).unwrap();
    fs::create_dir(path("home")).unwrap();
    own("home", MALLORY);
    for (name, uid) in [("root", 0), ("hers", MALLORY), ("alices", ALICE)] {
        fs::write(path(name), "before").unwrap();
        own(name, uid);
        symlink(path(name), path("home").join(name)).unwrap();
        own(&format!("home/{name}"), MALLORY);
    }
    symlink(path("made"), path("home/made")).unwrap();
    own("home/made", MALLORY);
    symlink("/dev/null", path("home/null")).unwrap();
    own("home/null", MALLORY);
    usual(&path("home/hers"), "after").unwrap();
    assert_eq!(fs::read_to_string(path("hers")).unwrap(), "after");
    assert_eq!(fs::metadata(path("hers")).unwrap().uid(), MALLORY);
    for name in ["root", "alices", "made", "null"] {
        let error = usual(&path("home").join(name), "after").unwrap_err();
        assert!(error.to_string().contains("a link of somebody else (user 64001)"), "{error}");
    }
    for name in ["root", "alices"] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), "before");
    }
    assert!(!path("made").exists());
}

/// What becomes a pipe while the output is written is not replaced.
#[test]
fn what_changes_meanwhile_is_left_alone() {
    let dir = dir();
    let target = dir.path().join("a");
    let output = Output::create(&target, Access::Usual).unwrap();
    assert!(Command::new("mkfifo").arg(&target).status().unwrap().success());
    assert!(output.commit().is_err());
    assert!(fs::metadata(&target).unwrap().file_type().is_fifo());
    fs::remove_file(&target).unwrap();
    // A file that somebody else has written meanwhile is replaced, like one from before.
    let mut output = Output::create(&target, Access::Usual).unwrap();
    fs::write(&target, "meanwhile").unwrap();
    output.write_all(b"last").unwrap();
    output.commit().unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "last");
    assert_eq!(names(&dir), ["a"]);
}
