//! Hand-made traces, every figure worked out by hand from the times in them. At 1 GHz a tick is a
//! nanosecond, so that 1500 ticks are 1.5 us.

mod common;

use common::{BLOCKED, D1, D2, IDLE, OFFLINE, RUNNABLE, RUNNING, Stream};
use lowtail_trace::{Blame, Latency, Options, Races, Reason, VcpuLatency, latency};

fn options() -> Options {
    Options { cpu_hz: Some(1_000_000_000), ..Options::default() }
}

fn run(stream: &Stream) -> Latency {
    latency(&stream.bytes[..], &options()).unwrap()
}

fn vcpu<'a>(latency: &'a Latency, name: &str) -> &'a VcpuLatency {
    latency.vcpus.iter().find(|vcpu| vcpu.vcpu == name).unwrap()
}

fn blame(vcpu: &VcpuLatency) -> Vec<(&str, Reason, f64)> {
    let entry = |blame: &'_ Blame| (blame.reason, blame.waited_us);
    vcpu.blame.iter().map(|b| (b.vcpu.as_str(), entry(b).0, entry(b).1)).collect()
}

#[test]
fn wake_preempt_and_run() {
    // d2v0 runs from the start, d1v0 wakes at 2000, runs 3001 to 4000, d2v0 4001 to 6000,
    // d1v0 wakes again at 5000 and runs from 6001 to 6500, the end.
    let stream = Stream::default()
        .window(0)
        .record(1000, 0x22209, &[])
        .change(2000, D1, BLOCKED, RUNNABLE)
        .switch(3000, D2, RUNNABLE, D1)
        .switch(4000, D1, BLOCKED, D2)
        .change(5000, D1, BLOCKED, RUNNABLE)
        .switch(6000, D2, RUNNABLE, D1)
        .record(6500, 0x22209, &[]);
    let all = run(&stream);
    assert_eq!((all.span_us, all.cpu_hz), (5.5, 1_000_000_000));
    let d1 = vcpu(&all, "d1v0");
    // Waits 2000..3001 and 5000..6001.
    assert_eq!((d1.wakeups, d1.wakeup_latency.n, d1.preemption_latency.n), (2, 2, 0));
    assert_eq!((d1.wakeup_latency.min, d1.wakeup_latency.max), (Some(1.001), Some(1.001)));
    // Its run 6001..6500 has no end: 999 ns is the one length, but both count for the share.
    assert_eq!((d1.run_length.n, d1.run_length.p50), (1, Some(0.999)));
    assert_eq!(d1.cpu_ratio, (999.0 + 499.0) / 5500.0);
    assert_eq!(d1.switches_per_second, 2.0 / 5.5e-6);
    assert_eq!(blame(d1), [("d2v0", Reason::Busy, 2.0), ("xen", Reason::ContextSwitch, 0.002)]);
    assert_eq!(d1.blame[0].share, 2000.0 / 2002.0);
    let d2 = vcpu(&all, "d2v0");
    // Preempted 3000..4001; preempted again at 6000, which has no end. It ran 1000..3000, the
    // beginning of which was not seen, and 4001..6000.
    assert_eq!((d2.wakeup_latency.n, d2.preemption_latency.n), (0, 1));
    assert_eq!(d2.preemption_latency.max, Some(1.001));
    assert_eq!((d2.run_length.n, d2.run_length.max), (1, Some(1.999)));
    assert_eq!(d2.cpu_ratio, (2000.0 + 1999.0) / 5500.0);
    assert_eq!((d2.excluded.at_end, d2.excluded.lost), (1, 0));
    assert_eq!(blame(d2), [("d1v0", Reason::Busy, 0.999), ("xen", Reason::ContextSwitch, 0.002)]);
}

