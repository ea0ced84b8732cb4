//! CoDel: controlled delay. Drops (or marks) at the head when packets have waited longer than a
//! target for a whole interval, and then more and more often, until they no longer do (RFC 8289).

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};

use super::{Cause, Queue, QueueContext};
use crate::packet::{Ecn, MTU_BYTES, Packet, PacketId};

/// RFC 8289, `TARGET`, and `codel_params_init` in Linux's `codel_impl.h`: 5 ms of
/// waiting are accepted; 5 to 10 % of the interval.
///
/// Unfit for a data centre: a queue of 10 Gbit/s may stay 6 MB long for ever. RFC 8289 derives
/// the target from the interval, so that with [`DC_INTERVAL`] it is [`DC_TARGET`].
pub const TARGET: Duration = Duration::from_ms(5);

/// RFC 8289, `INTERVAL`, and `codel_params_init` in Linux: 100 ms, the longest usual
/// round trip on the Internet.
///
/// Unfit for a data centre, where a round trip takes 0.1 ms: a queue may stand for a thousand of
/// them before the first drop.
pub const INTERVAL: Duration = Duration::from_ms(100);

/// Our choice, not Linux's: 2 ms, a round trip in a data centre with a busy host at each end.
/// RFC 8289 wants the interval to be a round trip that covers nearly all connections.
pub const DC_INTERVAL: Duration = Duration::from_ms(2);

/// Our choice, by RFC 8289 (5 to 10 %): 5 % of [`DC_INTERVAL`].
pub const DC_TARGET: Duration = Duration::from_us(100);

/// `DEFAULT_CODEL_LIMIT` in Linux's `sch_codel.c`: 1000 packets, whatever their length.
///
/// With segments of 64 KB these are 64 MB, so that it limits nothing in a data centre; CoDel
/// itself has to.
pub const LIMIT_PACKETS: usize = 1000;

/// How soon after leaving the dropping state it counts as the same trouble: 16 intervals (RFC
/// 8289, its pseudocode's `dequeue`; the same in `codel_dequeue` of Linux).
const SAME_TROUBLE: u64 = 16;

/// With how little behind it a packet is never dropped, since an empty link helps nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinBacklog {
    /// So many bytes: the MTU of the device. Linux today (`codel_params.mtu`), since "codel: fix
    /// maxpacket/mtu confusion" of 2015.
    Mtu(u32),
    /// The longest packet seen (RFC 8289, `maxpacket_`; Linux before). Once a segment
    /// of 64 KB has passed, 64 KB may stand for ever: 52 ms at 10 Mbit/s, 52 us at 10 Gbit/s.
    LargestSeen,
}

/// What CoDel goes by. The default is Linux's `codel_params_init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodelConfig {
    /// See [`TARGET`].
    pub target: Duration,
    /// See [`INTERVAL`].
    pub interval: Duration,
    /// Whether capable packets are marked instead of dropped. Off in Linux's CoDel, on in its
    /// FQ-CoDel.
    pub ecn: bool,
    /// Capable packets that waited longer than this are marked at once, besides all else
    /// (`ce_threshold`, off in Linux): a shallow threshold as DCTCP wants it, in time.
    pub ce_threshold: Option<Duration>,
    /// See [`MinBacklog`].
    pub min_backlog: MinBacklog,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig {
            target: TARGET,
            interval: INTERVAL,
            ecn: false,
            ce_threshold: None,
            min_backlog: MinBacklog::Mtu(MTU_BYTES),
        }
    }
}

/// `interval` / sqrt(`count`), rounded down to a picosecond, exactly.
///
/// Linux approximates with one Newton step in 16 bits, which from 1 to 2 errs by 29 % (it drops
/// the second packet after a half of the interval, not 0.71 of it); the `control_law` of RFC 8289 has the
/// square root.
pub fn control_law(interval: Duration, count: u32) -> Duration {
    let square = u128::from(interval.as_ps()) * u128::from(interval.as_ps());
    Duration::from_ps((square / u128::from(count.max(1))).isqrt() as u64)
}

/// Marks `packet` if it is capable. Whether it is marked now.
pub(super) fn mark(packet: &mut Packet) -> bool {
    if packet.ecn == Ecn::Capable {
        packet.ecn = Ecn::Marked;
    }
    packet.ecn == Ecn::Marked
}

/// What CoDel knows of one queue, wherever its packets are: the machine of RFC 8289's pseudocode.
///
/// A queue found empty forgets that packets were late, as there. Linux's FQ-CoDel did not until
/// 2026 ("codel: fix stale state for empty flows in fq_codel"): a lone packet after a pause could
/// be dropped on arrival. That is not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodelState {
    /// When to begin to drop, if packets wait too long until then.
    first_above: Option<Time>,
    drop_next: Time,
    /// Drops since the dropping state was entered, plus where it resumed.
    count: u32,
    /// `count` when it was entered.
    last_count: u32,
    largest: u32,
    dropping: bool,
}

