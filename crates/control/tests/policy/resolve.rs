//! What policies come to, for VMs and hosts that are made up.

use std::collections::BTreeMap;

use lowtail_control::desired::{
    HostCapabilities, Target, VcpusBy, Wanted, machines, resolve, settings,
};
use lowtail_control::manage::Key;
use lowtail_discover::{Found, Group, Kind, KnownBy, NamedBy, Origin, Role, Users, Vm, VmThread};
use lowtail_kernel::Name;
use lowtail_kernel::cgroup::Version;

use crate::parse;

const NO_ENTRY: &str = "no entry fits web: weights stay";

pub(crate) fn capabilities(version: Option<Version>) -> HostCapabilities {
    HostCapabilities {
        hierarchy: version,
        cpus: [0, 1, 2, 3].into(),
        kernel: (6, 12),
        small_first: Err("the kernel has no sched_ext".to_string()),
        libvirt_labels: BTreeMap::new(),
        users: Users::default(),
        missing_users: Vec::new(),
        aside: Default::default(),
        held: Default::default(),
        xen: None,
    }
}

/// Two vCPUs, an emulator, an I/O thread, a vhost worker; with groups of its own as libvirt makes them, or without.
pub(crate) fn vm(name: &str, kind: Kind, groups: bool) -> Vm {
    let roles = [
        (Role::Emulator, "emulator"),
        (Role::Vcpu(0), "vcpu0"),
        (Role::Vcpu(1), "vcpu1"),
        (Role::IoThread(1), "iothread1"),
        (Role::Vhost(0), "emulator"),
    ];
    let path = |group: &str| format!("m/{name}/{group}").into();
    let threads = (10..).zip(roles).map(|(tid, (role, group))| VmThread {
        tid,
        role,
        comm: Name::new("x"),
        cgroup: groups.then(|| path(group)),
    });
    let labels = ["emulator", "iothread1", "vcpu0", "vcpu1"];
    let own = labels.iter().map(|label| Group {
        label: Name::new(*label),
        path: path(label),
        shared: false,
    });
    Vm {
        name: Name::new(name),
        kind,
        origin: match kind {
            Kind::Libvirt => Origin::libvirt(),
            _ => Origin::declared(),
        },
        pid: 10,
        started_ticks: 1,
        cgroup: groups.then(|| format!("m/{name}").into()),
        labels: BTreeMap::new(),
        threads: threads.collect(),
        taps: Vec::new(),
        groups: if groups { own.collect() } else { Vec::new() },
    }
}

/// `m/web/vcpu0 cpu.max = 50000 100000`.
fn told(wanted: &Wanted) -> Vec<String> {
    let wish = |target: &Target| match target {
        Target::Group(path, key) => format!("{} {key}", path.display()),
        Target::Thread(tid) => format!("thread {tid}"),
    };
    wanted.desired.iter().map(|w| format!("{} = {}", wish(&w.target), w.to)).collect()
}

#[track_caller]
fn check(text: &str, vm: Vm, capabilities: &HostCapabilities, desired: &[&str], notes: &[&str]) {
    let wanted = resolve(&parse(text).expect(text), &[vm], capabilities);
    assert_eq!(told(&wanted), desired, "{text}");
    let told: Vec<String> = wanted.notes.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), notes.len(), "{text}: {told:?}");
    for (told, note) in told.iter().zip(notes) {
        assert!(told.contains(note), "{text}: {told}");
    }
}

/// `scheduler = "fair"`, which says nothing of sched_ext, and one VM with all there is.
#[track_caller]
fn fair(entry: &str, version: Version, desired: &[&str], notes: &[&str]) {
    let text = format!("scheduler = \"fair\"\n[[vm]]\n{entry}");
    check(&text, vm("web", Kind::Qemu, true), &capabilities(Some(version)), desired, notes);
}

