//! The conversations of a network, opened before it begins: sources, flows, and their ways.

use std::collections::BTreeMap;

use lowtail_engine::{Distribution, Duration, Rng, Time};

use super::{Event, HERE, Net};
use crate::flow::{Channel, Flow, State};
use crate::net::source::Source;
use crate::packet::{End, FRAME_BYTES, SYN_HEADER_BYTES};
use crate::tcp::{Receiver, Sender};
use crate::topology::Shape;
use crate::traffic::{Connection, Pattern, TrafficConfig};

/// The flows for which those of a connection count, and by what switches choose its way.
type Account = ([u32; 2], Option<u64>);

impl Net {
    /// Opens the conversations of `traffic` and has its sources begin.
    pub(super) fn open(&mut self, index: u32, traffic: &TrafficConfig) {
        if traffic.pattern == Pattern::Listed {
            return self.open_list(index, traffic);
        }
        let mut pairs = traffic.pairs.clone();
        let anywhere = matches!(traffic.pattern, Pattern::Messages { anywhere: true, .. });
        if anywhere {
            // Those of one source side by side, in the order in which the sources come.
            pairs.sort_by_key(|pair| pair.0);
        }
        let mut last = None;
        for (src, dst) in pairs {
            let channel = self.channels.len() as u32;
            if !(anywhere && last == Some(src)) {
                let name = format!("traffic {} {} {}", traffic.name, src.0, dst.0);
                let mut rng = Rng::new(self.seed, &name);
                let first = match traffic.pattern {
                    Pattern::Bulk | Pattern::Transfer { .. } | Pattern::Listed => Duration::ZERO,
                    Pattern::Messages { gap, .. }
                    | Pattern::Requests { gap, .. }
                    | Pattern::Ping { gap, .. }
                    | Pattern::Datagrams { gap, .. } => match gap {
                        // Sources with the same period are not in step.
                        Distribution::Fixed(period) => rng.uniform(Duration::ZERO, period),
                        gap => gap.draw(&mut rng),
                    },
                };
                self.source(index, channel, rng, traffic.start + first);
            }
            last = Some(src);
            let source = self.sources.len() - 1;
            self.sources[source].n += 1;
            self.open_channel(index, source as u32, (src, dst), None);
        }
    }

    /// Has a list begin; each pair in it has a conversation that never sends, for which those of its transfers count.
    fn open_list(&mut self, index: u32, traffic: &TrafficConfig) {
        let Some(first) = traffic.flows.first() else { return };
        let rng = Rng::new(self.seed, &format!("traffic {}", traffic.name));
        let source = self.sources.len();
        let channel = self.channels.len() as u32;
        self.source(index, channel, rng, traffic.start + first.start);
        let mut known = BTreeMap::new();
        for listed in &traffic.flows {
            let pair = (listed.src, listed.dst);
            let at = *known.entry(pair).or_insert_with(|| {
                self.open_channel(index, source as u32, pair, None);
                self.channels.len() as u32 - 1 - channel
            });
            self.sources[source].pairs.push(at);
        }
        self.sources[source].n = known.len() as u32;
    }

    /// A source of conversations from number `first` on, none yet, which writes at `at` for the first time.
    fn source(&mut self, traffic: u32, first: u32, rng: Rng, at: Duration) {
        let source = self.sources.len() as u32;
        self.sources.push(Source { traffic, first, n: 0, rng, begun: 0, pairs: Vec::new() });
        self.queue.at(Time::ZERO + at, Event::Write(source));
    }

    /// A conversation. What is delivered counts for `account`, else for itself.
    pub(super) fn open_channel(
        &mut self,
        traffic: u32,
        source: u32,
        (src, dst): (End, End),
        account: Option<Account>,
    ) -> u32 {
        let channel = self.channels.len() as u32;
        let two_way = matches!(self.configs[traffic as usize].pattern, Pattern::Requests { .. });
        let of = |i: usize| account.map(|(ids, hash)| (ids[i], hash));
        let forth = self.flow(traffic, channel, (src, dst), of(0));
        let back = if two_way { self.flow(traffic, channel, (dst, src), of(1)) } else { forth };
        self.channels.push(Channel { forth, back, source });
        channel
    }

    fn flow(
        &mut self,
        traffic: u32,
        channel: u32,
        (src, dst): (End, End),
        account: Option<(u32, Option<u64>)>,
    ) -> u32 {
        let id = self.flows.len() as u32;
        let (forth, back) = self.ways((src, dst), account.and_then(|(_, hash)| hash));
        let config = &self.configs[traffic as usize];
        let mut sender = Sender::new(&config.tcp);
        let state = match config.connection {
            Connection::Open if !config.per_message() => {
                let rtt = self.time_at_rest(forth) + self.time_at_rest(back);
                sender.opened(rtt, 1);
                State::Open
            }
            _ => State::Closed,
        };
        self.flows.push(Flow {
            src,
            dst,
            forth,
            back,
            traffic,
            channel,
            state,
            generation: 0,
            counts_for: account.map_or(id, |(id, _)| id),
            sender,
            receiver: Receiver::new(),
            timer: Time::NEVER,
            ack_timer: Time::NEVER,
            messages: std::collections::VecDeque::new(),
            delivered_bytes: 0,
            number: 0,
        });
        id
    }

    /// The ways of a new connection's packets, and of those back.
    pub(super) fn ways(&mut self, (src, dst): (End, End), hash: Option<u64>) -> (u32, u32) {
        let number = self.opened;
        self.opened += 1;
        let (from, to) = (self.ends[src.index()].host, self.ends[dst.index()].host);
        let seed = self.seed;
        // As a switch would have it from addresses and ports.
        let mixed = |a: u32, b: u32| {
            let pair = u64::from(a) << 32 | u64::from(b);
            (pair ^ seed.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number
        };
        let [there, back] =
            [mixed(src.0, dst.0), mixed(dst.0, src.0)].map(|own| hash.unwrap_or(own));
        let shape = self.shape;
        (self.way(&shape, from, to, there), self.way(&shape, to, from, back))
    }

    /// How long a packet that opens a connection takes on `way` if nothing else is on it.
    fn time_at_rest(&self, way: u32) -> Duration {
        let ports = self.routes[way as usize..].iter().take_while(|&&port| port != HERE);
        let links = ports.map(|&port| self.ports[port as usize].link());
        let bytes = u64::from(SYN_HEADER_BYTES + FRAME_BYTES);
        let spans = links.map(|link| link.rate.span(bytes) + link.delay);
        let span = spans.fold(Duration::ZERO, |sum, span| sum + span);
        if span.is_zero() { self.local_delay } else { span }
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
