//! Files appear whole or not at all.

use std::process::Command;

use crate::{Place, Ran, TINY, capture, capture_bytes};

#[test]
fn a_failed_export_leaves_what_was_there() {
    let place = Place::new();
    let bytes = capture_bytes();
    place.write("cut.bin", &bytes[..bytes.len() - 5]).write("out.pftrace", "before");
    place.line("trace export cut.bin --perfetto out.pftrace").expect(3, &[]);
    // With the clock given, writing begins before the end of the input is known.
    place.line("trace export cut.bin --perfetto out.pftrace --cpu-hz 1000000000").expect(3, &[]);
    assert_eq!(place.names(), ["cut.bin", "out.pftrace"]);
    assert_eq!(std::fs::read(place.path("out.pftrace")).unwrap(), b"before");
}

/// Runs the command where no file may become longer than 8 blocks of 512 bytes: with the
/// signal for that ignored, writing fails in the middle of the file, as on a full disk.
fn on_a_full_disk(place: &Place, args: &[&str]) -> Ran {
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.current_dir(place.0.path()).args(["-c", script, env!("CARGO_BIN_EXE_lowtail")]);
    Ran::new(&shell.args(args).output().expect("a shell"))
}

/// All that is written here is longer than 4 KiB, see the sizes at the end.
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let place = Place::new();
    place.write("tiny.toml", TINY);
    let capture = capture();
    let export = ["trace", "export", capture.to_str().unwrap(), "--perfetto", "x.pftrace"];
    let report = ["lab", "run", "tiny.toml", "--report", "r.html"];
    let schedules = ["lab", "run", "tiny.toml", "--no-report", "--perfetto", "schedules.pftrace"];
    on_a_full_disk(&place, &export).expect(4, &["x.pftrace: writing failed: "]);
    on_a_full_disk(&place, &report).expect(4, &["r.html: "]);
    on_a_full_disk(&place, &schedules).expect(4, &["schedules.pftrace: "]);
    assert_eq!(place.names(), ["tiny.toml"]);

    place.run(export).expect(0, &[]);
    place.run(report).expect(0, &[]);
    place.run(schedules).expect(0, &[]);
    assert_eq!(place.names(), ["r.html", "schedules.pftrace", "tiny.toml", "x.pftrace"]);
    for name in ["r.html", "x.pftrace", "schedules.pftrace"] {
        assert!(place.path(name).metadata().unwrap().len() > 4096, "{name}");
    }
}

#[test]
fn reports_are_replaced() {
    let place = Place::new();
    place.write("tiny.toml", TINY).write("r.html", "before");
    place.line("lab run tiny.toml --report r.html").expect(0, &["report: r.html"]);
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert_eq!(place.names(), ["r.html", "tiny.toml"]);
}