/// Shares scale with vCPUs: a VM of two gets twice what one of one gets. Weight 100 of v2 is 1024 shares of v1
/// (cgroup-v2.rst).
#[test]
fn weights_are_per_vcpu() {
    fair("", Version::V2, &["m/web cpu.weight = 200"], &[]);
    fair("", Version::V1, &["m/web cpu.shares = 2048"], &[]);
    fair("weight = 300", Version::V2, &["m/web cpu.weight = 600"], &[]);
    fair("weight = 25", Version::V1, &["m/web cpu.shares = 512"], &[]);
    fair("weight = \"keep\"", Version::V2, &[], &[]);
    fair("manage = false", Version::V2, &[], &[]);
    // The ends of the kernel's ranges.
    fair("weight = 9000", Version::V2, &["m/web cpu.weight = 10000"], &["ends at 10000"]);
    let emulator = ["m/web cpu.shares = 2048", "m/web/emulator cpu.shares = 512"];
    fair("emulator_weight = 50", Version::V1, &emulator, &[]);
}

/// sched-bwc.rst and cgroup-v2.rst have the files; 100 ms are the kernel's period.
#[test]
fn caps_are_of_the_machine_and_of_its_parts() {
    let keep = |cap: &str| format!("weight = \"keep\"\n{cap}");
    fair(
        &keep("cap = \"150%\""),
        Version::V2,
        &["m/web cpu.max = 150000 100000", "m/web cpu.max.burst = 0"],
        &[],
    );
    fair(
        &keep("cap = \"150%\""),
        Version::V1,
        &[
            "m/web cpu.cfs_quota_us = 150000",
            "m/web cpu.cfs_period_us = 100000",
            "m/web cpu.cfs_burst_us = 0",
        ],
        &[],
    );
    fair(&keep("cap = \"none\""), Version::V2, &["m/web cpu.max = max"], &[]);
    fair(&keep("cap = \"none\""), Version::V1, &["m/web cpu.cfs_quota_us = -1"], &[]);
    fair(
        &keep("vcpu_cap = { quota = \"5ms\", period = \"10ms\", burst = \"2ms\" }"),
        Version::V2,
        &[
            "m/web/vcpu0 cpu.max = 5000 10000",
            "m/web/vcpu0 cpu.max.burst = 2000",
            "m/web/vcpu1 cpu.max = 5000 10000",
            "m/web/vcpu1 cpu.max.burst = 2000",
        ],
        &[],
    );
    fair(
        &keep("emulator_cap = \"20%\"\niothread_cap = \"none\""),
        Version::V2,
        &[
            "m/web/emulator cpu.max = 20000 100000",
            "m/web/emulator cpu.max.burst = 0",
            "m/web/iothread1 cpu.max = max",
        ],
        &[],
    );
    let desired = ["m/web cpu.max = 200000 100000", "m/web cpu.max.burst = 0"];
    fair(&keep("cap = \"200%\""), Version::V2, &desired, &["hardly limits 2 vCPUs"]);
    let old = HostCapabilities { kernel: (5, 13), ..capabilities(Some(Version::V2)) };
    let burst = "scheduler = \"fair\"\n[[vm]]\nweight = \"keep\"\ncap = { quota = \"5ms\", burst = \"1ms\" }";
    let desired = ["m/web cpu.max = 5000 100000"];
    check(burst, vm("web", Kind::Qemu, true), &old, &desired, &["needs Linux 5.14"]);
}

#[test]
fn slices_need_their_kernel_and_the_fair_class() {
    let entry = "[[vm]]\nweight = \"keep\"\nslice = \"1ms\"";
    let text = |scheduler: &str| format!("scheduler = \"{scheduler}\"\n{entry}");
    let desired = ["thread 11 = slice_ns=1000000", "thread 12 = slice_ns=1000000"];
    let machine = || vm("web", Kind::Qemu, true);
    check(&text("fair"), machine(), &capabilities(Some(Version::V2)), &desired, &[]);
    let old = HostCapabilities { kernel: (6, 11), ..capabilities(Some(Version::V2)) };
    check(
        &text("fair"),
        machine(),
        &old,
        &[],
        &["web: a slice cannot be set here: it needs Linux 6.12, this is 6.11"],
    );
    let ext = HostCapabilities { small_first: Ok(()), ..capabilities(Some(Version::V2)) };
    let notes = [
        "small-first runs VMs only when no ordinary thread wants the CPU",
        "small_first has one for all",
    ];
    check(&text("auto"), machine(), &ext, &[], &notes);
    check(&text("none"), machine(), &ext, &[], &[]);
    let workers = "scheduler = \"none\"\n[workers]\nslice = \"200us\"";
    let desired = ["thread 13 = slice_ns=200000", "thread 14 = slice_ns=200000"];
    check(workers, machine(), &ext, &desired, &[]);
}

