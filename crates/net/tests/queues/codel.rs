//! CoDel against RFC 8289.

use lowtail_engine::{Duration, Time};
use lowtail_net::packet::{Ecn, MSS_BYTES, PacketId, Pool};
use lowtail_net::queue::codel::{
    Codel, CodelConfig, CodelState, INTERVAL, MinBacklog, TARGET, control_law,
};
use lowtail_net::queue::{Cause, QueueContext};

use crate::bed::{Bed, data};

const FLOW: (u32, u32, u32) = (1, 2, 3);
const TICK: Duration = Duration::from_us(100);

/// An endless queue: each packet that is taken has waited as long as we say.
struct Endless {
    pool: Pool,
    id: PacketId,
    state: CodelState,
    config: CodelConfig,
}

impl Endless {
    fn new(config: CodelConfig) -> Self {
        let mut pool = Pool::new();
        let id = pool.put(data(FLOW, 0, MSS_BYTES));
        Endless { pool, id, state: CodelState::new(), config }
    }

    /// Drops of one `dequeue` at `now`, of packets that have waited for `waited`, with `left`
    /// bytes behind each.
    fn drops(&mut self, now: Time, waited: Duration, left: u64) -> usize {
        self.pool[self.id].queued = Time::from_ps(now.as_ps() - waited.as_ps());
        let (mut dropped, id) = (Vec::new(), self.id);
        let mut cx = QueueContext { now, pool: &mut self.pool, dropped: &mut dropped };
        let sent = self.state.dequeue(&self.config, &mut cx, |_| Some((id, left)));
        assert_eq!(sent, Some(id));
        assert!(dropped.iter().all(|&(_, cause)| cause == Cause::Aqm));
        dropped.len()
    }
}

const LONG: u64 = 1_000_000;
const LATE: Duration = Duration::from_ms(20);
const START: Time = Time::from_ps(1_000_000_000_000);

#[test]
fn interval_over_square_root() {
    for n in [1u32, 2, 3, 4, 10, 1_000, 4_000_000_000] {
        let exact = INTERVAL.as_ps() as f64 / f64::from(n).sqrt();
        assert!((control_law(INTERVAL, n).as_ps() as f64 - exact).abs() <= 1.0, "{n}");
    }
    assert_eq!(control_law(INTERVAL, 4), INTERVAL / 2);
}

/// RFC 8289: below the target nothing is dropped, however long that lasts.
#[test]
fn no_drop_below_the_target() {
    let mut queue = Endless::new(CodelConfig::default());
    let almost = Duration::from_ps(TARGET.as_ps() - 1);
    for n in 0..100_000 {
        assert_eq!(queue.drops(START + TICK * n, almost, LONG), 0);
    }
}

/// The estimator: the first drop comes a whole interval after the target was first passed; one
/// packet in time begins anew.
#[test]
fn the_first_drop_comes_after_an_interval() {
    let mut queue = Endless::new(CodelConfig::default());
    let ticks = INTERVAL.as_ps() / TICK.as_ps();
    for n in 0..ticks {
        assert_eq!(queue.drops(START + TICK * n, TARGET, LONG), 0, "{n}");
    }
    assert_eq!(queue.drops(START + INTERVAL, TARGET, LONG), 1);

    let mut queue = Endless::new(CodelConfig::default());
    for n in 0..2 * ticks {
        let waited = if n == ticks - 1 { Duration::ZERO } else { LATE };
        assert_eq!(queue.drops(START + TICK * n, waited, LONG), 0, "{n}");
    }
    assert_eq!(queue.drops(START + TICK * (2 * ticks), LATE, LONG), 1);
}

/// `control_law`: under standing overload, drop n + 1 comes interval / sqrt(n) after drop n was due.
#[test]
fn drops_come_by_the_square_root() {
    let mut queue = Endless::new(CodelConfig::default());
    let mut due_ps = (START + INTERVAL).as_ps() as f64;
    let mut count = 0u32;
    for n in 0..50_000 {
        let now = START + TICK * n;
        let mut expected = 0;
        while due_ps <= now.as_ps() as f64 {
            expected += 1;
            count += 1;
            due_ps += INTERVAL.as_ps() as f64 / f64::from(count).sqrt();
        }
        assert_eq!(queue.drops(now, LATE, LONG), expected, "{now:?}, {count}");
    }
    // The sum of 1 / sqrt(k) up to n is about 2 sqrt(n) - 1.46: it is 49 intervals at n = 637.
    assert!((630..645).contains(&count), "{count}");
}

