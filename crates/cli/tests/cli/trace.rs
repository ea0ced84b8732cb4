//! `lowtail trace` on the schedule recorded on a real Xen 4.20. The figures are those that
//! the records give by hand; the reader's own tests work all of them out a second time.

use std::fs::File;

use serde_json::Value;

use crate::{Place, Ran, capture};

fn run(args: &[&str]) -> Ran {
    let file = capture();
    Place::new().run(args.iter().copied().chain([file.to_str().unwrap()]))
}

fn vcpu<'a>(latency: &'a Value, name: &str) -> &'a Value {
    let mut vcpus = latency["vcpus"].as_array().unwrap().iter();
    vcpus.find(|vcpu| vcpu["vcpu"] == name).unwrap()
}

/// A small server under a rate limit of 1 ms waits for the timer of the CPU loop, which comes
/// after 10 ms: the trap that the tool is there to find.
#[test]
fn names_the_trap() {
    let latency = run(&["trace", "latency", "--json"]).expect(0, &[]).json();
    let server = vcpu(&latency, "d1v0");
    // 165 wake-ups, the last of which the end of the trace cuts off.
    assert_eq!(
        (&server["wakeups"], &server["wakeup_latency"]["count"]),
        (&165.into(), &164.into())
    );
    assert_eq!(server["wakeup_latency"]["p50_seconds"], 0.00998876);
    assert_eq!(server["wakeup_latency"]["min_seconds"], 0.000008427);
    assert_eq!(server["wakeup_latency"]["max_seconds"], 0.010041297);
    let blame = &server["blame"][0];
    assert_eq!(blame["vcpu"], "d2v0");
    assert_eq!(blame["reason"], "rate_limit_no_tickle");
    assert!(blame["ratio"].as_f64().unwrap() > 0.999, "{blame}");
    // The CPU loop never sleeps.
    assert_eq!(vcpu(&latency, "d2v0")["wakeup_latency"]["count"], 0);
}

/// A count of d1v0's run-state records: 31 times blocked>runnable and 134 times
/// running>runnable, the last of which the end of the trace cuts off; the 164 waits of above.
#[test]
fn can_go_by_run_states_alone() {
    let latency = run(&["trace", "latency", "--json", "--by-run-state"]).expect(0, &[]).json();
    let server = vcpu(&latency, "d1v0");
    assert_eq!(server["wakeup_latency"]["count"], 31);
    assert_eq!(server["preemption_latency"]["count"], 133);
}

#[test]
fn says_the_same_in_words() {
    let ran = run(&["trace", "latency"]);
    ran.expect(0, &[]);
    let row = ran.out.lines().find(|line| line.contains("9988.760")).unwrap();
    assert!(row.trim().starts_with("wake-up latency"), "{row}");
    assert!(ran.out.contains("rate limit: pCPU not tickled"), "{}", ran.out);
    let info = run(&["trace", "info"]);
    assert!(info.expect(0, &[]).out.contains("17740 in 40 windows, 398844 bytes"));
    for text in [&ran.out, &info.out] {
        assert!(text.lines().all(|line| line.chars().count() <= 100 && !line.contains('\x1b')));
    }
}

/// A trace from a pipe gives the same as from a file.
#[test]
fn reads_standard_input() {
    let from_file = run(&["trace", "latency", "--json"]);
    let place = Place::new();
    let mut command = place.command();
    command.args(["trace", "latency", "--json", "-"]).stdin(File::open(capture()).unwrap());
    let from_pipe = Ran::new(&command.output().unwrap());
    assert_eq!(from_pipe.expect(0, &[]).out, from_file.out);
}

/// At twice the rate, the same ticks are half the time.
#[test]
fn the_clock_can_be_given() {
    for hz in ["2000000000", "2.0G", "2000MHz"] {
        let latency = run(&["trace", "latency", "--json", "--cpu-hz", hz]).json();
        assert_eq!(latency["cpu_hz"], 2_000_000_000_u64, "{hz}");
        assert_eq!(
            vcpu(&latency, "d1v0")["wakeup_latency"]["p50_seconds"],
            0.00998876 / 2.0,
            "{hz}"
        );
    }
}
