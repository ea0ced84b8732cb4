//! The conversations of a network, opened before it begins: sources, flows, and their ways.

use lowtail_engine::{Distribution, Duration, Rng, Time};

use super::{Event, HERE, Net};
use crate::flow::{Channel, Flow};
use crate::net::source::Source;
use crate::packet::End;
use crate::tcp::{Receiver, Sender};
use crate::topology::Shape;
use crate::traffic::{Pattern, TrafficConfig};

impl Net {
    /// Opens the conversations of `traffic` and has its sources begin.
    pub(super) fn open(&mut self, shape: &Shape, index: u32, traffic: &TrafficConfig, seed: u64) {
        let mut pairs = traffic.pairs.clone();
        let anywhere = matches!(traffic.pattern, Pattern::Messages { anywhere: true, .. });
        if anywhere {
            // Those of one source side by side, in the order in which the sources come.
            pairs.sort_by_key(|pair| pair.0);
        }
        let two_way = matches!(traffic.pattern, Pattern::Requests { .. });
        let mut last = None;
        for (src, dst) in pairs {
            let channel = self.channels.len() as u32;
            if !(anywhere && last == Some(src)) {
                let name = format!("traffic {} {} {}", traffic.name, src.0, dst.0);
                let mut rng = Rng::new(seed, &name);
                let first = match traffic.pattern {
                    Pattern::Bulk | Pattern::Transfer { .. } => Duration::ZERO,
                    Pattern::Messages { gap, .. }
                    | Pattern::Requests { gap, .. }
                    | Pattern::Ping { gap, .. }
                    | Pattern::Datagrams { gap, .. } => match gap {
                        // Sources with the same period are not in step.
                        Distribution::Fixed(period) => rng.uniform(Duration::ZERO, period),
                        gap => gap.draw(&mut rng),
                    },
                };
                let source = self.sources.len() as u32;
                self.sources.push(Source { traffic: index, first: channel, n: 0, rng });
                self.queue.at(Time::ZERO + traffic.start + first, Event::Write(source));
            }
            last = Some(src);
            let source = self.sources.len() - 1;
            self.sources[source].n += 1;
            let forth = self.flow(shape, index, channel, (src, dst), seed);
            let back =
                if two_way { self.flow(shape, index, channel, (dst, src), seed) } else { forth };
            self.channels.push(Channel { forth, back, source: source as u32 });
        }
    }

    fn flow(
        &mut self,
        shape: &Shape,
        traffic: u32,
        channel: u32,
        (src, dst): (End, End),
        seed: u64,
    ) -> u32 {
        let id = self.flows.len() as u32;
        let (from, to) = (self.ends[src.index()].host, self.ends[dst.index()].host);
        // As a switch would have it from addresses and ports.
        let hash = |a: u32, b: u32| {
            let pair = u64::from(a) << 32 | u64::from(b);
            (pair ^ seed.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id)
        };
        let forth = self.way(shape, from, to, hash(src.0, dst.0));
        let back = self.way(shape, to, from, hash(dst.0, src.0));
        let config = &self.configs[traffic as usize].tcp;
        self.flows.push(Flow {
            src,
            dst,
            forth,
            back,
            traffic,
            channel,
            sender: Sender::new(config),
            receiver: Receiver::new(),
            timer: Time::NEVER,
            ack_timer: Time::NEVER,
            messages: std::collections::VecDeque::new(),
            delivered_bytes: 0,
            number: 0,
        });
        id
    }

    pub(super) fn way(&mut self, shape: &Shape, from: u32, to: u32, hash: u64) -> u32 {
        let start = self.routes.len() as u32;
        let mut ports = Vec::new();
        shape.route(from, to, hash, &mut ports);
        self.routes.extend(ports.iter().map(|port| port.0));
        self.routes.push(HERE);
        start
    }
}
