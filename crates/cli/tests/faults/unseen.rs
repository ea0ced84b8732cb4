//! Processes that cannot be listed or looked at: nobody is told that there is no VM, and none is taken for gone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lowtail_standin::start;
use serde_json::Value;

use crate::needs::{is_root, skip};

const LOWTAIL: &str = env!("CARGO_BIN_EXE_lowtail");

fn sh(script: &str) -> Output {
    Command::new("sh").args(["-c", script]).output().expect("a shell")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lets a process have so many open files from now on.
fn files(pid: u32, most: u32) {
    let pid = pid.to_string();
    let mut set = Command::new("prlimit");
    set.args(["--pid", &pid, &format!("--nofile={most}:1024")]);
    assert!(set.status().expect("prlimit(1)").success());
}

/// With each number of files either all is seen, or it is said that it is not, with code 4.
#[test]
fn with_few_open_files_all_is_seen_or_told() {
    if skip((!is_root()).then_some("not root")) {
        return;
    }
    let _machine = start("--name few-files --vcpus 7 --do sleep").expect("a stand-in");
    let (mut seen, mut refused) = (0, 0);
    for most in 3..24 {
        let output = sh(&format!("ulimit -n {most}; exec {LOWTAIL} host vms --json"));
        match output.status.code() {
            Some(0) => {
                let vms: Value = serde_json::from_slice(&output.stdout).expect("JSON");
                let vms = vms["vms"].as_array().expect("machines").clone();
                let vm = vms.iter().find(|vm| vm["name"] == "few-files").expect("it is there");
                // And the thread that has begun them.
                assert_eq!(vm["threads"].as_array().expect("threads").len(), 8, "{most}: {vm}");
                seen += 1;
            }
            // The C library cannot be loaded either.
            Some(127) => refused += 1,
            Some(4) => {
                assert!(told(&output).contains("Too many open files"), "{}", told(&output));
                refused += 1;
            }
            code => panic!("{most}: {code:?} {}", told(&output)),
        }
        let output = sh(&format!(
            "ulimit -n {most}; exec {LOWTAIL} host record -o /dev/null --duration 1ms"
        ));
        match output.status.code() {
            Some(0 | 127) => {}
            Some(4) => {
                let told = told(&output);
                assert!(told.contains("open files") || told.contains("EMFILE"), "{most}: {told}");
            }
            code => panic!("{most}: {code:?} {}", told(&output)),
        }
    }
    assert!(seen > 5 && refused > 0, "{seen} {refused}");
}

/// Without /proc nobody says that there is no VM.
#[test]
fn without_proc_there_is_an_error() {
    if skip((!is_root()).then_some("not root")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (policy, state) = (dir.path().join("policy.toml"), dir.path().join("state"));
    fs::write(&policy, "").expect("a file");
    let (policy, state) = (policy.display(), state.display());
    for line in [
        "vms".to_string(),
        "observe --once --no-network".to_string(),
        "record -o /dev/null --duration 1ms".to_string(),
        format!("plan {policy} --state {state}"),
        format!("apply {policy} --watch --state {state}"),
        "doctor".to_string(),
    ] {
        let output = sh(&format!(
            "unshare -m sh -c 'mount -t tmpfs none /proc; exec {LOWTAIL} host {line}'"
        ));
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(4), "{line}: {said}{}", told(&output));
        assert!(!said.contains("no VMs") && !said.contains("no findings"), "{line}: {said}");
    }
}

/// With `hidepid` root sees all, and who does not is told.
#[test]
fn hidden_processes_are_told() {
    if skip((!is_root()).then_some("not root")) {
        return;
    }
    let _machine = start("--name hidden --vcpus 1 --do sleep").expect("a stand-in");
    let dir = tempfile::tempdir().expect("a directory");
    // For others, who may not look into the directory of the tests.
    sh(&format!("chmod 755 {0}; cp {LOWTAIL} {0}/lowtail", dir.path().display()));
    let within = |user: &str| {
        let dir = dir.path().display();
        let output = sh(&format!(
            "unshare -m sh -c 'mount -t proc -o hidepid=2 none /proc && cd / && exec {user} {dir}/lowtail host vms --json'"
        ));
        assert_eq!(output.status.code(), Some(0), "{}", told(&output));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found =
            json["vms"].as_array().expect("machines").iter().any(|vm| vm["name"] == "hidden");
        (found, json["problems"].to_string().contains("hidepid"))
    };
    assert_eq!(within(""), (true, false));
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all";
    assert_eq!(within(nobody), (false, true));
}

/// What a command says, line by line.
struct Lines {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Lines {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(LOWTAIL)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it begins");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Lines { child, lines }
    }

    /// The first line of JSON that this is true of.
    fn until(&mut self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).expect("text") > 0, "{what}: it has ended");
            let json: Value = serde_json::from_str(&line).expect("JSON");
            if is(&json) {
                return json;
            }
        }
        panic!("{what}: not within 30 s");
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An observer that has too many files open for a while: the VM that it knows stays, and is not called well.
#[test]
fn who_cannot_be_looked_at_has_not_ended() {
    if skip((!is_root()).then_some("not root")) {
        return;
    }
    let _machine = start("--name stays --vcpus 2 --do serve --every 5000").expect("a stand-in");
    let mut observer = Lines::start(&[
        "host",
        "observe",
        "stays",
        "--json",
        "--no-network",
        "--interval",
        "300ms",
    ]);
    let vm = |json: &Value| json["vms"].as_array().is_some_and(|vms| vms.len() == 1);
    observer.until("it is seen", |json| vm(json) && json["incomplete"] == false);
    files(observer.child.id(), 4);
    for _ in 0..3 {
        let json = observer.until("that it is not known", |json| json["incomplete"] == true);
        let (stays, coverage_gaps) = (&json["vms"][0], json["coverage_gaps"].to_string());
        assert!(vm(&json) && stays["ended"] == false, "{json}");
        assert_eq!(stays["threads"].as_array().expect("threads").len(), 3, "{json}");
        assert!(
            coverage_gaps.contains("cannot be read") || coverage_gaps.contains("open files"),
            "{coverage_gaps}"
        );
    }
    files(observer.child.id(), 1024);
    let json = observer.until("all again", |json| json["incomplete"] == false);
    assert!(vm(&json), "{json}");
}

