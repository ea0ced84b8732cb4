//! Byte queue limits against what Linux's comments promise.

use lowtail_engine::{Duration, Time};
use lowtail_net::bql::{Dql, HOLD, MAX_LIMIT};

const PACKET: u64 = 1500;
const TICK: Duration = Duration::from_us(100);

struct Device {
    dql: Dql,
    now: Time,
}

impl Device {
    /// Gives all that may be given, lets the device send `bytes` and complete them. Whether it
    /// ran dry.
    fn interval(&mut self, bytes: u64) -> bool {
        while self.dql.open() {
            self.dql.queued(PACKET);
        }
        self.now += TICK;
        let done = self.dql.in_flight().min(bytes);
        self.dql.completed(done, self.now);
        done < bytes
    }

    /// For so long. How often it ran dry.
    fn run(&mut self, span: Duration, bytes: u64) -> usize {
        let end = self.now + span;
        let mut dry = 0;
        while self.now < end {
            dry += usize::from(self.interval(bytes));
        }
        dry
    }
}

fn device() -> Device {
    Device { dql: Dql::new(Time::ZERO), now: Time::ZERO }
}

#[test]
fn begins_with_a_packet_at_a_time() {
    let mut dql = Dql::new(Time::ZERO);
    assert_eq!((dql.limit(), dql.avail()), (0, 0));
    assert!(dql.open());
    dql.queued(PACKET);
    assert!(!dql.open());
    // Over the limit and nothing left: the limit grows by what was sent.
    dql.completed(PACKET, Time::ZERO);
    assert_eq!((dql.limit(), dql.avail()), (PACKET, PACKET as i64));
}

/// "When queue is starved increase the limit by the amount of bytes both sent and completed in the
/// last interval, plus any previous over-limit."
#[test]
fn grows_by_what_was_missing() {
    let mut dql = Dql::with_limits(Time::ZERO, HOLD, PACKET, MAX_LIMIT);
    dql.queued(2 * PACKET);
    dql.completed(PACKET, Time::ZERO);
    assert_eq!((dql.limit(), dql.avail()), (PACKET, 0));
    // One packet above the limit is left over. One is sent and completed in this interval.
    dql.queued(PACKET);
    dql.completed(2 * PACKET, Time::ZERO);
    assert_eq!((dql.limit(), dql.avail()), (3 * PACKET, 3 * PACKET as i64));
}

/// The limit settles where the device never runs dry: what it completes in an interval must be
/// there still when the next one begins, and while it is being sent the same is given again.
/// "Two times the number of completed bytes is a basis for an upper bound of the limit."
#[test]
fn a_steady_device_does_not_run_dry() {
    for packets in [1, 4, 20, 83] {
        let bytes = packets * PACKET;
        let mut device = device();
        let dry = device.run(Duration::from_ms(100), bytes);
        assert!(dry < 50, "{dry} of 1000 while it learns, {packets} an interval");
        assert_eq!(device.run(HOLD * 5, bytes), 0, "{packets} an interval");
        let limit = device.dql.limit();
        assert!((bytes..=2 * bytes + PACKET).contains(&limit), "{limit} for {bytes}");
    }
}

/// A slower device is seen within two hold times, not before one.
#[test]
fn shrinks_by_the_least_slack() {
    let mut device = device();
    device.run(HOLD * 3, 40 * PACKET);
    let before = device.dql.limit();
    device.run(Duration::from_ms(500), 10 * PACKET);
    // One shrinking may have been due at once; it goes by slack seen while it was fast.
    assert!(device.dql.limit() >= 40 * PACKET, "{} of {before}", device.dql.limit());
    assert_eq!(device.run(HOLD * 3, 10 * PACKET), 0);
    assert!((10 * PACKET..=21 * PACKET).contains(&device.dql.limit()), "{}", device.dql.limit());
}

#[test]
fn bounds_hold() {
    let mut dql = Dql::with_limits(Time::ZERO, HOLD, 3_000, 6_000);
    assert_eq!(dql.limit(), 3_000);
    for n in 0..1_000u64 {
        while dql.open() {
            dql.queued(PACKET);
        }
        dql.completed(dql.in_flight(), Time::ZERO + TICK * n);
        assert!((3_000..=6_000).contains(&dql.limit()));
    }
    assert_eq!(dql.limit(), 6_000);
    assert_eq!(MAX_LIMIT, 1_879_048_192);
}
