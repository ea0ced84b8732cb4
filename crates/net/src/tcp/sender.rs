//! The sending end of a TCP connection: what to send now, and what an acknowledgement means.
//!
//! Loss is found by selective acknowledgements (RFC 6675: three segments beyond; RFC 8985: fewer, after a
//! quarter of a round trip), by a probe of the tail (RFC 8985, 7) or by the time-out (RFC 6298,
//! with Linux' minimum). In recovery the rate is reduced in proportion (RFC 6937), and all counts as lost
//! when something sent later has arrived (RFC 8985), also what was sent again. A time-out that
//! turns out to have been too early is undone (RFC 3522). Not modelled: undoing of other reductions that were not needed,
//! reordering beyond three segments, pacing, Nagle's delay.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};

use super::TcpConfig;
use super::congestion::{Congestion, Control};
use super::hystart::Sample;
use super::ranges::Ranges;
use super::receiver::Sack;
use crate::packet::MSS_BYTES;

mod deadline;
mod local;
mod loss;
mod resent;
mod size;
mod undo;
mod wait;

pub use wait::Expiry;

use resent::Resent;
use undo::Undo;
use wait::Waits;

const MSS: u64 = MSS_BYTES as u64;
/// Bytes beyond a gap that make it a loss: more than DupThresh - 1 segments (RFC 6675, `IsLost`).
const OVERTAKEN_BYTES: u64 = 2 * MSS + 1;
/// A window may be used to this part (1 / 3) before more is sent in one go (Linux
/// `tcp_tso_win_divisor`).
const DEFER_DIVISOR: u64 = 3;

/// What is done about losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing is missing.
    Open,
    /// Found by acknowledgements.
    Recovery,
    /// Found by the time-out.
    Loss,
}

/// A segment to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first byte.
    pub seq: u64,
    /// Its bytes.
    pub payload: u32,
    /// It has been sent before.
    pub again: bool,
}

/// What an acknowledgement says.
#[derive(Debug, Clone, Copy)]
pub struct AckInfo<'a> {
    /// All bytes before this one are there.
    pub ack: u64,
    /// And these.
    pub sack: Option<&'a Sack>,
    /// The round trip by the echo of the time stamp.
    pub rtt: Duration,
    /// When the segment was sent that has caused it.
    pub cause: Time,
    /// It echoes a mark.
    pub marked: bool,
}

/// The sending end.
#[derive(Debug, Clone)]
pub struct Sender {
    /// First byte that is not acknowledged.
    pub una: u64,
    /// First byte that has not been sent.
    pub next: u64,
    /// One behind the last byte that there is to send.
    pub end: u64,
    /// Bytes that were handed down and have not left the host.
    pub qdisc_bytes: u64,
    /// The window.
    pub congestion: Congestion,
    state: State,
    recover: u64,
    sacked: Ranges,
    /// What is missing below is lost.
    lost_to: u64,
    /// What was lost below has been sent again.
    again_to: u64,
    /// What was sent again and has not been acknowledged, in the order in which it was.
    resent: VecDeque<Resent>,
    /// What of that was lost again.
    lost_again: VecDeque<(u64, u64)>,
    /// Latest time at which anything was sent that has arrived.
    arrived_sent: Time,
    prr_delivered: u64,
    prr_out: u64,
    prr_flight: u64,
    /// The window has been the limit since the last acknowledgement.
    limited: bool,
    /// Reactions to echoes of marks: once until this byte.
    echo_end: u64,
    srtt: Duration,
    rttvar: Duration,
    min_rtt: Duration,
    backoff: u32,
    /// When the time-out comes, or what is to come before it.
    pub deadline: Time,
    /// When the time-out comes.
    timeout: Time,
    waits: Waits,
    probed: bool,
    /// The end of what a probe has sent again, and when.
    probe: Option<(u64, Time)>,
    /// What the last time-out has changed, as long as it may turn out to have been too early.
    undo: Option<Undo>,
    last_sent: Time,
    /// How often each of the ways to find a loss has been gone.
    pub counts: Counts,
}

