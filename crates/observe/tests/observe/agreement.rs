//! Figures agree with clocks that are not ours.

use super::*;
use crate::needs::skip;

/// Its own figure of that share of delays, in microseconds: the least and the greatest of so many ranks to either side of the one that the
/// histogram's has.
fn percentile_us(sorted_ns: &[u64], share: f64, ranks: usize) -> (f64, f64) {
    let rank = (share * sorted_ns.len() as f64).ceil() as usize;
    let of = |rank: usize| sorted_ns[rank.clamp(1, sorted_ns.len()) - 1] as f64 / 1e3;
    (of(rank.saturating_sub(ranks)), of(rank + ranks))
}

/// Runs a stand-in that is woken `count` times, beside `hogs`; gives its own delays and ours.
fn serve(count: usize, hogs: usize) -> (Vec<u64>, ThreadSnapshot, u64) {
    let _hogs: Vec<StandIn> = (0..hogs).map(|_| StandIn::start("burn 0")).collect();
    let mut guest = StandIn::start(&format!("serve 0 1 {count}"));
    sleep(100);
    let mut observer = observer(vec![declared("guest", &guest)]);
    guest.tell("go");
    let told = guest.hear();
    let snapshot = observer.snapshot().expect("figures");
    let own: Vec<u64> = told.split(' ').map(|ns| ns.parse().expect("a number")).collect();
    assert!(own.len() == count && few_lost(&snapshot, count as u64), "{:?}", snapshot.lost);
    let ours = thread(vm(&snapshot, "guest"), "CPU 0/KVM").clone();
    (own, ours, snapshot.lost.waits)
}

/// Both agree at p50 and p99.
fn compare(count: usize, hogs: usize) {
    let (own, ours, lost) = serve(count, hogs);
    // It was woken so often, and nobody else has woken it, but for joining.
    let woken = ours.wakeup_latency.count();
    assert!(
        woken + lost >= count as u64 && woken <= count as u64 + 2,
        "{woken} and {lost} of {count}"
    );
    // Those that it does not know of, and that we do not, move a rank.
    let ranks = count.abs_diff(woken as usize);
    for share in [0.5, 0.99] {
        let (least, greatest) = percentile_us(&own, share, ranks);
        let ours = ours.wakeup_latency.percentile_us(share).expect("there are delays");
        let both = format!(
            "p{}: {ours:.1} us, by its own clock {least:.1} to {greatest:.1} us",
            share * 100.0
        );
        eprintln!("{hogs} hogs: {both}");
        let theirs = ours.clamp(least, greatest);
        assert!(agree(ours, theirs, 0.05, 20.0), "beside {hogs} hogs: {both}");
    }
}

#[test]
fn delays_agree_with_the_threads_own_clock() {
    let Some(_host) = host() else { return };
    for hogs in [0, 1, 3] {
        tries(|| compare(500, hogs));
    }
}

/// All waits together are what the kernel's own statistics have of it: `run_delay`, the second number of
/// `/proc/PID/schedstat`. And run time is what they have, too.
#[test]
fn all_waits_together_agree_with_the_kernels_own_count() {
    let Some(_host) = host() else { return };
    tries(|| {
        let _hog = StandIn::start("burn 0");
        let guest = StandIn::start("burn 0 1");
        sleep(100);
        let mut observer = observer(vec![declared("guest", &guest)]);
        // They are looked at from their first event on.
        sleep(50);
        let first = observer.snapshot().expect("figures");
        let counts = || {
            let count = |thread: &ThreadSnapshot| {
                let text = std::fs::read_to_string(format!("/proc/{}/schedstat", thread.tid));
                let text = text.expect("it lives");
                let numbers = text.split_whitespace().map(|n| n.parse().expect("a number"));
                numbers.collect::<Vec<u64>>()
            };
            vm(&first, "guest").threads.iter().map(count).collect::<Vec<_>>()
        };
        let before = counts();
        sleep(2000);
        let after = counts();
        let snapshot = observer.snapshot().expect("figures");
        for (i, thread) in vm(&snapshot, "guest").threads.iter().enumerate() {
            let waits = ms(thread.wakeup_latency.sum_ns()
                + thread.preemption_latency.sum_ns()
                + thread.current_wait_ns);
            let (ran, waited) = (ms(after[i][0] - before[i][0]), ms(after[i][1] - before[i][1]));
            let name = thread.comm.as_given();
            eprintln!(
                "{name}: waited {waits:.1} ms ({waited:.1}), ran {:.1} ms ({ran:.1})",
                ms(thread.run_time_ns)
            );
            // A wait that is going on is counted when it ends, and one that was lost, not at all; slices are 3 ms or so.
            let least = 8.0 + 4.0 * snapshot.lost.waits as f64;
            assert!(agree(waits, waited, 0.02, least), "{name}: {waits} ms, {waited} ms");
            assert!(
                agree(ms(thread.run_time_ns), ran, 0.02, 8.0),
                "{name}: {} ms, {ran} ms",
                ms(thread.run_time_ns)
            );
            // Whoever waited, waited for somebody.
            let blamed = blamed(thread, |_| true);
            assert!(agree(blamed, waits, 0.02, least), "{name}: {blamed} ms of {waits} ms");
        }
    });
}

