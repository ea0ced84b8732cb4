//! `host plan`, `apply`, `status`, `revert`: on stand-ins in control groups of their own, and on nobody else.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_standin::{Standin, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::host::root;
use super::*;

/// A stand-in of two vCPUs in libvirt's groups, and the files of its group that say what it gets.
struct Vm {
    name: String,
    group: PathBuf,
    hierarchy: Hierarchy,
    _standin: Standin,
}

impl Vm {
    fn new(name: &str) -> Self {
        let hierarchy = Hierarchy::find().expect("control groups");
        let name = format!("{name}{}", std::process::id());
        let standin = start(&format!("--as libvirt --name {name} --vcpus 2"));
        let standin = standin.expect("a stand-in");
        let group = format!("machine.slice/machine-qemu\\x2d1\\x2d{name}.scope");
        let group = hierarchy.root.join(group);
        Vm { name, group, hierarchy, _standin: standin }
    }

    fn file(&self) -> PathBuf {
        self.group.join(match self.hierarchy.version {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        })
    }

    /// Its weight as cgroup v2 has it; 1024 shares of v1 are 100 (cgroup-v2.rst).
    fn weight(&self) -> f64 {
        let text = fs::read_to_string(self.file()).expect("a weight");
        let number: f64 = text.trim().parse().expect("a number");
        match self.hierarchy.version {
            Version::V1 => number * 100.0 / 1024.0,
            Version::V2 => number,
        }
    }

    /// A policy that gives this one `weight`, and touches no other.
    fn policy(&self, rest: &str) -> String {
        let name = &self.name;
        format!("scheduler = \"fair\"\n[[vm]]\nname = \"{name}\"\n{rest}\n[[vm]]\nmanage = false\n")
    }
}

/// There is root, control groups are there.
fn may() -> Option<()> {
    root()?;
    need(Hierarchy::find().ok().map(drop), "no CPU controller of control groups")
}

#[test]
fn the_schema_is_the_shipped_one() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/policy.json");
    let shipped = fs::read_to_string(shipped).expect("a schema");
    assert_eq!(Place::new().line("host schema").expect(0, &[]).out, shipped);
}

/// The example of the guide is a policy.
#[test]
fn the_guide_to_policies_tells_the_truth() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/policy.md");
    let guide = fs::read_to_string(guide).expect("a guide");
    let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let policy = lowtail_control::policy::Policy::parse("guide", example.expect("an example"));
    policy.expect("a policy");
}

#[test]
fn a_wrong_policy_is_told_with_its_place() {
    let place = Place::new();
    place.write("p.toml", "[[vm]]\nwieght = 3\n").write("ext.toml", "scheduler = \"sched-ext\"");
    for command in ["plan", "apply", "apply --watch"] {
        let ran = place.line(&format!("host {command} p.toml --state s"));
        ran.expect(3, &["p.toml:2:1: unknown key `wieght`; did you mean `weight`?"]);
        place.line(&format!("host {command} none.toml --state s")).expect(3, &["none.toml"]);
        place.line(&format!("host {command} --state s")).expect(2, &["<FILE>"]);
    }
    if !Path::new("/sys/kernel/sched_ext").exists() {
        place.line("host plan ext.toml --state s").expect(4, &["the kernel has no sched_ext"]);
    }
    assert_eq!(place.names(), ["ext.toml", "p.toml"], "nothing is written");
}

#[test]
fn plan_apply_status_revert() {
    let Some(()) = may() else { return };
    let (place, machine) = (Place::new(), Vm::new("applied"));
    place.write("p.toml", machine.policy("weight = 300\ncap = \"150%\""));
    let plan = place.line("host plan p.toml --state s");
    plan.expect(0, &[]);
    assert!(plan.out.contains("weight 300 for each of 2 vCPUs"), "{}", plan.out);
    assert!(plan.out.contains("libvirt's group"), "{}", plan.out);
    // What the kernel gives a group that nobody has set.
    assert_eq!(machine.weight(), 100.0, "a plan changes nothing");
    let json = place.line("host plan p.toml --state s --json").json();
    let changes = json["plan"]["changes"].as_array().expect("changes").len();
    assert!(changes >= 2 && plan.out.contains(&format!("{changes} settings would change")));
    assert!(!place.path("s").exists(), "nor does it write");

    place.line("host apply p.toml --state s").expect(0, &[]);
    assert_eq!(machine.weight(), 600.0);
    let again = place.line("host apply p.toml --state s");
    assert!(again.expect(0, &[]).out.contains("0 settings would change"), "{}", again.out);
    let status = place.line("host status --state s");
    assert!(status.expect(0, &[]).out.contains("in force"), "{}", status.out);
    let rows = place.line("host status --state s --json").json();
    assert_eq!(rows["status"]["rows"].as_array().expect("rows").len(), changes);

    // Another policy takes the place of the first: what it does not want is restored.
    place.write("q.toml", machine.policy("weight = 200"));
    place.line("host apply q.toml --state s").expect(0, &[]);
    assert_eq!(machine.weight(), 400.0);
    let quota = match machine.hierarchy.version {
        Version::V1 => fs::read_to_string(machine.group.join("cpu.cfs_quota_us")),
        Version::V2 => fs::read_to_string(machine.group.join("cpu.max")),
    };
    assert!(["-1\n", "max 100000\n"].contains(&quota.expect("a quota").as_str()));

    place.line("host revert --state s").expect(0, &[]);
    assert_eq!(machine.weight(), 100.0);
    let nothing = place.line("host status --state s");
    assert!(nothing.expect(0, &[]).out.contains("nothing is changed"), "{}", nothing.out);
    place.line("host revert --state s").expect(0, &[]);
}

