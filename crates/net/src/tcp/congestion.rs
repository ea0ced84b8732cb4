//! Congestion control: how many bytes may be on their way.
//!
//! Reno (RFC 5681), CUBIC (RFC 9438, with the delay part of HyStart as Linux has it) and DCTCP
//! (RFC 8257). Windows are bytes; the state machine around them, loss recovery, stands in
//! [`super::sender`].

use lowtail_engine::{Duration, Time};

use crate::packet::MSS_BYTES;

/// A congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// RFC 5681.
    Reno,
    /// RFC 9438: what Linux has used since 2.6.19.
    #[default]
    Cubic,
    /// RFC 8257; needs queues that mark above a threshold.
    Dctcp,
}

const MSS: u64 = MSS_BYTES as u64;

/// CUBIC's C, segments per cubic second (RFC 9438, 5).
const CUBIC_C: f64 = 0.4;
/// What is left of the window after a loss (RFC 9438, 4.6: 0.7; Linux: 717 / 1024).
const CUBIC_BETA: f64 = 0.7;
/// DCTCP's gain (RFC 8257, 4.2: 1/16).
const DCTCP_GAIN: f64 = 1.0 / 16.0;
/// HyStart (Linux `tcp_cubic.c`): a round whose least of `HYSTART_MIN_SAMPLES` round trips is
/// longer than the least ever by an eighth, clamped to 4 to 16 ms, ends slow start.
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_DELAY_MIN: Duration = Duration::from_ms(4);
const HYSTART_DELAY_MAX: Duration = Duration::from_ms(16);

/// The window and what decides on it.
#[derive(Debug, Clone)]
pub struct Congestion {
    control: Control,
    /// Bytes that may be on their way.
    pub window: u64,
    /// Below this the window grows by what is acknowledged.
    pub threshold: u64,
    /// Bytes acknowledged that have not made a segment's growth yet.
    credit: u64,
    // CUBIC.
    w_max: f64,
    k_s: f64,
    epoch: Option<Time>,
    w_est: f64,
    // HyStart.
    round_end: u64,
    round_min: Duration,
    samples: u32,
    // DCTCP.
    alpha: f64,
    marked: u64,
    counted: u64,
    count_end: u64,
}

impl Congestion {
    /// With an initial window of so many segments.
    pub fn new(control: Control, initial_segments: u32) -> Self {
        Congestion {
            control,
            window: u64::from(initial_segments) * MSS,
            threshold: u64::MAX,
            credit: 0,
            w_max: 0.0,
            k_s: 0.0,
            epoch: None,
            w_est: 0.0,
            round_end: 0,
            round_min: Duration::MAX,
            samples: 0,
            // RFC 8257, 3.3: a cautious start.
            alpha: 1.0,
            marked: 0,
            counted: 0,
            count_end: 0,
        }
    }

    /// Which.
    pub fn control(&self) -> Control {
        self.control
    }

    /// DCTCP's estimate of the share of bytes that are marked.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Whether the window grows exponentially.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// `acked` bytes have been acknowledged while the window was in use. `una` and `next` are
    /// the first byte that has not been, and the first not sent; `rtt` and `min_rtt` the last
    /// round trip and the least.
    pub fn acked(
        &mut self,
        acked: u64,
        una: u64,
        next: u64,
        rtt: Duration,
        min_rtt: Duration,
        now: Time,
    ) {
        let mut acked = acked;
        if self.in_slow_start() {
            if self.control == Control::Cubic {
                self.hystart(una, next, rtt, min_rtt);
            }
            let room = self.threshold.saturating_sub(self.window);
            let grown = acked.min(room);
            self.window += grown;
            acked -= grown;
            if acked == 0 {
                return;
            }
        }
        match self.control {
            Control::Cubic => self.cubic(acked, rtt, now),
            Control::Reno | Control::Dctcp => self.additive(acked),
        }
    }

