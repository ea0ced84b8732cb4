//! What a packet costs in each discipline: one `dequeue` and one `enqueue`, with 1 or 1000 packets
//! waiting, of 100 flows between 10 sources and 10 destinations.
//!
//! Budgets: 30 ns for those with one list or a few, 60 ns for those that tell flows apart, 100 ns
//! for small first. CAKE 80 ns with one flow; with ten to each host a turn is a tenth of a packet,
//! and ten turns make one: 200 ns.

#[path = "../tests/queues/packet.rs"]
mod packet;

use divan::{Bencher, black_box};
use lowtail_engine::{Duration, Time};
use lowtail_net::bql::Dql;
use lowtail_net::packet::{End, MSS_BYTES, Packet, PacketId, Pool};
use lowtail_net::queue::cake::{Cake, CakeConfig};
use lowtail_net::queue::codel::{Codel, CodelConfig};
use lowtail_net::queue::drr::{Drr, DrrConfig, DrrKey};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::split::Split;
use lowtail_net::queue::tag::{BySource, Tag};
use lowtail_net::queue::tbf::Tbf;
use lowtail_net::queue::{Cause, Queue, QueueContext};
use lowtail_net::rate::Rate;
use packet::data;

fn main() {
    divan::main();
}

const WAITING: [usize; 2] = [1, 1000];

struct World {
    queue: Box<dyn Queue>,
    pool: Pool,
    dropped: Vec<(PacketId, Cause)>,
    now: Time,
}

fn packet(n: u32, payload: u32) -> Packet {
    let of = (n % 10, 10 + n / 10 % 10, n % 100);
    Packet { class: (n % 10 / 4) as u8, ..data(of, 0, payload) }
}

impl World {
    fn new(queue: Box<dyn Queue>, waiting: usize) -> Self {
        let (pool, dropped) = (Pool::new(), Vec::new());
        let mut world = World { queue, pool, dropped, now: Time::ZERO };
        for n in 0..waiting as u32 {
            let id = world.pool.put(packet(n, MSS_BYTES));
            world.enqueue(id);
        }
        world
    }

    fn enqueue(&mut self, id: PacketId) {
        self.pool[id].queued = self.now;
        let (pool, dropped) = (&mut self.pool, &mut self.dropped);
        self.queue.enqueue(id, &mut QueueContext { now: self.now, pool, dropped });
    }

    fn dequeue(&mut self) -> Option<PacketId> {
        let (pool, dropped) = (&mut self.pool, &mut self.dropped);
        self.queue.dequeue(&mut QueueContext { now: self.now, pool, dropped })
    }

    /// The next one leaves and comes again; a packet's time at 10 Gbit/s passes, so that a
    /// thousand of them stay below CoDel's usual target.
    fn turn(&mut self) {
        self.now += Duration::from_ns(1_230);
        let id = self.dequeue().expect("packets wait");
        self.enqueue(id);
    }
}

fn bench(bencher: Bencher<'_, '_>, queue: impl Queue + 'static, waiting: usize) {
    let mut world = World::new(Box::new(queue), waiting);
    for _ in 0..10_000 {
        world.turn();
    }
    bencher.bench_local(|| world.turn());
    assert_eq!((world.queue.packets(), world.dropped.len()), (waiting, 0));
}

fn long_fifo() -> Box<dyn Queue> {
    Box::new(Fifo::new(FifoLimit::Packets(2000), None))
}

#[divan::bench(args = WAITING)]
fn fifo(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Fifo::new(FifoLimit::Packets(2000), None), waiting);
}

#[divan::bench(args = WAITING)]
fn codel(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Codel::new(CodelConfig::default(), 2000), waiting);
}

#[divan::bench(args = WAITING)]
fn fq_codel(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, FqCodel::new(FqCodelConfig::default()), waiting);
}

#[divan::bench(args = WAITING)]
fn prio(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Prio::new(vec![long_fifo(), long_fifo(), long_fifo()]), waiting);
}

#[divan::bench(args = WAITING)]
fn tag(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Tag::new(BySource::new(1).with(End(3), 0), long_fifo()), waiting);
}

#[divan::bench(args = WAITING)]
fn drr_by_pair(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Drr::new(DrrConfig::new(DrrKey::Pair)), waiting);
}

#[divan::bench(args = WAITING)]
fn small_first(bencher: Bencher<'_, '_>, waiting: usize) {
    let codel = Some(CodelConfig::default());
    bench(
        bencher,
        SmallFirstQueue::new(SmallFirstQueueConfig { codel, ..Default::default() }),
        waiting,
    );
}

/// All of them large.
#[divan::bench(args = WAITING)]
fn small_first_large(bencher: Bencher<'_, '_>, waiting: usize) {
    let config = SmallFirstQueueConfig {
        codel: Some(CodelConfig::default()),
        small_classes: 0,
        ..Default::default()
    };
    bench(bencher, SmallFirstQueue::new(config), waiting);
}

#[divan::bench(args = WAITING)]
fn tbf(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Tbf::new(Rate::from_mbit_s(20_000), 100_000, long_fifo()), waiting);
}

#[divan::bench(args = WAITING)]
fn cake(bencher: Bencher<'_, '_>, waiting: usize) {
    bench(bencher, Cake::new(CakeConfig::default()), waiting);
}

/// A segment of 64 KB becomes 45 frames, and these leave. Budget: 1.2 us.
#[divan::bench]
fn split_64_kb(bencher: Bencher<'_, '_>) {
    let mut world = World::new(Box::new(Split::new(0, long_fifo())), 0);
    bencher.bench_local(|| {
        let id = world.pool.put(packet(0, 65_000));
        world.enqueue(id);
        while let Some(piece) = world.dequeue() {
            black_box(world.pool.take(piece));
        }
    });
}

/// A packet given to the device and completed. Budget: 10 ns.
#[divan::bench]
fn bql(bencher: Bencher<'_, '_>) {
    let mut dql = Dql::new(Time::ZERO);
    let mut now = Time::ZERO;
    bencher.bench_local(|| {
        now += Duration::from_ns(1_230);
        dql.queued(1500);
        dql.completed(1500, now);
        black_box(dql.avail())
    });
}
