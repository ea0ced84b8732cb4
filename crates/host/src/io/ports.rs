//! Event channels: the pending bits of one vCPU, and the order in which it serves them.
//!
//! A sender sets a bit and notifies the vCPU; a bit that is set already says nothing new.
//! The guest takes one after the other:
//!
//! - in the order of the bits (Linux 2.6.18-xen, `evtchn_do_upcall`): always the lowest one,
//!   so that a low one that comes again and again keeps out the high ones;
//! - in turn from the one served last (the same since 2007, `events_2l.c` today), so that
//!   each is served once before any is served twice;
//! - by 16 priorities, first come first served within each (the FIFO ABI, Xen 4.4 and
//!   later, xen.git bf2bbe07).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Deserialize;

/// A port of a domain: the number of one end of an event channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(pub u16);

/// The order in which a guest serves what is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The lowest bit first.
    Bits,
    /// In turn, from the one served last.
    RoundRobin,
    /// By priority, then first come first served.
    #[default]
    Fifo,
}

/// Priorities of the FIFO ABI, 0 the highest; `EVTCHN_FIFO_PRIORITY_DEFAULT`.
const PRIORITIES: usize = 16;
const DEFAULT_PRIORITY: u8 = 7;

/// Ports that a domain can have with the two-level ABI on 64 bits.
pub const PORTS_MAX: usize = 4096;

/// What is pending at one vCPU.
#[derive(Debug, Clone)]
pub struct Ports {
    order: Order,
    pending: Vec<u64>,
    /// How many bits are set.
    count: u32,
    last: usize,
    queues: Vec<VecDeque<u16>>,
}

impl Ports {
    /// Nothing pending of ports 0 to `ports` less one.
    ///
    /// # Panics
    /// With more than [`PORTS_MAX`] ports.
    pub fn new(order: Order, ports: usize) -> Self {
        assert!(ports <= PORTS_MAX, "{ports} event channels: at most {PORTS_MAX}");
        let queues = if order == Order::Fifo { PRIORITIES } else { 0 };
        Ports {
            order,
            pending: vec![0; ports.div_ceil(64)],
            count: 0,
            last: ports,
            queues: vec![VecDeque::with_capacity(ports); queues],
        }
    }

    /// Sets the bit of `port`. Returns whether that is news.
    pub fn raise(&mut self, port: Port) -> bool {
        self.raise_at(port, DEFAULT_PRIORITY)
    }

    /// The same with a priority, 0 to 15, that only the FIFO order looks at.
    pub fn raise_at(&mut self, port: Port, priority: u8) -> bool {
        let (word, bit) = (usize::from(port.0) / 64, port.0 % 64);
        if self.pending[word] >> bit & 1 != 0 {
            return false;
        }
        self.pending[word] |= 1 << bit;
        self.count += 1;
        if let Some(queue) = self.queues.get_mut(usize::from(priority)) {
            queue.push_back(port.0);
        }
        true
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the next port to serve.
    pub fn take(&mut self) -> Option<Port> {
        if self.count == 0 {
            return None;
        }
        let port = match self.order {
            Order::Bits => self.lowest(0)?,
            Order::RoundRobin => self.lowest(self.last + 1).or_else(|| self.lowest(0))?,
            Order::Fifo => usize::from(self.queues.iter_mut().find_map(VecDeque::pop_front)?),
        };
        self.pending[port / 64] &= !(1 << (port % 64));
        self.count -= 1;
        self.last = port;
        Some(Port(port as u16))
    }

    /// The lowest pending port that is not below `from`.
    fn lowest(&self, from: usize) -> Option<usize> {
        let first = from / 64;
        let words = self.pending.iter().enumerate().skip(first);
        words.into_iter().find_map(|(i, &word)| {
            let word = if i == first { word >> (from % 64) << (from % 64) } else { word };
            (word != 0).then(|| i * 64 + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves ten events while port 3 comes again after each; who was served?
    fn served(order: Order) -> Vec<u16> {
        let mut ports = Ports::new(order, 200);
        for port in [130, 3, 70] {
            assert!(ports.raise(Port(port)));
            assert!(!ports.raise(Port(port)));
        }
        let mut served = Vec::new();
        for _ in 0..6 {
            let Some(port) = ports.take() else { break };
            served.push(port.0);
            ports.raise(Port(3));
        }
        served
    }

    #[test]
    fn a_low_bit_starves_high_ones_only_in_bit_order() {
        assert_eq!(served(Order::Bits), [3, 3, 3, 3, 3, 3]);
        assert_eq!(served(Order::RoundRobin), [3, 70, 130, 3, 3, 3]);
        assert_eq!(served(Order::Fifo), [130, 3, 70, 3, 3, 3]);
    }

    #[test]
    fn priorities_go_first() {
        let mut ports = Ports::new(Order::Fifo, 8);
        ports.raise(Port(1));
        ports.raise_at(Port(2), 0);
        assert_eq!(
            (ports.take(), ports.take(), ports.take()),
            (Some(Port(2)), Some(Port(1)), None)
        );
    }

    /// Whatever the order, each pending port is served once, and none that was not raised.
    #[test]
    fn nothing_is_lost_or_made_up() {
        for order in [Order::Bits, Order::RoundRobin, Order::Fifo] {
            let mut ports = Ports::new(order, 500);
            let scattered = |port: u16| (u32::from(port) * 211 % 500) as u16;
            let mut wanted: Vec<u16> = (0..500).filter(|p| p % 7 == 3 || p % 64 == 63).collect();
            for &port in &wanted {
                ports.raise(Port(scattered(port)));
            }
            let mut got: Vec<u16> = std::iter::from_fn(|| ports.take()).map(|p| p.0).collect();
            got.sort_unstable();
            wanted = wanted.iter().map(|&port| scattered(port)).collect();
            wanted.sort_unstable();
            assert_eq!(got, wanted, "{order:?}");
            assert!(ports.is_empty());
        }
    }
}