#[test]
fn a_wake_up_that_meets_the_switch_is_a_wake_up() {
    // d1v0 blocks at 1500; its pCPU switches at 1600; it is woken in between, so that its run
    // state goes from running to runnable. d2v0 is then really preempted.
    let stream = Stream::default()
        .window(0)
        .change(1000, D1, RUNNABLE, RUNNING)
        .about(1500, 0x28006, D1)
        .about(1550, 0x28004, D1)
        .switch(1600, D1, RUNNABLE, D2)
        .switch(2000, D2, RUNNABLE, D1)
        // This time the block comes to nothing, it goes on; then it is preempted.
        .about(2100, 0x28006, D1)
        .about(2110, 0x28011, D1)
        .switch(2200, D1, RUNNABLE, D2)
        .switch(2300, D2, RUNNABLE, D1);
    let all = run(&stream);
    let d1 = vcpu(&all, "d1v0");
    assert_eq!((d1.wakeups, d1.raced_wakeups), (1, 1));
    assert_eq!((d1.wakeup_latency.n, d1.wakeup_latency.max), (1, Some(0.401)));
    assert_eq!((d1.preemption_latency.n, d1.preemption_latency.max), (1, Some(0.101)));
    let literal = Options { races: Races::Preemptions, ..options() };
    let all = latency(&stream.bytes[..], &literal).unwrap();
    let d1 = vcpu(&all, "d1v0");
    assert_eq!((d1.wakeup_latency.n, d1.preemption_latency.n), (0, 2));
    assert_eq!(d1.preemption_latency.max, Some(0.401));
}

#[test]
fn yields_are_told_apart() {
    let stream = Stream::default()
        .window(0)
        .change(1000, D1, RUNNABLE, RUNNING)
        .about(1500, 0x28005, D1)
        .switch(1600, D1, RUNNABLE, D2)
        .switch(2000, D2, BLOCKED, D1);
    let all = run(&stream);
    let d1 = vcpu(&all, "d1v0");
    assert_eq!((d1.preemption_latency.n, d1.yield_latency.n), (0, 1));
    assert_eq!(d1.yield_latency.max, Some(0.401));
}

#[test]
fn pauses_are_told_apart() {
    // d1v0 wakes at 1100, is paused from 1200 to 5000 and runs at 5301. The wait of 100 ns came
    // to nothing, the pause is 3800 ns, and from its end to running 301 ns.
    let stream = Stream::default()
        .window(0)
        .change(1000, D2, RUNNABLE, RUNNING)
        .change(1100, D1, BLOCKED, RUNNABLE)
        .change(1200, D1, RUNNABLE, OFFLINE)
        .change(5000, D1, OFFLINE, RUNNABLE)
        .switch(5300, D2, RUNNABLE, D1);
    let all = run(&stream);
    let d1 = vcpu(&all, "d1v0");
    assert_eq!((d1.wakeups, d1.wakeup_latency.n), (1, 0));
    assert_eq!((d1.paused.pauses, d1.paused.paused_us, d1.paused.waits_ended), (1, 3.8, 1));
    assert_eq!(d1.paused.unpause_latency.max, Some(0.301));
    assert!(d1.blame.is_empty());
}

#[test]
fn a_pcpu_under_rate_limit_is_not_tickled() {
    // credit2 wakes d1v0, which has more credit, and neither compares nor tickles.
    let stream = Stream::default()
        .window(0)
        .change(1000, D2, RUNNABLE, RUNNING)
        .change(1100, D1, BLOCKED, RUNNABLE)
        .record(1105, 0x2220d, &[D1, 0, 10_000_000])
        .switch(9000, D2, RUNNABLE, D1);
    let d1 = run(&stream);
    assert_eq!(
        blame(vcpu(&d1, "d1v0")),
        [("d2v0", Reason::RateLimitNoTickle, 7.9), ("xen", Reason::ContextSwitch, 0.001)]
    );
}

#[test]
fn tickled_compared_kept_and_outbid() {
    let begin = |score: i32| {
        Stream::default()
            .window(0)
            .change(1000, D2, RUNNABLE, RUNNING)
            .change(1100, D1, BLOCKED, RUNNABLE)
            .record(1105, 0x2220d, &[D1, 0, 10_000_000])
            .record(1106, 0x22203, &[D2, 9_000_000, 0x8000_0000, 5])
            .record(1107, 0x22205, &[D2, 9_000_000, score as u32])
    };
    // Compared and found wanting.
    let stream = begin(-5).switch(2000, D2, RUNNABLE, D1);
    assert_eq!(blame(vcpu(&run(&stream), "d1v0"))[0], ("d2v0", Reason::LowerCredit, 0.9));
    // Tickled: the 900 ns are the way to the switch.
    let stream = begin(5).record(1108, 0x22206, &[0]).switch(2000, D2, RUNNABLE, D1);
    assert_eq!(blame(vcpu(&run(&stream), "d1v0"))[0], ("d2v0", Reason::Preempting, 0.9));
    // Tickled, but at 1500 the scheduler keeps d2v0 because of the rate limit, and at 1800
    // because it now has more credit: 400, 300 and 200 ns.
    let stream = begin(5)
        .record(1108, 0x22206, &[0])
        .record(1490, 0x22215, &[0, 0])
        .record(1500, 0x22216, &[D2, 500])
        .record(1790, 0x22215, &[0, 0])
        .record(1800, 0x22214, &[D2, u32::MAX, 10_000_001])
        .switch(2000, D2, RUNNABLE, D1);
    assert_eq!(
        blame(vcpu(&run(&stream), "d1v0")),
        [
            ("d2v0", Reason::Preempting, 0.4),
            ("d2v0", Reason::RateLimit, 0.3),
            ("d2v0", Reason::LowerCredit, 0.2),
            ("xen", Reason::ContextSwitch, 0.001)
        ]
    );
}

