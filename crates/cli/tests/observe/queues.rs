//! Who fills the uplink's queue, on the real kernel: VMs, a service of the host's, others whose packets it forwards.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lowtail_testkit::needs::skip;
use lowtail_testkit::net::{A, B, FAR, Namespace, Net, v4};
use lowtail_testkit::tap::TapProcess;
use lowtail_testkit::traffic::{Filler, connect, udp};
use serde_json::Value;

use super::{kernel, lowtail, observe, standin, tries};

const RATE: u64 = 10_000_000;
const DEEP: Duration = Duration::from_millis(40);

/// Bytes by sender: `vm b`, `group NAME`, `interface NAME`, `host`, `others`.
type Bytes = Vec<(String, u64)>;

fn bytes(senders: &Value) -> Bytes {
    let one = |sent: &Value| {
        let who = &sent["sender"];
        let named = who.as_object().and_then(|who| who.iter().next()).map(|(kind, name)| {
            let name = name[0].as_str().or(name.as_str()).unwrap_or_default();
            format!("{kind} {name}")
        });
        let named = named.or_else(|| who.as_str().map(String::from));
        (named.expect("a sender"), sent["bytes"].as_u64().expect("bytes"))
    };
    senders.as_array().expect("senders").iter().map(one).collect()
}

fn part(of: &Bytes, who: &str) -> f64 {
    let all: u64 = of.iter().map(|(_, bytes)| bytes).sum();
    let theirs: u64 = of.iter().filter(|(name, _)| name == who).map(|(_, bytes)| bytes).sum();
    theirs as f64 / all.max(1) as f64
}

/// Datagrams of VM `a` through an uplink of 10 Mbit/s that `others` begin to fill; what was observed in 3 s.
fn asked<T>(net: &Net, far: IpAddr, interval: &str, others: impl FnOnce() -> T) -> Vec<Value> {
    let args = ["--duration", "3s", "--interval", interval, "a", "b"];
    meanwhile(net, far, others, |vms| observe(Some(net), &[&args[..], vms].concat()))
}

