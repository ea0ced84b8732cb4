//! Tests of the laboratory through its public face.

mod catalogue;
mod claims;
mod errors;
mod kvm;
mod mutations;
mod pieces;
mod report;
mod runs;
mod schema;
mod seeds;
mod sensitivity;
mod topology;
mod trivial;
mod vhost;

use lowtail_lab::{Error, Experiment, Outcome, RunOptions, run};

/// A scenario that `null` runs in no time: two VMs with a pCPU each.
const SMALL: &str = r#"
title = "small"
seed = 3
duration = "10s"
show = ["switches_per_second", "late_per_600k"]
[host]
pcpus = 4
scheduler = { kind = "null" }
[vm.io]
workload = { kind = "request-server", load = { think = { exponential = "200us" } }, service = "5us", path = { fixed = "20us", jitter_median = "2us", jitter_sigma = 0.7 }, requests = 500 }
[vm.nap]
workload = { kind = "timer-sleeper", sleep = "1ms", wakeups = 200, late_limit = "1ms" }
[vm.hog]
workload = { kind = "duty-hog", burst = "1ms", busy_percent = 50 }
"#;

/// Two streams that fill a wire each, and a ping over a wire of its own, behind one driver domain.
const NET: &str = r#"
title = "net"
duration = "1s"
show = ["mbit_per_second.sink", "jain.sink"]
[host]
pcpus = 5
costs = "netback-2009"
scheduler = { kind = "null" }
[vm.dom0]
vcpus = 2
workload = { kind = "driver-domain", backend = "tasklets", grant_lock = "global" }
[vm.sink]
count = 2
workload = { kind = "net-guest" }
[vm.idle]
workload = { kind = "net-guest" }
[nic.eth]
count = 2
rate = "1Gbit/s"
moderation = "125us"
[nic.own]
rate = "1Gbit/s"
latency = "30us"
[flow.stream]
vm = "sink"
way = { in = "eth" }
pace = "line"
payload = 1400
warmup = "50ms"
[flow.ping]
vm = "idle"
way = { in = "own" }
pace = { requests = { uniform = ["0.5ms", "1.5ms"] } }
payload = 56
requests = 150
"#;

fn parse(text: &str) -> Result<Experiment, Error> {
    Experiment::parse("x.toml", text, None)
}

fn run_with(text: &str, jobs: usize) -> Outcome {
    let experiment = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { jobs, ..RunOptions::default() };
    run(&experiment, &options, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}
