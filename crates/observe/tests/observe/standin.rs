//! Processes that do what VMs do: this test binary again, as another process.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Lines, Read, Write, pipe};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant};

use lowtail_host::cgroup::Thread;
use lowtail_kernel::thread::{set_cpus, set_policy};
use nix::unistd::{Pid, gettid};

/// What the process is to do; set, it is one.
const WHAT: &str = "LOWTAIL_TEST_STANDIN";
/// Before each line that it says.
const MARK: &str = "stand-in: ";

/// A process that does as told, until it is dropped.
pub(crate) struct StandIn {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl StandIn {
    /// One that is ready.
    pub(crate) fn start(what: &str) -> Self {
        // It is to be one among all.
        super::prompt(false);
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "standin::stand_in", "--nocapture"])
            .env(WHAT, what)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this test, again");
        super::prompt(true);
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut standin = StandIn { child, lines };
        assert_eq!(standin.hear(), "ready");
        standin
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, what: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{what}").expect("it listens");
    }

    /// The next line that it says.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("it lives").expect("text");
            if let Some(said) = line.strip_prefix(MARK) {
                return said.to_string();
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Not a test: the process that tests look at.
#[test]
fn stand_in() {
    let Some(what) = std::env::var_os(WHAT) else { return };
    let what = what.into_string().expect("text");
    // Others on this host are in other sessions, which share CPUs as groups do where there is autogroup, `sched(7)`;
    // and it is not about those. Where there is none, the nice values do.
    nix::unistd::setsid().expect("it leads no group yet");
    let _ = std::fs::write("/proc/self/autogroup", "-19");
    let mut words = what.split(' ');
    let kind = words.next().expect("a word");
    let numbers: Vec<usize> = words.map(|word| word.parse().expect("a number")).collect();
    match kind {
        "burn" => burn(&numbers),
        "serve" => serve(numbers[0], numbers[1], numbers[2]),
        "ball" => ball(numbers[0], numbers[1]),
        "many" => many(numbers[0]),
        "crowd" => crowd(numbers[0]),
        "churn" => churn(),
        "storm" => storm(numbers[0]),
        "observe" => observe(numbers[0] as u32),
        _ => panic!("`{kind}`?"),
    }
}

fn say(what: &str) {
    // Past the harness, which keeps what tests print.
    std::io::stderr().write_all(format!("{MARK}{what}\n").as_bytes()).expect("somebody listens");
}

fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("somebody speaks");
    // Whoever started it is gone.
    if line.is_empty() {
        std::process::exit(0);
    }
    line.trim_end().to_string()
}

/// On this CPU, before all others that are on this host: tests are not about those.
fn pin(cpu: usize) {
    set_cpus(Pid::from_raw(0), &[cpu]).expect("a CPU of ours");
    let first = Thread { nice: -19, ..Thread::default() };
    set_policy(Pid::from_raw(0), &first).expect("root may");
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    Builder::new().name(name.to_string()).spawn(work).expect("a thread")
}

/// A thread that computes, on each of these CPUs.
fn burn(cpus: &[usize]) {
    for (i, &cpu) in cpus.iter().enumerate() {
        spawn(&format!("CPU {i}/KVM"), move || {
            pin(cpu);
            loop {
                black_box(());
            }
        });
    }
    say("ready");
    listen();
}

/// Whether a thread of ours sleeps: the third field of `/proc/PID/stat`, `proc_pid_stat(5)`.
fn sleeps(tid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).expect("it lives");
    stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
}