/// How often something has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments sent again.
    pub resent: u64,
    /// Recoveries by acknowledgements.
    pub recoveries: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// Probes of the tail.
    pub probes: u64,
}

impl Sender {
    /// At the start of a connection.
    pub fn new(config: &TcpConfig) -> Self {
        Sender {
            una: 0,
            next: 0,
            end: 0,
            qdisc_bytes: 0,
            congestion: Congestion::new(config.control, config.initial_window),
            state: State::Open,
            recover: 0,
            sacked: Ranges::new(),
            lost_to: 0,
            again_to: 0,
            resent: VecDeque::new(),
            lost_again: VecDeque::new(),
            arrived_sent: Time::ZERO,
            prr_delivered: 0,
            prr_out: 0,
            prr_flight: 0,
            limited: false,
            echo_end: 0,
            srtt: Duration::ZERO,
            rttvar: Duration::ZERO,
            min_rtt: Duration::MAX,
            backoff: 0,
            deadline: Time::NEVER,
            timeout: Time::NEVER,
            waits: Waits::TimeOut,
            probed: false,
            probe: None,
            undo: None,
            last_sent: Time::ZERO,
            counts: Counts::default(),
        }
    }

    /// Bytes under way: sent, not acknowledged in any way, not taken for lost.
    pub fn flight(&self) -> u64 {
        let sent = self.next - self.una;
        if self.state == State::Open {
            return sent - self.sacked.bytes();
        }
        let from = self.again_to.max(self.una);
        let lost = if from < self.lost_to { self.sacked.gap_bytes(from, self.lost_to) } else { 0 };
        let again: u64 = self.lost_again.iter().map(|&(a, b)| self.sacked.gap_bytes(a, b)).sum();
        sent - self.sacked.bytes() - lost - again
    }

    /// What is done about losses.
    pub fn state(&self) -> State {
        self.state
    }

    /// The smoothed round trip; zero before the first.
    pub fn round_trip(&self) -> Duration {
        self.srtt
    }

    /// The connection is there; it was asked for `asked` times, and the last answer came after `rtt`.
    pub fn opened(&mut self, rtt: Duration, asked: u32) {
        self.measure(rtt);
        (self.deadline, self.timeout) = (Time::NEVER, Time::NEVER);
        if asked > 2 {
            // More than one was lost (RFC 6928, 2; Linux `tcp_init_transfer`).
            self.congestion.window = MSS;
        }
    }

    /// The application has `bytes` more to send.
    pub fn write(&mut self, bytes: u64, config: &TcpConfig, now: Time) {
        self.end += bytes;
        let idle = now.saturating_since(self.last_sent);
        let rto = self.rto(config);
        if config.idle_restart && self.next == self.una && self.next > 0 && idle > rto {
            let times = (idle.as_ps() / rto.as_ps()) as u32;
            self.congestion.restart(times.min(63), u64::from(config.initial_window) * MSS);
        }
    }

    /// The next segment, if one may be sent now. The caller sends it.
    pub fn next_segment(&mut self, config: &TcpConfig, now: Time) -> Option<Segment> {
        if self.state != State::Open
            && let Some(segment) = self.lost_segment(config, now)
        {
            return Some(segment);
        }
        if self.next >= self.end {
            return None;
        }
        if config.small_queues
            && self.qdisc_bytes > 0
            && self.qdisc_bytes >= self.small_queue(config)
        {
            return None;
        }
        let flight = self.flight();
        let window = self.congestion.window;
        let room = window.saturating_sub(flight);
        let left = self.end - self.next;
        let peer = (self.una + config.receive_window).saturating_sub(self.next);
        let first = left.min(MSS);
        if room < first {
            self.limited = true;
            return None;
        }
        if peer < first {
            return None;
        }
        let goal = self.goal(config);
        let mut payload = goal.min(room).min(peer).min(left);
        if payload < left {
            payload = payload / MSS * MSS;
        }
        let patient = goal.min(window.min(config.receive_window) / DEFER_DIVISOR);
        if payload < left && payload < patient && flight > 0 && self.state == State::Open {
            self.limited = true;
            return None;
        }
        let seq = self.next;
        self.next += payload;
        self.limited |= flight + payload + MSS > window;
        self.sent(payload, config, now);
        Some(Segment { seq, payload: payload as u32, again: false })
    }

