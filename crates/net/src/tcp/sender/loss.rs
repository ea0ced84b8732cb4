//! What is lost, what of it is sent again, and how far the window shrinks meanwhile.

use lowtail_engine::Time;

use super::resent::Resent;
use super::{MSS, Segment, Sender, State};
use crate::tcp::TcpConfig;

impl Sender {
    /// The first of what is lost and has not been sent again since.
    pub(super) fn lost_segment(&mut self, config: &TcpConfig, now: Time) -> Option<Segment> {
        let again = self.lost_again.front().copied();
        let rest = (self.again_to.max(self.una), self.lost_to);
        let (from, to) = again.unwrap_or(rest);
        let gap = if from < to { self.sacked.first_gap(from, to) } else { None };
        let Some((a, b)) = gap else {
            if again.is_some() {
                // It has arrived after all.
                self.lost_again.pop_front();
                return self.lost_segment(config, now);
            }
            self.again_to = self.again_to.max(self.lost_to);
            return None;
        };
        let payload = (b - a).min(MSS);
        let flight = self.flight();
        if flight > 0 && flight + payload > self.congestion.window {
            return None;
        }
        match again {
            Some(_) => {
                self.lost_again.pop_front();
                if a + payload < to {
                    self.lost_again.push_front((a + payload, to));
                }
            }
            None => self.again_to = a + payload,
        }
        self.resent.push_back(Resent { seq: a, end: a + payload, sent: now });
        self.counts.resent += 1;
        self.sent(payload, config, now);
        Some(Segment { seq: a, payload: payload as u32, again: true })
    }

    /// What was sent again is lost again if something that was sent later has arrived. Where no
    /// reordering has been seen, recovery does not wait for it (RACK, RFC 8985, 6.2 step 4).
    pub(super) fn find_lost_again(&mut self) {
        while let Some(&first) = self.resent.front() {
            let there = first.end <= self.una || self.sacked.gap_bytes(first.seq, first.end) == 0;
            if !there && first.sent >= self.arrived_sent {
                break;
            }
            self.resent.pop_front();
            if !there {
                self.lost_again.push_back((first.seq.max(self.una), first.end));
            }
        }
        while self.lost_again.front().is_some_and(|range| range.1 <= self.una) {
            self.lost_again.pop_front();
        }
        if let Some(first) = self.lost_again.front_mut() {
            first.0 = first.0.max(self.una);
        }
    }

    pub(super) fn forget_resent(&mut self) {
        self.resent.clear();
        self.lost_again.clear();
    }

    pub(super) fn enter_recovery(&mut self, flight: u64, delivered: u64) {
        self.counts.recoveries += 1;
        self.state = State::Recovery;
        self.recover = self.next;
        self.again_to = self.again_to.max(self.una);
        self.probe = None;
        self.congestion.lost(flight);
        (self.prr_delivered, self.prr_out, self.prr_flight) = (0, 0, flight.max(1));
        self.reduce(delivered);
        // The first is sent whatever the window says.
        self.congestion.window = self.congestion.window.max(self.flight() + MSS);
    }

    /// Proportional rate reduction (RFC 6937).
    pub(super) fn reduce(&mut self, delivered: u64) {
        self.prr_delivered += delivered;
        let flight = self.flight();
        let target = self.congestion.threshold;
        let may = if flight > target {
            let due = u128::from(self.prr_delivered) * u128::from(target);
            (due.div_ceil(u128::from(self.prr_flight)) as u64).saturating_sub(self.prr_out)
        } else {
            let owed = self.prr_delivered.saturating_sub(self.prr_out).max(delivered) + MSS;
            owed.min(target - flight)
        };
        self.congestion.window = flight + may;
    }
}