/// A vCPU on `cpu` that sleeps until it is woken from CPU `from`, and computes a little; its delays by its own clock.
///
/// Who wakes it reads the clock just before the system call, and it reads the clock just after it is back: a few
/// microseconds more than the kernel's part. A timer would not do: how late the interrupt comes, the kernel's part does not have.
/// It is woken only when it sleeps, so that each of its waits is one of the kernel's.
fn serve(cpu: usize, from: usize, count: usize) {
    let clock = Instant::now();
    let now = move || clock.elapsed().as_nanos() as u64;
    let stamp = Arc::new(AtomicU64::new(0));
    let tid = Arc::new(AtomicU32::new(0));
    let (theirs, their_tid) = (Arc::clone(&stamp), Arc::clone(&tid));
    let vcpu = Builder::new().name("CPU 0/KVM".to_string()).spawn(move || {
        pin(cpu);
        their_tid.store(gettid().as_raw() as u32, Ordering::SeqCst);
        let mut delays = Vec::with_capacity(count);
        while delays.len() < count {
            std::thread::park();
            let woken = now();
            let stamp = theirs.swap(0, Ordering::SeqCst);
            if stamp == 0 {
                continue;
            }
            delays.push(woken - stamp);
            let until = now() + 300_000;
            while now() < until {}
        }
        delays
    });
    let vcpu = vcpu.expect("a thread");
    pin(from);
    say("ready");
    while listen() != "go" {}
    let tid = tid.load(Ordering::SeqCst);
    for i in 0..count as u64 {
        while stamp.load(Ordering::SeqCst) != 0 || !sleeps(tid) {
            std::thread::sleep(Duration::from_micros(50));
        }
        // Not in step with anything.
        std::thread::sleep(Duration::from_micros(200 + i * 7919 % 3000));
        stamp.store(now(), Ordering::SeqCst);
        vcpu.thread().unpark();
    }
    let mut delays = vcpu.join().expect("no panic");
    delays.sort_unstable();
    let told: Vec<String> = delays.iter().map(ToString::to_string).collect();
    say(&told.join(" "));
    listen();
}

/// Two threads on two CPUs that wake each other as fast as they can, when asked to: many a wake-up comes while the
/// other is still on its way to sleep.
fn ball(one: usize, two: usize) {
    let (mut there, mut back) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    spawn("CPU 0/KVM", move || {
        pin(one);
        let mut ball = [0];
        while there.0.read_exact(&mut ball).is_ok() && back.1.write_all(&ball).is_ok() {}
    });
    let (go, wait) = std::sync::mpsc::channel();
    spawn("CPU 1/KVM", move || {
        pin(two);
        let mut ball = [0];
        while wait.recv().is_ok() {
            for _ in 0..20_000 {
                there.1.write_all(&ball).expect("a pipe");
                back.0.read_exact(&mut ball).expect("a pipe");
            }
            say("done");
        }
    });
    say("ready");
    while listen() == "go" {
        go.send(()).expect("it listens");
    }
}

/// Many threads that wake up 20 times a second.
fn many(count: usize) {
    for i in 0..count {
        spawn(&format!("CPU {i}/KVM"), move || {
            std::thread::sleep(Duration::from_micros(i as u64 * 23));
            loop {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
    }
    say("ready");
    listen();
}

/// Many threads that are no vCPUs, and sleep. Their names are no text.
fn crowd(count: usize) {
    for _ in 0..count {
        std::thread::spawn(|| {
            std::fs::write("/proc/thread-self/comm", b"w\xff\x1b[2J").expect("its own name");
            std::thread::sleep(Duration::from_secs(3600));
        });
    }
    say("ready");
    listen();
}

/// Threads that come and go: 5 ms of computing each.
fn churn() {
    say("ready");
    listen();
    for _ in 0..100 {
        let worker = spawn("worker", || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(5) {}
        });
        worker.join().expect("no panic");
    }
    say("done");
    listen();
}

/// Threads that begin and end at once, on `cpu`, from "go" on until the end; how many, when asked.
fn storm(cpu: usize) {
    let begun = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&begun);
    say("ready");
    listen();
    spawn("storm", move || {
        set_cpus(Pid::from_raw(0), &[cpu]).expect("a CPU of ours");
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            spawn("gust", || ()).join().expect("no panic");
        }
    });
    loop {
        listen();
        say(&begun.load(Ordering::SeqCst).to_string());
    }
}

/// Observes a process until it is killed.
fn observe(pid: u32) {
    let target = lowtail_discover::Target::Pid(pid);
    let name = lowtail_kernel::Name::new("vm");
    let mut observer =
        super::observer(vec![lowtail_discover::Declared { name, target, taps: Vec::new() }]);
    observer.snapshot().expect("figures");
    say("ready");
    loop {
        std::thread::sleep(Duration::from_millis(50));
        observer.snapshot().expect("figures");
    }
}
