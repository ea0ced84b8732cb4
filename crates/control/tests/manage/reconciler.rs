//! Settings kept in force while VMs come and go; back-end workers spread over CPUs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lowtail_control::manage::{Knob, Setting, Thread, Wanted, status};
use lowtail_control::reconcile::{Options, Reconciler};
use lowtail_control::workers::{Cpus, WorkerSettings, place};
use lowtail_discover::{Found, Role, Vm};
use lowtail_standin::{Standin, start};

use super::{child, host, revert};

/// VMs of these tests only: others run beside them.
const NAME: &str = "kept-";

fn wanted() -> WorkerSettings {
    WorkerSettings { cpus: Some(Cpus::All), nice: Some(2), shares: Some(2048) }
}

fn cpus() -> BTreeSet<usize> {
    lowtail_kernel::thread::own_cpus().expect("own CPUs").into_iter().collect()
}

fn resolve(found: &Found, name: &str) -> Result<Wanted, String> {
    Ok(settings(found, name).into())
}

fn settings(found: &Found, name: &str) -> Vec<Setting> {
    let vms: Vec<&Vm> =
        found.vms.iter().filter(|vm| vm.name.as_given().starts_with(name)).collect();
    let placed = place(found, &vms, &wanted(), &cpus());
    assert_eq!(placed.troubles, Vec::<String>::new());
    placed.settings
}

/// CPUs and nice values of a stand-in's threads, as proc(5) has them.
fn threads(standin: &Standin) -> Vec<(String, String)> {
    let one = |(tid, _): &(u32, String)| {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{tid}/{name}"));
        let status = read("status").expect("it lives");
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        let stat = read("stat").expect("it lives");
        let nice = stat.rsplit_once(") ").expect("a name").1.split(' ').nth(19 - 3);
        (cpus.expect("as documented").to_string(), nice.expect("as documented").to_string())
    };
    standin.begun.threads.iter().map(one).collect()
}

fn options(dir: &Path) -> Options {
    Options { period: Duration::from_millis(20), ..Options::new(dir) }
}

#[test]
fn machines_come_and_go() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let name = format!("{NAME}a");
    let begin = |n: usize| {
        let args = format!("--name {name}-{n} --vcpus 1 --vhost 2 --io 1");
        start(&args).expect("it begins")
    };
    let mut reconciler = Reconciler::start(options(dir.path())).expect("nobody holds it");
    let mut round = || {
        let round = reconciler.round(&mut |found| resolve(found, &name)).expect("written down");
        assert!(
            round.applied.as_ref().is_none_or(|applied| applied.failed.is_empty()),
            "{round:?}"
        );
        round
    };
    round();
    let first = begin(1);
    let before = threads(&first);
    let applied = round().applied.expect("workers are placed");
    // Three workers: CPUs and a nice value each.
    assert_eq!(applied.changed, 6);
    let placed = threads(&first);
    assert_eq!(placed[0], before[0], "a vCPU is no worker");
    assert!(placed[1..].iter().all(|(cpu, nice)| cpu.parse::<usize>().is_ok() && nice == "2"));
    assert!(round().applied.is_none(), "nothing has changed");
    let second = begin(2);
    let second_before = threads(&second);
    round();
    // Six workers on so many CPUs, as many on each.
    let all: Vec<_> = [&first, &second].map(|s| threads(s)[1..].to_vec()).concat();
    let load = |cpu: &usize| all.iter().filter(|(on, _)| *on == cpu.to_string()).count();
    let loads: Vec<usize> = cpus().iter().map(load).collect();
    let even = loads.iter().max().expect("CPUs") - loads.iter().min().expect("CPUs");
    assert!(even <= 1 && loads.iter().sum::<usize>() == 6, "{all:?}");
    drop(first);
    round();
    assert_eq!(status(dir.path()).expect("a ledger").rows.len(), 6, "what has gone is dropped");
    let reverted = reconciler.end().expect("written down").expect("it was not left");
    assert_eq!((reverted.restored, reverted.failed.len()), (6, 0));
    assert_eq!(threads(&second), second_before);
    assert!(!dir.path().join("host.ledger").exists());
}

