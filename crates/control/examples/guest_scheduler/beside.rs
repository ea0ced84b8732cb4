//! One load under schedulers that are not ours, beside the kernel's own and small-first.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::play::{Part, play, secs};
use crate::standin::Kind;

/// How long such a scheduler may take to load. The verifier of an emulated guest takes its time: scx_lavd 100 s of the guest's clock.
const PATIENCE: Duration = Duration::from_secs(240);
/// A request each 5 ms (exponential), 100 us of work.
const SERVER: Kind = Kind::Server { gap_us: 5_000, work_us: 100, random: false };

/// A server and two loops for each CPU under the kernel's own scheduler, under small-first, and beside each of the programs that the
/// other arguments name, such as `scx_lavd --performance`, which load a scheduler of the class sched_ext for all threads.
pub(crate) fn beside() -> Value {
    let cpus = crate::pins::cpus();
    let hogs = (0..2 * cpus).map(|i| Part::new(&format!("loop{i}"), Kind::Loop));
    let parts: Vec<Part> = [Part::new("server", SERVER)].into_iter().chain(hogs).collect();
    let mut figures = json!({});
    for (name, small_first) in [("fair", false), ("small-first", true)] {
        figures[name] = play(small_first, &parts, secs(10));
    }
    for line in std::env::args().skip(2) {
        let mut program = start(&line);
        figures[&line] = play(false, &parts, secs(10));
        assert_eq!(state(), "enabled", "{line}: it went meanwhile");
        kill(Pid::from_raw(program.id() as i32), Signal::SIGINT).expect("it is there");
        program.wait().expect("a child of ours");
    }
    figures
}

/// Starts a scheduler, and waits until the kernel has it.
fn start(line: &str) -> Child {
    // They look for tracepoints there.
    for (kind, place) in [("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug")] {
        let mount = Command::new("mount").args(["-t", kind, "none", place]).output();
        mount.expect("busybox has it");
    }
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    let log = fs::File::create("/scheduler.log").expect("a root of our own");
    let logs = log.try_clone().expect("few files");
    let mut child = command.args(words).stdout(Stdio::from(log)).stderr(Stdio::from(logs)).spawn();
    let until = Instant::now() + PATIENCE;
    while state() != "enabled" {
        let ended =
            child.as_mut().expect("it is in the guest").try_wait().expect("a child of ours");
        if ended.is_some() || Instant::now() > until {
            panic!("{line}: {}", fs::read_to_string("/scheduler.log").unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.expect("it runs")
}

/// Whether a scheduler of the class sched_ext is loaded.
fn state() -> String {
    let state = fs::read_to_string("/sys/kernel/sched_ext/state").expect("a kernel with sched_ext");
    state.trim().to_string()
}
