//! Congestion control: how many bytes may be on their way.
//!
//! Reno (RFC 5681), CUBIC (RFC 9438, with [HyStart](super::hystart) as Linux has it) and DCTCP
//! (RFC 8257). Windows are bytes; the state machine around them, loss recovery, stands in
//! [`super::sender`].

use lowtail_engine::{Duration, Time};

use super::hystart::{self, HyStart, Sample};
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
/// How long after the cubic's beginning round trips tell HyStart nothing (Linux `cubictcp_acked`).
const CUBIC_SETTLES: Duration = Duration::from_ms(1_000);
/// DCTCP's gain (RFC 8257, 4.2: 1/16).
const DCTCP_GAIN: f64 = 1.0 / 16.0;

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
    hystart: HyStart,
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
            hystart: HyStart::new(),
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

    /// New bytes have been acknowledged: what that says of the way. Before [`acked`](Self::acked).
    pub fn sampled(&mut self, sample: &Sample) {
        // Linux: not within a second of the end of slow start, which is when the cubic has begun.
        let soon = self.epoch.is_some_and(|epoch| sample.now.since(epoch) < CUBIC_SETTLES);
        if self.control != Control::Cubic || soon {
            return;
        }
        self.hystart.sampled(sample);
        if self.in_slow_start() && self.window >= hystart::LEAST_WINDOW {
            let pacing_bytes_per_s = self.pacing_bytes_per_s(sample.srtt);
            if self.hystart.full(sample, pacing_bytes_per_s) {
                self.threshold = self.window;
            }
        }
    }

    /// The rate at which Linux would pace (`tcp_update_pacing_rate`): twice the window for a smoothed
    /// round trip of `srtt` in slow start, 1.2 times behind it.
    pub fn pacing_bytes_per_s(&self, srtt: Duration) -> u64 {
        let percent = if self.window < self.threshold / 2 { 200 } else { 120 };
        let bytes = u128::from(self.window) * percent * 1_000_000_000 / 100;
        (bytes / u128::from(srtt.as_ns().max(1))).min(u64::MAX.into()) as u64
    }

    /// `acked` bytes have been acknowledged while the window was in use; `rtt` is the last round trip.
    pub fn acked(&mut self, acked: u64, rtt: Duration, now: Time) {
        let mut acked = acked;
        if self.in_slow_start() {
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

    /// The time-out has come: from the beginning. `next` is the first byte that has not been sent.
    pub fn timed_out(&mut self, flight: u64, next: u64, now: Time) {
        self.lost(flight);
        self.hystart = HyStart::new();
        self.hystart.begin(next, now);
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
