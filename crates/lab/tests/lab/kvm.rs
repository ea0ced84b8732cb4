//! libvirt's words in scenarios: groups, limits, threads, and what is refused.

use lowtail_host::cgroup::{Limit, Policy};
use lowtail_host::{Config, Workload};
use lowtail_lab::{Error, Experiment};

use crate::{parse, run_with};

/// Two VMs as libvirt sets them up; line 7 is the scheduler, 10 the tuning of `web`.
const KVM: &str = r#"title = "kvm"
duration = "1s"
[host]
pcpus = 4
layout = "libvirt"
cgroup_version = 1
scheduler = { kind = "small-first" }
[vm.web]
vcpus = 2
cputune = { shares = 2048, quota = 50000 }
workload = { kind = "cpu-loop" }
[vm.batch]
workload = { kind = "cpu-loop" }
"#;

fn config(experiment: &Experiment) -> &Config {
    &experiment.cases(false)[0].hosts[0].config
}

/// The groups as lines of name, shares and limit.
fn groups(text: &str) -> Vec<String> {
    let experiment = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let line = |group: &lowtail_host::cgroup::CgroupConfig| match group.limit {
        None => format!("{} {}", group.name, group.shares),
        Some(Limit { quota, period, burst }) => {
            format!("{} {} {quota}/{period}+{burst}", group.name, group.shares)
        }
    };
    config(&experiment).cgroups.iter().map(line).collect()
}

fn with(from: &str, to: &str) -> Result<Experiment, Error> {
    assert_eq!(KVM.matches(from).count(), 1, "{from}");
    parse(&KVM.replace(from, to))
}

fn message(from: &str, to: &str) -> String {
    with(from, to).expect_err(to).to_string()
}

/// The tree of libvirt's docs/cgroups.rst; a quota without a period has the kernel's.
#[test]
fn the_layout_is_libvirts() {
    let web = r"machine.slice/machine-qemu\x2d1\x2dweb.scope";
    let batch = r"machine.slice/machine-qemu\x2d2\x2dbatch.scope";
    assert_eq!(
        groups(KVM),
        [
            "machine.slice 1024".to_string(),
            format!("{web} 2048"),
            format!("{web}/libvirt 1024"),
            format!("{web}/libvirt/vcpu0 1024 50ms/100ms+0us"),
            format!("{web}/libvirt/vcpu1 1024 50ms/100ms+0us"),
            format!("{web}/libvirt/emulator 1024"),
            format!("{batch} 1024"),
            format!("{batch}/libvirt 1024"),
            format!("{batch}/libvirt/vcpu0 1024"),
            format!("{batch}/libvirt/emulator 1024"),
        ]
    );
    let old = KVM.replace("\"libvirt\"", "\"libvirt-qemu\"");
    let names = groups(&old);
    assert_eq!(names[..3], ["libvirt 1024", "libvirt/qemu 1024", "libvirt/qemu/web 2048"]);
    let flat = groups(&KVM.replace("\"libvirt\"", "\"flat\""));
    assert_eq!(flat[0], "web-vcpu0 2048 50ms/100ms+0us");
    assert!(flat.iter().all(|line| !line.contains('/') || line.contains("ms/")), "{flat:?}");
}

#[test]
fn what_is_for_the_whole_machine_is_above_its_threads() {
    let tune = "cputune = { shares = 100, shares_per_vcpu = true, global_quota = '150ms', \
                global_period = '50ms', global_burst = 1000 }";
    let all = groups(&KVM.replace("cputune = { shares = 2048, quota = 50000 }", tune));
    // 100 for each of two vCPUs.
    assert!(all[1].ends_with("scope 200"), "{}", all[1]);
    assert!(all[2].ends_with("libvirt 1024 150ms/50ms+1ms"), "{}", all[2]);
    // With v2 shares are a weight: 100 are as 1024.
    let v2 = groups(&KVM.replace("cgroup_version = 1", "cgroup_version = 2"));
    assert!(v2[1].ends_with("scope 20972"), "2048 * 10.24, rounded: {}", v2[1]);
}

