//! Exit code 3: files that are wrong. Every message names the file, the place in it, what is
//! wrong and what would be right.

use crate::{Place, TINY, capture_bytes};

/// Changes `TINY`; the line numbers below count from its first line.
fn scenario(from: &str, to: &str, words: &[&str]) {
    assert_eq!(TINY.matches(from).count(), 1, "{from}");
    let place = Place::new();
    let ran = place.write("bad.toml", TINY.replace(from, to)).line("lab run bad.toml");
    ran.expect(3, words);
    assert_eq!(ran.out, "");
    assert_eq!(place.names(), ["bad.toml"], "no report of what was not run");
    assert_eq!(place.line("lab show bad.toml").expect(3, words).err, ran.err);
}

#[test]
fn keys_and_types() {
    scenario("pcpus = 2", "pcpu = 2", &["bad.toml:6:1: ", "`pcpu`; did you mean `pcpus`?"]);
    scenario("pcpus = 2", "pcpus = \"2\"", &["bad.toml:6:9: ", "expected a whole number"]);
    scenario("\"10s\"", "10", &["bad.toml:3:12: ", "expected a span of time such as"]);
    scenario("[host]", "[host", &["bad.toml:5:6: "]);
}

#[test]
fn impossible_values() {
    let limited = r#"{ kind = "credit2", version = "4.8.1", ratelimit = "50us" }"#;
    let words = ["bad.toml:7:", "rate limit 50us: Xen accepts 0us (off) or 100us to 500ms"];
    scenario("{ kind = \"null\" }", limited, &words);
    let words = ["bad.toml:11:10: ", "weight 0; Xen accepts 1 to 65535"];
    scenario("[vm.nap]\n", "[vm.nap]\nweight = 0\n", &words);
    let words = ["bad.toml:11:11: ", "pCPU 2: the host has pCPUs 0 to 1"];
    scenario("[vm.nap]\n", "[vm.nap]\npin = [0, 2]\n", &words);
}

/// What a scenario says of itself is wrong at its own place too.
#[test]
fn claims_about_nothing() {
    let words = ["bad.toml:16:8: ", "`a/npa`; did you mean `a/nap`?"];
    scenario("id = \"soon\"\ncase = \"a/nap\"", "id = \"soon\"\ncase = \"a/npa\"", &words);
}

#[test]
fn a_mistake_in_the_last_file_shows_before_the_first_is_run() {
    let place = Place::new();
    place.write("good.toml", TINY).write("bad.toml", TINY.replace("seed = 3", "seed = -3"));
    let ran = place.line("lab run good.toml bad.toml");
    ran.expect(3, &["bad.toml:2:8: "]);
    assert_eq!(ran.out, "");
}

#[test]
fn files_that_are_not_there() {
    let place = Place::new();
    for line in ["lab run no.toml", "lab show no.toml", "lab run dir/no", "lab show ./no --toml"] {
        place.line(line).expect(3, &["no", "No such file"]);
    }
    for line in ["trace info no", "trace latency no", "trace export no --perfetto x"] {
        place.line(line).expect(3, &["no: No such file"]);
    }
    place.line("trace info .").expect(3, &[".: a directory; give a trace file"]);
    assert!(place.names().is_empty());
}

/// All three commands on a trace; the message must have the byte offset.
fn trace(bytes: &[u8], words: &[&str]) {
    let place = Place::new();
    place.write("bad.bin", bytes);
    for line in ["trace info bad.bin", "trace latency --json bad.bin"] {
        let ran = place.line(line);
        ran.expect(3, &["error: bad.bin: offset "]).expect(3, words);
        assert_eq!(ran.out, "");
    }
    place.line("trace export bad.bin --perfetto out.pftrace").expect(3, words);
    assert_eq!(place.names(), ["bad.bin"]);
}

#[test]
fn traces() {
    let good = capture_bytes();
    trace(b"", &["offset 0: the file is empty"]);
    // The last record has more than five bytes, so that five are missing of it.
    let cut = &good[..good.len() - 5];
    let end = format!("offset {}: the file ends ", cut.len());
    trace(cut, &[&end, "was the copy or the recording cut off?"]);
    trace(&good[..3], &["offset 3: the file ends "]);
    trace(b"#!/bin/sh\necho this is not a trace\n", &["offset 0: not a xentrace file"]);
    let swapped: Vec<u8> =
        good.chunks_exact(4).flat_map(|word| [word[3], word[2], word[1], word[0]]).collect();
    trace(&swapped, &["offset 0: ", "0x03f00120", "only little-endian traces are read"]);
    // A window is a header word, the pCPU, the size of what follows, and that; after it the
    // next must begin.
    let window = 12 + u32::from_le_bytes([good[8], good[9], good[10], good[11]]) as usize;
    let mut rubbish = good[..window].to_vec();
    rubbish.extend([0x55; 64]);
    let words = format!("offset {window}: expected the next window (0x2001f003) and found 0x5555");
    trace(&rubbish, &[&words]);
}