/// The same, with what `look` gives that was told of the VMs.
fn meanwhile<T, L>(
    net: &Net,
    far: IpAddr,
    others: impl FnOnce() -> T,
    look: impl FnOnce(&[&str]) -> L,
) -> L {
    net.host.tc(&format!("qdisc add dev uplink root tbf rate {RATE} burst 1600 limit 100000"));
    let others = others();
    let (a, b) = (standin("--name a --do sleep".into()), standin("--name b --do sleep".into()));
    let (from, to) = (udp(&net.a, v4(A)), udp(&net.far, far));
    let to = to.local_addr().expect("it is bound");
    let over = Arc::new(AtomicBool::new(false));
    let asks_on = Arc::clone(&over);
    let asks = std::thread::spawn(move || {
        while !asks_on.load(Ordering::Relaxed) {
            from.send_to(&[0; 100], to).expect("a way");
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    let [a_is, b_is] = [("a", &a, "tap-a"), ("b", &b, "tap-b")]
        .map(|(name, machine, tap)| format!("{name}={},tap={tap}", machine.begun.pid));
    let seen = look(&["--vm", &a_is, "--vm", &b_is]);
    drop(others);
    over.store(true, Ordering::Relaxed);
    asks.join().expect("it does not panic");
    seen
}

/// Whose bytes were ahead of VM `a`'s packets, and how many of a packet. In the first interval there are packets that were
/// queued before the observer began, and the last may be short.
fn blame(intervals: &[Value]) -> (Bytes, f64) {
    let (mut senders, mut packets, mut delay_s) = (Bytes::new(), 0, 0.0);
    for interval in &intervals[1..] {
        for vm in interval["vms"].as_array().expect("VMs") {
            let blame = &vm["network"]["queue_blame"];
            let sum: u64 = bytes(&blame["senders"]).iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(blame["bytes_ahead"].as_u64(), Some(sum), "{blame}");
        }
        let blame = &interval["vms"][0]["network"]["queue_blame"];
        senders.extend(bytes(&blame["senders"]));
        packets += blame["sampled_packets"].as_u64().expect("packets");
        delay_s += blame["sampled_delay_seconds"].as_f64().expect("seconds");
    }
    let networks = intervals.iter().map(|interval| &interval["vms"][0]["network"]);
    assert!(
        packets >= 3,
        "{packets} packets: {:?}",
        networks.map(Value::to_string).collect::<Vec<_>>()
    );
    let all: u64 = senders.iter().map(|(_, bytes)| bytes).sum();
    // What leaves in a time is what the rate lets leave.
    let rate = 8.0 * all as f64 / delay_s;
    assert!((0.85..1.15).contains(&(rate / RATE as f64)), "{rate} bit/s: {senders:?}");
    (senders, all as f64 / packets as f64)
}

/// What the uplink has sent in these intervals.
fn sent(intervals: &[Value]) -> Bytes {
    let mut all = Bytes::new();
    for uplink in intervals.iter().flat_map(|interval| interval["uplinks"].as_array().unwrap()) {
        let senders = bytes(&uplink["senders"]);
        let sum: u64 = senders.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(uplink["transmitted_bytes"].as_u64(), Some(sum), "{uplink}");
        all.extend(senders);
    }
    all
}

/// More than this part of what the uplink sent, and of what was ahead of VM `a`'s packets, is `who`'s.
fn fills(intervals: &[Value], who: &str, least: f64) {
    let senders = sent(&intervals[1..]);
    assert!(part(&senders, who) > least, "{senders:?}");
    let (waits, _) = blame(intervals);
    assert!(part(&waits, who) > least, "{waits:?}");
}

#[test]
fn the_vm_that_fills_the_queue_is_named_with_its_rate_and_all_bytes_are_somebodys() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        let sink = udp(&net.far, v4(FAR));
        let fill = || Filler::start(udp(&net.b, v4(B)), sink.local_addr().unwrap(), RATE, DEEP);
        let counted = || {
            let word = net.host.run("cat", "/proc/net/dev");
            let line = word.lines().find(|line| line.trim_start().starts_with("uplink:"));
            let words = line.expect("it is there").split_whitespace();
            words.clone().nth(9).and_then(|word| word.parse::<u64>().ok()).expect("a number")
        };
        let (before, began) = (counted(), Instant::now());
        let intervals = asked(&net, v4(FAR), "500ms", fill);
        let (after, elapsed_s) = (counted(), began.elapsed().as_secs_f64());
        let (senders, mean_bytes) = blame(&intervals);
        assert!(part(&senders, "vm b") > 0.95, "{senders:?}");
        // Together they send more than 10 Mbit/s, so that the queue is as long as it may be: 100 kB.
        assert!((85e3..101e3).contains(&mean_bytes), "{mean_bytes}");
        let uplinks = intervals.iter().flat_map(|interval| interval["uplinks"].as_array().unwrap());
        let seen: u64 = uplinks.map(|uplink| uplink["transmitted_bytes"].as_u64().unwrap()).sum();
        // The interface has counted longer, while the observer began and ended: no more than its rate lets leave in that time. Its
        // counter and the clock are not read in one moment: 2 %.
        let there = after - before;
        let watched_s = intervals.iter().map(|interval| interval["interval_seconds"].as_f64());
        let unwatched_s = elapsed_s - watched_s.map(|s| s.expect("seconds")).sum::<f64>();
        let unseen = RATE as f64 / 8.0 * unwatched_s + 0.02 * there as f64;
        let word = format!("{seen} of {there} bytes, {unwatched_s} s of {elapsed_s} not watched");
        assert!(seen <= there && (there - seen) as f64 <= unseen, "{word}");
        assert!(seen as f64 > 2.5 * RATE as f64 / 8.0, "{word}");
        let findings = intervals.last().unwrap()["findings"].as_array().unwrap();
        let of = |vm: &str| findings.iter().find(|finding| finding["vm"] == vm).expect("a finding");
        for vm in ["a", "b"] {
            let cause = &of(vm)["causes"][0];
            assert_eq!(cause["sender"]["vm"][0], "b", "{cause}");
            let rate = cause["bits_per_second"].as_f64().expect("a rate");
            assert!((0.9e7..1.1e7).contains(&rate), "{cause}");
        }
    });
}

/// One who sends as fast as it can from a control group of its own, in a namespace.
struct Service {
    child: Child,
    group: PathBuf,
}

