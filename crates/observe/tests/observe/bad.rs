//! Bad circumstances: a clear word, no wrong figure.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use lowtail_standin::start;
use lowtail_testkit::switches::voluntary_switches;
use nix::time::{ClockId, clock_gettime};

use super::*;

#[test]
fn a_machine_that_dies_is_told_once_with_its_last_figures() {
    let Some(_host) = host() else { return };
    let (mut dying, living) = (StandIn::start("burn 0"), StandIn::start("burn 0"));
    let mut observer = observer(vec![declared("dying", &dying), declared("living", &living)]);
    sleep(1000);
    dying.kill();
    sleep(1000);
    let last = observer.snapshot().expect("figures");
    assert!(vm(&last, "dying").ended && !vm(&last, "living").ended);
    let vcpu = thread(vm(&last, "dying"), "CPU 0/KVM");
    // It shared the CPU for a second, perhaps with others on this host.
    assert!(ms(vcpu.run_time_ns) > 100.0 && ms(vcpu.run_time_ns) < 1100.0, "{vcpu:?}");
    let living = thread(vm(&last, "living"), "CPU 0/KVM");
    assert!(blamed(living, |who| is_vm(who, "dying")) > 100.0, "{living:?}");
    sleep(1000);
    let after = observer.snapshot().expect("figures");
    assert_eq!(after.vms.len(), 1);
    assert!(!vm(&after, "living").ended);
}

/// Threads that live for 5 ms are never found by looking for them each second.
#[test]
fn threads_that_come_and_go_between_looks_are_counted_from_their_first_wait() {
    let Some(_host) = host() else { return };
    let mut guest = StandIn::start("churn");
    let mut observer = observer(vec![declared("guest", &guest)]);
    let stolen = tries::stolen_ms();
    guest.tell("go");
    assert_eq!(guest.hear(), "done");
    let stolen = (tries::stolen_ms() - stolen) as f64;
    let snapshot = observer.snapshot().expect("figures");
    let machine = vm(&snapshot, "guest");
    let workers: Vec<_> =
        machine.threads.iter().filter(|t| t.comm.as_given() == "worker").collect();
    assert_eq!((workers.len(), snapshot.lost.threads), (100, 0));
    // Each computed for 5 ms, and some of that it may have waited for the CPU; it was woken once at least.
    let woken = workers.iter().filter(|t| t.wakeup_latency.count() > 0).count();
    let waited = |t: &ThreadSnapshot| t.wakeup_latency.sum_ns() + t.preemption_latency.sum_ns();
    let all: f64 = workers.iter().map(|t| ms(t.run_time_ns + waited(t))).sum();
    assert!(woken as u64 + snapshot.lost.waits >= 100, "{woken}, {:?}", snapshot.lost);
    // What was lost was at most all that one of them did. What a hypervisor has taken meanwhile is neither run time nor a wait.
    let least = 5.0 * (98.0 - snapshot.lost.waits as f64) - stolen;
    assert!(all > least, "{all} ms, {stolen} ms stolen, {:?}", snapshot.lost);
    // Their places are free again.
    sleep(100);
    observer.snapshot().expect("figures");
    let then = observer.snapshot().expect("figures");
    assert!(vm(&then, "guest").threads.iter().all(|t| t.comm.as_given() != "worker"));
}

/// Threads of a process, as the kernel tells them.
fn tasks(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let names = tasks.map(|task| task.expect("it lives").file_name().into_string());
    names.map(|name| name.expect("a number").parse().expect("a number")).collect()
}

/// How often each thread has slept, by its number.
fn slept(pid: u32) -> HashMap<u32, u64> {
    tasks(pid).into_iter().map(|tid| (tid, voluntary_switches(tid))).collect()
}