/// The same for who keeps a policy: nothing is taken back, and it goes on.
#[test]
fn what_is_in_force_stays() {
    if skip((!is_root()).then_some("not root")) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let machine = start("--name kept --vcpus 1 --workers 1 --do sleep").expect("a stand-in");
    let tid = machine.begun.threads[0].0;
    let nice = || {
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives");
        // proc(5): the 19th field; the first behind the name is the third.
        let fields = stat.rsplit_once(") ").expect("a name").1;
        fields.split(' ').nth(16).expect("a field").parse::<i32>().expect("a number")
    };
    let before = nice();
    let policy = dir.path().join("policy.toml");
    let mut file = fs::File::create(&policy).expect("a file");
    writeln!(file, "scheduler = \"fair\"\n[[vm]]\nname = \"kept\"\nweight = 300").expect("room");
    let state = dir.path().join("state");
    let (policy, state) = (policy.display().to_string(), state.display().to_string());
    let mut watch = Lines::start(&[
        "host",
        "apply",
        &policy,
        "--watch",
        "--no-look",
        "--json",
        "--state",
        &state,
    ]);
    watch.until("it is applied", |json| json["applied"]["changed"].as_u64() > Some(0));
    let applied = nice();
    assert_ne!(applied, before);
    files(watch.child.id(), 4);
    for _ in 0..3 {
        let json = watch.until("that it is not known", |json| !json["incomplete_reason"].is_null());
        assert!(json["gone"].as_array().is_none_or(Vec::is_empty), "{json}");
        assert_eq!(nice(), applied);
    }
    files(watch.child.id(), 1024);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(nice(), applied);
    let end = Command::new("kill").arg(watch.child.id().to_string()).status().expect("kill(1)");
    assert!(end.success() && watch.child.wait().expect("a child").success());
    assert_eq!(nice(), before);
}