/// What credit does on one pCPU: d2v0 wakes at 1000 with BOOST and runs from 1011 on; d1v0 wakes at 2000.
fn boosted_runner() -> Stream {
    Stream::default()
        .window(0)
        .change(900, IDLE, RUNNABLE, RUNNING)
        .change(1000, D2, BLOCKED, RUNNABLE)
        .record(1001, 0x22007, &[2, 0])
        .record(1002, 0x22006, &[0])
        .switch(1010, IDLE, RUNNABLE, D2)
        .change(2000, D1, BLOCKED, RUNNABLE)
}

/// What `xen/common/sched/credit.c` does if both have BOOST.
#[test]
fn credit_does_not_preempt_boost_with_boost() {
    let begin = || boosted_runner().record(2001, 0x22007, &[1, 0]);
    // d2v0 blocks at 2500. Its own wait, 1000 to 1011, was the pCPU's way out of idle.
    let stream = begin().switch(2500, D2, BLOCKED, D1);
    let all = run(&stream);
    let switch = ("xen", Reason::ContextSwitch, 0.001);
    assert_eq!(blame(vcpu(&all, "d1v0")), [("d2v0", Reason::BoostedRunner, 0.5), switch]);
    assert_eq!(blame(vcpu(&all, "d2v0"))[0], ("idle", Reason::IdleWaking, 0.01));
    // A tick at 2200 takes the boost of d2v0. Nobody is told; its slice ends at 3000.
    let stream = begin().record(2200, 0x22008, &[2, 0]).switch(3000, D2, RUNNABLE, D1);
    assert_eq!(
        blame(vcpu(&run(&stream), "d1v0")),
        [("d2v0", Reason::BoostEnded, 0.8), ("d2v0", Reason::BoostedRunner, 0.2), switch]
    );
    // d1v0 keeps its boost while it sleeps: no record says so when it wakes at 4000. d2v0 lost its own: d1v0 goes before it.
    let stream = begin()
        .record(2200, 0x22008, &[2, 0])
        .switch(3000, D2, RUNNABLE, D1)
        .switch(3500, D1, BLOCKED, D2)
        .change(4000, D1, BLOCKED, RUNNABLE)
        .record(4001, 0x22006, &[0])
        .switch(4010, D2, RUNNABLE, D1);
    assert!(blame(vcpu(&run(&stream), "d1v0")).contains(&("d2v0", Reason::Preempting, 0.01)));
    // Without a boost of its own the waiter is behind for another reason, which is not on record.
    let stream = boosted_runner().switch(2500, D2, BLOCKED, D1);
    assert_eq!(blame(vcpu(&run(&stream), "d1v0"))[0], ("d2v0", Reason::Busy, 0.5));
}

