//! Storms of threads, and very many of them: what is told of a VM stays true, what is not seen is told, and what observing takes is
//! bounded.

use std::fs;

use lowtail_observe::THREADS_MAX;
use nix::time::{ClockId, clock_gettime};

use super::*;

/// For how long, in seconds.
const SECONDS: u64 = 3;

/// Memory of this process, in MB: `VmRSS` of proc_pid_status(5).
fn memory_mb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("ours");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number") / 1000
}

fn own_cpu_ms() -> f64 {
    let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
    Duration::from(cpu).as_secs_f64() * 1e3
}

/// For how long a thread has run: the first word of `schedstat` (`Documentation/scheduler/sched-stats.rst`).
fn ran_ns(tid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).expect("it lives");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

fn number(standin: &mut StandIn) -> u64 {
    standin.tell("how many");
    standin.hear().parse().expect("a number")
}

/// A VM that computes is seen as it is, beside a storm of threads that is a VM, or nobody's.
fn beside_a_storm(is_machine: bool) {
    let Some(_host) = host() else { return };
    let (calm, mut storm) = (StandIn::start("burn 0"), StandIn::start("storm 1"));
    let mut all = vec![declared("calm", &calm)];
    if is_machine {
        all.push(declared("storm", &storm));
    }
    let mut observer = observer(all);
    storm.tell("go");
    sleep(300);
    let first = observer.snapshot().expect("figures");
    let tid = thread(vm(&first, "calm"), "CPU 0/KVM").tid;
    let (ran, own, memory) = (ran_ns(tid), own_cpu_ms(), memory_mb());
    let (mut seen_ns, mut passed_ms) = (0, 0.0);
    // From the beginning on: what found no room is counted from look to look, and the first snapshot took no look of its own.
    let gusts = |snapshot: &Snapshot| -> (u64, u64) {
        let Some(storm) = snapshot.vms.iter().find(|vm| vm.name.as_given() == "storm") else {
            return (0, 0);
        };
        let gusts = storm.threads.iter().filter(|thread| thread.comm.as_given() == "gust");
        (gusts.count() as u64, storm.unseen_threads.started)
    };
    let (mut told, mut unseen) = gusts(&first);
    for _ in 0..SECONDS {
        sleep(1000);
        let snapshot = observer.snapshot().expect("figures");
        let calm = vm(&snapshot, "calm");
        assert_eq!((calm.unseen_threads.all(), calm.is_in_the_dark()), (0, false));
        seen_ns += thread(calm, "CPU 0/KVM").run_time_ns;
        passed_ms += snapshot.interval_ms;
        if is_machine {
            let storm = vm(&snapshot, "storm");
            // One CPU runs all of it.
            let ran: f64 = storm.threads.iter().map(|thread| ms(thread.run_time_ns)).sum();
            assert!(ran <= 1.05 * snapshot.interval_ms, "{ran} ms of {}", snapshot.interval_ms);
        }
        let (more_told, more_unseen) = gusts(&snapshot);
        (told, unseen) = (told + more_told, unseen + more_unseen);
        assert!(snapshot.vms.len() <= 2, "nobody else is a VM");
    }
    let (ran, begun) = (ran_ns(tid) - ran, number(&mut storm));
    let (own, more) = (own_cpu_ms() - own, memory_mb().saturating_sub(memory));
    println!(
        "{begun} threads begun in {passed_ms:.0} ms: {told} told, {unseen} told as unseen; observing took {own:.0} ms of a CPU, {more} MB more"
    );
    assert!(begun > 1000 * SECONDS, "no storm: {begun}");
    // What the VM has run: within 2 %, and the moment between the two readings.
    assert!(agree(ms(seen_ns), ms(ran), 0.02, 40.0), "{} {}", ms(seen_ns), ms(ran));
    if is_machine {
        // Who begins is told, or told as not seen; what begins between our two readings and the observer's is 5 % at most.
        let known = (told + unseen) as f64;
        assert!((0.95..=1.05).contains(&(known / begun as f64)), "{known} of {begun}");
    }
    // An observer with a look each second: less than a fifth of a CPU, and no memory that grows with what has ended.
    assert!(own < 200.0 * SECONDS as f64 && more < 64, "{own} ms, {more} MB");
}

#[test]
fn beside_a_storm_of_nobodys() {
    tries(|| beside_a_storm(false));
}

#[test]
fn beside_a_storm_in_a_machine() {
    tries(|| beside_a_storm(true));
}

/// A setting of the kernel's that is restored.
struct Set(&'static str, String);

impl Set {
    fn to(path: &'static str, value: u64) -> Self {
        let was = fs::read_to_string(path).expect("a setting");
        fs::write(path, value.to_string()).expect("root may");
        Set(path, was)
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

/// As many as there can be room for, and more: `cargo test -p lowtail-observe --test observe -- --ignored sixty_thousand --nocapture`. Takes
/// some 3 GB, and raises kernel.pid_max for as long as it runs.
#[test]
#[ignore = "takes 3 GB and a minute"]
fn sixty_thousand_threads() {
    let Some(_host) = host() else { return };
    let _pids = Set::to("/proc/sys/kernel/pid_max", 200_000);
    // A process has room for some 30,000 stacks.
    let crowds: Vec<StandIn> = (0..4).map(|_| StandIn::start("crowd 15000")).collect();
    let calm = StandIn::start("burn 0");
    let mut all: Vec<Declared> =
        crowds.iter().enumerate().map(|(i, crowd)| declared(&format!("crowd{i}"), crowd)).collect();
    all.push(declared("calm", &calm));
    let memory = memory_mb();
    let (own, begin) = (own_cpu_ms(), std::time::Instant::now());
    let options = Options { declared: all, threads: THREADS_MAX, ..Options::default() };
    let options = Options { names: vec!["\0".to_string()], ..options };
    let mut observer = Observer::start(options).expect("the host can do it");
    println!("start: {:.0} ms of a CPU, {:?}", own_cpu_ms() - own, begin.elapsed());
    for round in 0..4 {
        sleep(1000);
        let own = own_cpu_ms();
        let snapshot = observer.snapshot().expect("figures");
        let own = own_cpu_ms() - own;
        let seen: usize = snapshot.vms.iter().map(|vm| vm.threads.len()).sum();
        let unseen: u64 = snapshot.vms.iter().map(|vm| vm.unseen_threads.all()).sum();
        let more = memory_mb() - memory;
        println!("{round}: {seen} seen, {unseen} not; a snapshot took {own:.0} ms, {more} MB more");
        let calm = vm(&snapshot, "calm");
        assert_eq!((calm.unseen_threads.all(), calm.is_in_the_dark()), (0, false));
        let vcpu = thread(calm, "CPU 0/KVM");
        assert!(ms(vcpu.run_time_ns) <= 1.02 * snapshot.interval_ms, "{vcpu:?}");
        assert_eq!(seen, THREADS_MAX as usize);
        // All that there are, and those of the stand-ins themselves.
        assert!((60_000..60_040).contains(&(seen as u64 + unseen)), "{seen} {unseen}");
        assert!(more < 600, "{more} MB");
    }
}
