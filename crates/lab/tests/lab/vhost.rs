//! KVM's back end in scenarios: who serves what, in which group, and what is refused.

use lowtail_host::Workload;

use crate::{parse, run_with};

/// A VM with an interface beside a loop, on one pCPU.
const VHOST: &str = r#"title = "vhost"
duration = "2s"
show = ["backend_cpus.web", "cpus_used.web", "throttled_percent.web"]
[host]
pcpus = 1
costs = "kvm"
layout = "libvirt"
scheduler = { kind = "eevdf", version = "6.12" }
[vm.web]
workload = { kind = "net-guest", queues = 2 }
[vm.web.vhost]
count = 2
[nic.eth]
rate = "10Gbit/s"
[flow.ping]
vm = "web"
way = { in = "eth" }
pace = { requests = { exponential = "1ms" } }
payload = 56
[[case]]
name = "run"
rows = ["web", { vm = "web", of = "backend_wakeup_latency" }, { vm = "web", of = "tap_wait" }]
"#;

#[test]
fn workers_are_threads_of_the_vm() {
    let experiment = parse(VHOST).unwrap_or_else(|error| panic!("{error}"));
    let host = &experiment.cases(false)[0].hosts[0];
    let web = &host.config.vms[0];
    let Workload::Mix(parts) = &web.workload else { panic!("{:?}", web.workload) };
    assert!(matches!(parts[..], [(1, Workload::Net(_)), (1, Workload::Vhost(_)), (1, _)]));
    assert_eq!(host.threads[0].helpers, ["vhost0", "vhost1"]);
    let group = |thread: usize| {
        let group = web.threads[thread].cgroup.expect("in one");
        host.config.cgroups[group.index()].name.rsplit('/').next()
    };
    assert_eq!([group(0), group(1), group(2)], [Some("vcpu0"), Some("emulator"), Some("emulator")]);
    let apart = VHOST.replace("count = 2", "attached = false");
    let experiment = parse(&apart).unwrap_or_else(|error| panic!("{error}"));
    let web = &experiment.cases(false)[0].hosts[0].config.vms[0];
    assert!(web.threads[1].cgroup.is_none(), "in the root group");
}

/// Each request is a packet that waits in the tap, and has a worker wake for it and for its answer, unless it is awake.
#[test]
fn what_it_measures() {
    let outcome = run_with(VHOST, 1);
    let row = |of: &str| {
        let name = if of.is_empty() { "run/web".to_string() } else { format!("run/web/{of}") };
        outcome.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name}"))
    };
    let (answers, tap) = (row("").n, row("tap_wait").n);
    assert!(answers > 1800 && tap >= answers && tap <= answers + 2, "{answers}, {tap}");
    let wakeups = row("backend_wakeup_latency").n;
    assert!(wakeups > answers && wakeups <= 2 * tap + 2, "{wakeups} for {answers}");
    // costs/kvm.toml: a copy and the end of a turn, no more where nobody is in the way.
    assert!(row("tap_wait").get("min") >= Some(0.67));
    let backend = row("").get("backend_cpus.web").expect("it has workers");
    assert!(backend > 0.0 && Some(backend) < row("").get("cpus_used.web"));
}

#[test]
fn what_cannot_be_is_refused() {
    for (from, to, wanted) in [
        ("net-guest\", queues = 2", "cpu-loop\"", "serves an interface, and the VM has none"),
        ("count = 2", "workload = { kind = \"vhost\", queue_packets = 0 }", "a tap for no packets"),
        (
            "[vm.web.vhost]\ncount = 2",
            "[vm.web.emulator]\nworkload = { kind = \"vhost\" }",
            "what threads of `[vm.NAME.vhost]` do",
        ),
        ("[vm.web.vhost]\ncount = 2\n", "", "NICs and interfaces need a VM with"),
        (
            "[nic.eth]",
            "[vm.bare]\nworkload = { kind = \"net-guest\" }\n[nic.eth]",
            "VM `bare` has an interface, but no vhost",
        ),
        (
            "[nic.eth]",
            "[vm.dom0]\nworkload = { kind = \"driver-domain\", backend = \"napi\" }\n[nic.eth]",
            "a driver domain and vhost on one host",
        ),
    ] {
        assert!(VHOST.contains(from), "{from}");
        let message = parse(&VHOST.replace(from, to)).expect_err(to).to_string();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}