impl Service {
    fn start(from: &Namespace, to: SocketAddr, group: PathBuf) -> Self {
        fs::create_dir_all(&group).expect("root may");
        let script = format!(
            "import socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n\
             while True:\n s.sendto(bytes(1000),('{}',{}))\n time.sleep(0.0005)\n",
            to.ip(),
            to.port()
        );
        let within = "echo $$ > \"$0/cgroup.procs\" && exec nsenter \"$1\" python3 -c \"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", within]).arg(&group).arg(format!("--net={}", from.path())).arg(script);
        let child = command.stdin(Stdio::null()).spawn().expect("sh is there");
        std::thread::sleep(Duration::from_millis(500));
        Service { child, group }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.group);
    }
}

/// Where control groups of version 2 are mounted.
fn unified() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

#[test]
fn a_service_of_the_hosts_is_named_by_its_control_group() {
    let Some(_kernel) = kernel() else { return };
    let Some(root) = unified() else {
        assert!(skip(Some("no control groups of version 2 are mounted")));
        return;
    };
    tries(|| {
        let net = Net::new();
        let far = net.route();
        let name = format!("lowtail-test-{}", std::process::id());
        let sink = udp(&net.far, far);
        let group = root.join(&name).join("backup.service");
        // 16 Mbit/s into 10: what does not fit is dropped, since the service does not wait for anybody.
        let serve = || Service::start(&net.host, sink.local_addr().unwrap(), group);
        let intervals = asked(&net, far, "500ms", serve);
        let _ = fs::remove_dir(root.join(&name));
        let service = format!("group {name}/backup.service");
        fills(&intervals, &service, 0.9);
    });
}

/// Who makes groups without end takes all numbers that there are. Nobody's bytes are lost for it.
#[test]
fn more_groups_than_have_numbers_lose_no_bytes() {
    let Some(_kernel) = kernel() else { return };
    let Some(root) = unified() else {
        assert!(skip(Some("no control groups of version 2 are mounted")));
        return;
    };
    tries(|| {
        let net = Net::new();
        let far = net.route();
        let sink = udp(&net.far, far).local_addr().expect("it is bound");
        let top = root.join(format!("lowtail-many-{}", std::process::id()));
        fs::create_dir_all(&top).expect("root may");
        // It goes from group to group, and sends from each; a socket is its group's in which it was made.
        let script = format!(
            "import os,socket,time\ntime.sleep(2)\nfor i in range(150):\n d='{}/g%d'%i\n os.mkdir(d)\n \
             open(d+'/cgroup.procs','w').write('0')\n \
             s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n \
             s.sendto(bytes(500),('{}',{}))\n s.close()\n\
             open('{}/cgroup.procs','w').write('0')\n",
            top.display(),
            sink.ip(),
            sink.port(),
            root.display()
        );
        let churn = || {
            let mut command = Command::new("nsenter");
            command.args([&format!("--net={}", net.host.path()), "python3", "-c", &script]);
            Churn { child: command.spawn().expect("nsenter is there"), top: top.clone() }
        };
        let intervals = asked(&net, far, "500ms", churn);
        let all = sent(&intervals);
        let of = |named: &str| {
            all.iter().filter(|(name, _)| name.starts_with(named)).map(|of| of.1).sum::<u64>()
        };
        // Less than the queue holds.
        let frames = 150 * 542;
        let seen = of("group ") + of("others");
        assert!(seen >= frames * 9 / 10 && seen <= frames, "{seen} of {frames} bytes: {all:?}");
        assert!(of("others") > frames / 3, "there are 61 numbers: {all:?}");
        let named: Vec<_> = all.iter().filter(|(name, _)| name.starts_with("group ")).collect();
        assert!(named.len() > 40, "{all:?}");
    });
}

/// One who makes groups.
struct Churn {
    child: Child,
    top: PathBuf,
}

impl Drop for Churn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for group in fs::read_dir(&self.top).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(group.path());
        }
        let _ = fs::remove_dir(&self.top);
    }
}

#[test]
fn others_whose_packets_are_forwarded_are_named_by_their_interface() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        let far = net.route();
        let other = Namespace::new();
        net.host.add_link("eth-c", &other);
        net.host.ip("address add 10.79.0.1/24 dev eth-c");
        net.host.ip("link set eth-c up");
        other.ip("address add 10.79.0.2/24 dev end");
        other.ip("link set end up");
        other.ip("route add default via 10.79.0.1");
        let sink = udp(&net.far, far);
        let from = udp(&other, "10.79.0.2".parse().unwrap());
        let fill = || Filler::start(from, sink.local_addr().unwrap(), RATE, DEEP);
        let intervals = asked(&net, far, "500ms", fill);
        fills(&intervals, "interface eth-c", 0.9);
    });
}

