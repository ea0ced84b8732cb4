//! Schedules of Linux hosts: each figure follows from the times written here by hand.

mod common;

use common::linux::{
    ELSEWHERE, ENDED, IN_SOFT_INTERRUPT, IN_THREAD, Pipe, RUNNABLE, SLEEPING, begin, facts, queues,
    switch, wake, wake_in,
};
use lowtail_trace::recording::Policy;
use lowtail_trace::{
    AheadInterval, CpuPlace, Error, Latency, Options, QueueInterval, Reason, Role, Sender, Trigger,
    VcpuLatency, export_perfetto, info, latency,
};

fn of<'a>(found: &'a Latency, name: &str) -> &'a VcpuLatency {
    let names: Vec<&str> = found.vcpus.iter().map(|vcpu| &*vcpu.vcpu).collect();
    found.vcpus.iter().find(|vcpu| vcpu.vcpu == name).unwrap_or_else(|| panic!("{name}: {names:?}"))
}

/// A vCPU of `web-1` (thread 7) and a neighbour (8) on CPU 0; CPU 1 idles.
fn sample() -> Vec<u8> {
    let mut out = begin();
    out.thread(7, 6, b"CPU 0/KVM").unwrap();
    out.thread(8, 8, b"ma\x1bke").unwrap();
    let vm = out.vm("web-1", "qemu").unwrap();
    out.member(7, vm, Role::Vcpu(0)).unwrap();
    let events = [
        switch(2_000, 0, RUNNABLE, 8),  // idle until 2 us, then 8
        wake(5_000, 7, 0, 8),           // 7 is woken by 8
        switch(45_000, 8, RUNNABLE, 7), // after 40 us 7 runs
        switch(55_000, 7, RUNNABLE, 0), // it is taken off, and nobody runs: its quota is used up
        switch(85_000, 0, RUNNABLE, 7), // 30 us later it may again
        switch(90_000, 7, SLEEPING, 8),
        switch(95_000, 8, ENDED, 0),
    ];
    out.events(0, 0, &events.concat()).unwrap();
    out.round(95_000).unwrap();
    let trigger = Trigger { at_ns: 45_000, delay_ns: 40_000, tid: 7, cpu: 0 };
    out.trigger(&trigger).unwrap();
    out.finish(101_000, 3).unwrap().0
}

#[test]
fn waits_and_their_reasons() {
    let found = latency(&sample()[..], &Options::default()).unwrap();
    assert_eq!(found.span_us, 100.0);
    let web = of(&found, "web-1 vcpu0");
    assert_eq!((web.wakeup_latency.n, web.wakeup_latency.max), (1, Some(40.0)));
    assert_eq!((web.preemption_latency.n, web.preemption_latency.max), (1, Some(30.0)));
    let blame: Vec<_> = web.blame.iter().map(|b| (&*b.vcpu, b.reason, b.waited_us)).collect();
    assert_eq!(blame, [("ma\\u{1b}ke[8]", Reason::Busy, 40.0), ("idle", Reason::HeldBack, 30.0)]);
    // 10 + 5 of 100 us.
    assert!((web.cpu_ratio - 0.15).abs() < 1e-9);
    let thread = web.thread.as_ref().unwrap();
    assert_eq!((thread.tid, thread.tgid, thread.vm.as_deref()), (7, Some(6), Some("web-1")));
    let neighbour = of(&found, "ma\\u{1b}ke[8]");
    // From 45 to 90 us, behind 7 and while 7 was held back.
    assert_eq!(neighbour.preemption_latency.max, Some(45.0));
    assert_eq!(found.records.inconsistent, 0);
    // Idle from 1 to 2 us, 55 to 85, 95 to 101.
    assert!((found.pcpus[0].idle_ratio - 0.37).abs() < 1e-9, "{:?}", found.pcpus);
    // The table shows the machine's thread, and no escape of anybody's.
    let table = found.table();
    assert!(table.contains("web-1 vcpu0") && table.contains("not let run: quota?"), "{table}");
    assert!(!table.contains('\x1b') && table.contains("1 further threads"), "{table}");
}