/// Beside a neighbour that does not let it run for seconds, each interval has what passed in it, of waiting and of blame.
#[test]
fn waits_and_blame_are_told_in_the_interval_in_which_they_pass() {
    let Some(_host) = host() else { return };
    tries(|| {
        let hog = StandIn::start("burn 0");
        let guest = StandIn::start("burn 0");
        sleep(100);
        let mut observer = observer(vec![declared("guest", &guest), declared("hog", &hog)]);
        sleep(50);
        observer.snapshot().expect("figures");
        let vcpu = |snapshot: &Snapshot| thread(vm(snapshot, "guest"), "CPU 0/KVM").clone();
        let before = observer.totals();
        let total = |all: &[VmSnapshot]| {
            let guest = all.iter().find(|vm| vm.name.as_given() == "guest").expect("it is there");
            thread(guest, "CPU 0/KVM").clone()
        };
        let (mut ready_ns, mut ran_ns, mut whole_ns) = (0, 0, 0);
        for _ in 0..12 {
            sleep(200);
            let snapshot = observer.snapshot().expect("figures");
            let vcpu = vcpu(&snapshot);
            let interval_ns = (snapshot.interval_ms * 1e6) as u64 + 1;
            assert!(
                vcpu.ready_ns() + vcpu.run_time_ns <= interval_ns,
                "{vcpu:?} in {interval_ns} ns"
            );
            let blamed = blamed(&vcpu, |_| true);
            assert!(agree(blamed, ms(vcpu.ready_ns()), 0.05, 10.0), "{blamed} ms of {vcpu:?}");
            ready_ns += vcpu.ready_ns();
            ran_ns += vcpu.run_time_ns;
            whole_ns += interval_ns;
        }
        let after = observer.totals();
        let union_ns = total(&after).ready_ns() - total(&before).ready_ns();
        eprintln!("waited {ready_ns} ns, ran {ran_ns} ns of {whole_ns} ns");
        assert_eq!(ready_ns, union_ns);
        // It always wants to run: nearly all time is one or the other, but what a hypervisor takes.
        assert!(ready_ns > 0 && ran_ns > 0 && ready_ns + ran_ns <= whole_ns);
    });
}

/// How often a thread was switched out because it slept, and because it had to: `proc_pid_status(5)`.
fn switches(tid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).expect("it lives");
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let value = lines.find(|(name, _)| *name == key).expect("a line").1;
        value.trim().parse::<u64>().expect("a number")
    };
    (value("voluntary_ctxt_switches"), value("nonvoluntary_ctxt_switches"))
}

/// Each sleep ends with one wake-up and each preemption with one return, by the kernel's own count: a wake-up of one that
/// is not asleep yet is none, and a thread that was woken on its way off the CPU was.
#[test]
fn waits_are_as_many_as_the_kernels_own_count_of_switches() {
    let Some(_host) = host() else { return };
    let mut guest = StandIn::start("ball 0 1");
    // Its threads have their names.
    sleep(100);
    let mut observer = observer(vec![declared("guest", &guest)]);
    let play = |guest: &mut StandIn| {
        guest.tell("go");
        assert_eq!(guest.hear(), "done");
        // Both sleep.
        sleep(20);
    };
    play(&mut guest);
    let first = observer.snapshot().expect("figures");
    let threads = |snapshot: &Snapshot| {
        ["CPU 0/KVM", "CPU 1/KVM"].map(|name| thread(vm(snapshot, "guest"), name).clone())
    };
    let before = threads(&first).map(|thread| switches(thread.tid));
    play(&mut guest);
    let after = threads(&first).map(|thread| switches(thread.tid));
    let snapshot = observer.snapshot().expect("figures");
    for (i, thread) in threads(&snapshot).iter().enumerate() {
        let (slept, forced) = (after[i].0 - before[i].0, after[i].1 - before[i].1);
        let (woken, preempted) = (thread.wakeup_latency.count(), thread.preemption_latency.count());
        eprintln!("woken {woken} ({slept}), preempted {preempted} ({forced}), {:?}", snapshot.lost);
        let lost = snapshot.lost.waits;
        assert!(woken <= slept + 1 && woken + lost + 1 >= slept, "{woken} of {slept}");
        assert!(
            preempted <= forced + 1 && preempted + lost + 1 >= forced,
            "{preempted} of {forced}"
        );
    }
}

/// The kernel's side and ours have the same buckets: the C header, compiled by another compiler.
#[test]
fn buckets_are_the_same_in_c() {
    use std::io::Write;
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("index.c");
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/hist.h");
    let text = format!(
        "#include <stdio.h>\n#include <stdint.h>\n#define __u32 uint32_t\n#define __u64 uint64_t\n\
         #undef __always_inline\n#define __always_inline inline\n#include \"{header}\"\n\
         int main(void) {{ unsigned long long v; while (scanf(\"%llu\", &v) == 1) \
         printf(\"%u\\n\", lt_hist_index(v)); return 0; }}\n"
    );
    std::fs::write(&source, text).expect("written");
    let program = dir.path().join("index");
    let compiled = std::process::Command::new("cc").arg(&source).arg("-o").arg(&program).status();
    if skip(compiled.is_err().then_some("no cc")) {
        return;
    }
    let near = (0..64).flat_map(|e| [(1_u64 << e) - 1, 1 << e, (1 << e) + 1]);
    let values: Vec<u64> = (0..4096).chain(near).chain([u64::MAX]).collect();
    let mut child = std::process::Command::new(&program)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it was compiled");
    let lines: String = values.iter().map(|value| format!("{value}\n")).collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads");
    let indices = String::from_utf8(output.stdout).expect("text");
    let indices: Vec<usize> = indices.lines().map(|line| line.parse().expect("a number")).collect();
    let ours: Vec<usize> =
        values.iter().map(|&ns| lowtail_kernel::Histogram::bucket_of(ns)).collect();
    assert_eq!(indices, ours);
}