/// As libvirt's networks are: packets of VMs go up through a bridge and are routed, so that they have its number,
/// and long segments are cut where nobody says any more whose the pieces are.
#[test]
fn pieces_of_long_segments_that_are_routed_are_their_vms() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        let far = net.route();
        let listener = net.far.within(move || TcpListener::bind((far, 0)).expect("an address"));
        let to = listener.local_addr().unwrap();
        let sink = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("one comes");
            std::io::copy(&mut connection, &mut std::io::sink()).expect("it ends well");
        });
        let mut stream = connect(&net.b, to);
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let sends = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(&[0; 65_536]).expect("it is open");
            }
        });
        let intervals = asked(&net, far, "1s", || ());
        over.store(true, Ordering::Relaxed);
        net.host.tc("qdisc del dev uplink root");
        sends.join().expect("it does not panic");
        sink.join().expect("it does not panic");
        fills(&intervals, "vm b", 0.95);
    });
}

/// Frames that the ring of a tap holds here.
const RING: f64 = 100.0;

/// A tap `tap-c` at this bridge, whose VM has this address.
fn add_tap(net: &Net, bridge: &str) -> Option<TapProcess> {
    net.host.ip("tuntap add dev tap-c mode tap");
    net.host.ip(&format!("link set dev tap-c txqueuelen {RING} master {bridge} up"));
    TapProcess::start(&net.host, "tap-c", 0)
}

/// Packets to VM `c`, which takes one each millisecond from its tap: `b` sends more than that, and the ring is full.
fn fills_tap(net: &Net, far: IpAddr, mut machine: TapProcess, address: [u8; 4]) {
    let c = (IpAddr::from(address), 9).into();
    // Where nobody takes more than 8.3 Mbit/s.
    let fill = Filler::start(udp(&net.b, v4(B)), c, 2 * RATE, DEEP);
    let over = Arc::new(AtomicBool::new(false));
    let asks_on = Arc::clone(&over);
    let from = udp(&net.far, far);
    let asks = std::thread::spawn(move || {
        while !asks_on.load(Ordering::Relaxed) {
            from.send_to(&[0; 100], c).expect("a way");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let takes_on = Arc::clone(&over);
    let takes = std::thread::spawn(move || {
        while !takes_on.load(Ordering::Relaxed) {
            machine.take(100, 1_000);
        }
    });
    let [b_is, c_is] = [("b", "tap-b"), ("c", "tap-c")].map(|(name, tap)| {
        let standin = standin(format!("--name {name} --do sleep"));
        (format!("{name}={},tap={tap}", standin.begun.pid), standin)
    });
    let args = ["--duration", "3s", "--interval", "500ms", "b", "c"];
    let vms = ["--vm", &b_is.0, "--vm", &c_is.0];
    let intervals = observe(Some(net), &[&args[..], &vms].concat());
    over.store(true, Ordering::Relaxed);
    asks.join().expect("it does not panic");
    takes.join().expect("it does not panic");
    drop(fill);
    let (mut got, mut ahead, mut packets, mut delay_s) = (Bytes::new(), Bytes::new(), 0, 0.0);
    for interval in &intervals[1..] {
        let network = &interval["vms"][1]["network"];
        let senders = bytes(&network["received_senders"]);
        let sum: u64 = senders.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(network["received_bytes"].as_u64(), Some(sum), "{network}");
        got.extend(senders);
        let blame = &network["receive_queue_blame"];
        ahead.extend(bytes(&blame["senders"]));
        packets += blame["sampled_packets"].as_u64().expect("packets");
        delay_s += blame["sampled_delay_seconds"].as_f64().expect("seconds");
        assert!(interval["lost"]["packets"].as_u64() == Some(0), "{}", interval["lost"]);
        // What a VM gets by its tap leaves by no uplink.
        assert_eq!(interval["uplinks"].as_array().map(Vec::len), Some(0), "{interval}");
    }
    assert!(part(&got, "vm b") > 0.9 && part(&got, "interface uplink") > 0.0, "{got:?}");
    assert!(part(&ahead, "vm b") > 0.9, "{ahead:?}");
    // A packet that fits in has the whole ring ahead, and never more. It has less where this host kept `b` from sending for a while, as
    // `c` takes a hundredth of the ring each millisecond; that what is ahead fits the delay and the rate is asked below.
    let sum = |of: &Bytes| of.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>();
    let frame = 1000.0 + 8.0 + 20.0 + 14.0;
    let mean = sum(&ahead) / packets as f64 / frame;
    assert!(packets > 10 && (0.6 * RING..1.01 * RING).contains(&mean), "{packets}: {mean}");
    // What was taken meanwhile is what is taken at all.
    let (meanwhile, all) = (sum(&ahead) / delay_s, sum(&got) / 2.5);
    assert!((0.85..1.15).contains(&(meanwhile / all)), "{meanwhile} and {all} bytes/s");
    let findings = intervals.last().unwrap()["findings"].as_array().unwrap();
    let late = findings.iter().find(|found| found["symptom"] == "receive-queueing-delay");
    let late = late.expect("a finding");
    assert_eq!(
        (late["vm"].as_str(), &late["causes"][0]["sender"]["vm"][0]),
        (Some("c"), &"b".into())
    );
    let rate = late["causes"][0]["bits_per_second"].as_f64().expect("a rate");
    assert!((0.8..1.2).contains(&(rate / 8.0 / all)), "{rate} bit/s of {all} bytes/s");
}

#[test]
fn who_fills_the_tap_of_a_vm_is_named_with_its_rate() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        for sender in [&net.b, &net.far] {
            sender.ip("neigh replace 10.77.0.3 lladdr 02:00:00:00:00:03 dev end nud permanent");
        }
        let Some(machine) = add_tap(&net, "br0") else { return };
        fills_tap(&net, v4(FAR), machine, [10, 77, 0, 3]);
    });
}

