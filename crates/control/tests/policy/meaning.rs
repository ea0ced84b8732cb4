//! What a file means.

use std::collections::BTreeMap;

use lowtail_control::policy::{Cap, Policy, Rule, Scheduler, Split, Weight};
use lowtail_control::workers::Cpus;
use lowtail_discover::{Kind, Origin, Users, Vm};
use lowtail_engine::Duration;
use lowtail_host::cgroup::Limit;
use lowtail_kernel::Name;
use lowtail_libvirt::labels::{Label, labels};
use lowtail_policy::{FlowParams, Params};

use crate::{FULL, parse};

fn vm(name: &str, kind: Kind, cgroup: Option<&str>) -> Vm {
    Vm {
        name: Name::new(name),
        kind,
        origin: Origin::declared(),
        pid: 7,
        started_ticks: 1,
        cgroup: cgroup.map(Into::into),
        labels: BTreeMap::new(),
        threads: Vec::new(),
        taps: Vec::new(),
        groups: Vec::new(),
    }
}

/// What libvirt says of a VM whose description has these lines.
fn words(lines: &str) -> Vec<Label> {
    labels("x.xml", &format!("<domain>{lines}</domain>")).expect("a VM")
}

/// A title, and what fits the other selectors of `FULL`.
fn titled(title: &str) -> Vec<Label> {
    words(&format!(
        "<title>{title}</title><metadata>\
         <l:labels xmlns:l='urn:lowtail:labels' tier='front'/>\
         <n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'><n:flavor name='m1.small'/></n:instance>\
         </metadata>"
    ))
}

fn limited(quota_us: u64, period_us: u64, burst_us: u64) -> Cap {
    let us = Duration::from_us;
    Cap::Limited(Limit { quota: us(quota_us), period: us(period_us), burst: us(burst_us) })
}

#[test]
fn an_empty_file_is_a_policy() {
    let policy = parse("").expect("an empty file");
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.scheduler, Scheduler::Auto);
    assert_eq!(
        (policy.small_first, policy.flow.params(None)),
        (Params::default(), FlowParams::default())
    );
    // Marks are others' to use, so that taking half of them has to be asked for.
    assert!(policy.uplinks.is_empty() && !policy.taps);
    // libvirt's own name for its system: https://libvirt.org/drvqemu.html.
    assert_eq!(policy.libvirt, "qemu:///system");
    assert_eq!((policy.workers.cpus, policy.workers.weight), (None, None));
    let rule = policy.vms.rule(&vm("any", Kind::Qemu, None), &[], &Users::default()).into_owned();
    assert_eq!(rule, Rule::default());
    // 100 is what a group has that nobody has set (the kernel's cgroup-v2.rst).
    assert!(rule.manage && rule.weight == Weight::PerVcpu(100) && rule.cap.is_none());
}

#[test]
fn the_first_entry_that_fits_is_a_machines_own() {
    let policy = parse(FULL).expect("all keys");
    let weight = |vm: &Vm, title: Option<&str>| {
        let words = title.map(titled).unwrap_or_default();
        policy.vms.rule(vm, &words, &Users::default()).weight
    };
    let group = Some("machine.slice/a.scope");
    let web = vm("web-1", Kind::Qemu, group);
    assert_eq!(weight(&web, Some("a shop")), Weight::PerVcpu(200));
    assert_eq!(weight(&vm("api", Kind::Qemu, group), Some("shop")), Weight::PerVcpu(200));
    // Each selector has to fit.
    assert_eq!(weight(&web, Some("a bank")), Weight::Keep);
    assert_eq!(weight(&web, None), Weight::Keep);
    assert_eq!(weight(&vm("apis", Kind::Qemu, group), Some("shop")), Weight::Keep);
    assert_eq!(weight(&vm("web-1", Kind::Libvirt, group), Some("shop")), Weight::Keep);
    assert_eq!(weight(&vm("web-1", Kind::Qemu, None), Some("shop")), Weight::Keep);
    let db = vm("db-web-1", Kind::Qemu, None);
    assert!(
        !policy.vms.rule(&db, &[], &Users::default()).manage
            && policy.vms.rule(&web, &[], &Users::default()).manage
    );
    assert_eq!((policy.vms.needs_libvirt(), policy.vms.by_label()), (Some("title"), true));
    let none = Policy::default();
    assert_eq!((none.vms.needs_libvirt(), none.vms.by_label()), (None, false));
}