/// A VM with threads of every kind.
pub(crate) fn threads() -> String {
    format!(
        "{}\n{}",
        KVM.replace(
            "quota = 50000 }",
            "quota = 50000, vcpupin = [[0], [1, 2]], emulatorpin = [3], iothreadpin = [[2]], \
             vcpusched = [{ vcpus = [1], scheduler = 'fifo', priority = 5 }], \
             iothreadsched = { scheduler = 'batch' }, slice = ['3ms'], nice = -5 }"
        ),
        "[vm.web.emulator]\nworkload = { kind = 'duty-hog', burst = '1ms', busy_percent = 5 }\n\
         [[vm.web.iothread]]\nworkload = { kind = 'cpu-loop' }\nnice = 3\n\
         [vm.web.iothreads]\ncount = 2\nworkload = { kind = 'cpu-loop' }\n\
         [vm.web.vhost]\nworkload = { kind = 'cpu-loop' }\nattached = false\n"
    )
}

#[test]
fn threads_are_where_libvirt_puts_them() {
    let text = threads();
    let experiment = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let config = config(&experiment);
    let web = &config.vms[0];
    let group = |i: usize| {
        let group = web.threads[i].cgroup?;
        config.cgroups[group.index()].name.rsplit('/').next()
    };
    let names = ["vcpu0", "vcpu1", "emulator", "iothread1", "iothread2", "iothread3"];
    for (i, name) in names.into_iter().enumerate() {
        assert_eq!(group(i), Some(name));
    }
    assert_eq!((web.vcpus, web.threads.len(), group(6)), (7, 7, None));
    let Workload::Mix(parts) = &web.workload else { panic!("{:?}", web.workload) };
    let sizes: Vec<u16> = parts.iter().map(|(n, _)| *n).collect();
    assert_eq!(sizes, [2, 1, 1, 1, 1, 1]);
    let pins: Vec<String> = web.threads.iter().take(4).map(|t| format!("{:?}", t.pin)).collect();
    assert_eq!(pins, ["{0}", "{1-2}", "{3}", "{2}"]);
    let policies: Vec<Policy> = web.threads.iter().take(4).map(|t| t.policy).collect();
    assert_eq!(policies, [Policy::Other, Policy::Fifo(5), Policy::Other, Policy::Batch]);
    let nices: Vec<i8> = web.threads.iter().map(|t| t.nice).collect();
    assert_eq!(nices, [-5, -5, 0, 3, 0, 0, 0]);
    assert_eq!(web.threads[0].slice, Some(lowtail_engine::Duration::from_ms(3)));
    assert_eq!(web.threads[1].slice, None);
}

#[test]
fn groups_of_ones_own() {
    let own = "[[cgroup]]\nname = 'a/b'\nweight = 50\nquota = '20ms'\nperiod = 10000\n\
               burst = '1ms'\n[[cgroup]]\nname = 'machine.slice'\nshares = 4096\n";
    let text = format!("{}{own}", KVM.replace("[vm.batch]\n", "[vm.batch]\ncgroup = 'a/b'\n"));
    let lines = groups(&text);
    assert_eq!(lines[..3], ["a 1024", "a/b 512 20ms/10ms+1ms", "machine.slice 4096"]);
    let experiment = parse(&text).unwrap();
    let batch = &config(&experiment).vms[1];
    assert_eq!(config(&experiment).cgroups[batch.threads[0].cgroup.unwrap().index()].name, "a/b");
    assert!(!lines.iter().any(|line| line.contains("batch")), "{lines:?}");
}

