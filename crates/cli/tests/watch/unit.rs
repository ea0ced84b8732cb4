//! The unit for systemd, under systemd: VMs in scopes as systemd-machined makes them for libvirt.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use lowtail_control::manage::HostLock;
use lowtail_control::reconcile::{InForce, in_force};
use lowtail_testkit::needs;

use crate::life::{no_scheduler, until};
use crate::vm::Vm;

const UNIT: &str = include_str!("../../../../dist/lowtail.service");
const POLICY: &str = "/etc/lowtail/policy.toml";
const STATE: &str = "/run/lowtail";

/// For a VM with one vCPU.
const WANTED: &str = "[[vm]]\nweight = 300\ncap = \"50%\"\nvcpu_cap = \"40%\"\n";

/// What that comes to, see `values`.
const FULL: [&str; 3] = ["300", "50000 100000", "40000 100000"];

/// Debian has them there, as the README's packages do.
const IP: &str = "/usr/sbin/ip";
const TC: &str = "/usr/sbin/tc";

/// What is told of each value that somebody else has changed.
const FOREIGN: &str = "was changed by somebody else; left alone";

#[test]
fn the_unit_does_what_it_says_under_systemd() {
    let systemd = Command::new(crate::root().join("scripts/systemd")).output().expect("a script");
    let why = format!("no systemd for the guest: {}", String::from_utf8_lossy(&systemd.stderr));
    if needs::skip((!systemd.status.success()).then_some(&why)) {
        return;
    }
    let files = String::from_utf8_lossy(&systemd.stdout).trim_end().to_string();
    // What shows an interface's disciplines. While systemd reads its units, it has a CPU for seconds: the VM needs another one, or it
    // goes to the fair class.
    let said = crate::guest("unit", &[IP, TC], |guest| {
        let guest = guest.set("CPUS", 2);
        guest.set("ROOT", files).set("INIT", "/lib/systemd/systemd").set("MODULES", "yes")
    });
    assert!(said.is_none_or(|said| said.contains("1 passed")));
}

pub(crate) fn inside() {
    install();
    let machine = scope("web");
    killed_it_comes_back(&machine);
    what_systemd_writes_is_left_alone_until_the_next_start(&machine);
    stopped_it_restores_all(&machine);
    // What follows has nothing to do with the scheduler, which takes its time to load.
    let fair = format!("scheduler = \"fair\"\n{WANTED}");
    what_somebody_sets_is_left_alone(&machine, &fair);
    what_a_crash_has_left_is_restored_first(&machine, &fair);
    an_uplink_has_its_disciplines_back(&machine, &fair);
    a_wrong_policy_is_told_once(&machine);
    what_cannot_be_is_not_tried_for_ever(&machine, &fair);
}

fn install() {
    // The packages' place; the guest has it in /bin.
    std::os::unix::fs::symlink("/bin/lowtail", "/usr/bin/lowtail").expect("a link");
    fs::create_dir_all("/etc/lowtail").expect("a directory");
    fs::write(POLICY, WANTED).expect("a file");
    fs::write("/etc/systemd/system/lowtail.service", UNIT).expect("a file");
    // There is no `man` in the guest to look for the page.
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "/etc/systemd/system/lowtail.service"])
        .output()
        .expect("it starts");
    assert!(verified.status.success() && verified.stderr.is_empty(), "{verified:?}");
    systemctl(&["daemon-reload"]);
}