/// Labels on the control group and in libvirt's metadata; the rest of that by the names of its elements.
#[test]
fn labels_and_metadata() {
    let fits = |selector: &str, labels: &[(&str, &str)], lines: &str| {
        let policy = parse(&format!("[[vm]]\n{selector}\nweight = 7")).expect(selector);
        let own = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let web = Vm { labels: own.collect(), ..vm("web", Kind::Libvirt, Some("m/web")) };
        policy.vms.rule(&web, &words(lines), &Users::default()).weight == Weight::PerVcpu(7)
    };
    let label = "label = { tier = [\"front\", \"edge-*\"], team = \"shop\" }";
    assert!(fits(label, &[("tier", "edge-7"), ("team", "shop")], ""));
    assert!(!fits(label, &[("tier", "edge-7")], ""), "each has to fit");
    assert!(!fits(label, &[("tier", "back"), ("team", "shop")], ""));
    let ours = |attributes: &str| {
        format!("<metadata><a:labels xmlns:a='urn:lowtail:labels' {attributes}/></metadata>")
    };
    assert!(fits(label, &[], &ours("tier='front' team='shop'")));
    assert!(fits(label, &[("team", "shop")], &ours("tier='front'")), "some here, some there");
    // What is on the group goes before.
    assert!(!fits(label, &[("tier", "back")], &ours("tier='front' team='shop'")));
    assert!(!fits(
        label,
        &[],
        &ours("tier='front' team='shop'").replace("urn:lowtail", "urn:other")
    ));
    // An element within is somebody's, and so is one without a namespace.
    let within = "<metadata><a:labels xmlns:a='urn:lowtail:labels'><a:b tier='front' team='shop'/></a:labels></metadata>";
    assert!(!fits(label, &[], within));

    let nova = "<title>shop</title><metadata><n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'>\
                <n:flavor name='m1.small'/><n:owner><n:project>shop</n:project><n:project>blog</n:project></n:owner>\
                </n:instance></metadata>";
    for (key, value, is) in [
        ("instance/flavor@name", "m1.*", true),
        ("instance/flavor@name", "m2.*", false),
        ("instance/owner/project", "shop", true),
        // Two elements of one name: one of them has to fit.
        ("instance/owner/project", "blog", true),
        ("{http://openstack.org/xmlns/libvirt/nova/1.1}instance/owner/project", "shop", true),
        ("{http://openstack.org/xmlns/libvirt/nova/1.0}instance/owner/project", "shop", false),
        ("flavor@name", "*", false),
        // A title is no metadata.
        ("title", "shop", false),
    ] {
        let selector = format!("metadata = {{ \"{key}\" = \"{value}\" }}");
        assert_eq!(fits(&selector, &[], nova), is, "{selector}");
        assert!(!fits(&selector, &[], ""), "{selector}");
    }
}

#[test]
fn limits_are_shares_of_a_cpu_or_quotas() {
    let policy = parse(FULL).expect("all keys");
    let web = vm("web-1", Kind::Qemu, Some("machine.slice/a"));
    let shop = titled("shop");
    let rule = policy.vms.rule(&web, &shop, &Users::default());
    // The kernel's period is 100 ms (sched-bwc.rst).
    assert_eq!(rule.cap, Some(limited(150_000, 100_000, 0)));
    assert_eq!(rule.vcpu_cap, Some(limited(5_000, 10_000, 1_000)));
    assert_eq!(rule.emulator_cap, Some(limited(50_000, 100_000, 0)));
    assert_eq!(rule.iothread_cap, Some(Cap::Unlimited));
    assert_eq!(rule.emulator_weight, Some(50));
    assert_eq!(rule.worker_weight, Some(300));
    assert_eq!(rule.slice, Some(Duration::from_ms(1)));
    assert_eq!(rule.vcpu_cap.and_then(|cap| cap.percent()), Some(50.0));
    let third = parse("[[vm]]\ncap = \"33.333%\"").expect("a third");
    assert_eq!(third.vms.rule(&web, &[], &Users::default()).cap, Some(limited(33_333, 100_000, 0)));
}

