//! VMs made of threads, under one scheduler or the other; what came of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lowtail_control::vcpu::{Cap, Options, Scheduler, State, Stats, Thread, Vm, VmId};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::callbacks::costs;
use crate::standin::{Answers, Kind, Ring, Scene, perform};

/// Where the guest has its control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// From the start to where answers count and shares are measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long a thread that has ended may take to leave its group.
const PATIENCE: Duration = Duration::from_secs(20);

/// A control group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) weight: u32,
    pub(crate) max: String,
}

impl Default for Group {
    fn default() -> Self {
        Group { weight: 100, max: "max".to_string() }
    }
}

/// A VM.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) threads: usize,
    /// What its vCPUs are said to be, if that is not all threads.
    pub(crate) vcpus: Option<u32>,
    pub(crate) weight: Option<u16>,
    pub(crate) cap: Option<Cap>,
    pub(crate) group: Option<Group>,
    /// The group above its own, by name: VMs that name the same one share it.
    pub(crate) above: Option<(&'static str, Group)>,
    /// What the group above says from soon after the start on.
    pub(crate) above_then: Option<Group>,
    /// The group above, by name, into which all its threads are moved when they are in the scheduler: into one like its own.
    pub(crate) moves_below: Option<&'static str>,
    /// Of its first thread alone.
    pub(crate) thread_group: Option<Group>,
    /// Its threads are in the ring of the VM before it.
    pub(crate) ring: bool,
    /// The CPUs on which its threads may run, one after the other for so long each; all of them, if there is none.
    pub(crate) pins: Vec<Vec<usize>>,
}

impl Part {
    pub(crate) fn new(name: &str, kind: Kind) -> Self {
        Part {
            name: name.to_string(),
            kind,
            threads: 1,
            vcpus: None,
            weight: None,
            cap: None,
            group: None,
            above: None,
            above_then: None,
            moves_below: None,
            thread_group: None,
            ring: false,
            pins: Vec::new(),
        }
    }
}

