//! What it costs. Prints figures for `docs/explanation/overhead-network.md`:
//! `cargo test --release -p lowtail-observe --test path cost -- --ignored --nocapture`

use std::fs;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::ProgInfoIter;
use lowtail_testkit::tap::TapProcess;

use crate::net::{A, FAR, Net, v4};
use crate::traffic::{connect, echo_server, udp};
use crate::{SLOT_A, interface, kernel, observe};

const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Has the kernel measure its programs, until dropped.
struct Stats(String);

impl Stats {
    fn on() -> Self {
        let before = fs::read_to_string(SWITCH).expect("Linux 5.1 has it");
        fs::write(SWITCH, "1").expect("root may");
        Stats(before)
    }
}

impl Drop for Stats {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.0.trim());
    }
}

/// Runs and nanoseconds of each of the programs, which this test alone has loaded.
fn runs() -> Vec<(String, u64, u64)> {
    let ours = ["queued", "started", "received", "consumed", "dropped"];
    let all = ProgInfoIter::default().map(|program| {
        let name = program.name.to_string_lossy().into_owned();
        (name, program.run_cnt, program.run_time_ns)
    });
    all.filter(|program| ours.contains(&program.0.as_str())).collect()
}

/// Prints what a piece of work has cost: each program's run, the least of ten tries, as what comes in
/// between only adds to it.
fn cost(what: &str, mut work: impl FnMut()) {
    let tries = (0..10).map(|_| {
        let before = runs();
        work();
        let both = runs().into_iter().zip(before);
        both.map(|(after, before)| (after.0, after.1 - before.1, after.2 - before.2)).collect()
    });
    let tries: Vec<Vec<(String, u64, u64)>> = tries.collect();
    for i in 0..tries[0].len() {
        let each = tries.iter().filter(|runs| runs[i].1 > 100).map(|runs| runs[i].2 / runs[i].1);
        if let Some(least) = each.min() {
            println!("{what:<24} {:<9} {least:>5} ns a run", tries[0][i].0);
        }
    }
    // Each packet is queued at the VM's own end and at the uplink.
    let packet = |runs: &Vec<(String, u64, u64)>| {
        let (packets, ns) = (runs.iter().find(|run| run.0 == "queued")?.1 / 2, runs.iter());
        (packets > 100).then(|| ns.map(|run| run.2).sum::<u64>() / packets)
    };
    println!(
        "{what:<24} all       {:>5} ns a packet",
        tries.iter().filter_map(packet).min().unwrap()
    );
}

/// Sends small datagrams for so long; how many a second arrive.
fn blast(net: &Net, time: Duration) -> f64 {
    let [from, to] = [udp(&net.a, v4(A)), udp(&net.far, v4(FAR))];
    let address = to.local_addr().unwrap();
    to.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let receiver = thread::spawn(move || {
        let mut count = 0;
        while to.recv(&mut [0; 64]).is_ok() {
            count += 1;
        }
        count
    });
    let begin = Instant::now();
    while begin.elapsed() < time {
        for _ in 0..100 {
            from.send_to(&[0; 64], address).expect("a way");
        }
    }
    let took = begin.elapsed();
    f64::from(receiver.join().expect("it does not panic")) / took.as_secs_f64()
}

#[test]
#[ignore = "prints figures"]
fn cost_of_a_packet() {
    let Some(_kernel) = kernel() else { return };
    let net = Net::new();
    net.host.tc("qdisc add dev uplink root tbf rate 10gbit burst 1000000 limit 10000000");
    let server = echo_server(&net.far, v4(FAR));
    let stats = Stats::on();
    let mut path = observe(&net);
    let short = Duration::from_millis(200);
    cost("a VM's datagrams", || {
        blast(&net, short);
    });
    cost("a VM's stream", || {
        let mut stream = connect(&net.a, server);
        (0..1000).for_each(|_| stream.write_all(&[0; 1400]).expect("it is open"));
    });
    net.host.ip("tuntap add dev tap-c mode tap");
    net.host.ip("link set dev tap-c master br0 up");
    net.far.ip("neigh replace 10.77.0.3 lladdr 02:00:00:00:00:03 dev end nud permanent");
    path.track(&[(SLOT_A, vec![interface(&net, "tap-c")])]).expect("it can");
    if let Some(mut machine) = TapProcess::start(&net.host, "tap-c", 0) {
        let from = udp(&net.far, v4(FAR));
        cost("datagrams to a VM", || {
            // As many as its ring holds.
            for _ in 0..1000 {
                from.send_to(&[0; 64], "10.77.0.3:9").expect("a way");
            }
            machine.take(1000, 0);
        });
    }
    path.track(&[]).expect("it can");
    cost("datagrams of nobody's", || {
        blast(&net, short);
    });
    drop((path, stats));
    let mut losses: Vec<f64> = (0..25)
        .map(|_| {
            let without = blast(&net, short);
            let path = observe(&net);
            let with = blast(&net, short);
            drop(path);
            (1.0 - with / without) * 100.0
        })
        .collect();
    losses.sort_by(f64::total_cmp);
    let rate = blast(&net, short);
    println!("at {rate:.0} datagrams/s: {:.1} % fewer, median of 25 pairs", losses[12]);
    println!("quartiles {:.1} and {:.1} %", losses[6], losses[18]);
}