#[test]
fn what_cannot_be_set_is_said() {
    let v2 = capabilities(Some(Version::V2));
    let alone = || vm("web", Kind::Qemu, false);
    // In a group with others a vCPU's weight is a nice value; one step is a factor of 1.25.
    let desired = ["thread 11 = nice=-5", "thread 12 = nice=-5"];
    check("scheduler = \"fair\"\n[[vm]]\nweight = 305", alone(), &v2, &desired, &[]);
    check("scheduler = \"fair\"", alone(), &v2, &[], &[]);
    let caps =
        "scheduler = \"fair\"\n[[vm]]\ncap = \"50%\"\nvcpu_cap = \"20%\"\nemulator_weight = 5";
    let notes = [
        "web: cap cannot be set",
        "web: vcpu_cap cannot be set",
        "web: emulator_weight cannot be set",
    ];
    check(caps, alone(), &v2, &[], &notes);
    check(
        "scheduler = \"fair\"",
        alone(),
        &capabilities(None),
        &[],
        &["no CPU controller of control groups"],
    );
    check("", alone(), &v2, &[], &["no sched_ext"]);
    check(
        "scheduler = \"fair\"\n[[vm]]\ntitle = \"x\"",
        alone(),
        &v2,
        &[],
        &["entries with `title` fit nothing: what libvirt says", NO_ENTRY],
    );
    check(
        "scheduler = \"fair\"\n[[vm]]\nmetadata = { \"a/b\" = \"x\" }",
        alone(),
        &v2,
        &[],
        &["entries with `metadata` fit nothing: what libvirt says", NO_ENTRY],
    );
    // Labels may be on the group; only a VM of libvirt's may have others.
    let label = "scheduler = \"fair\"\n[[vm]]\nlabel = { a = \"x\" }";
    check(label, alone(), &v2, &[], &[NO_ENTRY]);
    let notes = ["labels in libvirt's metadata", NO_ENTRY];
    check(label, vm("web", Kind::Libvirt, false), &v2, &[], &notes);
}

/// Whoever names one VM does not mean all others; whoever names none means all.
#[test]
fn others_keep_their_weight() {
    let v2 = capabilities(Some(Version::V2));
    let web = || vm("web", Kind::Qemu, true);
    let named = "scheduler = \"fair\"\n[[vm]]\nname = \"db\"\nweight = 400";
    check(named, web(), &v2, &[], &[NO_ENTRY]);
    let weighed = ["m/web cpu.weight = 200"];
    check(&format!("others = \"weigh\"\n{named}"), web(), &v2, &weighed, &[]);
    check("scheduler = \"fair\"", web(), &v2, &weighed, &[]);
    check("scheduler = \"fair\"\nothers = \"keep\"", web(), &v2, &[], &[NO_ENTRY]);
    check("scheduler = \"none\"\nothers = \"keep\"", web(), &v2, &[], &[]);
}

/// The guard has reverted it: nothing of it is touched, and the reason is told.
#[test]
fn what_is_held_is_not_touched() {
    let mut v2 = capabilities(Some(Version::V2));
    v2.held = BTreeMap::from([((10, 1), "it was late".to_string())]);
    let text = "scheduler = \"fair\"\n[[vm]]\nweight = 400\ncap = \"50%\"";
    check(text, vm("web", Kind::Qemu, true), &v2, &[], &["not touched: web: it was late"]);
}

