//! `lowtail host observe` on the real kernel: a cause is injected, and has to be named, and nothing else.
//!
//! Needs root, iproute2 and nsenter; without root the tests say so and pass, unless `CI` is set. Stand-ins are
//! VMs; for what the network does, VMs, host and the far end are network namespaces.

mod history;
mod queues;
#[path = "../cli/readers.rs"]
mod readers;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use lowtail_standin::{Standin, start};
use lowtail_testkit::{needs, net, traffic, tries};
use net::{B, FAR, Net, v4};
use serde_json::Value;
use traffic::{Filler, ask, connect, echo_server, udp};
use tries::tries;

/// The kernel, if this user may load programs. One test at a time has it, as they measure time.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    needs::root()
}

/// A finding: whose, what, and the first who is said to be the cause.
type Found = (String, String, String);

/// What was found in any interval.
fn found(intervals: &[Value]) -> BTreeSet<Found> {
    let findings = intervals.iter().flat_map(|interval| interval["findings"].as_array().unwrap());
    let word = |value: &Value| value.as_str().unwrap_or_default().to_string();
    findings
        .map(|finding| {
            let who = &finding["causes"][0]["runner"];
            let vm = who["vm"][0].as_str().map(|name| format!("vm {name}"));
            let who = vm.or_else(|| who.as_str().map(String::from));
            let who = who.unwrap_or_else(|| finding["causes"][0]["runner"].to_string());
            (word(&finding["vm"]), word(&finding["symptom"]), who)
        })
        .collect()
}

/// The command, in the namespace of `net`'s host if there is one.
fn lowtail(net: Option<&Net>) -> Command {
    let lowtail = env!("CARGO_BIN_EXE_lowtail");
    let Some(net) = net else { return Command::new(lowtail) };
    // The names of interfaces are in a /sys of that namespace, those of control groups below it.
    let mut command = Command::new("nsenter");
    let within = "mount -t sysfs none /sys && mount -t cgroup2 none /sys/fs/cgroup && \
                  exec \"$0\" \"$@\"";
    command.arg(format!("--net={}", net.host.path()));
    command.args(["unshare", "--mount", "sh", "-c", within, lowtail]);
    command
}

/// Lets the command observe with these arguments.
fn observe(net: Option<&Net>, args: &[&str]) -> Vec<Value> {
    let mut command = lowtail(net);
    let ran = command.args(["host", "observe", "--json"]).args(args).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let text = String::from_utf8_lossy(&ran.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The last CPU that this process may use.
fn cpu() -> usize {
    let mut set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("a set");
    let last = (0..nix::sched::CpuSet::count()).rfind(|&cpu| set.is_set(cpu).unwrap_or(false));
    let last = last.expect("a CPU");
    let _ = set.unset(last);
    last
}

fn standin(args: String) -> Standin {
    start(&args).expect("a stand-in")
}

#[test]
fn neighbours_on_the_same_cpu_are_named_and_nobody_else() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let cpu = cpu();
        let _server = standin(format!("--name web --do serve --every 2000 --work 300 --cpu {cpu}"));
        let _idle = standin("--name idle --do sleep".to_string());
        let before = found(&observe(None, &["--duration", "2s", "web", "idle", "batch"]));
        let late = |found: &BTreeSet<Found>| {
            found.iter().any(|(vm, symptom, who)| {
                vm == "web" && symptom == "wakeup-latency" && who == "vm batch"
            })
        };
        assert!(!late(&before), "without a neighbour: {before:?}");
        let _batch = standin(format!("--name batch --vcpus 4 --do burn --cpu {cpu}"));
        let intervals = observe(None, &["--duration", "4s", "web", "idle", "batch"]);
        let found = found(&intervals);
        assert!(late(&found), "{found:?}");
        for (vm, symptom, who) in &found {
            // Those that compute wait for each other, which is true, and told as such.
            let starved = vm == "batch" && symptom == "ready-time";
            let right = vm == "web" && (symptom == "wakeup-latency" || symptom == "ready-time");
            assert!(right || starved, "{found:?}");
            assert_eq!(who, "vm batch", "{found:?}");
        }
        let share = share_of_batch(&intervals);
        assert!(share > 0.9, "{share}: they ran nearly all the time that it waited");
    });
}

