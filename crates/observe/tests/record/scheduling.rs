//! What a recording says of how its host schedules.

use std::time::{Duration, Instant};

use lowtail_engine::Duration as Span;
use lowtail_host::cgroup::{Limit, Policy, Thread};
use lowtail_kernel::cgroup::{Hierarchy, Tree, Version};
use lowtail_kernel::syscall::sched_getattr;
use lowtail_kernel::thread::{own_cpus, set_policy};
use lowtail_observe::record::{Options, Recorder};
use lowtail_trace::info;
use lowtail_trace::recording::{Facts, Policy as TracePolicy};
use nix::unistd::Pid;

use crate::stand::{self, Stage};

/// 3072 shares are a weight of 300; quota, period and burst are whole milliseconds.
const SHARES: u64 = 3072;
const LIMIT: Limit =
    Limit { quota: Span::from_ms(40), period: Span::from_ms(50), burst: Span::from_ms(20) };

fn facts(file: &[u8]) -> Facts {
    info(file, &Default::default()).unwrap().recorded.unwrap().facts
}

/// A thread with a nice value, in a group with a weight and a limit, on one CPU: that is what the file says. It says so of a thread
/// of the kernel's too, and of one that begins after the recording.
#[test]
fn attributes_of_threads_and_groups_are_in_the_file() {
    let Some(_turn) = stand::alone() else { return };
    let (cpu, mut stage) = (stand::cpu(), Stage::default());
    let work = |over: &std::sync::atomic::AtomicBool| {
        let nicer = Thread { nice: 5, ..Thread::default() };
        set_policy(Pid::from_raw(0), &nicer).unwrap();
        stand::server(Duration::from_millis(1), Default::default())(over);
    };
    let tid = stage.add("nice", vec![cpu], Policy::Other, work);
    let pid = Pid::from_raw(tid as i32);
    let began = Instant::now();
    while sched_getattr(pid).unwrap().sched_nice != 5 {
        assert!(began.elapsed() < Duration::from_secs(10), "the thread does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    let state = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(Hierarchy::find().unwrap(), state.path()).unwrap();
    let group = tree.add(Tree::TOP, "limited").unwrap();
    tree.set_shares(group, SHARES).unwrap();
    tree.set_limit(group, LIMIT).unwrap();
    tree.place(group, pid).unwrap();
    let mut recorder = Recorder::new(stand::options()).unwrap();
    let (mut late, mut begun) = (Stage::default(), None);
    let over = |passed| {
        if begun.is_none() && passed > Duration::from_millis(200) {
            let work = stand::server(Duration::from_millis(1), Default::default());
            begun = Some(late.add("late", own_cpus().unwrap(), Policy::Batch, work));
        }
        passed > Duration::from_secs(1)
    };
    let (_, file) = recorder.run(Vec::new(), over).unwrap();
    late.end();
    stage.end();

    let facts = facts(&file);
    let thread = &facts.threads[&tid];
    assert_eq!((thread.policy, thread.nice, thread.rt_priority), (TracePolicy::Other, 5, 0));
    assert_eq!(thread.cpus.as_ref().unwrap().to_string(), cpu.to_string());
    let found = facts.group_of(tid).unwrap();
    let hierarchy = tree.hierarchy();
    let path = tree.path(group).strip_prefix(&hierarchy.root).unwrap();
    assert_eq!(found.path, path.to_str().unwrap());
    let wanted = match hierarchy.version {
        Version::V1 => (None, Some(SHARES as u32)),
        Version::V2 => (Some(300), None),
    };
    assert_eq!((found.weight, found.shares), wanted);
    assert_eq!(found.quota_ns, Some(LIMIT.quota.as_ns()));
    assert_eq!((found.period_ns, found.burst_ns), (LIMIT.period.as_ns(), LIMIT.burst.as_ns()));
    // Each is below the one above it, up to the topmost.
    let (mut at, mut steps) = (found, path.iter().count());
    while let Some(parent) = at.parent {
        let above = &facts.groups[parent as usize];
        assert!(at.path.starts_with(&above.path) && at.path.len() > above.path.len());
        (at, steps) = (above, steps - 1);
    }
    assert_eq!((at.path.as_str(), steps), ("", 0));
    // kthreadd; `proc(5)` has it as number 2, in the topmost group.
    assert_eq!(facts.threads[&2].policy, TracePolicy::Other);
    assert_eq!(facts.group_of(2).unwrap().path, "");
    // Its policy is set a moment after its birth, and it was read when that was over.
    assert_eq!(facts.threads[&begun.unwrap()].policy, TracePolicy::Batch);
    let kernel = facts.kernel.unwrap();
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    assert_eq!(kernel.online.to_string(), online.trim());
    assert!(kernel.hz.is_some());
}

/// A recording after the fact has them at its end.
#[test]
fn a_kept_recording_has_them_too() {
    let Some(_turn) = stand::alone() else { return };
    let (cpu, mut stage) = (stand::cpu(), Stage::default());
    stage.add(
        "hog",
        vec![cpu],
        Policy::Fifo(1),
        stand::hog(Duration::from_millis(3), Duration::from_millis(30)),
    );
    let server = stand::server(Duration::from_millis(1), Default::default());
    let tid = stage.add("server", vec![cpu], Policy::Other, server);
    let threshold = Some(Duration::from_millis(1));
    let mut recorder = Recorder::new(Options { threshold, ..stand::options() }).unwrap();
    let began = Instant::now();
    assert!(recorder.watch(|| began.elapsed() > Duration::from_secs(20)).unwrap());
    let (_, file) = recorder.keep(Vec::new(), Duration::from_secs(1)).unwrap();
    stage.end();
    let facts = facts(&file);
    assert!(facts.kernel.is_some());
    assert_eq!(facts.threads[&tid].cpus.as_ref().unwrap().to_string(), cpu.to_string());
    assert!(facts.threads.contains_key(&2));
}