/// From one of libvirt's networks into another: what `b` sends goes up through its bridge, and is routed to the other.
#[test]
fn who_fills_a_tap_over_two_bridges_is_named() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let net = Net::new();
        let far = net.route();
        net.host.ip("link add br1 type bridge");
        net.host.ip("address add 10.80.0.254/24 dev br1");
        net.host.ip("link set br1 up");
        net.far.ip("route add 10.80.0.0/24 via 10.78.0.1");
        let Some(machine) = add_tap(&net, "br1") else { return };
        // Its first port gives the bridge its address, and the neighbours of the old one go.
        net.host.ip("neigh replace 10.80.0.3 lladdr 02:00:00:00:00:03 dev br1 nud permanent");
        fills_tap(&net, far, machine, [10, 80, 0, 3]);
    });
}

/// What is recorded says the same as what is observed.
#[test]
fn a_recording_says_who_filled_the_queue() {
    let Some(_kernel) = kernel() else { return };
    tries(|| {
        let (net, place) = (Net::new(), tempfile::tempdir().expect("a directory"));
        let file = place.path().join("queues.ltr");
        let sink = udp(&net.far, v4(FAR));
        let fill = || Filler::start(udp(&net.b, v4(B)), sink.local_addr().unwrap(), RATE, DEEP);
        meanwhile(&net, v4(FAR), fill, |vms| {
            let mut command = lowtail(Some(&net));
            command.args(["host", "record", "--duration", "2s", "--output"]).arg(&file).args(vms);
            let ran = command.output().expect("it starts");
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        });
        let ran = lowtail(None).args(["trace", "latency", "--json"]).arg(&file).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let found: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let queues = &found["uplink_queues"];
        let uplink = &queues["uplinks"][0];
        assert_eq!(uplink["name"], "uplink", "{queues}");
        let rate = uplink["bits_per_second"].as_f64().expect("a rate");
        assert!((0.9..1.1).contains(&(rate / RATE as f64)), "{queues}");
        assert!(part(&bytes(&uplink["senders"]), "vm b") > 0.9, "{queues}");
        let a = &queues["vms"][0];
        assert_eq!(a["vm"], "a", "{queues}");
        assert!(part(&bytes(&a["senders"]), "vm b") > 0.9, "{queues}");
        assert!(a["sampled_packets"].as_u64() >= Some(10), "{queues}");
    });
}