/// The share of batch in all that web waited.
fn share_of_batch(intervals: &[Value]) -> f64 {
    let mut all = [0.0; 2];
    for vm in intervals.iter().flat_map(|interval| interval["vms"].as_array().unwrap()) {
        let threads = vm["threads"].as_array().unwrap();
        for blame in threads.iter().flat_map(|thread| thread["blame"].as_array().unwrap()) {
            let waited = blame["ready_seconds"].as_f64().unwrap();
            if vm["name"] == "web" {
                all[0] += waited;
                all[1] += if blame["runner"]["vm"][0] == "batch" { waited } else { 0.0 };
            }
        }
    }
    all[1] / all[0]
}

#[test]
fn a_quota_is_named_and_no_neighbour() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let _capped = standin("--name capped --do burn --quota 20000 --period 100000".to_string());
        let intervals = observe(None, &["--duration", "3s", "capped"]);
        let found = found(&intervals);
        assert!(found.iter().any(|(_, symptom, _)| symptom == "throttling"), "{found:?}");
        for (vm, _, who) in &found {
            assert_eq!((vm.as_str(), who.as_str()), ("capped", "quota"), "{found:?}");
        }
        // Ten periods a second, and it runs out in each.
        let throttled: u64 = intervals
            .iter()
            .flat_map(|interval| interval["vms"][0]["throttled"].as_array().unwrap())
            .map(|group| group["throttled_periods"].as_u64().unwrap())
            .sum();
        assert!((26..=34).contains(&throttled), "{throttled} periods in 3 s");
    });
}

const RATE: u64 = 10_000_000;

/// Requests of VM `a`, with a queue of 40 ms in the uplink, beyond it, or in both.
fn path(host: bool, beyond: bool) -> BTreeSet<Found> {
    let net = Net::new();
    let queue = |rate: &str| format!("root tbf rate {rate} burst 100000 limit 10000000");
    let slow = format!("root tbf rate {RATE} burst 1600 limit 10000000");
    let here = if host { slow.clone() } else { queue("1gbit") };
    net.host.tc(&format!("qdisc add dev uplink {here}"));
    if beyond {
        net.far.tc(&format!("qdisc add dev end {slow}"));
    }
    let a = standin("--name a --do sleep".to_string());
    let b = standin("--name b --do sleep".to_string());
    let mut connection = connect(&net.a, echo_server(&net.far, v4(FAR)));
    let deep = Duration::from_millis(40);
    let fill = |from, to| Filler::start(from, to, RATE, deep);
    let (at_b, at_far) = (udp(&net.b, v4(B)), udp(&net.far, v4(FAR)));
    let (to_b, to_far) = (at_b.local_addr().unwrap(), at_far.local_addr().unwrap());
    // VM `b` fills the uplink, whoever is far away fills what is beyond it.
    let fillers = [
        host.then(|| fill(udp(&net.b, v4(B)), to_far)),
        beyond.then(|| fill(udp(&net.far, v4(FAR)), to_b)),
    ];
    let over = Arc::new(AtomicBool::new(false));
    let asks_on = Arc::clone(&over);
    let asks = std::thread::spawn(move || {
        while !asks_on.load(Ordering::Relaxed) {
            ask(&mut connection, 1);
        }
    });
    let [a_is, b_is] = [("a", &a, "tap-a"), ("b", &b, "tap-b")]
        .map(|(name, machine, tap)| format!("{name}={},tap={tap}", machine.begun.pid));
    let args = ["--duration", "3s", "--vm", &a_is, "--vm", &b_is, "a", "b"];
    let intervals = observe(Some(&net), &args);
    // The queues run empty, and the last request is answered.
    drop(fillers);
    over.store(true, Ordering::Relaxed);
    asks.join().expect("it is answered");
    found(&intervals)
}