    fn sent(&mut self, payload: u64, config: &TcpConfig, now: Time) {
        self.last_sent = now;
        if self.state == State::Recovery {
            self.prr_out += payload;
        }
        if self.deadline == Time::NEVER {
            self.arm(config, now);
        } else if self.waits == Waits::Probe {
            // A probe is of the tail: new data put it off, though not the time-out.
            self.schedule(config, now);
        }
    }

    /// An acknowledgement has come.
    pub fn acked(&mut self, news: &AckInfo<'_>, config: &TcpConfig, now: Time) {
        let AckInfo { ack, sack, rtt, cause, marked } = *news;
        if ack < self.una || ack > self.next {
            return;
        }
        let flight_before = self.flight();
        let before = self.una + self.sacked.bytes();
        let newly = ack - self.una;
        self.una = ack;
        self.sacked.remove_below(ack);
        self.arrived_sent = self.arrived_sent.max(cause);
        for &(a, b) in sack.into_iter().flatten().filter(|range| range.0 < range.1) {
            if a >= self.una && b <= self.next {
                self.sacked.insert(a, b);
            }
        }
        let delivered = (self.una + self.sacked.bytes()).saturating_sub(before);
        if newly > 0 {
            self.measure(rtt);
            (self.backoff, self.probed) = (0, false);
            self.try_undo(Time::from_ps(now.as_ps().saturating_sub(rtt.as_ps())));
            let (una, next, srtt) = (self.una, self.next, self.srtt);
            self.congestion.sampled(&Sample { una, next, rtt, srtt, now });
        } else if delivered > 0 {
            // Beyond a gap: the time stamp that is echoed is that before the gap.
            self.measure(now.saturating_since(cause));
        }
        let was_limited = std::mem::take(&mut self.limited);
        if let Some(to) = self.sacked.overtaken(OVERTAKEN_BYTES) {
            self.lost_to = self.lost_to.max(to);
        }
        if self.state != State::Open {
            // No more patience for reordering (RFC 8985, 6.2 step 4).
            self.lost_to = self.lost_to.max(self.sacked.end());
            self.find_lost_again();
        }
        match self.state {
            State::Open => {
                if self.lost_to > self.una && self.sacked.gap_bytes(self.una, self.lost_to) > 0 {
                    self.enter_recovery(flight_before, delivered);
                } else if newly > 0 && was_limited {
                    self.congestion.acked(newly, rtt, now);
                }
            }
            _ if self.una >= self.recover => {
                if self.state == State::Recovery {
                    self.congestion.recovered();
                }
                // What was lost beyond, and sent again already, stays known: it makes for the next
                // recovery, but is not sent a third time.
                self.state = State::Open;
            }
            State::Recovery => self.reduce(delivered),
            State::Loss => {
                if newly > 0 {
                    self.congestion.acked(newly, rtt, now);
                }
            }
        }
        if config.ecn {
            self.marks(newly, marked, flight_before);
        }
        if let Some((_, sent)) = self.probe.filter(|&(end, _)| self.una >= end) {
            // The probe has mended a loss, unless what it repeated was there before it (RFC 8985, 7.4).
            self.probe = None;
            if cause == sent && self.state == State::Open {
                self.congestion.lost(flight_before);
                self.congestion.recovered();
            }
        }
        if newly > 0 || delivered > 0 {
            self.arm(config, now);
        }
    }

    fn marks(&mut self, newly: u64, marked: bool, flight: u64) {
        if self.congestion.control() == Control::Dctcp {
            self.congestion.count_marks(newly, marked, self.una, self.next);
        }
        if marked && self.una >= self.echo_end && self.state == State::Open {
            self.congestion.echoed(flight);
            self.echo_end = self.next;
        }
    }
}
