//! What observing costs: `docs/explanation/overhead.md` has the figures and says what they mean.
//!
//!     cargo run --release -p lowtail-observe --example overhead
//!
//! Two threads on one CPU hand a byte to and fro through pipes: two switches and two wake-ups for each round.
//! Without and with the observer, in turns; of each turn with it and those beside it the ratio of rounds in a second of
//! their run time is taken, and of those the median. In the same turns it is taken of programs that do nothing at
//! the same two events, and of such that do no more than look at the clock there (`bpf/floor.bpf.c`).

use std::fs;
use std::io::{Read, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, ObjectBuilder};
use lowtail_discover::{Declared, Target};
use lowtail_host::cgroup::{Policy, Thread};
use lowtail_kernel::Name;
use lowtail_kernel::thread::{set_cpus, set_policy};
use lowtail_observe::{Observer, Options};
use nix::unistd::{Pid, gettid};

/// Rounds of turns. Short turns, and many: what else goes on here is more alike in two that are close together.
const ROUNDS: usize = 25;
const TURN: Duration = Duration::from_millis(150);
/// Programs that do next to nothing.
static FLOOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o"));
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

fn pin(cpu: usize) {
    set_cpus(Pid::from_raw(0), &[cpu]).expect("a CPU of ours");
    before_all(1);
}

/// Before all others on this host, so that it is measured and not they.
fn before_all(priority: u8) {
    let first = Thread { policy: Policy::Fifo(priority), ..Thread::default() };
    set_policy(Pid::from_raw(0), &first).expect("root may");
}

/// Two threads that play ball on CPU 0, and how often they have.
struct Game {
    players: Vec<i32>,
    rounds: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    /// Between two rounds, so that there are fewer of them.
    pause_ns: Arc<AtomicU64>,
}

impl Game {
    fn start() -> Self {
        let (mut there, mut back) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
        let (say, hear) = std::sync::mpsc::channel();
        let mut game = Game {
            players: Vec::new(),
            rounds: Arc::default(),
            over: Arc::default(),
            pause_ns: Arc::default(),
        };
        let (rounds, over, pause) =
            (Arc::clone(&game.rounds), Arc::clone(&game.over), Arc::clone(&game.pause_ns));
        let (first, second) = (say.clone(), say);
        thread::spawn(move || {
            pin(0);
            first.send(gettid().as_raw()).expect("somebody listens");
            let mut ball = [0];
            while there.0.read_exact(&mut ball).is_ok() && back.1.write_all(&ball).is_ok() {}
        });
        thread::spawn(move || {
            pin(0);
            second.send(gettid().as_raw()).expect("somebody listens");
            let mut ball = [0];
            while !over.load(Ordering::Relaxed) {
                there.1.write_all(&ball).expect("a pipe");
                back.0.read_exact(&mut ball).expect("a pipe");
                rounds.fetch_add(1, Ordering::Relaxed);
                let pause = pause.load(Ordering::Relaxed);
                if pause > 0 {
                    let until = Instant::now() + Duration::from_nanos(pause);
                    while Instant::now() < until {}
                }
            }
        });
        game.players.extend(hear.iter().take(2));
        game
    }

    /// Rounds in a second of the players' run time, and rounds in a second of everybody's, in a turn.
    fn turn(&self) -> (f64, f64) {
        // What was begun with is not this turn's.
        thread::sleep(Duration::from_millis(30));
        let ran = || self.players.iter().map(|&tid| run_time_s(tid)).sum::<f64>();
        let (begin, ran_before) = (Instant::now(), ran());
        let before = self.rounds.load(Ordering::Relaxed);
        thread::sleep(TURN);
        let rounds = (self.rounds.load(Ordering::Relaxed) - before) as f64;
        (rounds / (ran() - ran_before), rounds / begin.elapsed().as_secs_f64())
    }
}

