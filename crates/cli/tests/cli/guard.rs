//! `host apply --guard`: stand-ins that share one CPU, and policies that hurt one of them.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lowtail_control::guard::Audit;
use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_standin::{Standin, shown, start};
use lowtail_testkit::traced::{Call, Traced, sigkill};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::host::root;
use super::*;

/// From the change that hurts to its end.
const UNDONE_WITHIN: Duration = Duration::from_secs(10);
/// A round is a second; the rest is for a busy host.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pairs have the same CPU: one after the other.
static ONE: Mutex<()> = Mutex::new(());

/// A server that wakes each 5 ms, and four busy vCPUs, on one CPU.
struct Pair {
    hierarchy: Hierarchy,
    names: [String; 2],
    standins: [Standin; 2],
    before: BTreeMap<String, String>,
    _alone: MutexGuard<'static, ()>,
}

impl Pair {
    /// `None` if there can be none here.
    fn new(tag: &str) -> Option<Self> {
        root()?;
        let hierarchy = need(Hierarchy::find().ok(), "no CPU controller of control groups")?;
        let cpus = std::thread::available_parallelism().expect("a number").get();
        let names = ["web", "batch"].map(|name| format!("{tag}{name}{}", std::process::id()));
        let does = ["--vcpus 1 --do serve --every 5000 --work 100", "--vcpus 4 --do burn"];
        let begin = |n: usize| {
            let (name, does) = (&names[n], does[n]);
            let line = format!("--as libvirt --name {name} {does} --cpu {}", cpus - 1);
            start(&line).expect("a stand-in")
        };
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let standins = [begin(0), begin(1)];
        let before = BTreeMap::new();
        let mut pair = Pair { hierarchy, names, standins, before, _alone: alone };
        pair.before = pair.shown();
        Some(pair)
    }

    /// All that could be changed of both.
    fn shown(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for Standin { begun, .. } in &self.standins {
            for (tid, _) in &begun.threads {
                let shown = shown::thread(*tid).expect("it lives");
                all.extend(shown.into_iter().map(|(what, text)| (format!("{tid} {what}"), text)));
            }
        }
        for name in &self.names {
            let files = shown::group(&self.group(name)).expect("it lives");
            all.extend(files.into_iter().map(|(file, text)| (format!("{name} {file}"), text)));
        }
        all
    }

    fn group(&self, name: &str) -> PathBuf {
        self.hierarchy.root.join(format!("machine.slice/machine-qemu\\x2d1\\x2d{name}.scope"))
    }

    /// Whether the batch VM has more weight than it had.
    fn is_hurting(&self) -> bool {
        let file = match self.hierarchy.version {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        };
        let now = fs::read_to_string(self.group(&self.names[1]).join(file)).expect("a weight");
        self.before[&format!("{} {file}", self.names[1])] != now
    }

    /// All that there is to the batch VM, and a goal for the server that it has alone.
    fn policy(&self) -> String {
        let [web, batch] = &self.names;
        format!(
            "scheduler = \"fair\"\n[[vm]]\nname = \"{batch}\"\nweight = 10000\n[[vm]]\nmanage = false\n\
             [[goal]]\nvm = \"{web}\"\np99 = \"20ms\"\n"
        )
    }
}

fn apply(place: &Place, options: &str) -> Child {
    let mut command = place.command();
    command.args(["host", "apply", "p.toml", "--watch", "--state", "s", "--baseline", "1s"]);
    command.args(options.split_whitespace());
    let [out, err] = ["out", "err"].map(|name| fs::File::create(place.path(name)).expect("a file"));
    command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().expect("it starts")
}

fn said(place: &Place) -> String {
    let read = |name| fs::read_to_string(place.path(name)).expect("a file");
    ["out", "err"].map(read).concat()
}

fn until(place: &Place, what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}: {}", said(place));
        sleep(Duration::from_millis(50));
    }
}

fn end(mut child: Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
    child.wait().expect("a child");
}