fn of(vm: &str, found: &BTreeSet<Found>) -> Vec<String> {
    found.iter().filter(|found| found.0 == vm).map(|found| found.1.clone()).collect()
}

#[test]
fn a_slow_queue_is_named_and_nothing_else() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let found = path(true, false);
        assert_eq!(of("a", &found), ["queueing-delay"], "{found:?}");
        assert_eq!(of("b", &found), ["queueing-delay"], "it waits behind itself: {found:?}");
    });
}

#[test]
fn a_slow_link_beyond_is_named_and_nothing_else() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let found = path(false, true);
        assert_eq!(of("a", &found), ["round-trip"], "{found:?}");
        assert_eq!(of("b", &found), [""; 0], "{found:?}");
    });
}

#[test]
fn both_at_once_are_both_named() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let found = path(true, true);
        assert_eq!(of("a", &found), ["queueing-delay", "round-trip"], "{found:?}");
    });
}

#[test]
fn where_nothing_is_slow_nothing_is_named() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let found = path(false, false);
        assert!(found.is_empty(), "{found:?}");
    });
}

#[test]
fn a_neighbour_and_a_quota_at_once() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let cpu = cpu();
        let _server = standin(format!("--name web --do serve --every 2000 --work 300 --cpu {cpu}"));
        let _batch = standin(format!("--name batch --vcpus 4 --do burn --cpu {cpu}"));
        let _capped =
            standin("--name capped --do burn --quota 5000 --period 100000 --cpu 0".to_string());
        let found = found(&observe(None, &["--duration", "4s", "web", "batch", "capped"]));
        let has = |vm: &str, symptom: &str, who: &str| {
            found.contains(&(vm.to_string(), symptom.to_string(), who.to_string()))
        };
        assert!(has("web", "wakeup-latency", "vm batch"), "{found:?}");
        assert!(has("capped", "throttling", "quota"), "{found:?}");
        assert!(found.iter().all(|(vm, _, who)| who == "quota" || vm != "capped"), "{found:?}");
    });
}

/// A real guest, under QEMU's emulation: its kernel boots, finds no disk, and spins.
#[test]
fn a_real_guest_waits_for_its_neighbour() {
    let Some(_kernel) = kernel() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/guest");
    let said = Command::new(script).arg("kernel").output().expect("a script");
    let there = said.status.success() && needs::has("qemu-system-x86_64");
    if needs::skip((!there).then_some("no QEMU or no kernel for the guest")) {
        return;
    }
    let image = String::from_utf8_lossy(&said.stdout).trim().to_string();
    let cpu = cpu();
    let guest = Command::new("taskset")
        .args([
            "-c",
            &cpu.to_string(),
            "qemu-system-x86_64",
            "-name",
            "guest=real,debug-threads=on",
        ])
        .args(["-accel", "tcg,thread=multi", "-m", "256", "-nodefaults", "-display", "none"])
        .args(["-net", "none", "-kernel", &image, "-append", "panic=0 quiet"])
        .spawn()
        .expect("taskset is there");
    let _guest = Ended(guest);
    std::thread::sleep(Duration::from_secs(1));
    let _batch = standin(format!("--name batch --do burn --cpu {cpu}"));
    tries(|| {
        let found = found(&observe(None, &["--duration", "3s", "real", "batch"]));
        let starved = ("real".to_string(), "ready-time".to_string(), "vm batch".to_string());
        assert!(found.contains(&starved), "{found:?}");
        for (vm, _, who) in &found {
            // Each waits for the other, and the guest's emulator for its own vCPU, too.
            assert!(who == "vm batch" || who == "vm real", "{vm}: {found:?}");
        }
    });
}

