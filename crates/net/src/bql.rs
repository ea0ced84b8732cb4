//! Byte queue limits: how many bytes a NIC's transmit ring may hold, so that it never runs dry and
//! packets wait in the queueing discipline instead, where their order is still open. Linux's
//! "dynamic queue limits" (`lib/dynamic_queue_limits.c`), by its facts.

use lowtail_engine::{Duration, Time};

/// How long spare room must be seen before the limit shrinks: 1 s (`HZ` in `netdev_queue`'s
/// `dql_init`). Long beside anything in a data centre: one burst of completions that came late
/// keeps the limit high for a second. That is what Linux does; it can be changed.
pub const HOLD: Duration = Duration::from_s(1);

/// `DQL_MAX_LIMIT`: half of what 32 bits count, less `DQL_MAX_OBJECT` (a sixteenth). No limit in
/// fact.
pub const MAX_LIMIT: u64 = (u32::MAX / 2 - u32::MAX / 16) as u64;

/// What is known of one transmit ring. An interval is what lies between two completions.
#[derive(Debug, Clone)]
pub struct Dql {
    /// Bytes ever given to the device, and ever completed.
    queued: u64,
    completed: u64,
    limit: u64,
    /// `queued` may go up to this: the limit, above what was completed.
    up_to: u64,
    /// Bytes of the latest `queued` call.
    last_object: u64,
    /// As they were when the previous interval ended.
    before: Before,
    lowest_slack: u64,
    slack_since: Time,
    hold: Duration,
    min_limit: u64,
    max_limit: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Before {
    queued: u64,
    last_object: u64,
    /// How far in flight bytes were above the limit.
    over: u64,
}

impl Dql {
    /// As Linux begins: a limit of zero, that is, one packet at a time; see [`HOLD`] and
    /// [`MAX_LIMIT`].
    pub fn new(now: Time) -> Self {
        Dql::with_limits(now, HOLD, 0, MAX_LIMIT)
    }

    /// With bounds (`limit_min` and `limit_max` in sysfs) and a hold time of one's own.
    pub fn with_limits(now: Time, hold: Duration, min_limit: u64, max_limit: u64) -> Self {
        let limit = min_limit.min(max_limit);
        Dql {
            queued: 0,
            completed: 0,
            limit,
            up_to: limit,
            last_object: 0,
            before: Before::default(),
            lowest_slack: u64::MAX,
            slack_since: now,
            hold,
            min_limit: limit,
            max_limit,
        }
    }

    /// `bytes` were given to the device.
    pub fn queued(&mut self, bytes: u64) {
        self.last_object = bytes;
        self.queued += bytes;
    }

    /// Bytes that the device may be given still; below zero by as much as the last packet was too
    /// long.
    pub fn avail(&self) -> i64 {
        self.up_to as i64 - self.queued as i64
    }

    /// Whether the device may be given a packet, however long: Linux stops a queue when
    /// [`avail`](Self::avail) is below zero (`netdev_tx_sent_queue`), so that the last packet may
    /// pass the limit.
    pub fn open(&self) -> bool {
        self.avail() >= 0
    }

    /// Bytes that the device has.
    pub fn in_flight(&self) -> u64 {
        self.queued - self.completed
    }

    /// The limit as it is.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The device has sent `bytes`; the limit is reckoned anew.
    ///
    /// # Panics
    /// If it had fewer.
    pub fn completed(&mut self, bytes: u64, now: Time) {
        assert!(bytes <= self.in_flight(), "more bytes completed than the device had");
        let done = self.completed + bytes;
        let over = self.in_flight().saturating_sub(self.limit);
        let in_flight = self.queued - done;
        // What of this interval's completions was also given to the device in this interval.
        let fresh = done.saturating_sub(self.before.queued);

        let ran_dry = over > 0 && in_flight == 0;
        let may_have_run_dry = self.before.over > 0 && fresh > 0;
        let mut limit = self.limit;
        if ran_dry || may_have_run_dry {
            // The limit held packets back while the device had none.
            limit += fresh + self.before.over;
            self.forget_slack(now);
        } else if in_flight > 0 && self.before.queued > self.completed && fresh == 0 {
            // Busy all the time: how much less would have done, too?
            self.lowest_slack = self.lowest_slack.min(self.slack(bytes));
            if now.saturating_since(self.slack_since) > self.hold {
                limit = limit.saturating_sub(self.lowest_slack);
                self.forget_slack(now);
            }
        }
        limit = limit.clamp(self.min_limit, self.max_limit);

        // With another limit, having been over the old one means nothing.
        let over = if limit == self.limit { over } else { 0 };
        self.limit = limit;
        self.up_to = done + limit;
        self.completed = done;
        self.before = Before { queued: self.queued, last_object: self.last_object, over };
    }

    /// Room that was not needed, in an interval that completed `bytes`: what is above twice these
    /// (once to send while the other is refilled), or the part of the latest object that was
    /// below the limit.
    fn slack(&self, bytes: u64) -> u64 {
        let Before { over, last_object, .. } = self.before;
        let above_twice = (self.limit + over).saturating_sub(2 * bytes);
        let part = if over > 0 { last_object.saturating_sub(over) } else { 0 };
        above_twice.max(part)
    }

    fn forget_slack(&mut self, now: Time) {
        self.slack_since = now;
        self.lowest_slack = u64::MAX;
    }
}