#[test]
fn parameters_of_the_rules() {
    let policy = parse(FULL).expect("all keys");
    assert_eq!((policy.small_first.burst_ns, policy.small_first.min_grant_ns), (4_000_000, 16_000));
    // Prices of a preemption, 2 ms each.
    let own = policy.small_first;
    assert_eq!(
        [own.preempt_burst_ns, own.preempt_reserve_ns, own.preempt_own_ns],
        [20_000_000, 6_000_000, 4_000_000]
    );
    let fewer = parse("[small_first]\npreempt = \"2ms\"").expect("fewer preemptions");
    assert_eq!(fewer.small_first.preempt_burst_ns, 600_000_000, "as many of them as before");
    let rare = parse("[small_first]\npreempt = \"100ms\"").expect("as many as there is room for");
    assert_eq!(rare.small_first.preempt_reserve_ns, 1 << 28);
    let few = parse("[small_first]\npreempt_burst = 10").expect("reserves of a third");
    assert_eq!(few.small_first.preempt_reserve_ns, 3_333_333);
    // Twice of each default; policy/flow.h: 655 and 6554 of 65536 are 10 and 100 Mbit/s.
    let usual = FlowParams::default();
    for uplink in [None, Some(50_000_000)] {
        let flow = policy.flow.params(uplink);
        assert_eq!((flow.rate, flow.vm_rate), (1310, 13107), "what is said holds at every uplink");
        assert_eq!(flow.burst_ns, 2 * usual.burst_ns);
        assert_eq!(flow.vm_burst_ns, 2 * usual.vm_burst_ns);
        assert_eq!(
            [flow.brief_bytes, flow.large_bytes, flow.long_bytes],
            [2 * usual.brief_bytes, 2 * usual.large_bytes, 2 * usual.long_bytes]
        );
    }
    // What is not said follows from the uplink's rate.
    let some = parse("[flow]\nvm_rate = \"30Mbit/s\"").expect("one key").flow;
    let derived = FlowParams::of_uplink(50_000_000);
    let vm_burst_ns = some.params(Some(50_000_000)).vm_burst_ns;
    assert!((vm_burst_ns / 8).abs_diff(90_000) < 100, "30 Mbit/s give 90 KB in 24 ms");
    assert_eq!(some.params(Some(50_000_000)), FlowParams { vm_rate: 1966, vm_burst_ns, ..derived });
    // A VM may send what one of its pairs may.
    let fast = parse("[flow]\nrate = \"10Mbit/s\"\nburst = \"60KB\"").expect("two keys").flow;
    let fast = fast.params(Some(50_000_000));
    assert_eq!((fast.vm_rate, fast.vm_burst_ns), (fast.rate, fast.burst_ns));
}

#[test]
fn uplinks_and_workers() {
    let policy = parse(FULL).expect("all keys");
    let [eth0, eth1] = policy.uplinks.as_slice() else { panic!("{:?}", policy.uplinks) };
    assert_eq!((eth0.name.as_str(), eth0.split), ("eth0", Split::Gso));
    assert_eq!(eth0.rate_bits_per_s, Some(950_000_000));
    // What is absent follows from small or large.
    assert_eq!(eth0.dscp, [Some(48), Some(46), None, None, Some(1)]);
    assert_eq!(eth0.priority, [7, 7, 0, 3, 3]);
    assert_eq!((eth1.rate_bits_per_s, eth1.split, eth1.dscp), (None, Split::Auto, [None; 5]));
    // linux/pkt_sched.h: interactive 6, best effort 0, bulk 2.
    assert_eq!(eth1.priority, [6, 6, 0, 0, 2]);
    assert!(policy.taps && !parse("[network]").expect("a table").taps);
    assert_eq!(policy.libvirt, "qemu:///session");
    assert_eq!(policy.workers.cpus, Some(Cpus::These([0, 1, 3, 8].into())));
    let cpus = |text: &str| parse(text).expect("workers").workers.cpus;
    assert_eq!(cpus("[workers]\ncpus = \"all\""), Some(Cpus::All));
    assert_eq!(cpus("[workers]\ncpus = \"all-but-first\""), Some(Cpus::AllButFirst));
    assert_eq!((policy.workers.spread, policy.workers.weight), (false, Some(200)));
    assert_eq!(policy.workers.slice, Some(Duration::from_us(500)));
}