/// Nobody says that all is well with a VM that is not there; and where a picture cannot be written, no time is spent.
#[test]
fn who_is_not_there_is_not_well() {
    let Some(_kernel) = kernel() else { return };
    let ran = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lowtail"));
        command
            .args(["host", "observe", "--interval", "200ms"])
            .args(args)
            .output()
            .expect("it starts")
    };
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_string();
    let missing = ran(&["--once", "nobody"]);
    assert_eq!(missing.status.code(), Some(1));
    let text = said(&missing.stdout);
    assert!(
        text.contains("nobody: no VM has this name") && !text.contains("no findings"),
        "{text}"
    );
    let declared = ran(&["--once", "--vm", "gone=999999999"]);
    assert_eq!(declared.status.code(), Some(1), "{}", said(&declared.stdout));
    let begun = std::time::Instant::now();
    let picture = ran(&["--duration", "3600s", "--svg", "/nowhere/a.svg"]);
    assert_eq!(picture.status.code(), Some(4));
    assert!(said(&picture.stderr).contains("--svg /nowhere/a.svg"), "{}", said(&picture.stderr));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// A process that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The screen ends when its terminal does: it once read a terminal that was gone, for ever.
#[test]
fn the_screen_ends_with_its_terminal() {
    let Some(_kernel) = kernel() else { return };
    if needs::skip((!needs::has("script")).then_some("script (bsdutils) is not installed")) {
        return;
    }
    let mut terminal = Command::new("script");
    let command = format!("exec {} host observe --no-network", env!("CARGO_BIN_EXE_lowtail"));
    // What it shows goes nowhere; its standard input is a pipe that stays open.
    terminal.args(["-q", "-c", &command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = terminal.spawn().expect("it starts");
    let place = format!("/proc/{0}/task/{0}/children", terminal.id());
    let shown = || {
        let children = std::fs::read_to_string(&place).unwrap_or_default();
        let child = children.split_whitespace().next()?.parse::<i32>().ok()?;
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        (comm.trim() == "lowtail").then_some(child)
    };
    let child = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        shown()
    });
    let child = child.expect("the screen begins");
    // Until it reads the terminal.
    std::thread::sleep(Duration::from_secs(2));
    terminal.kill().expect("it runs");
    terminal.wait().expect("it was started here");
    let gone = (0..60).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    let _ = Command::new("kill").args(["-9", &child.to_string()]).status();
    assert!(gone, "process {child} runs on without a terminal");
}

/// A host of 200 VMs with 100 vCPUs each. Prints how long the first interval takes to come, and how long later ones are:
/// `cargo test --release -p lowtail --features libvirt --test observe -- --ignored twenty_thousand --nocapture`
#[test]
#[ignore = "prints figures"]
fn twenty_thousand_threads() {
    let Some(_kernel) = kernel() else { return };
    let vms: Vec<Standin> =
        (0..200).map(|i| standin(format!("--name vm{i} --vcpus 100 --do sleep"))).collect();
    let observed = |words: &str| {
        let began = std::time::Instant::now();
        let mut command = lowtail(None);
        command.args(["host", "observe", "--json", "--threads", "24000"]);
        let ran = command.args(words.split(' ')).output().expect("it starts");
        let took = began.elapsed();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let lines = String::from_utf8_lossy(&ran.stdout);
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (took, said, lines)
    };
    for _ in 0..3 {
        let (took, said, lines) = observed("--interval 100ms --once");
        let threads = |vm: &Value| vm["threads"].as_array().map_or(0, Vec::len);
        let vms = lines[0]["vms"].as_array().expect("VMs");
        let all: usize = vms.iter().map(threads).sum();
        println!(
            "{:.2} s with the first 0.1 s; {} VMs, {all} threads; {said}",
            took.as_secs_f64(),
            vms.len()
        );
        assert!(vms.len() >= 200 && all >= 20_000, "{} VMs, {all} threads", vms.len());
        assert!(said.contains("MB of kernel memory"), "{said}");
        assert_eq!(lines[0]["lost"]["threads"], 0);
    }
    let (_, _, lines) = observed("--interval 1s --duration 6s");
    let spans = lines.iter().filter_map(|line| line["interval_seconds"].as_f64());
    println!("intervals of 1 s: {:.2?} s", spans.collect::<Vec<_>>());
    drop(vms);
}
