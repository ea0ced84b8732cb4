//! Policy files: what they mean, what is wrong with them, and what editors are told.

mod follower;
mod meaning;
mod mistakes;
mod mutations;
mod resolve;
mod schema;

use lowtail_control::policy::Policy;
use lowtail_testkit::seed;

/// Each key there is, once at least.
const FULL: &str = r#"
scheduler = "auto"
libvirt = "qemu:///session"
users = ["alice", 1001, "30000-30999"]
others = "weigh"

[[vm]]
name = "db-*"
manage = false

[[vm]]
name = ["web-*", "api"]
kind = "qemu"
title = "*shop*"
label = { tier = "front" }
metadata = { "instance/flavor@name" = "m1.*" }
cgroup = "machine.slice/*"
weight = 200
cap = "150%"
vcpu_cap = { quota = "5ms", period = "10ms", burst = "1ms" }
emulator_cap = "50%"
iothread_cap = "none"
emulator_weight = 50
worker_weight = 300
slice = "1ms"
pcpus = "1-3"
preferred_pcpus = "2"

[[vm]]
weight = "keep"

[[goal]]
vm = ["web-*", "api"]
p50 = "100us"
p99 = "500us"
cpu_loss = "10%"

[[goal]]
vm = "db-*"
p99 = "2ms"

[small_first]
burst = "4ms"
grant = "500us"
grain = "16us"
slice = "10ms"
wait_turns = 4
guard = "1ms"
margin = "40us"
follow = "250us"
follow_wait = "2ms"
preempt = "2ms"
preempt_burst = 10
preempt_reserve = 3
preempt_own = 2

[flow]
rate = "20Mbit/s"
burst = "60KB"
vm_rate = "200Mbit/s"
vm_burst = "600KB"
brief = 15000
large = "200KB"
long = "2MB"

[network]
taps = true

[[uplink]]
name = "eth0"
rate = "950Mbit/s"
split = "gso"
dscp = { brief = "CS6", small = "EF", bulk = 1 }
priority = { small = 7, long = 3 }

[[uplink]]
name = "eth1"

[workers]
cpus = "0-3,^2,8"
spread = false
weight = 200
slice = "500us"

[xen]
ratelimit = "500us"
slice = "5ms"
"#;

fn parse(text: &str) -> Result<Policy, String> {
    Policy::parse("x.toml", text).map_err(|error| error.to_string())
}
