//! The splitter: pieces make the whole.

use lowtail_net::packet::{MSS_BYTES, Packet, frames_of};
use lowtail_net::queue::Queue;
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::split::{Split, pieces_of};
use proptest::prelude::*;

use crate::bed::{Bed, data, random};

proptest! {
    #![proptest_config(random(256))]

    #[test]
    fn pieces_tile_the_segment(payload in 0u32..65_000, most in 0u32..70_000, seq in 0u64..1 << 40) {
        let fifo = Box::new(Fifo::new(FifoLimit::Packets(100), None));
        let mut bed = Bed::new(Split::new(most, fifo));
        let whole = Packet { flags: 5, sack: 7, class: 3, ..data((1, 2, 3), seq, payload) };
        prop_assert_eq!(bed.put(whole), []);
        let expected = pieces_of(&whole, most);
        prop_assert_eq!(bed.queue.packets(), expected as usize);
        prop_assert_eq!(bed.queue.pieces(), if expected > 1 { u64::from(expected) } else { 0 });
        let pieces: Vec<Packet> = std::iter::from_fn(|| bed.next()).collect();
        prop_assert_eq!(pieces.len(), expected as usize);
        let (mut next, mut frames) = (seq, 0);
        for (n, piece) in pieces.iter().enumerate() {
            let last = n + 1 == pieces.len();
            prop_assert_eq!(piece.seq, next);
            prop_assert_eq!(piece.frames, frames_of(piece.payload));
            prop_assert!(piece.payload <= most.max(MSS_BYTES));
            prop_assert!(last || piece.payload % MSS_BYTES == 0);
            prop_assert_eq!((piece.flags, piece.sack), (5, if last { 7 } else { u32::MAX }));
            prop_assert_eq!((piece.class, piece.flow), (3, whole.flow));
            next += u64::from(piece.payload);
            frames += piece.frames;
        }
        prop_assert_eq!((next - seq, frames), (u64::from(payload), whole.frames));
        // Time on the wire is the same, cut or not.
        let wire: u32 = pieces.iter().map(Packet::wire_bytes).sum();
        prop_assert_eq!(wire, whole.wire_bytes());
    }
}