impl Drop for Game {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A thread's run time in seconds: the first number of `/proc/PID/schedstat`.
fn run_time_s(tid: i32) -> f64 {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).expect("it lives");
    let ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("a number") / 1e9
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// With the players as a VM's threads, or with some other process as the VM.
fn observer(tracked: bool) -> Observer {
    let pid = if tracked { std::process::id() } else { 1 };
    let declared =
        vec![Declared { name: Name::new("vm"), target: Target::Pid(pid), taps: Vec::new() }];
    let options = Options { declared, names: vec!["\0".to_string()], ..Options::default() };
    Observer::start(options).expect("the host can do it")
}

/// What is looked at: the observer, and what is below it.
#[derive(Clone, Copy)]
enum With {
    Empty,
    Clock,
    Others,
    Vm,
}

impl With {
    const ALL: [(With, &str); 4] = [
        (With::Empty, "two empty programs"),
        (With::Clock, "two that look at the clock"),
        (With::Others, "observer, threads of others"),
        (With::Vm, "observer, threads of a VM"),
    ];

    /// A turn with it.
    fn turn(self, game: &Game) -> (f64, f64) {
        match self {
            With::Empty => with_floor(game, "empty_"),
            With::Clock => with_floor(game, "clock_"),
            With::Others | With::Vm => {
                let _observer = observer(matches!(self, With::Vm));
                game.turn()
            }
        }
    }
}

/// A turn with those programs of [`FLOOR`] whose names begin like this.
fn with_floor(game: &Game, prefix: &str) -> (f64, f64) {
    let object = ObjectBuilder::default()
        .open_memory(FLOOR)
        .and_then(|object| object.load())
        .expect("the host can do it");
    let is = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(prefix);
    let programs = object.progs_mut().filter(|program| is(program.name()));
    let links: Vec<Link> = programs.map(|program| program.attach().expect("root may")).collect();
    assert_eq!(links.len(), 2);
    game.turn()
}

fn compare(game: &Game) {
    let mut lost = [const { Vec::new() }; With::ALL.len()];
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let mut before = game.turn();
        for ((with, _), lost) in With::ALL.iter().zip(&mut lost) {
            let during = with.turn(game);
            let after = game.turn();
            lost.push(1e2 * (1.0 - 2.0 * during.0 / (before.0 + after.0)));
            rates.push(before.1);
            before = after;
        }
    }
    let rate = 2.0 * median(rates);
    println!("{rate:8.0} switches/s; fewer with");
    for ((_, name), mut lost) in With::ALL.iter().zip(lost) {
        lost.sort_by(f64::total_cmp);
        let [low, middle, high] = [1, 2, 3].map(|quarter| lost[quarter * ROUNDS / 4]);
        println!(
            "{name:>32}: {middle:5.2} % (quartiles {low:.2} to {high:.2}), {:.0} ns a switch",
            middle / 1e2 / rate * 1e9,
        );
    }
}

fn programs(game: &Game, tracked: bool) {
    let mut observer = observer(tracked);
    let before = observer.run_times();
    fs::write(STATS, "1").expect("root may");
    let rate = 2.0 * game.turn().1;
    fs::write(STATS, "0").expect("root may");
    let after = observer.run_times();
    let mut all_ns = 0;
    for ((name, count, ns), (_, count0, ns0)) in after.into_iter().zip(before) {
        let (count, ns) = (count - count0, ns - ns0);
        all_ns += ns;
        if count > 0 {
            println!("{name:>12}: {:4.0} ns, {count} times", ns as f64 / count as f64);
        }
    }
    println!(
        "         all: {:.2} % of a CPU at {rate:.0} switches/s",
        all_ns as f64 / TURN.as_nanos() as f64 * 1e2
    );
    let begin = Instant::now();
    observer.snapshot().expect("figures");
    println!("    snapshot: {:?}", begin.elapsed());
}

fn main() {
    let game = Game::start();
    before_all(2);
    for tracked in [false, true] {
        println!(
            "The programs, as kernel.bpf_stats_enabled has it (its own cost is in it), beside {}:",
            if tracked { "a VM's threads" } else { "other threads" }
        );
        programs(&game, tracked);
    }
    for pause_ns in [0, 15_000] {
        game.pause_ns.store(pause_ns, Ordering::Relaxed);
        compare(&game);
    }
}