/// A killed one's work is taken over; what is restored in the end is what was there before both.
#[test]
fn a_killed_one_is_taken_over() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let standin = start(&format!("--name {NAME}b --vcpus 1 --vhost 2")).expect("it begins");
    let before = threads(&standin);
    let mut child = child::command("reconciler", 0, dir.path()).spawn().expect("this test, again");
    let until = Instant::now() + Duration::from_secs(20);
    while !dir.path().join("kept").exists() {
        assert!(Instant::now() < until, "it did not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    child::sigkill(child.id());
    child.wait().expect("a child");
    let placed = threads(&standin);
    assert_ne!(placed, before);
    assert_eq!(status(dir.path()).expect("a ledger").rows.len(), 4);
    let mut left = options(dir.path());
    left.leave = true;
    let mut reconciler = Reconciler::start(left).expect("the dead hold nothing");
    let round =
        reconciler.round(&mut |found| resolve(found, &format!("{NAME}b"))).expect("written down");
    assert!(round.plan.is_none_or(|plan| plan.changes.is_empty()), "it is in force already");
    assert!(reconciler.end().expect("nothing to do").is_none());
    assert_eq!(threads(&standin), placed);
    revert(dir.path());
    assert_eq!(threads(&standin), before);
}

/// Keeps until it is killed.
pub(crate) fn inside(dir: &Path) {
    let mut reconciler = Reconciler::start(options(dir)).expect("nobody holds it");
    loop {
        let round = reconciler
            .round(&mut |found| resolve(found, &format!("{NAME}b")))
            .expect("written down");
        if round.applied.is_some() {
            std::fs::write(dir.join("kept"), "").expect("a file");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Somebody else's change is told once, and left; what is not a number of a thread any more is no trouble.
#[test]
fn what_others_change_is_told_once() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let standin = start(&format!("--name {NAME}c --vcpus 1 --vhost 1")).expect("it begins");
    let mut reconciler = Reconciler::start(options(dir.path())).expect("nobody holds it");
    let mut round = || {
        reconciler.round(&mut |found| resolve(found, &format!("{NAME}c"))).expect("written down")
    };
    round();
    let (tid, _) = standin.begun.threads[1];
    let mut renice = Command::new("renice");
    let renice = renice.args(["-n", "7", "-p", &tid.to_string()]).stdout(Stdio::null()).status();
    assert!(renice.expect("there is a `renice`").success());
    let told: usize = (0..25).map(|_| round().foreign.len()).sum();
    assert_eq!(told, 1);
    assert_eq!(threads(&standin)[1].1, "7");
    let foreign = reconciler.end().expect("written down").expect("it was not left").foreign;
    assert_eq!(foreign.len(), 1);
    assert!(matches!(&foreign[0].knob, Knob::Sched(sched) if sched.thread == of(tid)));
    assert_eq!(threads(&standin)[1].1, "7");
}

/// It is not known what is wanted: that is not that nobody wants anything. Neither what this one has put in force is taken
/// away, nor what a killed one has left; once it is known again it goes on.
#[test]
fn what_is_not_known_takes_nothing_away() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let name = format!("{NAME}e");
    let standin = start(&format!("--name {name} --vcpus 1 --vhost 2")).expect("it begins");
    let before = threads(&standin);
    let mut reconciler = Reconciler::start(options(dir.path())).expect("nobody holds it");
    reconciler.round(&mut |found| resolve(found, &name)).expect("written down");
    let placed = threads(&standin);
    assert_ne!(placed, before);
    let mut unknown = 0;
    for _ in 0..25 {
        let round = reconciler.round(&mut |_| Err("who knows".into())).expect("written down");
        assert!(round.applied.is_none(), "{round:?}");
        unknown += usize::from(round.unknown.as_deref() == Some("who knows"));
    }
    // Not asked at first; from then on in each round.
    assert!(unknown >= 16, "{unknown}");
    assert_eq!(threads(&standin), placed);
    // As if it was killed.
    drop(reconciler);
    let mut reconciler = Reconciler::start(options(dir.path())).expect("nobody holds it");
    for _ in 0..3 {
        let round = reconciler.round(&mut |_| Err("who knows".into())).expect("written down");
        assert!(round.unknown.is_some() && round.applied.is_none(), "{round:?}");
    }
    assert_eq!(threads(&standin), placed);
    // Nobody wants it.
    reconciler.round(&mut |_| Ok(Wanted::default())).expect("written down");
    assert_eq!(threads(&standin), before);
}

/// Processes cannot be listed, as when this one has too many files open: that is not that all VMs have ended.
#[test]
fn what_cannot_be_listed_takes_nothing_away() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let name = format!("{NAME}g");
    let standin = start(&format!("--name {name} --vcpus 1 --vhost 2")).expect("it begins");
    let before = threads(&standin);
    let proc = dir.path().join("proc");
    let see = || std::os::unix::fs::symlink("/proc", &proc).expect("a link");
    see();
    let mut options = options(dir.path());
    options.roots.proc.clone_from(&proc);
    let mut reconciler = Reconciler::start(options).expect("nobody holds it");
    reconciler.round(&mut |found| resolve(found, &name)).expect("written down");
    let placed = threads(&standin);
    assert_ne!(placed, before);
    fs::remove_file(&proc).expect("a link");
    for _ in 0..12 {
        let round = reconciler.round(&mut |found| resolve(found, &name)).expect("written down");
        assert!(round.applied.is_none() && round.unknown.is_some(), "{round:?}");
        assert!(round.changed.is_none(), "nobody has gone: {round:?}");
    }
    assert_eq!(threads(&standin), placed);
    see();
    let round = reconciler.round(&mut |found| resolve(found, &name)).expect("written down");
    assert!(round.unknown.is_none(), "{round:?}");
    assert_eq!(threads(&standin), placed);
    reconciler.end().expect("written down");
    assert_eq!(threads(&standin), before);
}

/// A change of somebody else's that was taken back and comes again is told again.
#[test]
fn what_comes_back_is_told_again() {
    if host().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let name = format!("{NAME}f");
    let standin = start(&format!("--name {name} --vcpus 1 --vhost 1")).expect("it begins");
    let mut reconciler = Reconciler::start(options(dir.path())).expect("nobody holds it");
    let mut told = || -> usize {
        let mut round =
            || reconciler.round(&mut |found| resolve(found, &name)).expect("written down");
        (0..12).map(|_| round().foreign.len()).sum()
    };
    let nice = |nice: &str| {
        let mut renice = Command::new("renice");
        renice.args(["-n", nice, "-p", &standin.begun.threads[1].0.to_string()]);
        assert!(renice.stdout(Stdio::null()).status().expect("a `renice`").success());
    };
    assert_eq!(told(), 0);
    nice("7");
    assert_eq!(told(), 1);
    nice("2");
    assert_eq!(told(), 0);
    nice("7");
    assert_eq!(told(), 1);
}

fn of(tid: u32) -> Thread {
    Thread::of(tid).expect("a /proc").expect("it lives")
}

/// The workers of a VM in libvirt's groups: I/O threads have a group of their own, which is weighed.
#[test]
fn a_group_of_their_own_is_weighed() {
    let Some(hierarchy) = host() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let args = format!("--as libvirt --name {NAME}d --vcpus 1 --io 1 --vhost 1");
    let standin = start(&args).expect("it begins");
    let found = lowtail_discover::scan(&Default::default(), &[]);
    let settings = settings(&found, &format!("{NAME}d"));
    let groups: Vec<&str> = settings
        .iter()
        .filter(|setting| matches!(setting.knob, Knob::Group(_)))
        .map(|setting| setting.to.as_str())
        .collect();
    let wanted = match hierarchy.version {
        lowtail_kernel::cgroup::Version::V1 => "2048",
        // 100 for 1024 of them: cgroup-v2.rst.
        lowtail_kernel::cgroup::Version::V2 => "200",
    };
    assert_eq!(groups, [wanted]);
    let vm = found.vms.iter().find(|vm| vm.pid == standin.begun.pid).expect("found");
    let vhost = vm.threads.iter().find(|thread| matches!(thread.role, Role::Vhost(_)));
    let vhost = vhost.expect("one").tid;
    let niced: Vec<u32> = settings
        .iter()
        .filter_map(|setting| match &setting.knob {
            Knob::Sched(sched) => Some(sched.thread.tid()),
            _ => None,
        })
        .collect();
    assert_eq!(niced, [vhost], "it is in a group with others");
    super::apply(dir.path(), &settings);
    revert(dir.path());
}