/// What a policy would do is said before anything is changed, of each VM; what gets worse is an exit code. How right that is, other tests
/// say: this host has other work.
#[test]
fn what_would_come_is_predicted() {
    let Some(pair) = Pair::new("p") else { return };
    let place = Place::new();
    place.write("p.toml", pair.policy());
    let ran = place.run(["host", "plan", "p.toml", "--state", "s", "--predict=2s", "--json"]);
    let prediction = &ran.json()["prediction"];
    let worse = prediction["worse"].as_array().expect("a list");
    assert_eq!(ran.code, i32::from(!worse.is_empty()), "{worse:?}");
    for name in &pair.names {
        let mut vms = prediction["vms"].as_array().expect("a list").iter();
        let vm = vms.find(|vm| vm["name"] == **name).expect("it was there");
        let cpu = &vm["predicted"]["cpu_ratio"]["median"];
        assert!(cpu.as_f64().is_some_and(|cpu| cpu > 0.0), "{vm}");
    }
    assert_eq!(pair.before, pair.shown(), "nothing was changed");
}

/// Undone, told, remembered, and not tried again until told.
#[test]
fn what_hurts_is_undone() {
    let Some(pair) = Pair::new("u") else { return };
    let place = Place::new();
    place.write("p.toml", pair.policy());
    let child = apply(&place, "");
    until(&place, "it is changed", || pair.is_hurting());
    let begun = Instant::now();
    until(&place, "it is undone", || !pair.is_hurting());
    println!("undone after {:?}", begun.elapsed());
    assert!(begun.elapsed() < UNDONE_WITHIN, "{:?}: {}", begun.elapsed(), said(&place));
    until(&place, "it is sure", || said(&place).contains("its changes stay reverted"));
    assert_eq!(pair.shown(), pair.before);

    let [web, batch] = &pair.names;
    let status = place.line("host status --state s --no-look");
    let out = &status.expect(1, &[]).out;
    assert!(
        out.contains(&format!("the guard has reverted the changes of {batch}: {web}: ")),
        "{out}"
    );
    let json = place.line("host status --state s --no-look --json").json();
    let goals = json["guard"]["goals"].as_array().expect("goals");
    let goal = goals.iter().find(|goal| goal["vm"] == web.as_str()).expect("its goal");
    assert_eq!(goal["goal_p99_seconds"], 0.02);
    assert_eq!(json["guard"]["reverted"][0]["vm"], batch.as_str());
    end(child, Signal::SIGTERM);
    let lines = Audit::read(&place.path("s")).expect("an audit log");
    let decisions: Vec<&str> = lines.iter().map(|line| line.decision.as_str()).collect();
    assert_eq!(decisions, ["apply", "revert", "restore", "keep"]);
    assert!(lines.iter().all(|line| line.vm.as_ref() == Some(batch)), "{lines:?}");

    // The next one knows it, and so does `plan`.
    let child = apply(&place, "");
    until(&place, "it knows", || said(&place).contains(&format!("not touched: {batch}: ")));
    sleep(Duration::from_secs(2));
    assert!(!pair.is_hurting());
    end(child, Signal::SIGTERM);
    let plan = place.line("host plan p.toml --state s");
    plan.expect(0, &[&format!("not touched: {batch}: the guard has reverted its changes")]);
    place.line("host status --state s").expect(1, &[]);
    let child = apply(&place, "--retry");
    until(&place, "it is tried again", || pair.is_hurting());
    end(child, Signal::SIGTERM);
    assert_eq!(pair.shown(), pair.before);
    let lines = Audit::read(&place.path("s")).expect("an audit log");
    assert!(lines.iter().any(|line| line.decision == "retry"), "{lines:?}");
}

/// A kill at moments from before the change to after its revert: what was there is restored byte for byte.
#[test]
fn a_kill_around_a_revert() {
    let Some(pair) = Pair::new("k") else { return };
    let place = Place::new();
    place.write("p.toml", pair.policy());
    let (mut hurting, mut undone) = (0, 0);
    for moment in 0..12 {
        let child = apply(&place, "--retry");
        if moment > 0 {
            until(&place, "it is changed", || pair.is_hurting());
            // To its revert and what follows it takes two to five seconds.
            sleep(Duration::from_millis(600 * (moment - 1)));
        }
        end(child, Signal::SIGKILL);
        let has = pair.is_hurting();
        hurting += u32::from(has);
        undone += u32::from(!has);
        place.line("host revert --state s").expect(0, &[]);
        assert_eq!(pair.shown(), pair.before, "moment {moment}: {}", said(&place));
        assert!(!place.path("s/host.ledger").exists());
    }
    println!("{hurting} killed before the revert, {undone} at the start and after it");
    assert!(hurting > 1 && undone > 1, "{hurting} before, {undone} after");
}

