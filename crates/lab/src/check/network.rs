//! Random networks that a real kernel can play, too.

use std::fmt::Write;

use lowtail_engine::Rng;

use super::{chance, one_of, spread};
use crate::span::span_us;

/// Payload of the longest segment that TCP hands down, and the burst that lets one pass.
const SEGMENT_BYTES: u64 = 65_483;
const LONG_BURST_BYTES: u64 = 70_000;

/// Rates at which packets queue, Mbit/s: what an emulated processor can do beside everything else.
const RATES: [u64; 4] = [4, 8, 16, 32];

/// Hosts and switches, and how the hosts are called.
fn topology(rng: &mut Rng) -> (String, Vec<String>) {
    let names = |prefix: &str, n: u64| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let quoted = |names: &[String]| format!("{names:?}");
    match rng.below(3) {
        0 => {
            let hosts = names("h", 2 + rng.below(5));
            (format!(r#"{{ kind = "star", hosts = {} }}"#, quoted(&hosts)), hosts)
        }
        1 => {
            let (left, right) = (names("l", 1 + rng.below(3)), names("r", 1 + rng.below(3)));
            let text = format!(
                r#"{{ kind = "dumbbell", left = {}, right = {} }}"#,
                quoted(&left),
                quoted(&right)
            );
            (text, left.into_iter().chain(right).collect())
        }
        _ => {
            let (pods, edges, hosts) = (1 + rng.below(2), 1 + rng.below(2), 1 + rng.below(2));
            let pods = if edges * hosts == 1 { 2 } else { pods };
            let text = format!(
                r#"{{ kind = "tree", pods = {pods}, edges = {edges}, aggregations = 1, cores = 1, hosts = {hosts} }}"#
            );
            (text, (0..pods * edges * hosts).map(|i| i.to_string()).collect())
        }
    }
}

/// What waits before a rate.
fn queue(rng: &mut Rng, rate_mbit: u64, long: bool, at_host: bool) -> String {
    let rate = format!("rate = \"{rate_mbit}Mbit/s\"");
    let kind = rng.below(if at_host { 6 } else { 5 });
    if kind == 4 {
        return format!(r#"{{ kind = "cake", {rate} }}"#);
    }
    let inner = match kind {
        // From 20 ms to 160 at the rate.
        0 => format!(
            r#"{{ kind = "fifo", bytes = {} }}"#,
            ((rate_mbit * 2_500) << rng.below(4)).max(2 * LONG_BURST_BYTES * u64::from(long))
        ),
        1 => format!(r#"{{ kind = "fifo", packets = {} }}"#, 20 << rng.below(4)),
        2 => r#"{ kind = "codel" }"#.to_string(),
        3 => r#"{ kind = "fq-codel" }"#.to_string(),
        _ => r#"{ kind = "prio", bands = 5, queue = { kind = "fq-codel" } }"#.to_string(),
    };
    let cut = long && chance(rng, 50);
    let burst = if long && !cut { LONG_BURST_BYTES } else { 1_600 + rng.below(1_400) };
    let tbf = format!(r#"{{ kind = "tbf", {rate}, burst = {burst}, queue = {inner} }}"#);
    let queue = if cut { format!(r#"{{ kind = "split", queue = {tbf} }}"#) } else { tbf };
    if kind == 5 { format!(r#"{{ kind = "tag", queue = {queue} }}"#) } else { queue }
}

/// From one message of so many bytes to the next: a tenth to a third of what the slowest link carries.
fn gap(rng: &mut Rng, bytes: u64, bytes_per_ms: u64) -> String {
    let mean_us = bytes * 1_000 / bytes_per_ms * (3 + rng.below(8));
    spread(rng, mean_us.max(3_000))
}

/// What is sent beside an echo each few milliseconds.
fn traffic(rng: &mut Rng, slowest_mbit: u64) -> (&'static str, String, u64) {
    // Bytes that the slowest link carries in a millisecond.
    let per_ms = slowest_mbit * 125;
    match rng.below(6) {
        0 | 1 => ("bulk", r#"{ kind = "bulk" }"#.to_string(), 1 + rng.below(3)),
        2 => {
            let bytes = 200 + rng.below(20_000);
            let gap = gap(rng, bytes, per_ms);
            ("messages", format!(r#"{{ kind = "messages", bytes = {bytes}, gap = {gap} }}"#), 1)
        }
        3 => {
            let reply = 200 + rng.below(20_000);
            let gap = gap(rng, reply, per_ms);
            let closed = chance(rng, 50);
            let text = format!(
                r#"{{ kind = "requests", reply = {reply}, gap = {gap}, closed = {closed} }}"#
            );
            ("requests", text, 1)
        }
        4 => {
            let bytes = 100 + rng.below(1_300);
            let gap = gap(rng, bytes, per_ms);
            ("datagrams", format!(r#"{{ kind = "datagrams", bytes = {bytes}, gap = {gap} }}"#), 1)
        }
        _ => {
            let bytes = 20_000 << rng.below(6);
            ("transfer", format!(r#"{{ kind = "transfer", bytes = {bytes} }}"#), 4 + rng.below(12))
        }
    }
}

/// Random network number `index` of a seed: two to eight hosts at one switch, two, or a tree of them; fast links with a delay, before
/// which queues of the kinds that Linux has limit a rate; an echo each few milliseconds, and up to three kinds of
/// traffic beside.
///
/// `command` is what draws it again.
pub fn network_scenario(seed: u64, index: u32, command: &str) -> String {
    let rng = &mut Rng::new(seed, &format!("check network {index}"));
    let number = 1 + rng.below(1 << 32);
    let (topology, hosts) = topology(rng);
    let long = chance(rng, 40);
    let (own, switch) = (one_of(rng, &RATES), one_of(rng, &RATES));
    let slowest = own.min(switch);
    let delay_us = span_us(rng, 10, 10);
    let own = queue(rng, own, long, true);
    let switch = queue(rng, switch, long, false);
    let mut text = format!(
        "title = \"Check network {index} of seed {seed}\"\nsource = \"{command}\"\nseed = {number}\nduration = \"6s\"\n\n\
         [network]\ntopology = {topology}\nlink = {{ rate = \"10Gbit/s\", delay = \"{delay_us}us\" }}\n\
         queue = {own}\nswitch = {switch}\nnic = {{ bql = false, whole = true }}\n\n"
    );
    let segment = if long { SEGMENT_BYTES } else { 0 };
    let window = one_of(rng, &["3MB", "3MB", "256KB"]);
    let control = one_of(rng, &["cubic", "cubic", "reno"]);
    let tcp = format!(
        r#"{{ control = "{control}", segment = {segment}, window = "{window}", small_queues = true }}"#
    );
    let pair = |rng: &mut Rng| {
        let from = rng.below(hosts.len() as u64);
        let to = (from + 1 + rng.below(hosts.len() as u64 - 1)) % hosts.len() as u64;
        (hosts[from as usize].clone(), hosts[to as usize].clone())
    };
    let (from, to) = pair(rng);
    let mean_us = 4_000 + rng.below(12_000);
    let gap = spread(rng, mean_us);
    let closed = chance(rng, 50);
    let _ = writeln!(
        text,
        "[traffic.ping]\nfrom = \"{from}\"\nto = \"{to}\"\n\
         pattern = {{ kind = \"ping\", gap = {gap}, closed = {closed} }}\nwarmup = \"1s\"\n"
    );
    for i in 0..1 + rng.below(3) {
        let (kind, pattern, count) = traffic(rng, slowest);
        // Half of it on the way of the echoes, so that they wait for something.
        let (from, to) = if chance(rng, 50) { (from.clone(), to.clone()) } else { pair(rng) };
        let _ = writeln!(
            text,
            "[traffic.{kind}{i}]\nfrom = \"{from}\"\nto = \"{to}\"\ncount = {count}\npattern = {pattern}"
        );
        if kind != "datagrams" {
            let _ = writeln!(text, "tcp = {tcp}");
        }
        // A transfer is over soon, and is measured from its start.
        let warmup = if kind == "transfer" { "0s" } else { "1s" };
        let _ = writeln!(text, "warmup = \"{warmup}\"\n");
    }
    text
}
