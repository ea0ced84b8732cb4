//! Segments that the own host's queue has refused: the sender is told at once.

use lowtail_engine::Time;

use super::wait::Waits;
use super::{Segment, Sender, State};
use crate::tcp::TcpConfig;

impl Sender {
    /// The queue of the own host had no room for `segment`, the last that was sent. It has not been sent then: it is the next one
    /// again, not a loss, and the window shrinks once, as for an echo of a mark (Linux `__tcp_transmit_skb`, which enters CWR
    /// where a queue returns `NET_XMIT_DROP`, and `tcp_write_xmit`, which leaves the segment where it was).
    pub fn refused(&mut self, segment: Segment, config: &TcpConfig, now: Time) {
        let Segment { seq, payload, again } = segment;
        let (payload, end) = (u64::from(payload), seq + u64::from(payload));
        self.qdisc_bytes = self.qdisc_bytes.saturating_sub(payload);
        if self.state == State::Recovery {
            self.prr_out = self.prr_out.saturating_sub(payload);
        }
        if self.probe.is_some_and(|probe| probe.0 == end) {
            self.probe = None;
        } else if again {
            self.resent.pop_back();
            match self.again_to == end {
                true => self.again_to = seq,
                false => self.lost_again.push_front((seq, end)),
            }
        } else {
            self.next = seq;
        }
        if self.state == State::Open && self.una >= self.echo_end {
            let flight = self.flight();
            self.congestion.window = self.congestion.lost(flight + payload);
            self.echo_end = self.next;
        }
        if self.next == self.una {
            // No acknowledgement will set it going again (Linux `tcp_check_probe_timer`).
            self.deadline = now + self.rto(config);
            (self.timeout, self.waits) = (self.deadline, Waits::Room);
        }
    }
}