#[test]
fn what_a_recording_has() {
    let found = info(&sample()[..], &Options::default()).unwrap();
    assert_eq!((found.records, found.lost.records), (7, 0));
    let recorded = found.recorded.as_ref().unwrap();
    assert_eq!((recorded.kernel.as_deref(), recorded.lost_names), (Some("6.18.0"), 3));
    assert_eq!(recorded.vms[0].name, "web-1");
    assert_eq!(recorded.vms[0].threads[0].role, Some(Role::Vcpu(0)));
    assert_eq!(recorded.triggers[0].delay_ns, 40_000);
    let count = |name: &str| found.events.iter().find(|e| e.name == name).map(|e| e.records);
    assert_eq!(count("wake"), Some(1));
    assert_eq!((count("switch: runnable"), count("switch: ended")), (Some(4), Some(1)));
    assert!(found.table().contains("kernel   6.18.0"));
}

/// What was written is what is read, and `info` says so briefly.
#[test]
fn how_the_host_schedules() {
    let mut out = begin();
    facts(&mut out);
    out.events(0, 0, &switch(2_000, 0, RUNNABLE, 8)).unwrap();
    let found = info(&out.finish(3_000, 0).unwrap().0[..], &Options::default()).unwrap();
    assert_eq!(found.unknown_records, 0);
    let facts = &found.recorded.as_ref().unwrap().facts;
    let kernel = facts.kernel.as_ref().unwrap();
    assert_eq!((kernel.hz, kernel.base_slice_ns), (Some(250), Some(2_800_000)));
    assert_eq!((kernel.latency_ns, &*kernel.preemption), (None, "lazy"));
    assert_eq!(kernel.sched_ext.as_deref(), Some("small_first"));
    let [top, slice] = &facts.groups[..] else { panic!("{:?}", facts.groups) };
    assert_eq!((top.parent, &*top.path, top.weight, top.quota_ns), (None, "", None, None));
    assert_eq!((slice.parent, &*slice.path, slice.weight), (Some(0), "a.slice", Some(300)));
    assert_eq!((slice.quota_ns, slice.period_ns), (Some(40_000_000), 50_000_000));
    assert_eq!((slice.burst_ns, slice.idle, slice.shares), (20_000_000, true, None));
    let thread = &facts.threads[&7];
    assert_eq!((thread.at_ns, thread.policy, thread.nice), (1_500, Policy::Batch, -5));
    assert_eq!((thread.slice_ns, thread.rt_priority), (3_000_000, 0));
    assert_eq!(thread.cpus.as_ref().unwrap().to_string(), "0-1,5");
    assert_eq!(facts.group_of(7), Some(slice));
    let other = &facts.threads[&8];
    assert_eq!((other.policy, &other.cpus), (Policy::Unknown(99), &None));
    assert_eq!((facts.group_of(8), facts.group_of(9)), (None, None));
    let table = found.table();
    let line =
        "sched    250 ticks/s, base slice 2.800 ms, preemption lazy, sched_ext small_first\n";
    assert!(table.contains(line), "{table}");
    assert!(table.contains("settings of 2 threads and 2 control groups"), "{table}");
    let json = serde_json::to_value(&found).unwrap();
    let told = &json["recorded"]["scheduling"];
    assert_eq!(told["kernel"]["base_slice_seconds"], 0.0028);
    assert_eq!((&told["control_groups"], &told["thread_attributes"]), (&2.into(), &2.into()));
}

