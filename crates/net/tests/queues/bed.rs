//! A queue with its pool, and a clock.

use lowtail_engine::{Duration, Time};
use lowtail_net::packet::{Kind, MTU_BYTES, Packet, PacketId, Pool, UDP_HEADER_BYTES};
use lowtail_net::queue::{Cause, Queue, QueueContext};
use proptest::test_runner::{Config as ProptestConfig, RngSeed};

pub(crate) use crate::packet::data;

/// Of random tests: the seed is printed if one fails, and `LOWTAIL_SEED=n` runs another sequence.
pub(crate) fn random(cases: u32) -> ProptestConfig {
    let seed = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("repeat: LOWTAIL_SEED={seed} cargo test -p lowtail-net --test queues");
    let rng_seed = RngSeed::Fixed(seed);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// A queue with its pool, and a clock.
#[derive(Debug)]
pub(crate) struct Bed<Q: ?Sized> {
    pub(crate) queue: Box<Q>,
    pub(crate) pool: Pool,
    pub(crate) now: Time,
    pub(crate) dropped: Vec<(PacketId, Cause)>,
}

/// A datagram that is `bytes` long with its headers, one frame.
pub(crate) fn datagram(of: (u32, u32, u32), seq: u64, bytes: u32) -> Packet {
    assert!((UDP_HEADER_BYTES..=MTU_BYTES).contains(&bytes));
    Packet { kind: Kind::Datagram, frames: 1, ..data(of, seq, bytes - UDP_HEADER_BYTES) }
}

impl<Q: Queue> Bed<Q> {
    pub(crate) fn new(queue: Q) -> Self {
        Bed::boxed(Box::new(queue))
    }
}

impl<Q: Queue + ?Sized> Bed<Q> {
    pub(crate) fn boxed(queue: Box<Q>) -> Self {
        Bed { queue, pool: Pool::new(), now: Time::ZERO, dropped: Vec::new() }
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// It enters now. What that dropped.
    pub(crate) fn put(&mut self, packet: Packet) -> Vec<(Packet, Cause)> {
        let id = self.pool.put(Packet { queued: self.now, ..packet });
        let mut cx =
            QueueContext { now: self.now, pool: &mut self.pool, dropped: &mut self.dropped };
        self.queue.enqueue(id, &mut cx);
        self.take_dropped()
    }

    /// The next one, taken out of the pool, and what was dropped on the way.
    pub(crate) fn get(&mut self) -> (Option<Packet>, Vec<(Packet, Cause)>) {
        let mut cx =
            QueueContext { now: self.now, pool: &mut self.pool, dropped: &mut self.dropped };
        let id = self.queue.dequeue(&mut cx);
        let dropped = self.take_dropped();
        (id.map(|id| self.pool.take(id)), dropped)
    }

    /// The next one, where none may be dropped and the clock goes on until there is one.
    pub(crate) fn next(&mut self) -> Option<Packet> {
        loop {
            let (packet, dropped) = self.get();
            assert_eq!(dropped, []);
            if packet.is_some() || self.queue.packets() == 0 {
                return packet;
            }
            self.now = self.queue.ready_at().expect("packets wait");
        }
    }

    fn take_dropped(&mut self) -> Vec<(Packet, Cause)> {
        let pool = &mut self.pool;
        self.dropped.drain(..).map(|(id, cause)| (pool.take(id), cause)).collect()
    }
}
