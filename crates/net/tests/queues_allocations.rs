//! No allocation per packet: once a discipline has grown to its size, it allocates nothing.

#[path = "queues/packet.rs"]
mod packet;

use lowtail_engine::{Duration, Rng, Time};
use lowtail_net::packet::{Packet, Pool};
use lowtail_net::queue::cake::{Cake, CakeConfig};
use lowtail_net::queue::codel::{Codel, CodelConfig, DC_INTERVAL, DC_TARGET};
use lowtail_net::queue::drr::{Drr, DrrConfig, DrrKey};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::htb::Htb;
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::split::Split;
use lowtail_net::queue::tbf::Tbf;
use lowtail_net::queue::{Queue, QueueContext};
use lowtail_net::rate::Rate;
use lowtail_testkit::allocations::{self, Counting};
use packet::data;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of 100,000 packets after as many to grow by, at twice what the queue can send.
fn allocations(mut queue: Box<dyn Queue>) -> u64 {
    let mut random = Rng::new(1, "packets");
    let (mut pool, mut dropped, mut now) = (Pool::new(), Vec::new(), Time::ZERO);
    let mut before = 0;
    for n in 0..200_000u64 {
        if n == 100_000 {
            before = allocations::allocations();
        }
        now += Duration::from_us(2);
        let payload = if n % 10 == 0 { random.below(64_000) as u32 } else { 1_000 };
        let (src, dst) = (random.below(20) as u32, random.below(40) as u32);
        let of = (src, dst, src * 40 + dst);
        let class = random.below(4) as u8;
        let packet = Packet { sent: now, queued: now, class, ..data(of, n, payload) };
        let id = pool.put(packet);
        queue.enqueue(id, &mut QueueContext { now, pool: &mut pool, dropped: &mut dropped });
        // Now and then the queue is emptied, so that places are given back.
        let most = if n % 5_000 == 0 { 1_000_000 } else { n % 2 };
        for _ in 0..most {
            let mut cx = QueueContext { now, pool: &mut pool, dropped: &mut dropped };
            let Some(id) = queue.dequeue(&mut cx) else { break };
            pool.take(id);
        }
        for (id, _) in dropped.drain(..) {
            pool.take(id);
        }
    }
    allocations::allocations() - before
}

/// One test, since all threads share the counter.
#[test]
fn nothing_per_packet() {
    let fifo = || Box::new(Fifo::new(FifoLimit::Bytes(500_000), None)) as Box<dyn Queue>;
    let drr = DrrConfig { queues: 100, ..DrrConfig::new(DrrKey::Pair) };
    let small = SmallFirstQueueConfig { flows: 100, ..SmallFirstQueueConfig::default() };
    let cake = CakeConfig { memory_limit: Some(2_000_000), ..CakeConfig::default() };
    let fq = FqCodelConfig { memory_limit: 2_000_000, ..FqCodelConfig::default() };
    let all: Vec<(&str, Box<dyn Queue>)> = vec![
        ("fifo", fifo()),
        (
            "codel",
            Box::new(Codel::new(
                CodelConfig {
                    target: DC_TARGET,
                    interval: DC_INTERVAL,
                    ecn: true,
                    ..CodelConfig::default()
                },
                1000,
            )),
        ),
        ("fq_codel", Box::new(FqCodel::new(fq))),
        ("prio", Box::new(Prio::new(vec![fifo(), fifo()]))),
        ("split", Box::new(Split::new(0, fifo()))),
        ("drr", Box::new(Drr::new(drr))),
        ("tbf", Box::new(Tbf::new(Rate::from_mbit_s(3_000), 100_000, fifo()))),
        ("htb", Box::new(Htb::new(Rate::from_mbit_s(3_000), 100_000, fifo()))),
        ("small_first", Box::new(SmallFirstQueue::new(small))),
        ("cake", Box::new(Cake::new(cake))),
    ];
    for (name, queue) in all {
        // Some list may still meet its longest in the second half; 100,000 packets do not.
        let count = allocations(queue);
        assert!(count <= 20, "{name}: {count}");
    }
}
