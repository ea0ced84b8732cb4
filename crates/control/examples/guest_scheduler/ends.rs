//! How the scheduler begins and ends: loaded over and over, ended by the kernel, killed; CPUs that come and go.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lowtail_control::vcpu::{Options, Scheduler, Thread, Vm, VmId};
use lowtail_host::cgroup::{Policy, Thread as Properties};
use lowtail_kernel::thread::{set_cpus, set_policy};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::play::{Part, Running, load, start, times};
use crate::standin::{Kind, Scene};

fn kernel_state() -> String {
    fs::read_to_string("/sys/kernel/sched_ext/state").unwrap_or_default().trim().to_string()
}

fn scene() -> Arc<Scene> {
    let now = Instant::now();
    Scene::new(now, now)
}

fn add(scheduler: &mut Scheduler, running: &[Running]) -> Vec<VmId> {
    let machine = |running: &Running| Vm {
        vcpus: running.tids.len() as u32,
        threads: running.tids.iter().map(|&tid| Thread { tid, ..Thread::default() }).collect(),
        ..Vm::default()
    };
    running.iter().map(|running| scheduler.add(&machine(running)).expect("room")).collect()
}

fn policy(tid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives");
    // proc(5): field 41; the first behind the name is field 3.
    let fields = text.rsplit_once(") ").expect("a name").1;
    fields.split(' ').nth(41 - 3).and_then(|field| field.parse().ok()).expect("a number")
}

/// How much the threads have run in so long.
fn ran_in(running: &[Running], span: Duration) -> f64 {
    let sum = |times: Vec<Vec<u64>>| times.iter().flatten().sum::<u64>();
    let (began, before) = (Instant::now(), sum(times(running)));
    std::thread::sleep(span);
    (sum(times(running)) - before) as f64 / began.elapsed().as_nanos() as f64
}

/// Loads and unloads so many times, with threads that run on.
pub(crate) fn loads(times: u32) -> Value {
    let scene = scene();
    // Loops would take most of the CPU from the kernel's check of the programs.
    let busy = Kind::Surfer { burst_us: 2_000, percent: 10 };
    let running = start(&[Part { threads: 2, ..Part::new("m", busy) }], &scene);
    let (mut enabled, mut disabled, mut fair) = (0, 0, 0);
    let mut took = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        let mut scheduler = load(&Options::default());
        took.push(began.elapsed().as_millis() as u64);
        add(&mut scheduler, &running);
        std::thread::sleep(Duration::from_millis(20));
        enabled += u32::from(
            kernel_state() == "enabled" && running[0].tids.iter().all(|&tid| policy(tid) == 7),
        );
        drop(scheduler);
        disabled += u32::from(kernel_state() == "disabled");
        fair += u32::from(running[0].tids.iter().all(|&tid| policy(tid) == 0));
    }
    let share = ran_in(&running, Duration::from_millis(200));
    scene.stop.store(true, Ordering::Relaxed);
    took.sort_unstable();
    json!({
        "enabled": enabled, "disabled": disabled, "fair": fair,
        "usual_ms": took[took.len() / 2], "longest_ms": took.last(), "share": share,
    })
}

/// The kernel ends the scheduler: because a thread has not run for too long, and because somebody asks for it.
pub(crate) fn ends() -> Value {
    let scene = scene();
    let running = start(&[Part::new("m", Kind::Loop)], &scene);
    let watchdog = Duration::from_secs(1);
    let mut scheduler = load(&Options { watchdog, ..Options::default() });
    let second = Scheduler::load(&Options::default()).expect_err("one at a time").to_string();
    add(&mut scheduler, &running);
    let before = scheduler.state().expect("it says");
    // A real-time loop takes the only CPU for twice as long as the watchdog waits.
    fs::write("/proc/sys/kernel/sched_rt_runtime_us", "-1").expect("root may");
    let own = Pid::from_raw(0);
    set_policy(own, &Properties { policy: Policy::Fifo(1), ..Properties::default() })
        .expect("root may");
    let until = Instant::now() + 3 * watchdog;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    set_policy(own, &Properties::default()).expect("always allowed");
    std::thread::sleep(watchdog);
    let stalled = scheduler.state().expect("it says");
    let after_stall = kernel_state();
    let share = ran_in(&running, Duration::from_millis(500));
    drop(scheduler);
    let mut scheduler = load(&Options::default());
    add(&mut scheduler, &running);
    fs::write("/proc/sysrq-trigger", "S").expect("root may");
    std::thread::sleep(Duration::from_millis(500));
    let asked = scheduler.state().expect("it says");
    scene.stop.store(true, Ordering::Relaxed);
    json!({
        "second": second, "before": before, "stalled": stalled, "after_stall": after_stall, "share": share,
        "asked": asked,
    })
}

