//! The file itself: damaged, of another boot, of a later version; and who holds it.

use std::fs;
use std::time::{Duration, Instant};

use lowtail_control::manage::{Error, HostLock, OnError, holder, status};

use super::world::{World, set};
use super::{apply, child, host, nobody, revert};

/// Three weights, applied; and the ledger of that as lines.
fn applied() -> Option<(World, Vec<String>)> {
    let world = World::new(host()?, &["a", "b", "c"], false);
    let settings = [1, 2, 3].map(|group| set(world.group(group, world.weight()), "300"));
    apply(world.dir(), &settings);
    let text = fs::read_to_string(world.dir().join("host.ledger")).expect("a ledger");
    Some((world, text.lines().map(String::from).collect()))
}

fn write(world: &World, lines: &[String]) {
    fs::write(world.dir().join("host.ledger"), lines.join("\n")).expect("a file");
}

/// Each line is JSON, and each has a sum: a changed byte is noticed wherever it is, and what the others say restored.
#[test]
fn damage() {
    let Some((world, lines)) = applied() else { return };
    assert_eq!(lines.len(), 4);
    for line in &lines {
        let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(json[0].is_string() && json[1].is_object(), "{line}");
    }
    let mut wrongs: Vec<(Vec<String>, usize)> = Vec::new();
    for at in 0..4 {
        let mut changed = lines.clone();
        changed[at] = changed[at].replacen("300", "400", 1).replacen("boot\":\"", "boot\":\"0", 1);
        wrongs.push((changed, if at == 0 { 3 } else { 2 }));
    }
    // Torn in the middle of the last line, and behind the third.
    let mut torn = lines.clone();
    torn[3].truncate(40);
    wrongs.push((torn, 2));
    wrongs.push((lines[..3].to_vec(), 2));
    wrongs.push((vec!["\0\u{fffd}garbage".into()], 0));
    let (weight, was) = (world.weight(), "300");
    for (wrong, restored) in wrongs {
        for group in [1, 2, 3] {
            world.put(group, weight, was);
        }
        write(&world, &wrong);
        assert_eq!(status(world.dir()).expect("what can be read").damaged, 1, "{wrong:?}");
        let mut hold = HostLock::take(world.dir()).expect("nobody holds it");
        let plan = hold.plan(&[], false).expect("a plan");
        let error = hold.apply(&plan, OnError::Stop, &mut nobody).expect_err("it is damaged");
        assert!(matches!(error, Error::Damaged { lines: 1, .. }), "{error}");
        drop(hold);
        let reverted = revert(world.dir());
        assert_eq!((reverted.restored, reverted.damaged), (restored, 1), "{wrong:?}");
        assert!(world.dir().join("host.ledger.damaged").exists());
    }
}

/// What an earlier boot had is gone with it: nothing is touched, whatever has its names now.
#[test]
fn another_boot() {
    let Some((world, lines)) = applied() else { return };
    let header: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    let boot = header[1]["boot"].as_str().expect("an id");
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a /proc");
    assert_eq!(boot, own.trim_end());
    let text = header[1].to_string().replace(boot, "00000000-0000-4000-8000-000000000000");
    let mut other = lines.clone();
    other[0] = format!("[\"{:08x}\",{text}]", crc32(text.as_bytes()));
    let before = world.dump();
    write(&world, &other);
    assert_eq!(status(world.dir()).expect("a ledger").stale, 3);
    let reverted = revert(world.dir());
    assert_eq!((reverted.stale, reverted.restored, reverted.damaged), (3, 0, 0));
    assert_eq!(world.dump(), before);
    // And a new one takes its place.
    write(&world, &other);
    let settings = [set(world.group(1, world.weight()), "301")];
    apply(world.dir(), &settings);
    assert_eq!(revert(world.dir()).restored, 1);
    assert_eq!(world.dump(), before);
}