/// A tickle belongs to the vCPU that its pCPU has just woken, and where boosts may have ended unseen nothing is said of them.
#[test]
fn credit_beside_other_wakers_and_losses() {
    let stream = boosted_runner()
        .record(2001, 0x22007, &[1, 0])
        .window(1)
        // Somebody else's, woken by pCPU 1.
        .change(2100, 3 << 16, BLOCKED, RUNNABLE)
        .record(2101, 0x22006, &[0])
        .window(0)
        .switch(2500, D2, BLOCKED, D1);
    assert_eq!(blame(vcpu(&run(&stream), "d1v0"))[0], ("d2v0", Reason::BoostedRunner, 0.5));
    // Both get BOOST, d1v0 before it sleeps again. pCPU 1 loses records from 1900 to 1950: boosts may have ended among them.
    let begin = |lost: &[u32]| {
        let stream = Stream::default()
            .window(0)
            .change(900, IDLE, RUNNABLE, RUNNING)
            .change(910, D1, BLOCKED, RUNNABLE)
            .record(911, 0x22007, &[1, 0])
            .switch(920, IDLE, RUNNABLE, D1)
            .change(1000, D2, BLOCKED, RUNNABLE)
            .record(1001, 0x22007, &[2, 0])
            .switch(1010, D1, BLOCKED, D2)
            .window(1);
        let stream = if lost.is_empty() { stream } else { stream.record(1950, 0x1f001, lost) };
        stream.window(0).change(2000, D1, BLOCKED, RUNNABLE).switch(2500, D2, BLOCKED, D1)
    };
    let reason = |lost: &[u32]| {
        let all = run(&begin(lost));
        let d1 = vcpu(&all, "d1v0").blame.iter().find(|blame| blame.vcpu == "d2v0");
        d1.map(|blame| (blame.reason, blame.waited_us))
    };
    assert_eq!(reason(&[]), Some((Reason::BoostedRunner, 0.5)));
    assert_eq!(reason(&[7, IDLE >> 16, 1900, 0]), Some((Reason::Busy, 0.5)));
}

#[test]
fn an_idle_pcpu_that_passes_over_a_waiter_shows_that_it_is_pinned() {
    let stream = Stream::default()
        .window(0)
        .change(1000, D2, RUNNABLE, RUNNING)
        .change(1100, D1, BLOCKED, RUNNABLE)
        .switch(3000, D2, RUNNABLE, D1)
        .window(1)
        .record(1500, 0x22215, &[1, 0])
        .record(1501, 0x22217, &[D1])
        .record(1502, 0x22214, &[IDLE | 1, u32::MAX, 0]);
    let all = run(&stream);
    let d1 = vcpu(&all, "d1v0");
    assert_eq!(d1.passed_over_by_idle, 1);
    assert_eq!(blame(d1)[0], ("d2v0", Reason::Pinned, 1.9));
}

#[test]
fn leaving_idle_is_blamed_on_idle() {
    let stream = Stream::default()
        .window(0)
        .change(1000, IDLE, RUNNABLE, RUNNING)
        .change(1100, D1, BLOCKED, RUNNABLE)
        .switch(1150, IDLE, RUNNABLE, D1)
        .switch(1250, D1, BLOCKED, IDLE)
        .record(2000, 0x22209, &[]);
    let all = run(&stream);
    assert_eq!(all.vcpus.len(), 1, "idle is no vCPU of the result");
    assert_eq!(
        blame(vcpu(&all, "d1v0")),
        [("idle", Reason::IdleWaking, 0.05), ("xen", Reason::ContextSwitch, 0.001)]
    );
    // Idle 1000..1150 and 1251..2000, busy 1151..1250, of 1000 ns.
    assert_eq!((all.pcpus[0].idle_ratio, all.pcpus[0].busy_ratio), (0.899, 0.099));
}

#[test]
fn pcpus_are_merged_in_time_order() {
    // The wake is recorded on pCPU 0, in a window behind that of pCPU 1 where it ends.
    let stream = Stream::default()
        .window(0)
        .record(900, 0x22209, &[])
        .window(1)
        .change(1000, D2, RUNNABLE, RUNNING)
        .switch(1500, D2, RUNNABLE, D1)
        .window(0)
        .change(1100, D1, BLOCKED, RUNNABLE);
    let all = run(&stream);
    assert_eq!(vcpu(&all, "d1v0").wakeup_latency.max, Some(0.401));
    assert_eq!(all.records.late, 0);
}