/// A waker of another CPU runs there: after a loss it does not say who runs on this one.
#[test]
fn a_waker_elsewhere_is_not_who_runs_here() {
    for (how, runs) in [(IN_THREAD, 0.4), (IN_SOFT_INTERRUPT, 0.4), (IN_THREAD | ELSEWHERE, 0.0)] {
        let mut out = begin();
        out.events(0, 0, &switch(2_000, 0, RUNNABLE, 8)).unwrap();
        // Up to 61 us, where the next switch is, 9 has run since 21 us, as the wake-up says.
        let events = [wake_in(21_000, 7, 0, 9, how), switch(61_000, 9, SLEEPING, 7)];
        out.events(0, 5, &events.concat()).unwrap();
        let file = out.finish(101_000, 0).unwrap().0;
        let found = latency(&file[..], &Options::default()).unwrap();
        assert_eq!(of(&found, "thread[9]").cpu_ratio, runs, "{how}");
        assert_eq!(found.records.inconsistent, 0);
    }
}

#[test]
fn who_filled_the_uplinks() {
    assert_eq!(latency(&sample()[..], &Options::default()).unwrap().uplink_queues, None);
    let mut out = begin();
    out.queues(&queues(1_000)).unwrap();
    out.queues(&queues(501_000)).unwrap();
    out.events(0, 0, &switch(2_000, 0, RUNNABLE, 8)).unwrap();
    let bytes = out.finish(1_001_000, 0).unwrap().0;
    let found = latency(&bytes[..], &Options::default()).unwrap();
    let all = found.uplink_queues.as_ref().unwrap();
    // 12,500 bytes in a millisecond.
    let uplink = &all.uplinks[0];
    assert_eq!((all.span_us, uplink.transmitted_bytes, uplink.bits_per_second), (1e3, 12_500, 1e8));
    let a = &all.vms[0];
    assert_eq!((&*a.vm, a.sampled_packets, a.sampled_delay_us), ("a", 4, 160.0));
    assert_eq!(a.bytes_ahead, 8_000);
    assert_eq!((&a.senders[0].sender, a.senders[0].bytes), (&Sender::Vm("b".to_owned()), 6_000));
    // To `b` one packet waited in each interval, and that is not among those that wait for an uplink.
    let b = &all.receivers[0];
    assert_eq!((all.vms.len(), all.receivers.len()), (1, 1));
    assert_eq!((&*b.vm, b.sampled_packets, b.sampled_delay_us), ("b", 2, 40.0));
    assert_eq!(
        (b.bytes_ahead, &b.senders[0].sender),
        (3_000, &Sender::Interface("eth0".to_owned()))
    );
    let table = found.table();
    assert!(table.contains("b 75.00 %, cgroup backup 25.00 %"), "{table}");
    assert!(table.contains("from eth0 100.00 %"), "{table}");
    let (exported, trace) =
        export_perfetto(&bytes[..], Vec::new(), "test", &Options::default()).unwrap();
    assert!(exported.events >= 4);
    let text = String::from_utf8_lossy(&trace);
    assert!(
        text.contains("eth0: sent by b, bytes/s")
            && text.contains("ahead of a: cgroup backup")
            && text.contains("ahead at the tap of b: from eth0")
    );
    assert_eq!(info(&bytes[..], &Options::default()).unwrap().unknown_records, 0);
}

/// A quiet interval is time, too, and an interval that takes several blocks is one.
#[test]
fn quiet_and_long_intervals() {
    let mut out = begin();
    out.queues(&queues(1_000)).unwrap();
    let mut quiet = QueueInterval { from_ns: 501_000, to_ns: 1_001_000, ..Default::default() };
    out.queues(&quiet).unwrap();
    quiet.ahead = (0..700)
        .map(|vm| AheadInterval {
            vm: format!("vm-{vm}"),
            packets: 1,
            delay_ns: 1,
            bytes: (0..100).map(|n| (Sender::Group(format!("g{n}")), 1)).collect(),
        })
        .collect();
    (quiet.from_ns, quiet.to_ns) = (1_001_000, 2_001_000);
    out.queues(&quiet).unwrap();
    out.events(0, 0, &switch(2_000, 0, RUNNABLE, 8)).unwrap();
    let bytes = out.finish(2_001_000, 0).unwrap().0;
    let found = latency(&bytes[..], &Options::default()).unwrap();
    let all = found.uplink_queues.as_ref().unwrap();
    // 6,250 bytes in two milliseconds.
    assert_eq!((all.span_us, all.uplinks[0].bits_per_second), (2e3, 2.5e7));
    let last = all.vms.iter().find(|of| of.vm == "vm-699").unwrap();
    assert_eq!((all.vms.len(), last.bytes_ahead, last.senders.len()), (701, 100, 100));
    let (exported, _) =
        export_perfetto(&bytes[..], std::io::sink(), "test", &Options::default()).unwrap();
    assert!(exported.events < 3_000, "each counter changes twice: {}", exported.events);
}