#[test]
fn cases_set_what_is_tuned() {
    let text = format!(
        "{KVM}[[cgroup]]\nname = 'x'\nquota = 1000\n[[case]]\nname = '{{q}}'\n\
         for = {{ q = ['10ms', '20ms'] }}\nset = {{ 'vm.web.cputune.quota' = '{{q}}', \
         'vm.batch.cputune.shares' = 7, 'cgroup.0.quota' = '{{q}}', 'host.layout' = 'flat' }}\n"
    );
    let experiment = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    for (case, wanted) in experiment.cases(false).iter().zip(["10ms", "20ms"]) {
        let groups = &case.hosts[0].config.cgroups;
        for group in groups.iter().filter(|g| g.name == "x" || g.name.starts_with("web-vcpu")) {
            assert_eq!(group.limit.unwrap().quota.to_string(), wanted);
        }
        assert!(groups.iter().any(|group| group.name == "batch-vcpu0" && group.shares == 7));
    }
    let wrong = text.replace("cgroup.0.quota", "cgroup.1.quota");
    let message = parse(&wrong).unwrap_err().to_string();
    assert!(message.contains("`1` cannot be set: a list of 1, numbered from 0"), "{message}");
}

/// Each bad value with its place, its key, and what libvirt or the kernel takes.
#[test]
fn bad_values_are_refused_with_their_range() {
    for (to, wanted) in [
        ("shares = 1", "x.toml:10:22: shares 1: libvirt takes 2 to 262144 with cgroup v1"),
        ("shares = 262145", ":10:22: shares 262145: libvirt takes 2 to 262144"),
        (
            "period = 999",
            ":10:22: period 999: libvirt takes 1000 to 1000000 microseconds, 0 for none",
        ),
        ("period = '2s'", ":10:22: period 2000000: libvirt takes 1000 to 1000000"),
        ("quota = 999", ":10:21: quota 999: libvirt takes 1000 to 17592186044415 microseconds"),
        ("global_quota = 5", ":10:28: global_quota 5: libvirt takes 1000 to"),
        ("emulator_period = -1", ":10:31: emulator_period -1: libvirt takes 1000 to 1000000"),
        ("iothread_quota = 17592186044416", "iothread_quota 17592186044416: libvirt takes"),
        ("quota = '1.5us'", "`1.5us`: whole microseconds here"),
        ("quota = true", "expected a whole number of microseconds, or a span of time such as"),
        (
            "quota = 2000, vcpu_burst = 3000",
            "vcpu_burst 3000: the kernel takes 0 to the quota, 2000",
        ),
        ("vcpu_burst = 3000", ":10:26: vcpu_burst of what? `quota` is no limit"),
        ("shares_per_vcpu = true, shares = 200000", "for 2 vCPUs: shares 400000: libvirt takes"),
        ("vcpupin = [[0], [1], [2]]", ":10:23: 3 lists for 2 vCPUs"),
        ("vcpupin = [[4]]", ":10:25: pCPU 4: the host has pCPUs 0 to 3"),
        ("vcpusched = { scheduler = 'fifo' }", "`priority` is missing: 1 to 99"),
        ("vcpusched = { scheduler = 'rr', priority = 100 }", "priority 100: 1 to 99"),
        ("vcpusched = { scheduler = 'deadline' }", "unknown value `deadline`"),
        ("vcpusched = [{ scheduler = 'idle', vcpus = [2] }]", "number 2: there are 0 to 1"),
        ("vcpusched = { scheduler = 'idle', iothreads = [1] }", "give `vcpus` here"),
        ("iothreadpin = [[0]]", ":10:27: the VM has no I/O threads; give it `iothreads`"),
        ("nice = 20", ":10:20: nice 20: the kernel takes -20 to 19"),
        ("nice = [0, 0, 0]", "3 values for 2 vCPUs"),
        ("slice = '1us'", "slice 1us: the kernel takes 0.1ms to 100ms"),
        ("cfs_quota = 1000", "unknown key `cfs_quota`"),
    ] {
        let message = message("shares = 2048, quota = 50000", to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

#[test]
fn what_has_no_place_is_refused() {
    let flat =
        KVM.replace("\"libvirt\"", "\"flat\"").replace("quota = 50000", "global_quota = 50000");
    let message_flat = parse(&flat).unwrap_err().to_string();
    let wanted = "x.toml:10:43: with the layout `flat` a VM has no group of its own";
    assert!(message_flat.starts_with(wanted), "{message_flat}");
    for (from, to, wanted) in [
        (
            "layout = \"libvirt\"\n",
            "",
            ":9:22: shares: the VM is in no control group; give `layout",
        ),
        ("cgroup_version = 1", "cgroup_version = 3", ":6:18: cgroup v3: 1 or 2"),
        ("\"libvirt\"", "\"libvirtd\"", ":5:10: unknown value `libvirtd`; did you mean `libvirt`?"),
        // A limit that nobody would enforce, where it is written.
        (
            "{ kind = \"small-first\" }",
            "{ kind = \"credit\", version = \"today\" }",
            ":10:36: cgroup `machine.slice",
        ),
        (
            "[vm.batch]",
            "[vm.batch]\ncgroup = 'x'",
            ":13:10: no control group is called `x`; there are",
        ),
        (
            "[vm.batch]",
            "[vm.batch]\ncgroup = 'machine.slice'\ncputune.quota = 1000",
            ":14:17: quota: what the VM's `cgroup` has is set in `[[cgroup]]`",
        ),
        ("[vm.batch]", "[[cgroup]]\nname = 'a//b'\n[vm.batch]", ":13:8: `a//b`: names with `/`"),
        (
            "[vm.batch]",
            "[[cgroup]]\nname = 'a'\nshares = 2\nweight = 1\n[vm.batch]",
            "give one of `shares` and `weight`",
        ),
        (
            "[vm.batch]",
            "[[cgroup]]\nname = 'a'\n[[cgroup]]\nname = 'a'\n[vm.batch]",
            ":15:8: two groups are called `a`",
        ),
        (
            "[vm.batch]",
            "[vm.batch]\nemulator = { workload = { kind = 'net-guest' } }",
            "this workload has a VM to itself",
        ),
        (
            "[vm.batch]",
            "[vm.batch]\niothreads = { count = 129, workload = { kind = 'cpu-loop' } }",
            ":13:13: 129 threads besides vCPUs: at most 128",
        ),
    ] {
        let message = message(from, to);
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// Two loops on four pCPUs have half of them; all of it is somebody's.
#[test]
fn shares_of_the_host_add_up() {
    let free = KVM.replace("cputune = { shares = 2048, quota = 50000 }\n", "");
    let outcome = run_with(&free.replace("vcpus = 2", "vcpus = 1"), 1);
    let get = |name: &str| outcome.rows[0].get(name).unwrap_or_else(|| panic!("no {name}"));
    assert!((get("guest_percent") - 50.0).abs() < 0.1, "{}", get("guest_percent"));
    assert!((get("guest_percent") + get("idle_percent") - 100.0).abs() < 1e-9);
    assert!((get("guest_percent") - get("busy_cpus") * 25.0).abs() < 1e-9);
    // Nothing is limited: nothing is said about limits.
    assert_eq!(outcome.rows[0].get("cap_error_percent.web"), None);
}

/// `cap_error_percent` is what arithmetic makes it: a loop alone on its pCPU that nothing holds back runs
/// twice as long as a quota of half of it allows.
#[test]
fn an_error_of_a_cap_is_told() {
    let outcome = run_with(KVM, 1);
    let error = outcome.rows[0].get("cap_error_percent.web").expect("there is a limit");
    let share = outcome.rows[0].get("cpus_used.web").expect("there is a share");
    let each = share / 2.0;
    assert!((error - (each / 0.5 - 1.0).abs() * 100.0).abs() < 0.5, "{error} at {each}");
    assert_eq!(outcome.rows[0].get("cap_error_percent.batch"), None);
}
