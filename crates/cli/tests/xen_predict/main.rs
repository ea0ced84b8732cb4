//! What `lowtail predict` says of other rate limits, from a recording of a real Xen 4.20 alone, beside what that Xen then does when they are really set:
//! `inside.sh` is what is done in its dom0.
//!
//! Needs QEMU, busybox, cpio and Debian's archive: without them the test says so and passes, unless `CI` is set. With `LOWTAIL_XEN_RECORDINGS` the
//! recordings stay in that directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use lowtail_testkit::needs::skip;
use serde_json::Value;

/// What `scripts/xen` returns where no Xen can be booted.
const NO_XEN: i32 = 125;
/// Guests, in the order in which `inside.sh` makes them.
const GUESTS: [&str; 3] = ["server", "timer", "hog"];
/// A latency in seconds that nobody minds, on this slow machine: a wake-up takes a guest 25 us by itself.
const TOLERANCE: f64 = 60e-6;

/// The text of a section of what was printed.
fn section<'a>(out: &'a str, name: &str) -> &'a str {
    let head = format!("=== {name}\n");
    let (_, rest) = out.split_once(&head).unwrap_or_else(|| panic!("no section {name}"));
    let (text, rest) = rest.split_once("--- ").expect("its end");
    assert!(rest.starts_with('0'), "{name}: {text}");
    text
}

/// Boots it, and puts the recordings into a directory; `None` if that cannot be done here.
fn record(to: &Path) -> Option<()> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xen_predict");
    let also = tempfile::tempdir().expect("a directory");
    fs::copy(tests.join("inside.sh"), also.path().join("inside.sh")).expect("a file");
    let mut command = Command::new(tests.join("../../../../scripts/xen"));
    command.args(["run", env!("CARGO_BIN_EXE_lowtail"), "/also/inside.sh"]);
    command.env("LOWTAIL_XEN_ALSO", also.path()).env("LOWTAIL_XEN_SECONDS", "590");
    let output = command.output().expect("a shell");
    let why = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(NO_XEN) && skip(Some(&why)) {
        return None;
    }
    let out = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    // So that a test that fails shows all but the recordings.
    println!("{}{why}", out.split("=== bytes-").next().unwrap_or_default());
    assert!(output.status.success(), "in dom0: {}", output.status);
    assert!(section(&out, "record-1000").contains("d3 is lowtail2"), "three guests");
    for limit in ["1000", "0", "300"] {
        let file = to.join(format!("{limit}.bin"));
        fs::write(to.join("text"), section(&out, &format!("bytes-{limit}"))).expect("a file");
        let unpack = format!("base64 -d text | gzip -d >{}", file.display());
        let unpacked = Command::new("sh").args(["-c", &unpack]).current_dir(to).status();
        assert!(unpacked.expect("a shell").success(), "{limit}");
    }
    Some(())
}

/// What `lowtail predict` says of a recording, with these arguments.
fn predict(recording: &Path, args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowtail"));
    command.arg("predict").arg(recording).arg("--json").args(args);
    for (n, guest) in (1..).zip(GUESTS) {
        command.arg("--name").arg(format!("d{n}={guest}"));
    }
    let output = command.output().expect("lowtail");
    let text = String::from_utf8_lossy(&output.stdout);
    // 1: something gets worse by the change.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}{:?}", output.stderr);
    serde_json::from_str(&text).expect("JSON")
}

fn vm<'a>(found: &'a Value, name: &str) -> &'a Value {
    let vms = found["vms"].as_array().expect("a list");
    vms.iter().find(|vm| vm["name"] == name).expect("a VM")
}

/// What was predicted of a limit beside what that limit did.
fn compare(predicted: &Value, truth: &Value, what: &str) {
    for guest in GUESTS {
        let (predicted, truth) =
            (&vm(predicted, guest)["predicted"], &vm(truth, guest)["recorded"]);
        for (key, part) in [("p50_seconds", 0.15), ("p99_seconds", 0.25)] {
            let Some(found) = truth[key].as_f64() else { continue };
            let of = predicted[key]["median"].as_f64().expect("a figure");
            println!(
                "{what}: {guest} {key}: predicted {:.0} us, measured {:.0} us",
                of * 1e6,
                found * 1e6
            );
            assert!((of - found).abs() <= (part * found).max(TOLERANCE), "{what}: {guest} {key}");
        }
        let cpu = |of: &Value| of.as_f64().expect("a part");
        let (of, found) = (cpu(&predicted["cpu_ratio"]["median"]), cpu(&truth["cpu_ratio"]));
        println!(
            "{what}: {guest}: predicted {:.1} %, measured {:.1} % of a CPU",
            of * 100.0,
            found * 100.0
        );
        assert!((of - found).abs() <= 0.02, "{what}: {guest} processor time");
    }
}

#[test]
#[ignore = "five minutes beside all the others: `make dom0`"]
fn other_limits_do_what_was_predicted() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = std::env::var_os("LOWTAIL_XEN_RECORDINGS");
    let to = own.as_deref().map_or_else(|| dir.path(), Path::new);
    if record(to).is_none() {
        return;
    }
    let recording = to.join("1000.bin");
    for limit in ["0", "300"] {
        let predicted = predict(&recording, &["--ratelimit", &format!("{limit}us")]);
        let truth = predict(&to.join(format!("{limit}.bin")), &["--anyway"]);
        compare(&predicted, &truth, &format!("a limit of {limit} us"));
    }
}