/// Of two thousand threads each has as many wake-ups as the kernel has counted sleeps, however many these are on a host that may be
/// slow.
#[test]
fn two_thousand_threads() {
    let Some(_host) = host() else { return };
    let guest = StandIn::start("many 2000");
    sleep(500);
    let begin = Instant::now();
    let mut observer = observer(vec![declared("guest", &guest)]);
    eprintln!("start: {:?}", begin.elapsed());
    sleep(1000);
    // Of the interval between two snapshots, and of what is around it and what is within it.
    let around = slept(guest.pid());
    observer.snapshot().expect("figures");
    let within = slept(guest.pid());
    sleep(1000);
    let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
    let ran = cpu();
    observer.look_around().expect("VMs");
    eprintln!("look: {:?} of a CPU", Duration::from(cpu() - ran));
    let within_end = slept(guest.pid());
    let (begin, ran) = (Instant::now(), cpu());
    let snapshot = observer.snapshot().expect("figures");
    let ran = Duration::from(cpu() - ran);
    eprintln!("snapshot: {:?}, {ran:?} of a CPU", begin.elapsed());
    let around_end = slept(guest.pid());
    let vm = vm(&snapshot, "guest");
    let vcpus: Vec<_> =
        vm.threads.iter().filter(|t| t.comm.as_given().starts_with("CPU ")).collect();
    assert_eq!(vcpus.len(), 2000);
    let all: u64 = vcpus.iter().map(|t| t.wakeup_latency.count()).sum();
    assert!(few_lost(&snapshot, all), "{:?} of {all}", snapshot.lost);
    let (mut least, mut missing) = (0, 0);
    for vcpu in vcpus {
        let woken = vcpu.wakeup_latency.count();
        // A thread that sleeps at one end of the interval has a sleep there without its wake-up, or the other way round.
        let most = around_end[&vcpu.tid] - around[&vcpu.tid] + 1;
        assert!(woken <= most, "thread {}: {woken} of {most}", vcpu.tid);
        let within = within_end[&vcpu.tid] - within[&vcpu.tid];
        least += within;
        missing += within.saturating_sub(woken + 1);
    }
    eprintln!("{all} wake-ups, {least} sleeps within, {missing} missing, {:?}", snapshot.lost);
    assert!(least > 2000, "threads sleep: {least}");
    assert!(missing <= snapshot.lost.waits, "{missing} missing, {:?}", snapshot.lost);
}

#[test]
fn what_does_not_fit_is_counted() {
    let Some(_host) = host() else { return };
    let guest = StandIn::start("many 200");
    let options =
        Options { declared: vec![declared("guest", &guest)], threads: 100, ..Options::default() };
    let options = Options { names: vec!["\0".to_string()], ..options };
    let mut observer = Observer::start(options).expect("the host can do it");
    sleep(300);
    let snapshot = observer.snapshot().expect("figures");
    let threads = vm(&snapshot, "guest").threads.len();
    assert_eq!(threads, 100);
    // Two hundred and those of the test harness, as the kernel tells them.
    let all = tasks(guest.pid()).len();
    assert!(all > 200, "{all}");
    assert_eq!(snapshot.lost.threads, all as u64 - 100, "{:?}", snapshot.lost);
}

/// A crowd of workers has all slots when a VM comes, and that one is seen from the first look on.
#[test]
fn a_crowd_blinds_nobody() {
    let Some(_host) = host() else { return };
    let crowd = StandIn::start("crowd 400");
    let guest = StandIn::start("many 8");
    let declared = vec![declared("crowd", &crowd), declared("guest", &guest)];
    // The second one is not there yet.
    let options = Options { declared: declared[..1].to_vec(), threads: 100, ..Options::default() };
    let options = Options { names: vec!["\0".to_string()], ..options };
    let mut alone = Observer::start(options.clone()).expect("the host can do it");
    sleep(300);
    let first = alone.snapshot().expect("figures");
    let crowded = vm(&first, "crowd");
    assert_eq!(crowded.threads.len(), 100);
    assert!(crowded.unseen_threads.workers >= 300, "{:?}", crowded.unseen_threads);
    drop(alone);
    let options = Options { declared, ..options };
    let mut observer = Observer::start(options).expect("the host can do it");
    sleep(300);
    let snapshot = observer.snapshot().expect("figures");
    let (crowd, guest) = (vm(&snapshot, "crowd"), vm(&snapshot, "guest"));
    assert_eq!(guest.vcpus().count(), 8);
    assert_eq!((guest.unseen_threads.all(), guest.is_in_the_dark()), (0, false));
    assert_eq!(crowd.threads.len() + guest.threads.len(), 100);
    assert!(crowd.unseen_threads.workers >= 300, "{:?}", crowd.unseen_threads);
}

