//! Who ran instead.

use std::cell::RefCell;

use super::*;
use crate::tries::stolen_ms;

/// In what steps the kernel tells what was stolen (`USER_HZ` is 100).
const TICK_MS: f64 = 10.0;

/// What comes of so many milliseconds, and how many of them hypervisors have taken at most.
fn look(observer: &mut Observer, span_ms: u64) -> (Snapshot, f64) {
    let before = stolen_ms();
    sleep(span_ms);
    let snapshot = observer.snapshot().expect("figures");
    (snapshot, (stolen_ms() - before) as f64 + TICK_MS)
}

/// On the hog's CPU the guest waits for the hog; on the other CPU somebody computes as much, and is not to blame.
#[test]
fn the_hog_on_its_cpu_is_to_blame_and_not_the_one_on_the_other() {
    let Some(_host) = host() else { return };
    tries(|| {
        let (guest, hog) = (StandIn::start("burn 0"), StandIn::start("burn 0"));
        let bystander = StandIn::start("burn 1");
        let machines = [("guest", &guest), ("noisy", &hog), ("bystander", &bystander)];
        let mut observer =
            observer(machines.iter().map(|(name, standin)| declared(name, standin)).collect());
        sleep(200);
        observer.snapshot().expect("figures");
        let (snapshot, stolen) = look(&mut observer, 2000);
        let guest = thread(vm(&snapshot, "guest"), "CPU 0/KVM");
        let noisy = blamed(guest, |who| is_vm(who, "noisy"));
        let all = blamed(guest, |_| true);
        eprintln!("{noisy:.0} of {all:.0} ms: {:?}", guest.blame);
        assert!(is_vm(&guest.blame[0].runner, "noisy"));
        // Two that compute share the CPU, and what else is on this host gets little.
        assert!(noisy > 400.0 && noisy > 0.8 * all, "{noisy} of {all} ms");
        assert_eq!(blamed(guest, |who| is_vm(who, "bystander")), 0.0);
        assert_eq!(blamed(guest, |who| is_vm(who, "guest")), 0.0);
        assert_eq!(blamed(guest, |who| *who == Runner::Quota), 0.0);
        // What the hog has run is as much as somebody has waited for it. What a hypervisor takes while it runs is not in its
        // time, but its neighbour waits.
        let ran = ms(thread(vm(&snapshot, "noisy"), "CPU 0/KVM").run_time_ns);
        assert!(noisy <= ran + 8.0 + stolen, "{noisy} of {ran} ms, {stolen} stolen");
    });
}

/// Two hogs: each is to blame for what it has run.
#[test]
fn two_hogs_share_the_blame_as_they_share_the_cpu() {
    let Some(_host) = host() else { return };
    tries(|| {
        let guest = StandIn::start("burn 0");
        let (one, two) = (StandIn::start("burn 0"), StandIn::start("burn 0"));
        let mut observer =
            observer(vec![declared("guest", &guest), declared("one", &one), declared("two", &two)]);
        sleep(200);
        observer.snapshot().expect("figures");
        let (snapshot, stolen) = look(&mut observer, 3000);
        let victim = thread(vm(&snapshot, "guest"), "CPU 0/KVM");
        for name in ["one", "two"] {
            let blamed = blamed(victim, |who| is_vm(who, name));
            let ran = ms(thread(vm(&snapshot, name), "CPU 0/KVM").run_time_ns);
            eprintln!("{name} ran {ran:.0} ms, blamed for {blamed:.0} ms");
            // The guest waits whenever a hog runs: it computes all the time.
            let near = (blamed - ran).abs() <= (0.02 * ran).max(8.0) + stolen;
            assert!(near, "{name}: {blamed} of {ran} ms, {stolen} stolen");
        }
    });
}

/// More threads than a list has places wait for one CPU: some of them are not told for whom, but how long they all wait.
#[test]
fn who_finds_no_place_in_the_list_is_counted() {
    let Some(_host) = host() else { return };
    // What is counted holds in each try.
    let counted = RefCell::new(Vec::new());
    tries(|| {
        let guest = StandIn::start("burn 0 0 0 0 0 0 0 0 0 0 0 0");
        let mut observer = observer(vec![declared("guest", &guest)]);
        sleep(200);
        observer.snapshot().expect("figures");
        sleep(3000);
        let snapshot = observer.snapshot().expect("figures");
        let threads = &vm(&snapshot, "guest").threads;
        let others =
            threads.iter().any(|thread| blamed(thread, |who| *who == Runner::Others) > 0.0);
        let right = snapshot.lost.blame > 0 && few_lost(&snapshot, 1000) && others;
        counted.borrow_mut().push((right, format!("{:?}, others {others}", snapshot.lost)));
        let all: f64 = threads.iter().map(|thread| blamed(thread, |_| true)).sum();
        let waits: u64 = threads.iter().map(|thread| thread.preemption_latency.sum_ns()).sum();
        let n: u64 = threads.iter().map(|thread| thread.preemption_latency.count()).sum();
        // Some waits are going on at each end, of 12 slices of 3 to 4 ms or so: 11 of each 36 s at most. One that the kernel
        // has not told the end of is lost as a wait, and somebody is to blame for what was told of it.
        let lost = snapshot.lost.waits as f64 * ms(waits) / n.max(1) as f64;
        let (share, least) = (0.05 + lost / ms(waits), 1500.0 + lost);
        assert!(agree(all, ms(waits), share, least), "{all} of {} ms, {lost} lost", ms(waits));
    });
    assert!(counted.borrow().iter().all(|(right, _)| *right), "{:?}", counted.borrow());
}
