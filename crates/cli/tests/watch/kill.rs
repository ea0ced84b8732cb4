//! SIGKILL all over its life: what comes next restores byte for byte, and VMs run all the time.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lowtail_control::reconcile::InForce;
use lowtail_testkit::traced::sigkill;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;

use crate::life::{Change, Phase, World, no_scheduler, until};

/// How many moments of each part of a life with the scheduler. To load it takes 6 s of the guest's, and a host about half as long, so
/// that not all can be tried; without it all are.
const MOMENTS: [(Phase, usize); 4] =
    [(Phase::Begins, 3), (Phase::Comes, 2), (Phase::Goes, 1), (Phase::Ends, 3)];

/// How many moments while it loads: fifths of that time.
const LOADING: u32 = 4;

#[test]
fn killed_at_moments_all_over_its_life() {
    again_inside("moments");
}

#[test]
fn killed_while_it_loads_and_when_it_is_over() {
    again_inside("ends");
}

fn again_inside(what: &str) {
    let said = crate::guest(what, &[], |guest| guest.set("CPUS", 2));
    assert!(said.is_none_or(|said| said.contains("1 passed")));
}

pub(crate) fn moments_inside() {
    let begun = Instant::now();
    let mut world = World::new("fair", false);
    let all = whole(&mut world).len();
    let killed = (0..all).filter(|&at| killed_at(&mut world, at)).count();
    println!("without the scheduler: {killed} moments, {:?}", begun.elapsed());
    // Four values are set and restored, before and after each; what is written down comes on top.
    assert!(killed > 2 * 4 + 2, "{killed} moments");
    drop(world);

    let mut world = World::new("sched-ext", true);
    let changes = whole(&mut world);
    let moments = chosen(&changes);
    for &at in &moments {
        assert!(killed_at(&mut world, at), "{at} of {}", changes.len());
    }
    println!("with it: {} moments, {:?}", moments.len(), begun.elapsed());
}

pub(crate) fn ends_inside() {
    let begun = Instant::now();
    let mut world = World::new("sched-ext", true);
    let load = until_it_is_loaded(&mut world);
    println!("it is loaded after {load:?}");
    // The guest's clock counts instructions, so that it takes about as long each time. Once loaded, the kernel restores threads, too.
    let loading = (1..=LOADING).filter(|&nth| killed_while_it_loads(&mut world, load * nth / 5));
    assert_eq!(loading.count() as u32, LOADING, "kills that came before it was loaded");
    let changes = whole(&mut world);
    // In force, with one VM.
    let settled = changes.iter().position(|change| change.phase == Phase::Comes).expect("it came");
    stopped_and_killed(&mut world, settled);
    ended_by_the_kernel_and_killed(&mut world, settled);
    killed_and_taken_over(&mut world, settled);
    println!("with it: {} moments, {:?}", LOADING + 3, begun.elapsed());
}

/// A whole life, which restores all by itself; what it changes.
fn whole(world: &mut World) -> Vec<Change> {
    let (changes, traced) = world.life(usize::MAX);
    assert!(matches!(traced.ended, Some(WaitStatus::Exited(_, 0))), "{:?}", traced.ended);
    assert!(no_scheduler());
    world.is_as_before();
    world.says_so();
    changes
}

/// Moments spread evenly over each part of a life.
fn chosen(changes: &[Change]) -> Vec<usize> {
    let of = |(phase, n): (Phase, usize)| {
        let of: Vec<usize> = (0..changes.len()).filter(|&i| changes[i].phase == phase).collect();
        let nth = move |i: usize| of[(2 * i + 1) * of.len() / (2 * n)];
        (0..n).map(nth).collect::<Vec<_>>()
    };
    MOMENTS.into_iter().flat_map(of).collect()
}

/// Kills one before that change. `false` if it has ended before.
fn killed_at(world: &mut World, at: usize) -> bool {
    let (changes, traced) = world.life(at);
    if traced.ended.is_some() {
        return false;
    }
    sigkill(traced.pid);
    let Change { phase, what } = changes.last().expect("one");
    println!("{at} {phase:?} {what}: {} in the class", world.in_class());
    restored(world);
    true
}

/// The kernel has its threads at once, and they run; a revert restores them.
fn restored(world: &World) {
    until("the kernel's own scheduler has all", no_scheduler);
    world.run();
    world.revert();
    world.is_as_before();
}

/// How long it takes from its first instruction until the scheduler is loaded.
fn until_it_is_loaded(world: &mut World) -> Duration {
    let begun = Instant::now();
    let pid = world.unseen();
    until("the scheduler is loaded", || !no_scheduler());
    let load = begun.elapsed();
    sigkill(pid);
    restored(world);
    load
}

/// Kills it so long after its first instruction. Whether the scheduler was not loaded yet.
fn killed_while_it_loads(world: &mut World, after: Duration) -> bool {
    let pid = world.unseen();
    sleep(after);
    let loading = no_scheduler();
    sigkill(pid);
    restored(world);
    loading
}

/// Nobody looks after the scheduler: VMs run on.
fn stopped_and_killed(world: &mut World, settled: usize) {
    let pid = world.life(settled).1.let_go();
    kill(pid, Signal::SIGSTOP).expect("a child of ours");
    sleep(Duration::from_secs(2));
    assert!(!no_scheduler());
    world.run();
    sigkill(pid);
    restored(world);
}

/// SysRq-S asks for the kernel's own scheduler (`Documentation/admin-guide/sysrq.rst`); it has seen that before it is killed.
fn ended_by_the_kernel_and_killed(world: &mut World, settled: usize) {
    let pid = world.life(settled).1.let_go();
    assert!(world.in_class() > 0);
    fs::write("/proc/sysrq-trigger", "S").expect("root may");
    until("the kernel's own scheduler has all", no_scheduler);
    world.run();
    until("it has seen that", || {
        matches!(world.scheduler(), Some(InForce::Ended(_))) && world.in_class() == 0
    });
    sigkill(pid);
    restored(world);
}

/// The next one goes on from what is there, and restores what was there before both.
fn killed_and_taken_over(world: &mut World, at: usize) {
    let (_, traced) = world.life(at);
    sigkill(traced.pid);
    until("the kernel's own scheduler has all", no_scheduler);
    whole(world);
}
