//! In guests with a kernel of 6.18: maps that the kernel has no memory for, and clocks that jump.

use std::path::{Path, PathBuf};
use std::process::Command;

use lowtail_standin::binary;
use lowtail_testkit::guest::Guest;
use serde_json::Value;

use crate::needs::{has, skip};
use crate::said::Said;

/// What the guest says; `None` if there can be none here.
fn guest(what: &str) -> Option<Said> {
    if skip((!has("cc")).then_some("no C compiler")) {
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("a directory");
    let refuse: PathBuf = dir.path().join("refuse.so");
    let source = root.join("tests/faults/refuse.c");
    let mut build = Command::new("cc");
    build.args(["-shared", "-fPIC", "-o"]).args([&refuse, &source]);
    assert!(build.status().expect("a compiler").success());
    let inside = root.join("tests/faults/inside.sh");
    let guest = Guest::new(env!("CARGO_BIN_EXE_lowtail")).command(["inside.sh", what]);
    let guest = [binary(), inside, refuse].into_iter().fold(guest, Guest::also);
    let guest = guest.also("/usr/sbin/ip").also("/usr/sbin/tc");
    let out = guest.set("MODULES", "yes").set("MEMORY", 768).run()?;
    Some(Said::parse(&out))
}

/// Each is told with what there is no memory for, and what would be right; nothing is left behind.
#[test]
fn no_memory_for_maps() {
    let Some(said) = guest("memory") else { return };
    let before = said.lines("before", 0);
    assert!(before.contains(&"disabled".to_string()), "{before:?}");
    let told = |section: &str, words: &[&str]| {
        let told = said.lines(&format!("{section}.err"), 0).join("\n");
        for word in words.iter().chain(&["no memory in the kernel for", "memory.max"]) {
            assert!(told.contains(word), "{section}: no `{word}` in {told}");
        }
    };
    // Nobody insists in vain: nothing was changed, and nobody is told that something is in force.
    said.lines("scheduler", 4);
    told("scheduler", &["a scheduler of"]);
    assert_eq!(said.lines("scheduler-values", 0), before);
    let status = said.lines("status", 0).join("\n");
    assert!(!status.contains("in force  ") && !status.contains("schedules"), "{status}");
    // Without its tagger an uplink is refused, and the rest is in force: exit code 1.
    said.lines("tagger", 1);
    told("tagger", &["refused: ", "a tagger"]);
    let capped = said.lines("tagger-values", 0);
    assert!(capped.iter().any(|line| line.ends_with("cpu.max 50000 100000")), "{capped:?}");
    said.lines("tagger-revert", 0);
    assert_eq!(said.lines("reverted", 0), before);
    // 64,512 slots, an eighth of them in reserve, take some 320 MB; there are 48.
    said.lines("observe", 4);
    told("observe", &["64512 threads", "323 MB", "--threads"]);
    said.lines("record", 4);
    told("record", &["128 MiB", "--buffer"]);
    let files = said.lines("files", 0);
    assert!(!files.iter().any(|file| file.contains("ltr")), "{files:?}");
    said.lines("fits", 0);
}

/// The time of day goes hours forwards, days back, and to 1970. All measures time by a clock that nobody sets.
#[test]
fn clocks_that_jump() {
    let Some(said) = guest("clock") else { return };
    for code in ["observe-code", "record-code"] {
        assert_eq!(said.lines(code, 0), ["0"], "{code}");
    }
    let seen = said.lines("seen", 0);
    let seen: Vec<Value> =
        seen.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // 14 s in intervals of half a second, by the clock of the guest that computes for three processes.
    assert!((14..=29).contains(&seen.len()), "{}", seen.len());
    let hours =
        |line: &Value| (line["timestamp_seconds"].as_f64().expect("a time") / 3600.0) as u64;
    let (first, last) = (hours(&seen[0]), hours(&seen[seen.len() - 1]));
    assert!(first > 400_000 && last <= 2, "the clock has jumped under it: {first} {last}");
    let (mut wakes, mut sum_ms) = (0, 0.0);
    for (i, line) in seen.iter().enumerate() {
        let interval_ms = 1e3 * line["interval_seconds"].as_f64().expect("a number");
        // One may take less as the one before it ended late, but none ends before its time. The last ends with the duration.
        sum_ms += interval_ms;
        let least = if i + 1 < seen.len() { 495.0 * (i + 1) as f64 } else { 0.0 };
        assert!(interval_ms <= 2000.0 && sum_ms >= least, "{sum_ms} ms: {line}");
        for thread in line["vms"].as_array().expect("machines").iter().flat_map(|vm| {
            assert_eq!((&vm["name"], &vm["ended"]), (&Value::from("one"), &Value::from(false)));
            vm["threads"].as_array().expect("threads")
        }) {
            // Nobody runs or waits for longer than the guest is watched.
            let ran_ms = 1e3 * thread["run_time_seconds"].as_f64().expect("a number");
            assert!(ran_ms <= interval_ms * 1.1, "{thread}");
            for wait in [
                "ready_after_wakeup_seconds",
                "ready_after_preemption_seconds",
                "current_wait_seconds",
            ] {
                let waited = thread[wait].as_f64().expect("a number");
                assert!(waited < 5.0, "{wait}: {thread}");
            }
            wakes += thread["wakeup_latency"]["count"].as_u64().expect("a number");
        }
    }
    // Each 5 ms for 14 s; a little fewer, as the serving takes its time and others have the CPU.
    assert!((1000..=2900).contains(&wakes), "{wakes}");
    let latency = said.json("latency", 0);
    let text = latency.to_string();
    for vcpu in latency["vcpus"].as_array().expect("threads") {
        let max = vcpu["wakeup_latency"]["max_seconds"].as_f64().unwrap_or(0.0);
        assert!(max < 5.0, "{max} s: {text}");
    }
    let applied = said.lines("applied", 0);
    for limit in ["x2done.scope/cpu.max 50000 100000", "x2dlate.scope/cpu.max 30000 100000"] {
        assert!(applied.iter().any(|line| line.ends_with(limit)), "{limit}: {applied:?}");
    }
    let status = said.lines("status", 0);
    assert_eq!(status.iter().filter(|line| line.ends_with("  in force")).count(), 2, "{status:?}");
    said.lines("revert", 0);
    // What was there; `late` has come since, with the kernel's own values.
    let own = |lines: Vec<String>| -> Vec<String> {
        lines.into_iter().filter(|line| !line.contains("x2dlate")).collect()
    };
    let (before, reverted) = (said.lines("before", 0), said.lines("reverted", 0));
    assert!(reverted.iter().any(|line| line.ends_with("x2dlate.scope/cpu.max max 100000")));
    assert_eq!(own(reverted), before);
}