/// What a policy takes from a VM on purpose is measured against the policy's goals alone, and a tenant's VM against none.
#[test]
fn who_has_which_goals() {
    let text = "[[vm]]\nname = \"w*\"\nweight = 10\n[[vm]]\nname = \"c*\"\ncap = \"50%\"\n\
                [[goal]]\nvm = [\"web\", \"own\"]\np99 = \"1ms\"";
    let policy = parse(text).expect(text);
    let of = |vm: Vm| {
        let machines = machines(&policy, &[vm], &capabilities(None));
        (machines[0].goal.is_some(), machines[0].by_default)
    };
    let qemu = |name| vm(name, Kind::Qemu, true);
    assert_eq!(of(qemu("web")), (true, false));
    assert_eq!(of(qemu("ci")), (false, false));
    assert_eq!(of(qemu("own")), (true, true));
    assert_eq!(of(qemu("db")), (false, true));
    assert_eq!(of(tenants("web", true)), (false, false));
}

#[test]
fn who_schedules() {
    let ext = HostCapabilities { small_first: Ok(()), ..capabilities(Some(Version::V2)) };
    let without = capabilities(Some(Version::V2));
    for (scheduler, capabilities, wanted, fatal) in [
        ("auto", &ext, VcpusBy::SmallFirst, false),
        ("auto", &without, VcpusBy::Fair, false),
        ("sched-ext", &ext, VcpusBy::SmallFirst, false),
        ("sched-ext", &without, VcpusBy::Fair, true),
        ("fair", &ext, VcpusBy::Fair, false),
        ("none", &ext, VcpusBy::Untouched, false),
    ] {
        let policy = parse(&format!("scheduler = \"{scheduler}\"")).expect(scheduler);
        let got = resolve(&policy, &[vm("web", Kind::Qemu, true)], capabilities);
        assert_eq!(got.vcpus, wanted, "{scheduler}");
        assert_eq!(got.notes.iter().any(|note| note.fatal), fatal, "{scheduler}");
        let told = got
            .notes
            .iter()
            .any(|note| note.to_string().contains("no ordinary thread wants the CPU"));
        assert_eq!(told, wanted == VcpusBy::SmallFirst, "{scheduler}");
        // Weights count under sched_ext as well.
        assert_eq!(got.desired.is_empty(), scheduler == "none", "{scheduler}");
    }
}

#[test]
fn what_libvirt_owns_is_marked() {
    let policy = parse("[[vm]]\nslice = \"1ms\"").expect("a policy");
    let capabilities = capabilities(Some(Version::V2));
    let libvirts = |kind| {
        let wanted = resolve(&policy, &[vm("web", kind, true)], &capabilities);
        wanted.desired.iter().map(|wish| wish.libvirts).collect::<Vec<bool>>()
    };
    // The group is, the threads are not.
    assert_eq!(libvirts(Kind::Libvirt), [true, false, false]);
    assert_eq!(libvirts(Kind::Qemu), [false; 3]);
    let key = resolve(&policy, &[vm("web", Kind::Libvirt, true)], &capabilities).desired.remove(0);
    assert_eq!(key.target, Target::Group("m/web".into(), Key::CpuWeight));
    assert!(key.why.contains("2 vCPUs of web") && key.why.contains("libvirt"), "{}", key.why);
}

/// Without the feature `libvirt`, and with it where nobody answers: it is said once, not for each VM.
#[test]
fn where_libvirt_is_not_asked_that_is_said_once() {
    let policy =
        parse("libvirt = \"qemu+unix:///system?socket=/nowhere/sock\"\nscheduler = \"fair\"");
    let policy = policy.expect("a policy");
    let vms = vec![vm("web", Kind::Libvirt, true), vm("db", Kind::Libvirt, true)];
    let told = |vms: Vec<Vm>| {
        let found = Found { vms, ..Found::default() };
        let notes = settings(&policy, &found, &capabilities(Some(Version::V2))).notes;
        let notes = notes.iter().map(ToString::to_string);
        notes.filter(|note| note.contains("control groups directly")).count()
    };
    assert_eq!(told(vms), 1);
    assert_eq!(told(vec![vm("web", Kind::Qemu, true)]), 0);
}

/// The same VM as [`vm`] has it, with this name by user 1000, who runs it.
fn tenants(name: &str, groups: bool) -> Vm {
    let of = vm(name, Kind::Qemu, groups);
    let (uid, named_by) = (Some(1000), NamedBy::User(1000));
    let known_by = KnownBy::Kvm;
    Vm { origin: Origin { known_by, named_by, uid, root_cgroup: false }, ..of }
}