/// A name of a megabyte that each of thousands of entries has once took gigabytes.
#[test]
fn a_long_name_is_refused() {
    let mut out = begin();
    out.events(0, 0, &switch(2_000, 0, RUNNABLE, 8)).unwrap();
    let good = out.finish(1_001_000, 0).unwrap().0;
    let head = good.len() - 40;
    let mut bad = good[..head].to_vec();
    bad.extend([10u32, 8 + 5_000, 1, 5_000].map(u32::to_le_bytes).concat());
    bad.extend([b'x'; 5_000]);
    bad.extend(&good[head..]);
    let error = latency(&bad[..], &Options::default()).unwrap_err();
    assert!(error.to_string().contains("longer than its block, or than 4096 bytes"), "{error}");
}

/// Another queue's idle CPU is no excuse of the one that it waits for.
#[test]
fn a_thread_that_another_cpu_fetches() {
    let mut out = begin();
    let first = [switch(2_000, 0, RUNNABLE, 8), wake(5_000, 7, 0, 8)];
    out.events(0, 0, &first.concat()).unwrap();
    // CPU 1 idles all the time, and fetches 7 after 20 us out of CPU 0's queue.
    out.events(1, 0, &switch(25_000, 0, RUNNABLE, 7)).unwrap();
    let file = out.finish(30_000, 0).unwrap().0;
    let found = latency(&file[..], &Options::default()).unwrap();
    let blame = &of(&found, "thread[7]").blame;
    assert_eq!((blame[0].reason, blame[0].waited_us), (Reason::QueuedElsewhere, 20.0));
}

/// Who ran on the other thread of the core while a vCPU ran: no wait, and a cause of its own.
#[test]
fn who_shares_a_core_is_named() {
    let place = |cpu, core| CpuPlace { cpu, core, cache: 0, node: 0 };
    let mut out = begin();
    out.places(&[place(0, 0), place(1, 1), place(2, 0)]).unwrap();
    out.thread(7, 6, b"CPU 0/KVM").unwrap();
    let vm = out.vm("web-1", "qemu").unwrap();
    out.member(7, vm, Role::Vcpu(0)).unwrap();
    // web-1 runs from 10 to 50 us; 8 beside it up to 20 and from 40 on, 9 on a core of its own.
    let events = [switch(10_000, 0, RUNNABLE, 7), switch(50_000, 7, SLEEPING, 0)];
    out.events(0, 0, &events.concat()).unwrap();
    out.events(1, 0, &switch(5_000, 0, RUNNABLE, 9)).unwrap();
    let events = [
        switch(5_000, 0, RUNNABLE, 8),
        switch(20_000, 8, SLEEPING, 0),
        switch(40_000, 0, RUNNABLE, 8),
    ];
    out.events(2, 0, &events.concat()).unwrap();
    let file = out.finish(61_000, 0).unwrap().0;
    let found = latency(&file[..], &Options::default()).unwrap();
    let web = of(&found, "web-1 vcpu0");
    let siblings: Vec<_> = web.smt_siblings.iter().map(|s| (&*s.vcpu, s.share, s.ran_us)).collect();
    assert_eq!(siblings, [("thread[8]", 0.5, 20.0)]);
    assert!(web.blame.is_empty(), "{:?}", web.blame);
    assert_eq!(of(&found, "thread[9]").smt_siblings, []);
    let table = found.table();
    assert!(table.contains("beside it on its core") && table.contains("50.00 %"), "{table}");
}

