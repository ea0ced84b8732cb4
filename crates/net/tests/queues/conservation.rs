//! Whatever happens: each byte that enters is sent once, dropped once, or still there; counters
//! agree; a flow's packets stay in order; who waits is told until when.

use std::collections::{BTreeMap, HashMap};

use lowtail_engine::{Duration, Time};
use lowtail_net::packet::{Ecn, End, MSS_BYTES, Packet};
use lowtail_net::queue::Queue;
use lowtail_net::queue::cake::{Cake, CakeConfig};
use lowtail_net::queue::codel::{Codel, CodelConfig, DC_INTERVAL, DC_TARGET};
use lowtail_net::queue::drr::{Drr, DrrConfig, DrrKey};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::htb::Htb;
use lowtail_net::queue::oracle::Oracle;
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::split::{Split, pieces_of};
use lowtail_net::queue::tag::{BySource, Tag};
use lowtail_net::queue::tbf::Tbf;
use lowtail_net::rate::Rate;
use proptest::prelude::*;

use crate::bed::{Bed, data, random};

struct Discipline {
    name: &'static str,
    queue: Box<dyn Queue>,
    /// What it cuts packets to.
    cut: Option<u32>,
    /// Whether it keeps a flow in order although the class of its packets changes.
    any_class: bool,
}

