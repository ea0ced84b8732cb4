//! Splitter: cuts long segments before they wait, so that what waits behind them waits less.

use lowtail_engine::Time;

use super::{Peek, Queue, QueueContext};
use crate::packet::{Packet, PacketId};

/// Cuts each segment of several frames into pieces, which go to another discipline one by one.
///
/// The whole is taken out of the pool and the pieces are put in, so that who enqueued must not use
/// its number any more. All pieces are as the whole but for sequence number, payload and frames;
/// `sack` is the last one's only, so that it is there once.
///
/// Linux cuts so in `sch_cake` (`split-gso`, down to frames, the default) and `sch_tbf` (only
/// what is longer than its burst); elsewhere segments stay whole until the NIC, and a packet
/// behind one of 64 KB waits 52 us at 10 Gbit/s.
#[derive(Debug)]
pub struct Split {
    most_payload: u32,
    pieces: u64,
    inner: Box<dyn Queue>,
}

/// Payload of each full piece: whole frames, at least one.
fn piece_payload(packet: &Packet, most_payload: u32) -> u32 {
    let frame = packet.frame_payload();
    (most_payload / frame).max(1) * frame
}

/// How many pieces of at most `most_payload` bytes of payload (rounded down to whole frames, at
/// least one) `packet` is cut into.
pub fn pieces_of(packet: &Packet, most_payload: u32) -> u32 {
    if packet.frames <= 1 || packet.kind.is_of_datagram_flow() {
        return 1;
    }
    packet.payload.div_ceil(piece_payload(packet, most_payload)).max(1)
}

impl Split {
    /// Pieces of at most `most_payload` bytes of payload, rounded down to whole frames; less than
    /// a frame stands for one frame.
    pub fn new(most_payload: u32, inner: Box<dyn Queue>) -> Self {
        Split { most_payload, pieces: 0, inner }
    }

    /// Pieces that were made so far; packets that stayed whole do not count. What they cost is
    /// for whoever runs the host to charge, by this or, packet by packet, by [`pieces_of`].
    pub fn pieces(&self) -> u64 {
        self.pieces
    }
}

/// Cuts `id`, and gives each piece to `each`, in order. How many there are; a packet that needs
/// no cutting is its own only piece.
pub(super) fn cut(
    id: PacketId,
    most_payload: u32,
    cx: &mut QueueContext<'_>,
    mut each: impl FnMut(PacketId, &mut QueueContext<'_>),
) -> u32 {
    let pieces = pieces_of(&cx.pool[id], most_payload);
    if pieces == 1 {
        each(id, cx);
        return 1;
    }
    let whole = cx.pool.take(id);
    let full = piece_payload(&whole, most_payload);
    for piece in 0..pieces {
        let id = cx.pool.put(whole.piece(piece * full, full));
        each(id, cx);
    }
    pieces
}

impl Queue for Split {
    fn enqueue(&mut self, id: PacketId, cx: &mut QueueContext<'_>) {
        let inner = &mut self.inner;
        let pieces = cut(id, self.most_payload, cx, |piece, cx| inner.enqueue(piece, cx));
        if pieces > 1 {
            self.pieces += u64::from(pieces);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueContext<'_>) -> Option<PacketId> {
        self.inner.dequeue(cx)
    }

    fn peek(&mut self, cx: &mut QueueContext<'_>) -> Peek {
        self.inner.peek(cx)
    }

    fn ready_at(&self) -> Option<Time> {
        self.inner.ready_at()
    }

    fn packets(&self) -> usize {
        self.inner.packets()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}
