//! An ordinary thread that computes on the only CPU: small-first would give VMs nothing, so that the fair class gets them for a while.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::life::{no_scheduler, until};
use crate::vm::Vm;

/// Three looks, each a second apart, and what it takes to move it.
const GOES_WITHIN: Duration = Duration::from_secs(8);
/// How long a VM is with the fair class at first (`reconcile/aside.rs`), and as much again until it is seen to be back.
const BACK_WITHIN: Duration = Duration::from_secs(20);
const LOG: &str = "/tmp/crowded-log";
const POLICY: &str = "scheduler = \"sched-ext\"\n[[vm]]\nname = \"*\"\nweight = 100\n";

#[test]
fn vms_go_to_the_fair_class_where_ordinary_threads_compute() {
    let said = crate::guest("crowded", &[], |guest| guest);
    assert!(said.is_none_or(|said| said.contains("1 passed")));
}

pub(crate) fn inside() {
    let standin = lowtail_standin::start("--as libvirt --name m --vcpus 1 --do burn");
    let standin = standin.expect("it begins");
    let vm = Vm::of(standin.begun.clone());
    let mut apply = apply();
    until("small-first has it", || vm.in_class() > 0);
    let share = share(&vm);
    assert!(share > 0.9, "alone: {share} of a CPU");

    let ordinary = Ordinary::start();
    let begun = Instant::now();
    until("the fair class has it", || vm.in_class() == 0);
    let took = begun.elapsed();
    let share = self::share(&vm);
    println!("it went after {took:?}, and has {share} of the CPU");
    assert!(took < GOES_WITHIN, "{took:?}");
    // A thread beside a group, of the same weight.
    assert!((0.4..0.6).contains(&share), "{share} of a CPU beside an ordinary thread");
    assert!(!no_scheduler(), "it is still there for others");
    let said = fs::read_to_string(LOG).expect("a file");
    assert!(said.contains("m: the fair class schedules it for 10 s"), "{said}");

    ordinary.end();
    let begun = Instant::now();
    until("small-first has it again", || vm.in_class() > 0);
    let took = begun.elapsed();
    println!("it was back after {took:?}");
    assert!(took < BACK_WITHIN, "{took:?}");
    let share = self::share(&vm);
    assert!(share > 0.9, "alone again: {share} of a CPU");

    kill(Pid::from_raw(apply.id() as i32), Signal::SIGTERM).expect("it lives");
    assert!(apply.wait().expect("a child").success(), "{}", fs::read_to_string(LOG).unwrap());
    assert!(no_scheduler());
    assert_eq!(vm.changed(), Vec::<String>::new());
}

fn apply() -> Child {
    fs::write("/tmp/policy.toml", POLICY).expect("a file");
    let log = fs::File::create(LOG).expect("a file");
    let mut command = Command::new("/bin/lowtail");
    command.args(["host", "apply", "--watch", "--no-look", "--state", "/tmp/crowded"]);
    command.arg("/tmp/policy.toml").stdin(Stdio::null());
    command.stdout(log.try_clone().expect("a file")).stderr(log);
    command.spawn().expect("it starts")
}

/// What part of a CPU its vCPU has for a while.
fn share(vm: &Vm) -> f64 {
    let (begun, before) = (Instant::now(), vm.ran_ns());
    sleep(Duration::from_secs(3));
    (vm.ran_ns() - before) as f64 / begun.elapsed().as_nanos() as f64
}

/// An ordinary thread that computes.
struct Ordinary {
    end: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Ordinary {
    fn start() -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let told = end.clone();
        let thread = spawn(move || {
            while !told.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Ordinary { end, thread }
    }

    fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic");
    }
}