/// How long an end takes, by the threads that compute.
pub(crate) fn leaves() -> Value {
    let mut figures = json!({});
    for threads in [2, 44, 1000] {
        let scene = scene();
        let parts: Vec<Part> = (0..threads.min(10))
            .map(|i| Part {
                threads: threads / threads.min(10),
                ..Part::new(&format!("m{i}"), Kind::Loop)
            })
            .collect();
        let running = start(&parts, &scene);
        let mut scheduler = load(&Options::default());
        add(&mut scheduler, &running);
        std::thread::sleep(Duration::from_secs(1));
        let enabled = kernel_state() == "enabled";
        let began = Instant::now();
        drop(scheduler);
        let took_ms = began.elapsed().as_millis() as u64;
        let fair = running.iter().flat_map(|of| &of.tids).all(|&tid| policy(tid) == 0);
        figures[threads.to_string()] =
            json!({ "took_ms": took_ms, "enabled": enabled, "fair": fair });
        scene.stop.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(500));
    }
    figures
}

/// Loads, takes its own threads in, says so, and waits to be killed.
pub(crate) fn to_be_killed() -> Value {
    let scene = scene();
    let running = start(&[Part { threads: 3, ..Part::new("m", Kind::Loop) }], &scene);
    let mut scheduler = load(&Options::default());
    add(&mut scheduler, &running);
    fs::write("/tmp/ready", "").expect("a file");
    std::thread::sleep(Duration::from_secs(60));
    json!({})
}

/// Kills a process that has the scheduler, while threads of this one are in it.
pub(crate) fn killed() -> Value {
    let own = std::env::current_exe().expect("a program");
    let mut child = Command::new(own).arg("victim").stdout(Stdio::null()).spawn().expect("a child");
    while fs::metadata("/tmp/ready").is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = kernel_state();
    child.kill().expect("our child");
    child.wait().expect("our child");
    let began = Instant::now();
    while kernel_state() != "disabled" && began.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    // The next one finds the place free.
    let again = Scheduler::load(&Options::default()).is_ok();
    json!({ "before": before, "after": kernel_state(), "took_ms": took.as_millis() as u64, "again": again })
}

/// A group of these threads whose CPUs can be set (`cgroup-v2.rst`), with all of them so far.
fn cpuset(tids: &[u32]) -> String {
    let set = "/sys/fs/cgroup/set".to_string();
    put("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset");
    fs::create_dir(&set).expect("a name that is free");
    put(&format!("{set}/cgroup.type"), "threaded");
    for tid in tids {
        put(&format!("{set}/cgroup.threads"), &tid.to_string());
    }
    set
}

fn put(file: &str, text: &str) {
    fs::write(file, text).unwrap_or_else(|error| panic!("{file}: {error}"));
}

/// CPUs go and come back under floating and pinned threads; then all are moved from one to the other, thread by
/// thread and by their group.
pub(crate) fn hotplug() -> Value {
    let scene = scene();
    let parts = [
        Part { threads: 3, ..Part::new("floating", Kind::Loop) },
        Part { threads: 2, ..Part::new("pinned", Kind::Loop) },
        Part::new("server", Kind::Server { gap_us: 2_000, work_us: 100, random: false }),
    ];
    let running = start(&parts, &scene);
    let mut scheduler = load(&Options { watchdog: Duration::from_secs(3), ..Options::default() });
    add(&mut scheduler, &running);
    let all: Vec<u32> = running.iter().flat_map(|running| running.tids.clone()).collect();
    let move_to = |tids: &[u32], cpus: &[usize]| {
        for &tid in tids {
            set_cpus(Pid::from_raw(tid as i32), cpus).expect("CPUs that are there");
        }
    };
    move_to(&running[1].tids, &[1]);
    let second = Duration::from_secs(1);
    let both = ran_in(&running, second);
    let mut one = Vec::new();
    for _ in 0..3 {
        fs::write("/sys/devices/system/cpu/cpu1/online", "0").expect("root may");
        one.push(ran_in(&running, second));
        fs::write("/sys/devices/system/cpu/cpu1/online", "1").expect("root may");
        std::thread::sleep(Duration::from_millis(100));
    }
    move_to(&all, &[0, 1]);
    let again = ran_in(&running, second);
    move_to(&all, &[1]);
    let moved = ran_in(&running, second);
    move_to(&all, &[0]);
    let back = ran_in(&running, second);
    move_to(&all, &[0, 1]);
    let set = cpuset(&all);
    let confined = ["1", "0"].map(|cpu| {
        put(&format!("{set}/cpuset.cpus"), cpu);
        ran_in(&running, second)
    });
    put(&format!("{set}/cpuset.cpus"), "0-1");
    let before = times(&running);
    std::thread::sleep(second);
    let ran = |(a, b): (&Vec<u64>, &Vec<u64>)| a.iter().zip(b).map(|(a, b)| a - b).min();
    let least = times(&running).iter().zip(&before).filter_map(ran).min();
    let state = scheduler.state().expect("it says");
    scene.stop.store(true, Ordering::Relaxed);
    json!({
        "both": both, "one": one, "again": again, "moved": moved, "back": back, "confined": confined,
        "least_ms": least.map(|ns| ns / 1_000_000), "state": state,
    })
}