#[test]
fn what_somebody_else_has_changed_is_left_alone() {
    let Some(()) = may() else { return };
    let (place, machine) = (Place::new(), Vm::new("foreign"));
    place.write("p.toml", machine.policy("weight = 300"));
    place.line("host apply p.toml --state s -q").expect(0, &[]);
    fs::write(machine.file(), "77").expect("a weight of somebody else's");
    let status = place.line("host status --state s");
    assert!(status.expect(1, &[]).out.contains("changed by somebody else: 77"), "{}", status.out);
    place.line("host apply p.toml --state s").expect(1, &[]);
    let plan = place.line("host plan p.toml --state s");
    assert!(plan.expect(0, &[]).out.contains("left alone: "), "{}", plan.out);
    place.line("host revert --state s").expect(1, &["somebody else has changed it; left alone"]);
    assert_eq!(fs::read_to_string(machine.file()).expect("a weight"), "77\n");
}

/// Follows a VM that comes, is the only one to change the host meanwhile, and ends cleanly.
#[test]
fn watching() {
    let Some(()) = may() else { return };
    let (place, first) = (Place::new(), Vm::new("first"));
    let names = format!("[\"{}\", \"watched{}\"]", first.name, std::process::id());
    let text = first.policy("weight = 300");
    place.write("p.toml", text.replace(&format!("\"{}\"", first.name), &names));
    let mut command = place.command();
    command.args(["host", "apply", "p.toml", "--watch", "--state", "s", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let until = |what: &str, is: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is() {
            // A round is a second; the rest is for a busy VM.
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
            sleep(Duration::from_millis(50));
        }
    };
    until("the first one", &|| first.weight() == 600.0);
    let second = Vm::new("watched");
    until("the second one", &|| second.weight() == 600.0);
    place.line("host apply p.toml --state s").expect(4, &["is changing this host already"]);
    let status = place.line("host status --state s");
    let holder = format!("process {} keeps them in force", child.id());
    assert!(status.expect(0, &[]).out.contains(&holder), "{}", status.out);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it lives");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!((first.weight(), second.weight()), (100.0, 100.0));
    place.line("host status --state s").expect(0, &[]);
}

/// Two vCPUs of a VM that has no group of its own; one of them has a policy that may not be changed, as libvirt's
/// `<vcpusched>` gives it. It is told by all commands, and the other one gets what it shall have.
#[test]
fn what_one_thread_cannot_have_stops_nothing() {
    let Some(()) = may() else { return };
    let place = Place::new();
    let name = format!("rt{}", std::process::id());
    let standin = start(&format!("--name {name} --vcpus 2")).expect("a stand-in");
    let [tid, other] = [0, 1].map(|n| standin.begun.threads[n].0);
    let mut chrt = Command::new("chrt");
    let chrt = chrt.args(["--idle", "-p", "0", &tid.to_string()]).status();
    assert!(chrt.expect("there is a `chrt`").success());
    let shown = || [tid, other].map(|tid| lowtail_standin::shown::thread(tid).expect("it lives"));
    let before = shown();
    let policy = "weight = 300\n[[vm]]\nmanage = false\n";
    place.write("p.toml", format!("scheduler = \"fair\"\n[[vm]]\nname = \"{name}\"\n{policy}"));
    let told = format!("refused: scheduling of thread {tid}: nice=-5: ");
    place.line("host plan p.toml --state s").expect(1, &[&told, "real-time, deadline or idle"]);
    place.line("host apply p.toml --state s --no-look").expect(1, &[&told]);
    let now = shown();
    assert!(now[0] == before[0] && now[1] != before[1], "{now:?}");
    let status = place.line("host status --state s --no-look");
    assert!(status.expect(1, &[]).out.contains(&told), "{}", status.out);
    let json = place.line("host status --state s --no-look --json").json();
    assert_eq!(json["refused"][0]["desired"], "nice=-5");
    let json = place.line("host plan p.toml --state s --json").json();
    assert_eq!(json["plan"]["refused"].as_array().expect("a list").len(), 1);
    place.line("host revert --state s").expect(0, &[]);
    assert_eq!(shown(), before);
    place.line("host status --state s --no-look").expect(0, &[]);
}

/// The name of a thread ends in the middle of a character: what it was given is taken back nevertheless.
#[test]
fn a_thread_whose_name_is_no_utf8() {
    let Some(()) = may() else { return };
    let place = Place::new();
    let name = format!("cut{}", std::process::id());
    let args = format!("--name {name} --vcpus 1 --io 1 --cut-names");
    let standin = start(&args).expect("a stand-in");
    let shown = || lowtail_standin::shown::thread(standin.begun.threads[1].0).expect("it lives");
    let before = shown();
    let policy = "worker_weight = 8668\nweight = \"keep\"\n[[vm]]\nmanage = false\n";
    place.write("p.toml", format!("scheduler = \"fair\"\n[[vm]]\nname = \"{name}\"\n{policy}"));
    place.line("host apply p.toml --state s --no-look").expect(0, &[]);
    assert!(shown()["policy"].contains(" -20 "), "{:?}", shown());
    place.line("host revert --state s").expect(0, &[]);
    assert_eq!(shown(), before);
    assert!(!place.path("s/host.ledger").exists());
}

/// Hundreds of VMs come and go under `apply --watch`: what it says is bounded by time, and says how much it left out.
#[test]
fn churn_fills_no_log() {
    let Some(()) = may() else { return };
    let place = Place::new();
    let name = format!("churn{}", std::process::id());
    let policy = "weight = 300\n[[vm]]\nmanage = false\n";
    place.write("p.toml", format!("scheduler = \"fair\"\n[[vm]]\nname = \"{name}-*\"\n{policy}"));
    let mut command = place.command();
    command.args(["host", "apply", "p.toml", "--watch", "--no-look", "--state", "s"]);
    let [out, err] = ["out", "err"].map(|name| fs::File::create(place.path(name)).expect("a file"));
    let begun = Instant::now();
    let mut child = command.stdout(out).stderr(err).spawn().expect("it starts");
    // The nice value of 300: proc(5) has it as field 19.
    let is_weighed = |machine: &Standin| {
        machine.begun.threads.iter().all(|(tid, _)| {
            let shown = lowtail_standin::shown::thread(*tid).expect("it lives");
            shown["policy"].split(' ').nth(1) == Some("-5")
        })
    };
    let mut most = 0;
    for generation in 0..4 {
        let begin = |n| start(&format!("--name {name}-{generation}-{n} --vcpus 4"));
        let machines: Vec<_> = (0..50).map(|n| begin(n).expect("a stand-in")).collect();
        let until = Instant::now() + Duration::from_secs(60);
        while !machines.iter().all(is_weighed) {
            assert!(Instant::now() < until, "generation {generation}");
            sleep(Duration::from_millis(100));
        }
        most += machines.len();
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it lives");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let said = ["out", "err"].map(|name| fs::read_to_string(place.path(name)).expect("a file"));
    let lines: Vec<&str> = said.iter().flat_map(|text| text.lines()).collect();
    // Of each of five kinds 20 at once, one each 5 s, a count each 10 s and at the end; and what it has restored.
    let seconds = begun.elapsed().as_secs() as usize;
    assert!(
        lines.len() <= 5 * (20 + seconds / 5 + seconds / 10 + 3) + 2,
        "{seconds} s: {lines:#?}"
    );
    assert!(lines.iter().any(|line| line.starts_with("VM churn")), "{lines:#?}");
    let left_out = |what: &str| -> usize {
        let counts =
            lines.iter().filter(|line| line.starts_with("... and ") && line.contains(what));
        counts.filter_map(|line| line.split(' ').nth(2)?.parse::<usize>().ok()).sum()
    };
    // All 200 VMs came, and all changes were made: said, or counted.
    let came = lines.iter().filter(|line| line.starts_with("VM ")).count();
    assert!(came + left_out("VMs") >= most, "{came}: {lines:#?}");
    let changes = lines.iter().filter(|line| line.contains(" -> ")).count();
    assert!(changes + left_out("changes") >= 4 * most, "{changes}: {lines:#?}");
}