/// Nothing that a tenant chooses raises it: a name, a number of vCPUs, I/O threads. Limits hold for it, and a limit is
/// not taken away.
#[test]
fn a_tenant_is_limited_and_nothing_else() {
    let only = "only limits are in force for web (user 1000)";
    let capabilities = |version| capabilities(Some(version));
    for groups in [true, false] {
        for version in [Version::V1, Version::V2] {
            let fair = |entry: &str| format!("scheduler = \"fair\"\n{entry}");
            for entry in [
                "",
                "[[vm]]\nname = \"w*\"\nweight = 1000\nworker_weight = 1000",
                "[[vm]]\ncgroup = \"*\"\nweight = 1000",
                "[[vm]]\nkind = \"qemu\"\nweight = 1000\nslice = \"1ms\"",
                "[[vm]]\nweight = 1000\nemulator_weight = 1000\ncap = \"none\"",
                "[workers]\nweight = 1000\nslice = \"1ms\"",
            ] {
                check(&fair(entry), tenants("web", groups), &capabilities(version), &[], &[only]);
            }
        }
    }
    let cap = "scheduler = \"fair\"\n[[vm]]\ncap = \"50%\"\nweight = 500";
    let desired = ["m/web cpu.max = 50000 100000", "m/web cpu.max.burst = 0"];
    check(cap, tenants("web", true), &capabilities(Version::V2), &desired, &[only]);
    // The policy says that the user may.
    let may = "scheduler = \"fair\"\nusers = [1000]\n[[vm]]\nname = \"web\"\nweight = 500";
    let mut told = capabilities(Version::V2);
    told.ask_users(&parse(may).expect(may));
    check(may, tenants("web", true), &told, &["m/web cpu.weight = 1000"], &[]);
    told.ask_users(&parse("users = [999, \"no-such-user\"]").expect("a policy"));
    let missing = "this host has no user `no-such-user`";
    check("scheduler = \"fair\"", tenants("web", true), &told, &[], &[missing, only]);
}

/// A group of root's, or a label there, chooses a VM that somebody else runs.
#[test]
fn roots_group_chooses_a_tenants_machine() {
    let mut own = tenants("web", true);
    own.origin.root_cgroup = true;
    let capabilities = capabilities(Some(Version::V2));
    let by_group = "scheduler = \"fair\"\n[[vm]]\ncgroup = \"m/*\"\nweight = 50";
    check(by_group, own.clone(), &capabilities, &["m/web cpu.weight = 100"], &[]);
    own.labels.insert("tier".to_string(), "front".to_string());
    let by_label = "scheduler = \"fair\"\n[[vm]]\nlabel = { tier = \"front\" }\nweight = 50";
    check(by_label, own.clone(), &capabilities, &["m/web cpu.weight = 100"], &[]);
    own.origin.named_by = NamedBy::Cgroup;
    let by_name = "scheduler = \"fair\"\n[[vm]]\nname = \"web\"\nweight = 50";
    check(by_name, own, &capabilities, &["m/web cpu.weight = 100"], &[]);
}

/// More vCPUs than the host has CPUs count as many as those, but for libvirt's, whose number the operator has chosen.
#[test]
fn vcpus_count_up_to_the_hosts_cpus() {
    let many = |kind| {
        let mut vm = vm("web", kind, true);
        vm.threads.extend((2..200).map(|n| VmThread {
            tid: 100 + u32::from(n),
            role: Role::Vcpu(n),
            comm: Name::new("x"),
            cgroup: None,
        }));
        vm
    };
    let capabilities = capabilities(Some(Version::V1));
    let fair = "scheduler = \"fair\"";
    check(fair, many(Kind::Qemu), &capabilities, &["m/web cpu.shares = 4096"], &[]);
    check(fair, many(Kind::Libvirt), &capabilities, &["m/web cpu.shares = 204800"], &[]);
    let mut tenants = many(Kind::Qemu);
    tenants.origin = self::tenants("web", true).origin;
    check(fair, tenants, &capabilities, &[], &["only limits"]);
}
