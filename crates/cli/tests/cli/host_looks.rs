//! `host observe` and `host record`, as people meet them; what they see is tested where it is seen.

use super::host::{as_nobody, root};
use super::*;
use lowtail_standin::{binary, start};

#[test]
fn without_root_the_word_is_clear_and_nothing_is_written() {
    let Some(()) = need(root(), "only root can become nobody") else { return };
    let place = Place::new();
    for line in ["host observe --once", "host observe --json --duration 1s"] {
        let ran = as_nobody(&place, line);
        ran.expect(4, &["permission denied", "root"]);
        assert_eq!(ran.out, "", "{line}");
    }
    as_nobody(&place, "host record --duration 1s -o /tmp/lowtail-nobody.ltr").expect(4, &["root"]);
    assert!(!Path::new("/tmp/lowtail-nobody.ltr").exists());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new();
    for (line, word) in [
        ("host observe --interval 1ms", "100ms to 3600s"),
        ("host observe --duration 0s", "more than 0"),
        ("host observe --vm web", "NAME=CGROUP"),
        ("host observe --prometheus 0.0.0.0:1", "--prometheus-for-all"),
        ("host observe --uplink eth0 --no-network", "cannot be used"),
        ("host record", "--output"),
        ("host record -o a --on-delay 5parsecs", "such as"),
        ("host record -o a --keep 5s --duration 1s", "cannot be used"),
    ] {
        place.line(line).expect(2, &[word]);
    }
    place.line("host observe --once --uplink no-such-if").expect(4, &["no-such-if"]);
}

/// One interval, as JSON; the exit code says whether something hurts.
#[test]
fn one_interval() {
    let Some(()) = need(root(), "not root") else { return };
    let place = Place::new();
    let standin = start("--name looked-at --do serve --every 5000").expect("a stand-in");
    let ran = place.line("host observe --once --json --interval 300ms looked-at");
    let json = ran.json();
    let hurts = !json["findings"].as_array().expect("findings").is_empty();
    ran.expect(i32::from(hurts), &[]);
    let vm = &json["vms"][0];
    assert_eq!(vm["name"], "looked-at");
    assert_eq!(vm["pid"], standin.begun.pid);
    // Wake-ups each 5 ms, in 300 ms and what the command itself was late.
    let wakes = vm["threads"].as_array().expect("threads").iter();
    let wakes: u64 = wakes.filter_map(|thread| thread["wakeup_latency"]["count"].as_u64()).sum();
    let span_ms = 1e3 * json["interval_seconds"].as_f64().expect("a number");
    let due = span_ms.max(300.0) / 5.0;
    let wakes = wakes as f64;
    assert!(wakes >= 40.0 && wakes <= due * 7.0 / 6.0, "{wakes} wake-ups in {span_ms} ms");
}

#[test]
fn a_recording_is_read_like_an_xentrace() {
    let Some(()) = need(root(), "not root") else { return };
    let place = Place::new();
    let _standin = start("--name recorded --do serve --every 5000").expect("a stand-in");
    let ran = place.line("host record --duration 500ms -o host.ltr --json");
    ran.expect(0, &[]);
    assert!(ran.json()["events"].as_u64().expect("a number") > 100);
    assert_eq!(place.names(), ["host.ltr"], "nothing else is left");
    place.line("trace info host.ltr").expect(0, &[]);
    let latency = place.line("trace latency host.ltr --json");
    latency.expect(0, &[]);
    let json = latency.json();
    let server = json["vcpus"]
        .as_array()
        .expect("vCPUs")
        .iter()
        .find(|vcpu| vcpu["vcpu"].as_str().is_some_and(|name| name == "recorded vcpu0"));
    let wakes =
        server.expect("the stand-in")["wakeup_latency"]["count"].as_u64().expect("a number");
    // Each 5 ms, in 500 ms and what the command itself was late.
    let info = place.line("trace info host.ltr --json").json();
    let span_ms = 1e3 * info["span_seconds"].as_f64().expect("a number");
    let most = span_ms.max(500.0) / 5.0 + 10.0;
    assert!(wakes >= 80 && wakes as f64 <= most, "{wakes} wake-ups in {span_ms} ms");
    place.line("trace export host.ltr --perfetto host.pftrace").expect(0, &[]);
    place.line("trace latency host.ltr --cpu-hz 1000000000").expect(2, &["nanoseconds"]);
}

/// A quota in control groups of version 2, while somebody sets the clock, to 2033 and then to 2001: spans come from a clock
/// that nobody sets. The guest's clock is exact, so that figures are, too.
#[test]
fn a_step_of_the_clock() {
    let commands = "lowtail-standin --as libvirt --name web_1 --do burn --vcpu-quota 20000 >/tmp/begun & \
        until grep -q pid /tmp/begun; do sleep 0.1; done; \
        lowtail host observe --json --duration 3s web_1 >/tmp/seen & \
        seen() { until [ $(grep -c timestamp_seconds /tmp/seen) -ge $1 ]; do sleep 0.1; done; }; \
        seen 1; date -s @2000000000 >/dev/null; seen 2; date -s @1000000000 >/dev/null; \
        wait $!; cat /tmp/seen";
    let Some(ran) = guest(&["sh", "-c", commands], Some(binary())) else { return };
    ran.expect(0, &[]);
    let lines = ran.out.lines().filter(|line| line.starts_with('{'));
    let intervals: Vec<Value> =
        lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!((3..=4).contains(&intervals.len()), "{}", ran.out);
    let sum = |of: &dyn Fn(&Value) -> f64| intervals.iter().map(of).sum::<f64>();
    let span_ms = 1e3 * sum(&|interval| interval["interval_seconds"].as_f64().expect("a number"));
    assert!((3_000.0..3_100.0).contains(&span_ms), "{span_ms} ms");
    let years = [2033, 2001].map(|year| {
        let since_1970 = f64::from(year - 1970) * 365.25 * 86_400.0;
        intervals.iter().any(|interval| {
            (interval["timestamp_seconds"].as_f64().expect("a number") - since_1970).abs()
                < 366.0 * 86_400.0
        })
    });
    assert_eq!(years, [true; 2], "the clock was set: {}", ran.out);
    // A fifth of a CPU, in periods of 100 ms.
    let ran_ms = sum(&|interval| {
        let threads = interval["vms"][0]["threads"].as_array().expect("threads");
        let seconds = |thread: &Value| thread["run_time_seconds"].as_f64().expect("a number");
        let vcpus = threads.iter().filter(|thread| thread["role"] == "vcpu");
        1e3 * vcpus.map(seconds).sum::<f64>()
    });
    assert!((ran_ms / span_ms - 0.2).abs() < 0.01, "{ran_ms} of {span_ms} ms");
    let throttled = sum(&|interval| {
        let groups = interval["vms"][0]["throttled"].as_array().expect("groups");
        let vcpu0 = groups.iter().filter(|group| group["group"] == "vcpu0");
        vcpu0.map(|group| group["throttled_periods"].as_f64().expect("a number")).sum()
    });
    // Reading takes its time in the guest, and may see one more at each end.
    let wanted = span_ms / 100.0;
    assert!((throttled - wanted).abs() <= 2.0, "{throttled} periods in {span_ms} ms");
}