    /// One segment more for each window acknowledged.
    fn additive(&mut self, acked: u64) {
        self.credit += acked;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += MSS;
        }
    }

    fn cubic(&mut self, acked: u64, rtt: Duration, now: Time) {
        let mss = MSS as f64;
        let window = self.window as f64 / mss;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.epoch = Some(now);
                if self.w_max < window {
                    self.w_max = window;
                    self.k_s = 0.0;
                } else {
                    self.k_s = libm::cbrt((self.w_max - window) / CUBIC_C);
                }
                self.w_est = window;
                now
            }
        };
        // RFC 9438, 4.3: as fast as Reno would, at least.
        let alpha = if self.w_est < self.w_max {
            3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA)
        } else {
            1.0
        };
        self.w_est += alpha * (acked as f64 / mss) / window;
        let t = now.since(epoch).as_s_f64() + rtt.as_s_f64();
        let d = t - self.k_s;
        let target = (CUBIC_C * d * d * d + self.w_max).clamp(window, 1.5 * window);
        let grown = (target - window) / window * (acked as f64 / mss);
        let window = (window + grown).max(self.w_est);
        // Never by more than half of what was acknowledged, as Linux bounds it.
        let most = self.window + acked.div_ceil(2);
        self.window = ((window * mss) as u64).clamp(self.window, most);
    }

    fn hystart(&mut self, una: u64, next: u64, rtt: Duration, min_rtt: Duration) {
        // Beyond, as in Linux: an acknowledgement of just the round's end is still of its tail, and
        // `next` then lacks what this one lets go. The rounds would begin earlier and earlier in the
        // tail, where a burst waits for itself.
        if una > self.round_end {
            (self.round_end, self.round_min, self.samples) = (next, Duration::MAX, 0);
        }
        self.round_min = self.round_min.min(rtt);
        self.samples += 1;
        if self.samples >= HYSTART_SAMPLES && self.window >= 16 * MSS {
            let slack = (min_rtt / 8).clamp(HYSTART_DELAY_MIN, HYSTART_DELAY_MAX);
            if self.round_min >= min_rtt + slack {
                self.threshold = self.window;
            }
        }
    }

    /// A loss was found with `flight` bytes under way: the window that is right from here on.
    pub fn lost(&mut self, flight: u64) -> u64 {
        self.epoch = None;
        let reduced = match self.control {
            Control::Reno | Control::Dctcp => flight / 2,
            Control::Cubic => {
                let window = self.window as f64 / MSS as f64;
                // Fast convergence (RFC 9438, 4.7).
                self.w_max =
                    if window < self.w_max { window * (1.0 + CUBIC_BETA) / 2.0 } else { window };
                (self.window as f64 * CUBIC_BETA) as u64
            }
        };
        self.threshold = reduced.max(2 * MSS);
        self.threshold
    }

    /// The time-out has come: from the beginning.
    pub fn timed_out(&mut self, flight: u64) {
        self.lost(flight);
        self.window = MSS;
        // What was right once is forgotten: the cubic begins flat (RFC 9438, 4.8).
        self.w_max = 0.0;
    }

    /// Counts marks (DCTCP): `acked` bytes, marked or not; `una` and `next` as above.
    pub fn count_marks(&mut self, acked: u64, marked: bool, una: u64, next: u64) {
        self.counted += acked;
        self.marked += if marked { acked } else { 0 };
        if una > self.count_end && self.counted > 0 {
            let share = self.marked as f64 / self.counted as f64;
            self.alpha += DCTCP_GAIN * (share - self.alpha);
            (self.marked, self.counted, self.count_end) = (0, 0, next);
        }
    }

    /// An echo of a mark, the first in this window.
    pub fn echoed(&mut self, flight: u64) {
        match self.control {
            Control::Dctcp => {
                let window = self.window as f64 * (1.0 - self.alpha / 2.0);
                self.window = (window as u64).max(2 * MSS);
                self.threshold = self.window;
            }
            _ => self.window = self.lost(flight),
        }
    }

    /// The connection has been idle for longer than a time-out (RFC 5681, 4.1; Linux
    /// `tcp_slow_start_after_idle`): the window was right once. Half of it for each of
    /// `times` time-outs, but not less than `initial`.
    pub fn restart(&mut self, times: u32, initial: u64) {
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let shrunk = self.window.checked_shr(times).unwrap_or(0);
        self.window = shrunk.max(initial.min(self.window));
        self.epoch = None;
    }

    /// Recovery is over.
    pub fn recovered(&mut self) {
        self.window = self.threshold;
        self.credit = 0;
    }
}