/// Calls of one `apply` from the change that hurts to where it is sure that it stays reverted, killed before number `at` of them.
fn killed_before(pair: &Pair, place: &Place, at: usize) -> Vec<String> {
    let [policy, state] = ["p.toml", "s"].map(|name| place.path(name).display().to_string());
    let line = format!(
        "{} host apply {policy} --watch --quiet --retry --state {state} --baseline 1s",
        env!("CARGO_BIN_EXE_lowtail")
    );
    let kept = || {
        let audit = Audit::read(&place.path("s")).expect("an audit log");
        audit.iter().filter(|line| line.decision == "keep").count()
    };
    let before = kept();
    let mut traced = Traced::start(&line);
    let (begun, mut calls) = (Instant::now(), Vec::new());
    loop {
        assert!(begun.elapsed() < PATIENCE, "{calls:?}");
        let call = traced.next_call().expect("it watches until it is killed");
        // What it sees by itself is no change of the host.
        let Call::Change(what) = call else { continue };
        if what.starts_with("bpf") || calls.is_empty() && !pair.is_hurting() {
            continue;
        }
        calls.push(what);
        if calls.len() > at || kept() > before {
            sigkill(traced.pid);
            return calls;
        }
    }
}

/// The same between any two calls that change something, from the change to the end of its revert: some of them, or all with
/// `LOWTAIL_GUARD_MOMENTS=1000`.
#[test]
fn a_kill_at_any_call_of_a_revert() {
    let Some(pair) = Pair::new("s") else { return };
    let place = Place::new();
    place.write("p.toml", pair.policy());
    let restored = |at: usize, calls: &[String]| {
        place.line("host revert --state s").expect(0, &[]);
        assert_eq!(pair.shown(), pair.before, "killed before {at}: {calls:?}");
        assert!(!place.path("s/host.ledger").exists());
        // What the guard remembers and has written down can be read, wherever it was killed.
        let status = place.line("host status --state s --no-look");
        status.expect(status.code.min(1), &[]);
        Audit::read(&place.path("s")).expect("an audit log");
    };
    let calls = killed_before(&pair, &place, usize::MAX);
    restored(usize::MAX, &calls);
    // The weight, the ledger, what is remembered, and the audit log are written and synced at least.
    assert!(calls.len() > 8, "{calls:?}");
    let most = std::env::var("LOWTAIL_GUARD_MOMENTS").map_or(6, |n| n.parse().expect("a number"));
    let n = calls.len().min(most);
    let mut hurting = 0_usize;
    for nth in 0..n {
        let at = (2 * nth + 1) * calls.len() / (2 * n);
        let calls = killed_before(&pair, &place, at);
        hurting += usize::from(pair.is_hurting());
        restored(at, &calls);
    }
    println!("{n} of {} moments, {hurting} of them before the revert: {calls:?}", calls.len());
    assert!(n < 6 || hurting > 0 && hurting < n, "{hurting} of {n} before the revert: {calls:?}");
}

/// One VM first, then the other one; without `--watch` it ends by itself, and what it has changed stays.
#[test]
fn one_first() {
    let Some(pair) = Pair::new("c") else { return };
    let place = Place::new();
    let [web, batch] = &pair.names;
    let goal =
        format!("[[goal]]\nvm = [\"{web}\", \"{batch}\"]\np99 = \"5s\"\ncpu_loss = \"100%\"");
    place.write(
        "p.toml",
        format!(
            "scheduler = \"fair\"\n[[vm]]\nname = [\"{web}\", \"{batch}\"]\nweight = 101\n\
             [[vm]]\nmanage = false\n{goal}"
        ),
    );
    let ran = place.line("host apply p.toml --guard --canary 1 --baseline 1s --state s");
    let out = &ran.expect(0, &["the next VMs get their changes"]).out;
    let changed = |name: &str| out.find(&format!("vCPUs of {name}")).expect("it is changed");
    assert_ne!(changed(web), changed(batch));
    let lines = Audit::read(&place.path("s")).expect("an audit log");
    let apply = lines.iter().filter(|line| line.decision == "apply");
    let times: Vec<u64> = apply.map(|line| line.unix_ms).collect();
    assert!(times.len() == 2 && times[1] >= times[0] + 2000, "{times:?}");
    place.line("host revert --state s").expect(0, &[]);
    assert_eq!(pair.shown(), pair.before);
}