/// Whether a scenario is to be played: all are, or the one that is the second argument.
pub(crate) fn wanted(name: &str) -> bool {
    std::env::args().nth(2).is_none_or(|only| only == name)
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The threads of a VM that runs.
pub(crate) struct Running {
    pub(crate) tids: Vec<u32>,
    handles: Vec<JoinHandle<Answers>>,
}

/// Starts the threads of all VMs; they wait for the start.
pub(crate) fn start(parts: &[Part], scene: &Arc<Scene>) -> Vec<Running> {
    let mut ring = Arc::new(Ring::default());
    let mut running = Vec::new();
    for part in parts {
        if !part.ring {
            ring = Arc::new(Ring::default());
        }
        let tids = Arc::new(Mutex::new(Vec::new()));
        let first = ring.members.fetch_add(part.threads, Ordering::Relaxed);
        let mut handles = Vec::new();
        for i in 0..part.threads {
            let (scene, ring, config) = (Arc::clone(scene), Arc::clone(&ring), Arc::clone(&tids));
            let (kind, pins) = (part.kind, part.pins.first().cloned());
            let name = std::thread::Builder::new().name(part.name.clone()).stack_size(64 << 10);
            let handle = name.spawn(move || {
                let tid = nix::unistd::gettid().as_raw() as u32;
                // The kernel puts wake-ups together up to this far, 50 us if nobody says otherwise.
                fs::write(format!("/proc/{tid}/timerslack_ns"), "1").expect("own thread");
                if let Some(cpus) = pins {
                    pin(tid, &cpus);
                }
                config.lock().expect("nobody panics").push(tid);
                std::thread::sleep(scene.start.saturating_duration_since(Instant::now()));
                perform(kind, &scene, &ring, first + i)
            });
            handles.push(handle.expect("a thread"));
            while tids_of(&tids).len() <= i {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        running.push(Running { tids: tids_of(&tids), handles });
    }
    running
}

fn tids_of(tids: &Mutex<Vec<u32>>) -> Vec<u32> {
    tids.lock().expect("nobody panics").clone()
}

/// Plays the VMs for so long, under small first or under the kernel's own scheduler.
pub(crate) fn play(small_first: bool, parts: &[Part], span: Duration) -> Value {
    play_with(small_first.then(Options::default), parts, span)
}

/// Plays them under small first with these options, or under the kernel's own scheduler.
pub(crate) fn play_with(options: Option<Options>, parts: &[Part], span: Duration) -> Value {
    let mut scheduler = options.map(|options| load(&options));
    let start_in =
        Duration::from_millis(200 + parts.iter().map(|part| part.threads as u64).sum::<u64>());
    let start_at = Instant::now() + start_in;
    let scene = Scene::new(start_at, start_at + WARM_UP);
    let running = start(parts, &scene);
    let mut made = Vec::new();
    let mut vms = Vec::new();
    for (part, running) in parts.iter().zip(&running) {
        let mut own = part.name.clone();
        if let Some((name, group)) = &part.above {
            if !Path::new(GROUPS).join(name).exists() {
                make(group, name, &[], &mut made);
            }
            own = format!("{name}/{own}");
        }
        let group = part.group.as_ref().map(|group| make(group, &own, &running.tids, &mut made));
        let mut threads: Vec<Thread> =
            running.tids.iter().map(|&tid| Thread { tid, ..Thread::default() }).collect();
        if let Some(group) = &part.thread_group {
            let name = format!("{}-first", part.name);
            threads[0].group = Some(make(group, &name, &running.tids[..1], &mut made));
        }
        let machine = Vm {
            vcpus: part.vcpus.unwrap_or(part.threads as u32),
            weight: part.weight,
            cap: part.cap,
            group,
            threads,
        };
        vms.push(scheduler.as_mut().map(|scheduler| scheduler.add(&machine).expect("room")));
    }
    for (part, running) in parts.iter().zip(&running) {
        if let (Some(above), Some(group)) = (part.moves_below, &part.group) {
            make(group, &format!("{above}/{}", part.name), &running.tids, &mut made);
        }
    }
    std::thread::sleep((scene.start + WARM_UP / 3).saturating_duration_since(Instant::now()));
    for part in parts {
        if let (Some((name, _)), Some(group)) = (&part.above, &part.above_then) {
            say(group, &Path::new(GROUPS).join(name));
        }
    }
    std::thread::sleep(scene.from.saturating_duration_since(Instant::now()));
    let (began, before, idle_before) = (Instant::now(), times(&running), idle());
    let done = || (scene.turns.load(Ordering::Relaxed), switches());
    let done_before = done();
    pin_anew(parts, &running, began, span);
    let (took, after, idle_after) = (began.elapsed(), times(&running), idle());
    let done_after = done();
    let stats = |vm: &Option<VmId>| {
        let both = scheduler.as_ref().zip(*vm);
        both.map(|(scheduler, vm)| scheduler.stats(vm).expect("it is there"))
    };
    let stats: Vec<Option<Stats>> = vms.iter().map(stats).collect();
    let state = scheduler.as_ref().map(|scheduler| scheduler.state().expect("it says"));
    let costs = scheduler.as_ref().map(|_| costs());
    scene.stop.store(true, Ordering::Relaxed);
    // A tiny limit would let threads come to their end by and by only.
    drop(scheduler.take());
    let mut figures = json!({});
    for (i, (part, running)) in parts.iter().zip(running).enumerate() {
        let ran: Vec<u64> = after[i].iter().zip(&before[i]).map(|(a, b)| a - b).collect();
        let mut figure = json!({
            "share": ran.iter().sum::<u64>() as f64 / took.as_nanos() as f64,
            "least_share": *ran.iter().min().expect("a thread") as f64 / took.as_nanos() as f64,
            "first_share": ran[0] as f64 / took.as_nanos() as f64,
        });
        let mut answers = Answers::new();
        for handle in running.handles {
            answers.extend(handle.join().expect("no panic"));
        }
        answers.sort_unstable();
        if !answers.is_empty() {
            let at = |part: f64| answers[((answers.len() - 1) as f64 * part) as usize] as f64 / 1e3;
            figure["answers"] = answers.len().into();
            figure["p50_us"] = at(0.5).into();
            figure["p99_us"] = at(0.99).into();
            figure["max_us"] = at(1.0).into();
        }
        if let Some(stats) = &stats[i] {
            figure["small_ms"] = (stats.small_ns / 1_000_000).into();
            figure["large_ms"] = (stats.large_ns / 1_000_000).into();
            figure["preemptions"] = stats.preemptions.into();
            figure["demotions"] = stats.demotions.into();
            figure["parked"] = stats.parked.into();
            figure["runs"] = stats.waits.count().into();
            figure["wait_max_us"] = (stats.waits.max_ns() / 1_000).into();
        }
        figures[&part.name] = figure;
    }
    let rate = |a: u64, b: u64| (a - b) as f64 / took.as_secs_f64();
    figures["loops_turns_per_s"] = rate(done_after.0, done_before.0).into();
    figures["switches_per_s"] = rate(done_after.1, done_before.1).into();
    let idle = idle_after.iter().zip(&idle_before).map(|(a, b)| (a - b) / took.as_secs_f64());
    figures["idle"] = idle.collect::<Vec<f64>>().into();
    if let Some(costs) = costs {
        figures["callbacks"] = costs;
    }
    if let Some(state) = state {
        figures["enabled"] = (state == State::Enabled).into();
        figures["state"] = serde_json::to_value(&state).expect("plain");
    }
    for path in made.iter().rev() {
        // A thread that has been waited for leaves its group when it has run for the last time.
        let until = Instant::now() + PATIENCE;
        while let Err(error) = fs::remove_dir(path) {
            assert!(Instant::now() < until, "somebody is in {}: {error}", path.display());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    figures
}

/// How often those with several sets of CPUs go from one to the next.
const PIN_FOR: Duration = Duration::from_millis(50);

/// For so long, moves those with several sets of CPUs from one to the next.
fn pin_anew(parts: &[Part], running: &[Running], began: Instant, span: Duration) {
    let moves = parts.iter().any(|part| part.pins.len() > 1);
    for round in 1.. {
        let left = span.saturating_sub(began.elapsed());
        std::thread::sleep(if moves { left.min(PIN_FOR) } else { left });
        if began.elapsed() >= span {
            return;
        }
        for (part, running) in parts.iter().zip(running).filter(|(part, _)| part.pins.len() > 1) {
            for &tid in &running.tids {
                pin(tid, &part.pins[round % part.pins.len()]);
            }
        }
    }
}

/// Thread `tid` may run on these CPUs only.
fn pin(tid: u32, cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu).expect("few CPUs"));
    sched_setaffinity(Pid::from_raw(tid as i32), &set).expect("it lives, and so do the CPUs");
}

/// For how many seconds each CPU has been idle: `/proc/stat`, in ticks of 10 ms.
fn idle() -> Vec<f64> {
    let text = fs::read_to_string("/proc/stat").expect("the kernel's own");
    let cpus = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let ticks = |line: &str| -> u64 {
        line.split_whitespace().skip(4).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
    };
    cpus.map(|line| ticks(line) as f64 / 100.0).collect()
}

/// Switches of all CPUs since the kernel was started: `/proc/stat`.
fn switches() -> u64 {
    let text = fs::read_to_string("/proc/stat").expect("the kernel's own");
    let line = text.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|n| n.parse().ok()).expect("a number of switches")
}

/// Loads the scheduler, which the guest's kernel has.
pub(crate) fn load(options: &Options) -> Scheduler {
    Scheduler::load(options).expect("a kernel with sched_ext")
}

/// Run time of each thread, in nanoseconds: the first figure of `/proc/TID/schedstat`.
pub(crate) fn times(running: &[Running]) -> Vec<Vec<u64>> {
    let of = |tid: &u32| {
        let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|figure| figure.parse().ok()).unwrap_or(0)
    };
    running.iter().map(|running| running.tids.iter().map(of).collect()).collect()
}

/// Makes a group of these threads; what its name says it is below is there.
fn make(group: &Group, name: &str, tids: &[u32], made: &mut Vec<PathBuf>) -> PathBuf {
    let path = Path::new(GROUPS).join(name);
    let above = path.parent().expect("the first group");
    write(&above.join("cgroup.subtree_control"), "+cpu");
    fs::create_dir(&path).expect("a name that is free");
    write(&path.join("cgroup.type"), "threaded");
    say(group, &path);
    for tid in tids {
        write(&path.join("cgroup.threads"), &tid.to_string());
    }
    made.push(path.clone());
    path
}

/// The group at `path` says what `group` is.
fn say(group: &Group, path: &Path) {
    write(&path.join("cpu.weight"), &group.weight.to_string());
    write(&path.join("cpu.max"), &group.max);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