/// A stand-in in a scope of systemd's: its process is put there, then makes groups below, as libvirt does.
#[expect(clippy::zombie_processes, reason = "it ends with the guest")]
fn scope(name: &str) -> Vm {
    let begun = format!("/run/{name}");
    let args = "--vcpus 1 --vhost 1 --do serve --every 5000 --work 100";
    // A group with processes has no controllers for those below: the shell leaves it first.
    let script = format!(
        "group=/sys/fs/cgroup$(sed 's/^0:://' /proc/self/cgroup); mkdir \"$group/shell\"; \
         echo $$ >\"$group/shell/cgroup.procs\"; \
         exec lowtail-standin --as libvirt --name {name} {args} >{begun}"
    );
    let unit = format!("machine-qemu\\x2d1\\x2d{name}.scope");
    Command::new("systemd-run")
        .args([
            "--quiet",
            "--scope",
            "--slice=machine.slice",
            "-p",
            "Delegate=yes",
            "--unit",
            &unit,
        ])
        .args(["sh", "-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .expect("it starts");
    let read = || fs::read_to_string(&begun).unwrap_or_default();
    until("the stand-in begins", || read().ends_with('\n'));
    let machine = Vm::of(serde_json::from_str(&read()).expect("as it prints"));
    assert!(machine.group().ends_with(Path::new("machine.slice").join(unit)), "{machine:?}");
    machine
}

fn systemctl(words: &[&str]) -> Output {
    let output = Command::new("systemctl").args(words).output().expect("it starts");
    assert!(output.status.success(), "{words:?}: {output:?}");
    output
}

/// Starts have a limit, by which this test is not to be stopped. A unit that has ended well is forgotten, and its starts with it.
fn begin(verb: &str) {
    let _ = Command::new("systemctl").args(["reset-failed", "lowtail"]).output();
    systemctl(&[verb, "lowtail"]);
}

/// A property of the unit.
fn show(property: &str) -> String {
    let output = systemctl(&["show", "-P", property, "lowtail"]);
    String::from_utf8(output.stdout).expect("text").trim_end().to_string()
}

/// How often the unit has said so.
fn said(what: &str) -> usize {
    let journal = ["--no-pager", "-o", "cat", "-u", "lowtail"];
    let output = Command::new("journalctl").args(journal).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).matches(what).count()
}

/// Weight and limit of its scope, and the limit of its vCPU's group below.
fn values(machine: &Vm) -> [String; 3] {
    ["cpu.weight", "cpu.max", "libvirt/vcpu0/cpu.max"].map(|name| {
        fs::read_to_string(machine.group().join(name)).expect("it lives").trim_end().to_string()
    })
}

/// Whether the scheduler has the VM; settings were before it.
fn has_it() -> bool {
    matches!(
        in_force(Path::new(STATE)).expect("as written"),
        Some(InForce::Yes { machines: 1, .. })
    )
}

/// Waits until all of the policy is in force.
fn comes_into_force(machine: &Vm) {
    until("it is in force", has_it);
    assert_eq!(values(machine), FULL);
    // Its process, its vCPU, its worker.
    assert_eq!(machine.in_class(), 3);
    assert_eq!(show("ActiveState"), "active");
}

/// All is byte for byte as it was, and nothing is written down.
fn is_as_before(machine: &Vm) {
    assert_eq!(machine.changed(), Vec::<String>::new());
    assert!(no_scheduler() && !Path::new(STATE).join("host.ledger").exists());
}

/// What ExecStopPost= does comes before Restart=.
fn killed_it_comes_back(machine: &Vm) {
    begin("start");
    comes_into_force(machine);
    systemctl(&["kill", "-s", "KILL", "lowtail"]);
    until("it is restored", || show("SubState") == "auto-restart");
    is_as_before(machine);
    comes_into_force(machine);
    assert_eq!(show("NRestarts"), "1");
}

/// When it reads its units again, systemd writes what it knows of a scope. Of groups that are not its own, and of threads, it
/// knows nothing.
fn what_systemd_writes_is_left_alone_until_the_next_start(machine: &Vm) {
    let before = said(FOREIGN);
    systemctl(&["daemon-reload"]);
    let written = ["100", "max 100000", "40000 100000"];
    assert_eq!(values(machine), written);
    until("it is told", || said(FOREIGN) == before + 2);
    // While systemd computes, the fair class may have the VM for a while.
    until("its threads have their class", || machine.in_class() == 3);
    assert_eq!(values(machine), written);
    begin("restart");
    comes_into_force(machine);
}

fn stopped_it_restores_all(machine: &Vm) {
    let begun = Instant::now();
    systemctl(&["stop", "lowtail"]);
    println!("stopped in {:?}", begun.elapsed());
    // One that takes longer than TimeoutStopSec= is killed, and has failed.
    assert_eq!(show("ActiveState"), "inactive");
    is_as_before(machine);
}

/// Its end says that not all could be restored: what is somebody else's stays.
fn what_somebody_sets_is_left_alone(machine: &Vm, policy: &str) {
    let unit = machine.group().file_name().expect("a name").to_string_lossy().into_owned();
    fs::write(POLICY, policy).expect("a file");
    begin("start");
    until("it is in force", || values(machine) == FULL);
    let before = said(FOREIGN);
    // It writes the limit that it knows as well.
    systemctl(&["set-property", "--runtime", &unit, "CPUWeight=77"]);
    until("it is told", || said(FOREIGN) == before + 2);
    assert_eq!(values(machine), ["77", "max 100000", "40000 100000"]);
    systemctl(&["stop", "lowtail"]);
    assert_eq!((show("ActiveState"), show("ExecMainStatus")), ("failed".into(), "1".into()));
    assert_eq!(values(machine), ["77", "max 100000", "max 100000"]);
    // What was there before lowtail is known until it is there again.
    assert!(Path::new(STATE).join("host.ledger").exists());
    systemctl(&["set-property", "--runtime", &unit, "CPUWeight="]);
    let reverted = Command::new("lowtail").args(["host", "revert"]).output().expect("it starts");
    assert!(reverted.status.success(), "{reverted:?}");
    is_as_before(machine);
}

/// One without the unit, killed: nobody has restored anything. The unit's policy is another one.
fn what_a_crash_has_left_is_restored_first(machine: &Vm, policy: &str) {
    fs::write(POLICY, policy).expect("a file");
    let mut command = Command::new("lowtail");
    command.args(["host", "apply", POLICY, "--watch", "--no-look", "--quiet"]);
    let mut child = command.spawn().expect("it starts");
    until("it is in force", || values(machine) == FULL);
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    assert_eq!(values(machine), FULL);
    fs::write(POLICY, "scheduler = \"fair\"\n[[vm]]\nweight = 200\n").expect("a file");
    begin("start");
    until("it is in force", || values(machine) == ["200", "max 100000", "max 100000"]);
    systemctl(&["stop", "lowtail"]);
    is_as_before(machine);
}

/// Disciplines and programs of an interface, as the kernel tells them.
fn queues() -> String {
    ["qdisc show dev nic", "filter show dev nic egress"]
        .map(|words| {
            let output = Command::new("tc").arg("-d").args(words.split(' ')).output();
            let output = output.expect("it starts");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).expect("text")
        })
        .concat()
}