/// The number of a thread that has ended belongs to another one, with another name.
#[test]
fn numbers_are_used_again() {
    let mut out = begin();
    out.thread(7, 7, b"first").unwrap();
    let events = [switch(2_000, 0, RUNNABLE, 7), switch(4_000, 7, ENDED, 0)];
    out.events(0, 0, &events.concat()).unwrap();
    out.round(4_000).unwrap();
    out.round(4_000).unwrap();
    out.events(1, 0, &switch(4_001, 0, RUNNABLE, 0)).unwrap();
    out.round(4_001).unwrap();
    out.thread(7, 7, b"second").unwrap();
    let events = [switch(6_000, 0, RUNNABLE, 7), switch(9_000, 7, SLEEPING, 0)];
    out.events(0, 0, &events.concat()).unwrap();
    let file = out.finish(11_000, 0).unwrap().0;
    let found = latency(&file[..], &Options::default()).unwrap();
    assert_eq!(of(&found, "first[7]").cpu_ratio, 0.2);
    assert_eq!(of(&found, "second[7]").cpu_ratio, 0.3);
}

/// Of what happened while events were lost, nothing is claimed.
#[test]
fn waits_across_a_loss_do_not_count() {
    let mut out = begin();
    let events = [switch(2_000, 0, RUNNABLE, 8), wake(5_000, 7, 0, 8)];
    out.events(0, 0, &events.concat()).unwrap();
    let events = [switch(50_000, 8, SLEEPING, 7), switch(60_000, 7, RUNNABLE, 8)];
    out.events(0, 9, &events.concat()).unwrap();
    out.events(0, 0, &switch(63_000, 8, SLEEPING, 7)).unwrap();
    let file = out.finish(70_000, 0).unwrap().0;
    let found = latency(&file[..], &Options::default()).unwrap();
    let waiter = of(&found, "thread[7]");
    assert_eq!((waiter.wakeup_latency.n, waiter.excluded.lost), (0, 1));
    assert_eq!((waiter.preemption_latency.n, waiter.preemption_latency.max), (1, Some(3.0)));
    assert_eq!(found.records.lost, 9);
    let found = info(&file[..], &Options::default()).unwrap();
    let loss = &found.lost.losses[0];
    assert_eq!((loss.pcpu, loss.records, loss.from_us, loss.to_us), (0, 9, 4.0, 49.0));
}

/// A switch that is missing: between two events of the CPU it is not known who ran, and nobody is blamed for it.
#[test]
fn a_missing_switch_makes_no_wrong_blame() {
    let mut out = begin();
    let events = [
        switch(2_000, 8, RUNNABLE, 9),
        wake(5_000, 7, 0, 9),
        // From 9 to 10: not there.
        switch(50_000, 10, SLEEPING, 7),
        switch(60_000, 7, SLEEPING, 0),
    ];
    out.events(0, 0, &events.concat()).unwrap();
    let file = out.finish(70_000, 0).unwrap().0;
    let found = latency(&file[..], &Options::default()).unwrap();
    let waiter = of(&found, "thread[7]");
    assert_eq!(waiter.wakeup_latency.max, Some(45.0));
    assert_eq!((waiter.blame.len(), &*waiter.blame[0].vcpu), (1, "unknown"));
    assert_eq!(of(&found, "thread[9]").cpu_ratio, 0.0);
    assert!(found.records.inconsistent > 0);
}

