//! Exit codes, each by a real case.

use crate::{Place, TINY, tiny_short};

#[test]
fn zero_where_all_claims_hold() {
    let place = Place::new();
    let ran = place.write("tiny.toml", TINY).line("lab run tiny.toml");
    ran.expect(0, &["report: lowtail-report.html"]);
    assert!(ran.out.contains("all 2 claims hold"), "{}", ran.out);
    assert!(place.path("lowtail-report.html").is_file());
}

#[test]
fn one_where_a_claim_falls_short() {
    let place = Place::new();
    place.write("short.toml", tiny_short()).write("tiny.toml", TINY);
    let ran = place.line("lab run short.toml --no-report");
    ran.expect(1, &[]);
    assert!(ran.out.contains("falls short"), "{}", ran.out);
    assert!(ran.out.contains("1 of 2 claims hold, 1 fall"), "{}", ran.out);
    // One that falls short is enough, wherever it stands; and JSON does not change that.
    place.line("lab run short.toml tiny.toml --no-report").expect(1, &[]);
    place.line("lab run tiny.toml short.toml --no-report --json").expect(1, &[]);
    // An exit code of 1 still comes with a report: the reader wants to know why.
    place.line("lab run short.toml --report r.html -q").expect(1, &[]);
    assert!(place.path("r.html").is_file());
}

#[test]
fn two_for_wrong_usage() {
    let place = Place::new();
    for (line, words) in [
        ("", "Usage: lowtail"),
        ("labb", "similar subcommand exists: 'lab'"),
        ("lab run", "<NAME|PATH>..."),
        ("lab run bobtail --sed 3", "similar argument exists: '--seed'"),
        ("lab run bobtail --all", "cannot be used with"),
        ("lab run bobtail --jobs 0", "0 is not in 1..=1024"),
        ("lab run bobtail --seed many", "invalid value 'many' for '--seed <N>'"),
        ("lab run bobtail --no-report --report x", "cannot be used with"),
        ("lab run bobtial", "did you mean `bobtail`?"),
        ("lab show credit2-ratelimt", "did you mean `credit2-ratelimit`?"),
        ("lab show nothing-like-it", "`lowtail lab list` shows all"),
        ("lab attack --scheduler credit2-4.12", "did you mean `credit2-4.10`?"),
        ("lab attack --scheduler nothing-like-it", "there are credit-2007, credit-4.8, "),
        ("lab run bobtail --on kernel --seeds 3", "--seeds is for the simulator"),
        ("lab attack --budget 0", "0 is not in 1..=1000000"),
        ("lab list --color sometimes", "[possible values: auto, always, never]"),
        ("trace export -", "--perfetto <FILE>"),
        ("trace export - --perfetto x", "give a file"),
        ("trace info x --cpu-hz 0", "invalid value '0' for '--cpu-hz <HZ>'"),
        ("trace info x --cpu-hz 2.4T", "a frequency such as 2394452000, 2394.452M, 1.0G or 2.4GHz"),
        ("host observe --once --duration 1s", "'--once' cannot be used with '--duration <SPAN>'"),
        ("completions cobol", "invalid value 'cobol'"),
    ] {
        let ran = place.line(line);
        ran.expect(2, &[words]);
        assert_eq!(ran.out, "", "{line}");
    }
    assert!(place.names().is_empty());
}

/// A clock that no counter has is a wrong option, not a wrong file.
#[test]
fn two_for_an_impossible_clock() {
    let place = Place::new();
    let capture = crate::capture();
    let capture = capture.to_str().unwrap();
    for command in ["info", "latency"] {
        let ran = place.run(["trace", command, "--cpu-hz", "999", capture]);
        ran.expect(2, &["--cpu-hz: a clock of 999 Hz", "from 1000 Hz to 1000 GHz"]);
    }
    let ran = place.run(["trace", "export", "--cpu-hz", "999", "--perfetto", "x.pftrace", capture]);
    ran.expect(2, &["--cpu-hz"]);
    assert!(place.names().is_empty());
}

/// Root may write anywhere, so the way leads through a regular file, which stops root too.
#[test]
fn four_where_nothing_can_be_written() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("file", "");
    let capture = crate::capture();
    let export = |to| place.run(["trace", "export", capture.to_str().unwrap(), "--perfetto", to]);
    let run = |args: &str| place.line(&format!("lab run tiny.toml {args}"));
    run("--report file/r.html").expect(4, &["error: file/r.html: there is no directory file"]);
    run("--report none/r.html").expect(4, &["error: none/r.html: there is no directory none"]);
    place.line("lab attack --save file/found").expect(4, &["file/found: "]);
    run("--report .").expect(4, &["is a directory"]);
    run("--report /").expect(4, &["is a directory"]);
    run("--no-report --perfetto file/schedules").expect(4, &["file/schedules: "]);
    export("file/x.pftrace").expect(4, &["file/x.pftrace: writing failed: "]);
    export("none/x.pftrace").expect(4, &["none/x.pftrace: writing failed: "]);
    place.line("man file/pages").expect(4, &["file/pages: "]);
    assert_eq!(place.names(), ["file", "tiny.toml"]);
}

/// Nobody waits for simulations whose report cannot be written.
#[test]
fn a_missing_directory_is_told_before_the_run() {
    let ran = Place::new().line("lab run --all --report none/r.html");
    ran.expect(4, &["none/r.html"]);
    assert_eq!(ran.out, "");
}