/// The inodes of groups are the same again after a boot. With the header's loss an entry still says of which boot it is; one
/// of the first version does not, and is never written to.
#[test]
fn an_entry_without_its_boot() {
    let Some((world, lines)) = applied() else { return };
    let (weight, own) = (world.weight(), boot());
    let lost = "[\"00000000\",{}]".to_string();
    let seal = |text: String| format!("[\"{:08x}\",{text}]", crc32(text.as_bytes()));
    let other = |line: &String, to: &str| {
        let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
        seal(json[1].to_string().replace(&own, to))
    };
    let first = |line: &String| {
        let mut json: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(json[1].as_object_mut().expect("an entry").remove("boot").is_some());
        seal(json[1].to_string())
    };
    // Lines, then what is restored, what is of another boot, what is damaged.
    let old: Vec<String> = lines[1..].iter().map(first).collect();
    let header = seal(format!("{{\"lowtail_ledger\":1,\"boot\":\"{own}\",\"entries\":3}}"));
    let another = "00000000-0000-4000-8000-000000000000";
    let cases = [
        // The first version, whole: its header says it of all.
        ([&[header][..], &old].concat(), (3, 0, 0)),
        ([&[lost.clone()][..], &old].concat(), (0, 0, 4)),
        // The second one: each says it.
        ([&[lost.clone()][..], &lines[1..]].concat(), (3, 0, 1)),
        (vec![lost, other(&lines[1], another), lines[2].clone()], (1, 1, 1)),
        (
            vec![lines[0].clone(), other(&lines[1], another), lines[2].clone(), lines[3].clone()],
            (2, 1, 0),
        ),
    ];
    for (case, (restored, stale, damaged)) in cases {
        for group in [1, 2, 3] {
            world.put(group, weight, "300");
        }
        write(&world, &case);
        let reverted = revert(world.dir());
        let counts = (reverted.restored, reverted.stale, reverted.damaged);
        assert_eq!(counts, (restored, stale, damaged), "{case:?}");
        let left = [1, 2, 3].iter().filter(|group| world.get(**group, weight) == "300").count();
        assert_eq!(left, 3 - restored, "{case:?}");
    }
}

fn boot() -> String {
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a /proc");
    own.trim_end().to_string()
}

#[test]
fn a_later_version() {
    let Some((world, lines)) = applied() else { return };
    let header: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    let text = header[1].to_string().replace("\"lowtail_ledger\":2", "\"lowtail_ledger\":3");
    let mut later = lines.clone();
    later[0] = format!("[\"{:08x}\",{text}]", crc32(text.as_bytes()));
    write(&world, &later);
    let error = HostLock::take(world.dir()).expect_err("it is not for us");
    assert!(matches!(error, Error::Version { version: 3, .. }), "{error}");
    assert!(world.dir().join("host.ledger").exists());
    write(&world, &lines);
    assert_eq!(revert(world.dir()).restored, 3);
}

/// The check sum of Ethernet, gzip and PNG, bit by bit: ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// One at a time, and who that is; a dead one is none.
#[test]
fn who_holds_it() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(holder(dir.path()), None);
    let mut child = child::command("hold", 0, dir.path()).spawn().expect("this test, again");
    let until = Instant::now() + Duration::from_secs(10);
    while !dir.path().join("held").exists() {
        assert!(Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(2));
    }
    let error = HostLock::take(dir.path()).expect_err("it is held");
    let text = error.to_string();
    assert!(matches!(error, Error::Held { pid } if pid == Some(child.id())), "{text}");
    assert!(text.contains(&child.id().to_string()), "{text}");
    assert_eq!(holder(dir.path()), Some(child.id()));
    assert_eq!(status(dir.path()).expect("no ledger").holder, Some(child.id()));
    child::sigkill(child.id());
    child.wait().expect("a child");
    assert_eq!(holder(dir.path()), None);
    let own = HostLock::take(dir.path()).expect("the dead hold nothing");
    assert_eq!(holder(dir.path()), Some(std::process::id()));
    assert!(matches!(HostLock::take(dir.path()), Err(Error::Held { .. })));
    drop(own);
    HostLock::take(dir.path()).expect("it was given back");
}
