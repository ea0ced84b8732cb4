//! The time-out and what may come before it: a probe of the tail, the end of patience with a gap.

use lowtail_engine::{Duration, Time};

use super::undo::Undo;
use super::wait::{Expiry, Waits};
use super::{MSS, OVERTAKEN_BYTES, Segment, Sender, State};
use crate::tcp::TcpConfig;

/// Longest time-out (RFC 6298, 2.5; Linux `TCP_RTO_MAX`, 120 s).
const RTO_MAX: Duration = Duration::from_ms(120_000);
/// What a probe comes later than after two round trips (Linux `TCP_TIMEOUT_MIN`: two ticks of 1000 Hz).
const PROBE_SLACK: Duration = Duration::from_ms(2);

impl Sender {
    /// The time-out without backing off.
    pub(super) fn rto(&self, config: &TcpConfig) -> Duration {
        if self.srtt.is_zero() {
            return config.rto_initial;
        }
        self.srtt + (self.rttvar * 4).max(config.rto_min)
    }

    /// Sets the time-out anew, and what comes before it.
    pub(super) fn arm(&mut self, config: &TcpConfig, now: Time) {
        if self.next == self.una {
            (self.deadline, self.timeout) = (Time::NEVER, Time::NEVER);
            self.waits = Waits::TimeOut;
            return;
        }
        let rto = self.rto(config);
        let backed = rto.as_ps().checked_shl(self.backoff).unwrap_or(u64::MAX);
        self.timeout = now + Duration::from_ps(backed.min(RTO_MAX.as_ps()));
        self.schedule(config, now);
    }

    /// Sets the deadline: to the time-out, or to what comes before it.
    pub(super) fn schedule(&mut self, config: &TcpConfig, now: Time) {
        (self.deadline, self.waits) = (self.timeout, Waits::TimeOut);
        if self.state != State::Open || self.srtt.is_zero() {
            return;
        }
        if !self.sacked.is_empty() {
            // Something is missing. If that is reordering, it is over in a quarter of the least
            // round trip (RFC 8985, 6.2).
            let at = now + self.min_rtt / 4;
            if at < self.timeout {
                (self.deadline, self.waits) = (at, Waits::Gap);
            }
        } else if config.tail_probe && !self.probed {
            // A single segment may wait for a delayed acknowledgement. Not after the time-out, but
            // in its place (RFC 8985, 7.2).
            let single = self.next - self.una <= MSS;
            let slack = if single { config.rto_min } else { PROBE_SLACK };
            self.deadline = (now + self.srtt * 2 + slack).min(self.timeout);
            self.waits = Waits::Probe;
        }
    }

    /// RFC 6298 with Linux' weights.
    pub(super) fn measure(&mut self, rtt: Duration) {
        self.min_rtt = self.min_rtt.min(rtt);
        if self.srtt.is_zero() {
            (self.srtt, self.rttvar) = (rtt.max(Duration::from_ns(1)), rtt / 2);
            return;
        }
        let apart = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
        self.rttvar = self.rttvar * 3 / 4 + apart / 4;
        self.srtt = self.srtt * 7 / 8 + rtt / 8;
    }

    /// The time that was set has come, or an earlier one.
    pub fn expired(&mut self, config: &TcpConfig, now: Time) -> Expiry {
        if now < self.deadline {
            return Expiry::Later(self.deadline);
        }
        match self.waits {
            Waits::Probe => {
                self.counts.probes += 1;
                self.probed = true;
                self.arm(config, now);
                return Expiry::Send;
            }
            Waits::Gap => {
                self.lost_to = self.sacked.end();
                self.enter_recovery(self.flight(), 0);
                self.schedule(config, now);
                return Expiry::Send;
            }
            Waits::Room => {
                (self.deadline, self.timeout) = (Time::NEVER, Time::NEVER);
                (self.waits, self.probed) = (Waits::TimeOut, false);
                return Expiry::Send;
            }
            Waits::TimeOut => {}
        }
        self.counts.timeouts += 1;
        if self.state == State::Open {
            let (window, threshold) = (self.congestion.window, self.congestion.threshold);
            self.undo = Some(Undo { at: now, window, threshold });
        }
        // Once for a window: not for what was sent in recovery, nor for the same segment again (RFC
        // 5681, 3.1; Linux `tcp_enter_loss`).
        if self.state != State::Recovery && self.backoff == 0 {
            let flight = self.flight();
            self.congestion.timed_out(flight, self.next, now);
        }
        self.congestion.window = MSS;
        self.probe = None;
        self.state = State::Loss;
        self.recover = self.next;
        self.lost_to = self.next;
        self.again_to = self.una;
        self.forget_resent();
        self.backoff = (self.backoff + 1).min(16);
        self.arm(config, now);
        Expiry::Send
    }

    /// The segment of a probe, asked for right after [`expired`](Self::expired) has set one off:
    /// new data if there is, else the last segment once more.
    pub fn probe_segment(&mut self, config: &TcpConfig, now: Time) -> Option<Segment> {
        if !self.probed || self.state != State::Open || self.next == self.una {
            return None;
        }
        let new = self.next < self.end && self.next + MSS <= self.una + config.receive_window;
        let (seq, payload) = if new {
            (self.next, (self.end - self.next).min(MSS))
        } else {
            let payload = (self.next - self.una).min(MSS);
            (self.next - payload, payload)
        };
        if new {
            self.next += payload;
        } else {
            self.counts.resent += 1;
            self.probe = Some((seq + payload, now));
        }
        self.sent(payload, config, now);
        Some(Segment { seq, payload: payload as u32, again: !new })
    }

    /// Whether an expiry that said to send was a probe.
    pub fn is_probing(&self) -> bool {
        self.probed && self.state == State::Open
    }

    /// Bytes have been acknowledged by a segment that was sent at `echo`, as its time stamp says. If that is before all that was sent
    /// again since a time-out, nothing was lost: what is under way is waited for, with the window as it was (the Eifel detection of
    /// RFC 3522; Linux `tcp_try_undo_loss`, `tcp_packet_delayed`).
    pub(super) fn try_undo(&mut self, echo: Time) {
        let Some(undo) = self.undo.filter(|undo| self.state == State::Loss && echo < undo.at)
        else {
            return;
        };
        self.undo = None;
        self.state = State::Open;
        self.congestion.window = self.congestion.window.max(undo.window);
        self.congestion.threshold = self.congestion.threshold.max(undo.threshold);
        self.lost_to = self.sacked.overtaken(OVERTAKEN_BYTES).unwrap_or(0);
        self.again_to = self.una;
        self.forget_resent();
    }
}