impl CodelState {
    /// Nothing has happened.
    pub fn new() -> Self {
        CodelState {
            first_above: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            largest: 0,
            dropping: false,
        }
    }

    /// Whether it is in the dropping state.
    pub fn dropping(&self) -> bool {
        self.dropping
    }

    /// Drops since the dropping state was entered, plus where it resumed.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Somebody else dropped `n` packets of this queue: signal harder (`fq_codel_drop` of Linux).
    pub fn add_drops(&mut self, n: u32) {
        self.count = self.count.saturating_add(n);
    }

    /// The packet to send now. `pop` takes the next one out of the queue and says how many bytes
    /// are left behind it.
    pub fn dequeue(
        &mut self,
        config: &CodelConfig,
        cx: &mut QueueContext<'_>,
        mut pop: impl FnMut(&QueueContext<'_>) -> Option<(PacketId, u64)>,
    ) -> Option<PacketId> {
        let mut next = pop(cx);
        let late = self.late(config, cx, next);
        if self.dropping {
            self.dropping = late;
            // A long queue may be due for more than one drop now.
            while self.dropping && cx.now >= self.drop_next {
                let (id, _) = next?;
                self.count = self.count.saturating_add(1);
                if config.ecn && mark(&mut cx.pool[id]) {
                    self.drop_next += control_law(config.interval, self.count);
                    break;
                }
                cx.drop(id, Cause::Aqm);
                next = pop(cx);
                self.dropping = self.late(config, cx, next);
                if self.dropping {
                    self.drop_next += control_law(config.interval, self.count);
                }
            }
        } else if late {
            let (id, _) = next?;
            if !(config.ecn && mark(&mut cx.pool[id])) {
                cx.drop(id, Cause::Aqm);
                next = pop(cx);
                // Not late would end the dropping state at the next packet, not here.
                self.late(config, cx, next);
            }
            self.dropping = true;
            let delta = self.count.saturating_sub(self.last_count);
            let soon = cx.now.saturating_since(self.drop_next) < config.interval * SAME_TROUBLE;
            self.count = if delta > 1 && soon { delta } else { 1 };
            self.last_count = self.count;
            self.drop_next = cx.now + control_law(config.interval, self.count);
        }
        let (id, _) = next?;
        let packet = &mut cx.pool[id];
        let waited = cx.now.saturating_since(packet.queued);
        if config.ce_threshold.is_some_and(|most| waited > most) {
            mark(packet);
        }
        Some(id)
    }

    /// Whether packets have waited too long for a whole interval (`dodequeue` of RFC 8289).
    fn late(
        &mut self,
        config: &CodelConfig,
        cx: &QueueContext<'_>,
        next: Option<(PacketId, u64)>,
    ) -> bool {
        let Some((id, left)) = next else {
            self.first_above = None;
            return false;
        };
        let packet = &cx.pool[id];
        self.largest = self.largest.max(packet.bytes());
        let least = match config.min_backlog {
            MinBacklog::Mtu(bytes) => bytes,
            MinBacklog::LargestSeen => self.largest,
        };
        if cx.now.saturating_since(packet.queued) < config.target || left <= u64::from(least) {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(cx.now + config.interval);
                false
            }
            Some(at) => cx.now >= at,
        }
    }
}

impl Default for CodelState {
    fn default() -> Self {
        CodelState::new()
    }
}

/// One queue under CoDel.
#[derive(Debug)]
pub struct Codel {
    config: CodelConfig,
    limit_packets: usize,
    state: CodelState,
    waiting: VecDeque<PacketId>,
    bytes: u64,
}

impl Codel {
    /// Empty. Linux has [`LIMIT_PACKETS`].
    pub fn new(config: CodelConfig, limit_packets: usize) -> Self {
        let state = CodelState::new();
        Codel { config, limit_packets, state, waiting: VecDeque::new(), bytes: 0 }
    }

    /// What it knows.
    pub fn state(&self) -> &CodelState {
        &self.state
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        if self.waiting.len() >= self.limit_packets {
            return cx.drop(id, Cause::Full);
        }
        self.bytes += u64::from(cx.pool[id].bytes());
        self.waiting.push_back(id);
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        let Codel { config, state, waiting, bytes, .. } = self;
        state.dequeue(config, cx, |cx| {
            let id = waiting.pop_front()?;
            *bytes -= u64::from(cx.pool[id].bytes());
            Some((id, *bytes))
        })
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
