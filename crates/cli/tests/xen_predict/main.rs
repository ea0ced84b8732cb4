//! What `lowtail predict` says of other rate limits, from a recording of a real Xen 4.20 alone, beside what that Xen then does when they are really set:
//! `inside.sh` is what is done in its dom0.
//!
//! Needs QEMU, busybox, cpio and Debian's archive: without them the test says so and passes, unless `CI` is set.

use std::fs;
use std::path::Path;

use lowtail_testkit::xen;
use serde_json::Value;

/// Guests, in the order in which `inside.sh` makes them.
const GUESTS: [&str; 3] = ["server", "timer", "hog"];
/// A latency in seconds that nobody minds, on this slow machine: a wake-up takes a guest 25 us by itself.
const TOLERANCE: f64 = 60e-6;

/// What `lowtail predict` said in a section of what was printed. 1: something gets worse by the change.
fn section(out: &str, name: &str) -> Value {
    let (text, code) = xen::section(out, name);
    assert!([0, 1].contains(&code), "{name}: {text}");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

/// Boots it, and gives what was printed; `None` if that cannot be done here.
fn dom0() -> Option<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xen_predict");
    let also = tempfile::tempdir().expect("a directory");
    fs::copy(tests.join("inside.sh"), also.path().join("inside.sh")).expect("a file");
    xen::dom0(env!("CARGO_BIN_EXE_lowtail"), also.path(), 1200)
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
#[ignore = "ten minutes beside all the others: `make dom0`"]
fn other_limits_do_what_was_predicted() {
    let Some(out) = dom0() else { return };
    let as_it_was = section(&out, "as-it-was");
    assert_ne!(as_it_was["grade"]["grade"], "poor", "{as_it_was}");
    assert!(as_it_was["notes"].to_string().contains("rate limit 1ms"), "{as_it_was}");
    for limit in [0, 300] {
        let predicted = section(&out, &format!("predicted-{limit}"));
        let measured = section(&out, &format!("measured-{limit}"));
        compare(&predicted, &measured, &format!("a limit of {limit} us"));
    }
}