/// The network under what the unit forbids itself: killed, begun again, stopped.
fn an_uplink_has_its_disciplines_back(machine: &Vm, policy: &str) {
    for module in ["veth", "sch_tbf", "sch_prio", "sch_fq_codel", "sch_ingress", "cls_bpf"] {
        let loaded = Command::new("modprobe").arg(module).status().expect("busybox has it");
        assert!(loaded.success(), "{module}");
    }
    for words in ["link add nic type veth peer name end", "link set end up", "link set nic up"] {
        let done = Command::new("ip").args(words.split(' ')).status().expect("it starts");
        assert!(done.success(), "{words}");
    }
    let before = queues();
    fs::write(POLICY, format!("{policy}[[uplink]]\nname = \"nic\"\nrate = \"50Mbit/s\"\n"))
        .expect("a file");
    let in_force = || {
        let queues = queues();
        values(machine) == FULL && queues.contains("clsact") && queues.contains("bpf")
    };
    begin("start");
    until("it is in force", in_force);
    assert!(queues().contains("fq_codel"), "{}", queues());
    systemctl(&["kill", "-s", "KILL", "lowtail"]);
    until("it is restored", || show("SubState") == "auto-restart");
    assert_eq!(queues(), before);
    until("it is in force again", in_force);
    systemctl(&["stop", "lowtail"]);
    assert_eq!(queues(), before);
    is_as_before(machine);
}

/// With its place, in the journal, and systemd does not try again.
fn a_wrong_policy_is_told_once(machine: &Vm) {
    fs::write(POLICY, "[[vm]]\nwieght = 3\n").expect("a file");
    begin("start");
    until("it ends", || show("ActiveState") == "failed");
    assert_eq!((show("ExecMainStatus"), show("NRestarts")), ("3".into(), "0".into()));
    // A service that systemd will start again is `activating (auto-restart)` until then, systemd.service(5); this one is over.
    assert_eq!((show("SubState"), show("NRestarts")), ("failed".into(), "0".into()));
    assert_eq!(said("policy.toml:2:1: unknown key `wieght`; did you mean `weight`?"), 1);
    is_as_before(machine);
}

/// Somebody else holds this host. That may end, so that it is tried again, but not for ever; nor is what the other one has done reverted.
fn what_cannot_be_is_not_tried_for_ever(machine: &Vm, policy: &str) {
    fs::write(POLICY, policy).expect("a file");
    let hold = HostLock::take(Path::new(STATE)).expect("nobody holds it");
    begin("start");
    until("it gives up", || show("ActiveState") == "failed");
    assert_eq!(said("Start request repeated too quickly"), 1);
    // As often as StartLimitBurst= lets it: 4 is what lacks on the host.
    assert_eq!(said("Main process exited, code=exited, status=4"), 5);
    drop(hold);
    begin("start");
    until("it is in force", || values(machine) == FULL);
    systemctl(&["stop", "lowtail"]);
    is_as_before(machine);
}