#[test]
fn waits_that_touch_lost_records_are_left_out() {
    // pCPU 0 loses records from 2000 to 3000. d1v0 has been seen there and waits from 1900 on:
    // left out. d3v0 is only ever seen on pCPU 1: its wait 2100..2501 counts. d4v0 waits on
    // pCPU 1 meanwhile, but is seen on pCPU 0 later: left out.
    let (d3, d4) = (0x0003_0000, 0x0004_0000);
    let stream = Stream::default()
        .window(0)
        .switch(1000, D2, RUNNABLE, D1)
        .switch(1800, D1, BLOCKED, D2)
        .change(1900, D1, BLOCKED, RUNNABLE)
        .record(3000, 0x1f001, &[55, 0x0000_0002, 2000, 0])
        .switch(3100, D2, RUNNABLE, D1)
        .switch(3200, D1, BLOCKED, d4)
        .window(1)
        .change(1500, IDLE | 1, RUNNABLE, RUNNING)
        .change(2100, d3, BLOCKED, RUNNABLE)
        .switch(2500, IDLE | 1, RUNNABLE, d3)
        .change(2600, d4, BLOCKED, RUNNABLE)
        .switch(2700, d3, BLOCKED, d4)
        .switch(2800, d4, RUNNABLE, IDLE | 1);
    let all = run(&stream);
    assert_eq!(all.records.lost, 55);
    let d1 = vcpu(&all, "d1v0");
    assert_eq!((d1.wakeup_latency.n, d1.excluded.lost), (0, 1));
    let d3 = vcpu(&all, "d3v0");
    assert_eq!((d3.wakeup_latency.n, d3.wakeup_latency.max, d3.excluded.lost), (1, Some(0.401), 0));
    let d4 = vcpu(&all, "d4v0");
    assert_eq!((d4.wakeup_latency.n, d4.excluded.lost), (0, 2));
    // d2v0 runs 1801..2000 and, says the lost-records record, again from 3000 to 3100; it also
    // ran from the start of pCPU 0's records, which is 1000 itself.
    assert_eq!(vcpu(&all, "d2v0").cpu_ratio, (199.0 + 100.0) / 2201.0);
    assert_eq!(vcpu(&all, "d2v0").run_length.n, 0);
}

#[test]
fn other_clock_rates_round_to_the_nearest_nanosecond() {
    // 401 ticks at 3 GHz are 133.67 ns.
    let stream = Stream::default()
        .window(0)
        .change(1000, D2, RUNNABLE, RUNNING)
        .change(1100, D1, BLOCKED, RUNNABLE)
        .switch(1500, D2, RUNNABLE, D1);
    let options = Options { cpu_hz: Some(3_000_000_000), ..Options::default() };
    let all = latency(&stream.bytes[..], &options).unwrap();
    assert_eq!(vcpu(&all, "d1v0").wakeup_latency.max, Some(0.134));
    for hz in [0, 999, 1_000_000_000_001] {
        let options = Options { cpu_hz: Some(hz), ..Options::default() };
        assert!(latency(&stream.bytes[..], &options).is_err());
    }
}

#[test]
fn contradicting_records_are_counted_and_leave_no_figure() {
    // d1v0 runs though it was never woken; its wait from 1000 is not used.
    let stream = Stream::default()
        .window(0)
        .change(1000, D1, BLOCKED, RUNNABLE)
        .change(1100, D1, BLOCKED, RUNNABLE)
        .change(1200, D1, RUNNABLE, RUNNING)
        .change(1300, D2, RUNNABLE, RUNNING);
    let all = run(&stream);
    let d1 = vcpu(&all, "d1v0");
    assert_eq!(all.records.inconsistent, 2);
    assert_eq!((d1.wakeup_latency.n, d1.wakeup_latency.max), (1, Some(0.1)));
    assert_eq!((d1.excluded.inconsistent, d1.run_length.n), (1, 0));
}

#[test]
fn json_has_the_agreed_keys() {
    let stream = common::sample();
    let json = serde_json::to_value(run(&stream)).unwrap();
    for key in ["span_seconds", "cpu_hz", "vcpus"] {
        assert!(json.get(key).is_some(), "{key}");
    }
    let vcpu = &json["vcpus"][0];
    for key in ["vcpu", "cpu_ratio", "switches_per_second", "run_length", "blame"] {
        assert!(vcpu.get(key).is_some(), "{key}");
    }
    let spans = ["min", "p50", "p90", "p99", "p99_9", "max"].map(|key| format!("{key}_seconds"));
    for key in ["count", "exact"].into_iter().chain(spans.iter().map(String::as_str)) {
        assert!(vcpu["wakeup_latency"].get(key).is_some(), "{key}");
        assert!(vcpu["preemption_latency"].get(key).is_some(), "{key}");
    }
    for key in ["vcpu", "ratio", "reason"] {
        assert!(vcpu["blame"][0].get(key).is_some(), "{key}");
    }
    assert_eq!(run(&stream), run(&stream), "the same input gives the same result");
    assert_eq!(RUNNING, 0);
}