fn pipe() -> Pipe {
    let mut pipe = Pipe::new();
    pipe.comm(6, 6, "qemu-system-x86");
    pipe.comm(6, 7, "CPU 3/KVM");
    pipe.switch(2_000, 0, (0, "swapper/0"), 0, (8, "make"));
    pipe.wake(5_000, 0, 8, (7, "CPU 3/KVM"), 0);
    pipe.record(68, &[]);
    pipe.switch(45_000, 0, (8, "make"), 0x100, (7, "CPU 3/KVM"));
    pipe.switch(55_000, 0, (7, "CPU 3/KVM"), 1, (8, "make"));
    pipe.record(68, &[]);
    pipe.switch(60_000, 0, (8, "make"), 0x20, (0, "swapper/0"));
    pipe
}

#[test]
fn perfs_pipe() {
    let found = latency(&pipe().bytes[..], &Options::default()).unwrap();
    let vcpu = of(&found, "qemu-system-x86[6] vcpu3");
    assert_eq!((vcpu.wakeup_latency.n, vcpu.wakeup_latency.max), (1, Some(40.0)));
    assert_eq!((&*vcpu.blame[0].vcpu, vcpu.blame[0].waited_us), ("make[8]", 40.0));
    assert_eq!(of(&found, "make[8]").preemption_latency.max, Some(10.0));
    let found = info(&pipe().bytes[..], &Options::default()).unwrap();
    assert_eq!((found.records, found.recorded.unwrap().by), (5, "perf"));
}

/// Flags of ftrace: interrupts off 0x01, hard interrupt 0x08, soft interrupt 0x10.
#[test]
fn contexts_in_perfs_file() {
    let mut pipe = Pipe::with_waking();
    pipe.switch(2_000, 0, (0, "swapper/0"), 0, (8, "make"));
    // By a thread and by two interrupts, each told twice by its CPU.
    for (at_ns, flags) in [(3_000, 0x01), (4_000, 0x01), (5_000, 0x09), (6_000, 0x11)] {
        pipe.wake_pair(at_ns, [0, flags, 8], [0, flags, 8], 9);
    }
    // Handed over by CPU 0 to CPU 1, which is told by an interrupt.
    pipe.wake_pair(7_000, [0, 0x01, 8], [1, 0x09, 5], 9);
    let found = info(&pipe.bytes[..], &Options::default()).unwrap();
    let count = |name: &str| found.events.iter().find(|e| e.name == name).map(|e| e.records);
    assert_eq!((count("wake: by a thread"), count("wake")), (Some(2), Some(1)));
    assert_eq!(count("wake: in a hard interrupt"), Some(1));
    assert_eq!(count("wake: in a soft interrupt"), Some(1));
    assert_eq!(found.unknown_records, 5);
}

#[test]
fn what_perf_has_lost_and_what_is_not_read() {
    let mut lossy = pipe();
    // LOST: id, how many; then TID, TIME, CPU, IDENTIFIER.
    lossy.record(2, &[1, 5, 0, 61_000, 0, 1].map(u64::to_le_bytes).concat());
    let found = latency(&lossy.bytes[..], &Options::default()).unwrap();
    assert_eq!(found.records.lost, 5);
    let mut compressed = pipe();
    compressed.record(81, &[0; 16]);
    let error = latency(&compressed.bytes[..], &Options::default()).unwrap_err();
    assert!(error.to_string().contains("record without -z"), "{error}");
    let swapped = [&b"2ELIFREP"[..], &[0; 96]].concat();
    let error = info(&swapped[..], &Options::default()).unwrap_err();
    assert!(error.to_string().contains("another order of bytes"), "{error}");
}

#[test]
fn nanoseconds_need_no_clock() {
    let options = Options { cpu_hz: Some(1_000_000_000), ..Options::default() };
    for file in [sample(), pipe().bytes] {
        assert!(matches!(info(&file[..], &options), Err(Error::ClockKnown)));
        assert!(matches!(latency(&file[..], &options), Err(Error::ClockKnown)));
        let export = export_perfetto(&file[..], std::io::sink(), "test", &options);
        assert!(matches!(export, Err(Error::ClockKnown)));
    }
}