/// Drops from the first one on until there were `most`; when that was.
fn overload(queue: &mut Endless, from: Time, most: usize) -> Time {
    let (mut now, mut drops) = (from, 0);
    while drops < most {
        now += TICK;
        drops += queue.drops(now, LATE, LONG);
    }
    now
}

/// `dequeue`: the state is left at the first packet in time; soon after, dropping
/// resumes at the count by which it had grown, and later it begins at one.
#[test]
fn leaves_and_resumes() {
    for (pause, expected) in [(Duration::from_ms(1), 8), (INTERVAL * 16, 1)] {
        let mut queue = Endless::new(CodelConfig::default());
        let now = overload(&mut queue, START, 9);
        assert!(queue.state.dropping());
        assert_eq!(queue.state.count(), 9);
        assert_eq!(queue.drops(now + TICK, Duration::ZERO, LONG), 0);
        assert!(!queue.state.dropping());
        overload(&mut queue, now + TICK + pause, 1);
        assert_eq!(queue.state.count(), expected, "after {pause}");
    }
}

/// `dodequeue`: not with an MTU or less behind; with the old rule, the longest packet ever.
#[test]
fn the_last_packets_are_spared() {
    let mut mtu = Endless::new(CodelConfig::default());
    let old = CodelConfig { min_backlog: MinBacklog::LargestSeen, ..CodelConfig::default() };
    let mut largest = Endless::new(old);
    largest.pool[largest.id].payload = 64_000;
    assert_eq!(largest.drops(START, Duration::ZERO, LONG), 0);
    largest.pool[largest.id].payload = MSS_BYTES;
    let (mut by_mtu, mut by_largest) = (0, 0);
    for n in 0..5_000 {
        assert_eq!(mtu.drops(START + TICK * n, LATE, 1500), 0);
        by_largest += largest.drops(START + TICK * n, LATE, 64_052);
    }
    for n in 5_000..10_000 {
        by_mtu += mtu.drops(START + TICK * n, LATE, 1501);
    }
    assert_eq!(by_largest, 0);
    assert!(by_mtu > 0);
}

/// `codel_dequeue` of Linux, and RFC 3168: a capable packet is marked where another is dropped.
#[test]
fn marks_instead_of_drops() {
    let mut queue = Endless::new(CodelConfig { ecn: true, ..CodelConfig::default() });
    let mut marks = 0;
    for n in 0..10_000 {
        queue.pool[queue.id].ecn = Ecn::Capable;
        assert_eq!(queue.drops(START + TICK * n, LATE, LONG), 0);
        marks += usize::from(queue.pool[queue.id].ecn == Ecn::Marked);
    }
    let mut other = Endless::new(CodelConfig::default());
    let drops: usize = (0..10_000).map(|n| other.drops(START + TICK * n, LATE, LONG)).sum();
    assert_eq!(marks, drops);
}

#[test]
fn marks_above_a_threshold() {
    let ce_threshold = Some(Duration::from_us(50));
    let mut queue = Endless::new(CodelConfig { ce_threshold, ..CodelConfig::default() });
    for (us, ecn) in [(50, Ecn::Capable), (51, Ecn::Marked)] {
        queue.pool[queue.id].ecn = Ecn::Capable;
        assert_eq!(queue.drops(START, Duration::from_us(us), LONG), 0);
        assert_eq!(queue.pool[queue.id].ecn, ecn);
    }
}

/// A real queue, filled beyond its limit, then emptied at a packet a millisecond.
#[test]
fn a_queue_of_its_own() {
    let mut bed = Bed::new(Codel::new(CodelConfig::default(), 300));
    let refused: usize = (0..400).map(|n| bed.put(data(FLOW, n, MSS_BYTES)).len()).sum();
    assert_eq!(refused, 100);
    let mut drops = Vec::new();
    while !bed.pool.is_empty() {
        bed.pass(Duration::from_ms(1));
        drops.extend(bed.get().1.iter().map(|_| bed.now.as_ns() / 1_000_000));
    }
    // At 5 ms the target is passed, the interval ends at 105; then 100, 100 / sqrt(2) = 70.7 ms.
    assert_eq!(drops[..3], [105, 205, 276]);
}