/// All of them, small enough for random traffic to fill them.
fn disciplines() -> Vec<Discipline> {
    let fifo = || Box::new(Fifo::new(FifoLimit::Bytes(100_000), None)) as Box<dyn Queue>;
    let codel = CodelConfig {
        target: DC_TARGET,
        interval: DC_INTERVAL,
        ecn: true,
        ..CodelConfig::default()
    };
    let fq = FqCodelConfig { flows: 4, memory_limit: 200_000, codel, ..Default::default() };
    let few = FqCodelConfig { limit_packets: 5, ..fq };
    let drr = |key, queues| {
        let weights = vec![1, 3];
        Drr::new(DrrConfig { queues, limit_bytes: 150_000, weights, ..DrrConfig::new(key) })
    };
    let small = |flows, codel| {
        let config =
            SmallFirstQueueConfig { flows, codel, limit_bytes: 150_000, ..Default::default() };
        Box::new(SmallFirstQueue::new(config))
    };
    let rate = Rate::from_bits_per_s(123_456_789);
    let cake = |rate, split_gso| {
        let config = CakeConfig {
            rate,
            split_gso,
            target: codel.target,
            interval: codel.interval,
            queues: 4,
            memory_limit: Some(150_000),
            ..Default::default()
        };
        Box::new(Cake::new(config))
    };
    let by_source = BySource::new(1).with(End(1), 0);
    let bands = vec![Box::new(Tbf::fifo(rate, 70_000, 100_000)) as Box<dyn Queue>, fifo()];
    let of = |name, queue, cut, any_class| Discipline { name, queue, cut, any_class };
    vec![
        of("fifo", fifo(), None, true),
        of("codel", Box::new(Codel::new(codel, 20)), None, true),
        of("fq_codel", Box::new(FqCodel::new(fq)), None, true),
        of("fq_codel, few packets", Box::new(FqCodel::new(few)), None, true),
        of("prio", Box::new(Prio::new(vec![fifo(), fifo()])), None, false),
        of("prio over a shaper", Box::new(Prio::new(bands)), None, false),
        of("split", Box::new(Split::new(0, fifo())), Some(0), true),
        of("split by 4", Box::new(Split::new(4 * MSS_BYTES, fifo())), Some(4 * MSS_BYTES), true),
        of("tag", Box::new(Tag::new(by_source, small(9, None))), None, true),
        of("drr by flow", Box::new(drr(DrrKey::Flow, 50)), None, true),
        of("drr by pair, few queues", Box::new(drr(DrrKey::Pair, 2)), None, true),
        of("drr by source, none", Box::new(drr(DrrKey::Source, 0)), None, true),
        of("small_first", small(9, None), None, true),
        of("small_first, few flows", small(2, None), None, true),
        of("small_first, codel", small(4, Some(codel)), None, true),
        of("tbf", Box::new(Tbf::new(rate, 65_000, small(9, Some(codel)))), None, true),
        of("tbf, small burst", Box::new(Tbf::fifo(rate, 20_000, 100_000)), None, true),
        of("htb", Box::new(Htb::new(rate, 20_000, small(9, Some(codel)))), None, true),
        of("oracle", Box::new(Oracle::new(100_000)), None, true),
        of("cake", cake(None, true), Some(0), true),
        of("cake, shaped", cake(Some(rate), true), Some(0), true),
        of("cake, no split", cake(Some(rate), false), None, true),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    Put { src: u32, dst: u32, flow: u32, payload: u32, class: u8, ecn: bool },
    Get { count: u32 },
    Pass { us: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let payload = prop_oneof![0..=MSS_BYTES, 0u32..=64_000];
    let put = (0u32..3, 0u32..3, 0u32..3, payload, 0u8..4, any::<bool>()).prop_map(
        |(src, dst, flow, payload, class, ecn)| Op::Put { src, dst, flow, payload, class, ecn },
    );
    let pass = (0u64..3_000).prop_map(|us| Op::Pass { us });
    prop_oneof![4 => put, 2 => (1u32..6).prop_map(|count| Op::Get { count }), 1 => pass]
}

/// What must be inside, by all that went in and came out.
#[derive(Default)]
struct Ledger {
    /// Bytes of payload by (flow, first): the end. Empty packets take a byte of their own.
    inside: BTreeMap<(u32, u64), u64>,
    next_seq: HashMap<u32, u64>,
    last_sent: HashMap<u32, u64>,
    bytes: u64,
}

impl Ledger {
    fn put(&mut self, packet: &Packet, pieces: u32) {
        let end = packet.seq + u64::from(packet.payload.max(1));
        self.inside.insert((packet.flow.0, packet.seq), end);
        self.bytes += u64::from(packet.payload + pieces * packet.header_bytes());
    }

    fn gone(&mut self, packet: &Packet) -> Result<(), TestCaseError> {
        let (flow, from) = (packet.flow.0, packet.seq);
        let to = from + u64::from(packet.payload.max(1));
        let found = self.inside.range(..=(flow, from)).next_back().map(|(&k, &end)| (k, end));
        let Some(((_, first), end)) = found.filter(|&((f, _), end)| f == flow && to <= end) else {
            return Err(TestCaseError::fail(format!("{packet:?} was not inside, or not any more")));
        };
        self.inside.remove(&(flow, first));
        for (a, b) in [(first, from), (to, end)] {
            if a < b {
                self.inside.insert((flow, a), b);
            }
        }
        self.bytes -= u64::from(packet.bytes());
        Ok(())
    }

    fn sent(&mut self, packet: &Packet) -> Result<(), TestCaseError> {
        self.gone(packet)?;
        let last = self.last_sent.insert(packet.flow.0, packet.seq);
        prop_assert!(last < Some(packet.seq), "{packet:?} after {last:?}");
        Ok(())
    }
}

fn agree(bed: &Bed<dyn Queue>, ledger: &Ledger) -> Result<(), TestCaseError> {
    // All that is in the pool is in the queue.
    prop_assert_eq!(bed.queue.packets(), bed.pool.len());
    prop_assert_eq!(bed.queue.bytes(), ledger.bytes);
    Ok(())
}

/// One `dequeue`. Whether there was one.
fn get(bed: &mut Bed<dyn Queue>, ledger: &mut Ledger) -> Result<bool, TestCaseError> {
    let (sent, dropped) = bed.get();
    for (packet, _) in &dropped {
        ledger.gone(packet)?;
    }
    if let Some(packet) = &sent {
        ledger.sent(packet)?;
    }
    agree(bed, ledger)?;
    Ok(sent.is_some())
}

fn run(discipline: Discipline, ops: &[Op]) -> Result<(), TestCaseError> {
    let Discipline { queue, cut, any_class, .. } = discipline;
    let (mut bed, mut ledger) = (Bed::boxed(queue), Ledger::default());
    for op in ops {
        match *op {
            Op::Put { src, dst, flow, payload, class, ecn } => {
                // A flow has its own pair and, where classes may overtake, its own class.
                let flow = flow + 3 * (dst + 3 * src);
                let class = if any_class { class } else { (flow % 4) as u8 };
                let seq = ledger.next_seq.entry(flow).or_default();
                let packet = data((src, dst, flow), *seq, payload);
                *seq += u64::from(payload.max(1));
                let ecn = if ecn { Ecn::Capable } else { Ecn::Not };
                let packet = Packet { class, ecn, ..packet };
                ledger.put(&packet, cut.map_or(1, |most| pieces_of(&packet, most)));
                for (packet, _) in bed.put(packet) {
                    ledger.gone(&packet)?;
                }
                agree(&bed, &ledger)?;
            }
            Op::Get { count } => {
                for _ in 0..count {
                    get(&mut bed, &mut ledger)?;
                }
            }
            Op::Pass { us } => bed.pass(Duration::from_us(us)),
        }
    }
    while bed.queue.packets() > 0 {
        if !get(&mut bed, &mut ledger)? && bed.queue.packets() > 0 {
            let at = bed.queue.ready_at();
            prop_assert!(at > Some(bed.now) && at < Some(Time::NEVER), "{at:?}");
            bed.now = at.unwrap();
            prop_assert!(get(&mut bed, &mut ledger)?, "not ready when it said");
        }
    }
    prop_assert!(ledger.inside.is_empty());
    prop_assert!(!get(&mut bed, &mut ledger)?);
    prop_assert_eq!((bed.queue.ready_at(), ledger.bytes), (None, 0));
    Ok(())
}

proptest! {
    #![proptest_config(random(300))]

    #[test]
    fn nothing_is_lost_or_made(ops in prop::collection::vec(op(), 1..150)) {
        for discipline in disciplines() {
            let name = discipline.name;
            if let Err(error) = run(discipline, &ops) {
                return Err(TestCaseError::fail(format!("{name}: {error}")));
            }
        }
    }
}