/// A VM that is found while another one's workers have all slots, and who begins threads all the time.
#[test]
fn a_newcomer_is_seen_at_once() {
    let Some(_host) = host() else { return };
    let _crowd = start("--name crowd --workers 400 --do sleep").expect("a stand-in");
    let options =
        Options { names: vec!["crowd".into(), "new".into()], threads: 100, ..Options::default() };
    let mut observer = Observer::start(options).expect("the host can do it");
    sleep(300);
    let full = observer.snapshot().expect("figures");
    assert_eq!(vm(&full, "crowd").threads.len(), 100);
    let _new = start("--name new --vcpus 12 --do sleep").expect("a stand-in");
    sleep(300);
    observer.look_around().expect("machines");
    let snapshot = observer.snapshot().expect("figures");
    let new = vm(&snapshot, "new");
    assert_eq!(
        (new.vcpus().count(), new.unseen_threads.all()),
        (12, 0),
        "{:?}",
        new.unseen_threads
    );
    // What was taken for it is used again, and no slot is lost.
    drop(_new);
    for _ in 0..4 {
        sleep(950);
        observer.snapshot().expect("figures");
    }
    let again = observer.snapshot().expect("figures");
    assert_eq!(vm(&again, "crowd").threads.len(), 100);
}

/// Programs, maps and links that there are, by number, of those that have names of ours.
fn in_the_kernel() -> (BTreeSet<u32>, BTreeSet<u32>, BTreeSet<u32>) {
    let programs = ["switched", "waking", "woken_new", "migrated", "ended", "track", "untrack"];
    let maps =
        ["slots", "slot_of_tid", "free_slots", "queues", "first_blame", "blame", "epoch", "losses"];
    let programs: BTreeSet<u32> = ProgInfoIter::default()
        .filter(|p| programs.iter().any(|name| p.name == *name))
        .map(|p| p.id)
        .collect();
    let links = LinkInfoIter::default().filter(|link| programs.contains(&link.prog_id));
    let links = links.map(|link| link.id).collect();
    let maps = MapInfoIter::default()
        .filter(|map| maps.iter().any(|name| map.name == *name))
        .map(|map| map.id)
        .collect();
    (programs, maps, links)
}

#[test]
fn a_killed_observer_leaves_no_program_and_no_map() {
    let Some(_host) = host() else { return };
    let before = in_the_kernel();
    let guest = StandIn::start("burn 0");
    let mut victim = StandIn::start(&format!("observe {}", guest.pid()));
    let during = in_the_kernel();
    let new = |before: &BTreeSet<u32>, during: &BTreeSet<u32>| -> BTreeSet<u32> {
        during.difference(before).copied().collect()
    };
    let programs = new(&before.0, &during.0);
    let maps = new(&before.1, &during.1);
    let links = new(&before.2, &during.2);
    // Two maps of those that look at packets are called `slots` and `losses`, too.
    assert_eq!((programs.len(), maps.len(), links.len()), (7, 10, 5));
    victim.kill();
    // The kernel removes them when nobody can be running them.
    let begin = Instant::now();
    loop {
        let after = in_the_kernel();
        let left = programs.intersection(&after.0).count()
            + maps.intersection(&after.1).count()
            + links.intersection(&after.2).count();
        if left == 0 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{left} left");
        sleep(20);
    }
    // Pins would have kept them.
}
