//! Blame for queues: of the bytes that were in front of packets at the ports of a network, and at back ends of hosts, whose they were.

use lowtail_engine::{Duration, Time};
use lowtail_host::Host;
use lowtail_host::io::blame::WorkerWaiter;
use lowtail_net::port::PortId;
use lowtail_net::{Net, Waiter};
use serde_json::{Value, json};

/// Most classes of traffic that are told apart.
const CLASSES_MAX: usize = 16;
/// Most memory for the sums of all ports; with more ports fewer classes are told apart.
const SUMS_BYTES_MAX: usize = 64 << 20;

/// Blame at queues of a case whose packets are told apart in the same way, with its first seed.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueBlame {
    /// Whose packets there are: names of traffic, or of VMs. The last one may stand for several.
    pub traffic: Vec<String>,
    /// The time that was simulated.
    pub span: Duration,
    /// The queues at which anything has waited, the one with the longest waits first.
    pub queues: Vec<BlamedQueue>,
}

/// Blame at a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct BlamedQueue {
    /// Its link, as `--link` names it, or the back end's worker.
    pub name: String,
    /// The packets of each traffic.
    pub waiters: Vec<Waiter>,
    /// Bytes in front of them (on the wire; at a back end, of IP packets): by who waited, then by whose they were.
    pub in_front: Vec<Vec<u64>>,
}

/// Whose bytes were in front.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// The number of the traffic.
    pub(crate) owner: usize,
    pub(crate) bytes: u64,
    /// Of all bytes in front.
    pub(crate) ratio: f64,
}

impl BlamedQueue {
    /// How long all packets together have waited.
    pub fn waited(&self) -> Duration {
        self.waiters.iter().fold(Duration::ZERO, |sum, waiter| sum + waiter.waited)
    }

    /// The traffic that came here, by its number.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &Waiter)> {
        self.waiters.iter().enumerate().filter(|(_, waiter)| waiter.packets > 0)
    }

    /// All bytes in front of the packets of traffic number `waiter`.
    pub(crate) fn bytes(&self, waiter: usize) -> u64 {
        self.in_front[waiter].iter().sum()
    }

    /// Whose they were, who had most first.
    pub(crate) fn shares(&self, waiter: usize) -> Vec<Share> {
        let all = self.bytes(waiter) as f64;
        let own = self.in_front[waiter].iter().enumerate().filter(|(_, bytes)| **bytes > 0);
        let share =
            |(owner, &bytes): (usize, &u64)| Share { owner, bytes, ratio: bytes as f64 / all };
        let mut shares: Vec<Share> = own.map(share).collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
        shares
    }
}

impl QueueBlame {
    /// Adds up what `net` has counted; `name` names a port's link.
    pub(crate) fn of(net: &Net, traffic: Vec<String>, name: impl Fn(PortId) -> String) -> Self {
        let now = net.now();
        let queue = |(port, blame): (PortId, &lowtail_net::PortBlame)| BlamedQueue {
            name: name(port),
            waiters: (0..blame.classes()).map(|class| blame.waiter(class, now)).collect(),
            in_front: (0..traffic.len()).map(|waiter| blame.in_front(waiter).to_vec()).collect(),
        };
        let queues = net.blamed().map(queue).collect();
        QueueBlame { span: now.since(Time::ZERO), traffic, queues }.sorted()
    }

    /// The same of the back ends of `hosts`, with their names, each VM of which has its class.
    pub(crate) fn of_back_ends<'h>(
        hosts: impl Iterator<Item = (&'h str, &'h Host)>,
        traffic: Vec<String>,
        now: Time,
    ) -> Self {
        let mut queues = Vec::new();
        for (name, host) in hosts {
            let Some(blame) = host.io().blame() else { continue };
            for worker in 0..blame.workers() {
                let waiter = |waiter: &WorkerWaiter| Waiter {
                    packets: waiter.packets,
                    dropped: 0,
                    sent_bytes: waiter.done_bytes,
                    waited: waiter.waited,
                    longest: waiter.longest,
                };
                let mut waiters: Vec<Waiter> =
                    blame.waiters(worker, now).iter().map(waiter).collect();
                let row = |class| blame.in_front(worker, class).to_vec();
                let mut in_front: Vec<Vec<u64>> = (0..waiters.len()).map(row).collect();
                // Another host may have VMs of more classes.
                waiters.resize(traffic.len(), Waiter::default());
                in_front.resize(traffic.len(), Vec::new());
                in_front.iter_mut().for_each(|row| row.resize(traffic.len(), 0));
                let of = if name.is_empty() { String::new() } else { format!("{name}: ") };
                let way = match blame.serves(worker) {
                    [true, false] => " to VMs",
                    [false, true] => " from VMs",
                    _ => "",
                };
                let name = format!("{of}back end {worker}{way}");
                queues.push(BlamedQueue { name, waiters, in_front });
            }
        }
        QueueBlame { span: now.since(Time::ZERO), traffic, queues }.sorted()
    }

    /// Those at which anything has waited, the longest waits first.
    fn sorted(mut self) -> Self {
        self.queues.retain(|queue| !queue.waited().is_zero());
        self.queues.sort_by_key(|queue| std::cmp::Reverse(queue.waited()));
        self
    }

    /// How many bits per second of `waiter` were sent.
    pub(crate) fn bits_per_second(&self, waiter: &Waiter) -> f64 {
        if self.span.is_zero() {
            0.0
        } else {
            waiter.sent_bytes as f64 * 8.0 / self.span.as_s_f64()
        }
    }

    /// For `--json`: an object for each queue of `case`.
    pub(crate) fn json(&self, case: &str) -> Vec<Value> {
        let queues = self.queues.iter().map(|queue| {
            let waiters = queue.present().map(|(i, waiter)| {
                let in_front = queue.shares(i).into_iter().map(|share| {
                    let traffic = &self.traffic[share.owner];
                    json!({ "traffic": traffic, "bytes": share.bytes, "ratio": share.ratio })
                });
                json!({
                    "traffic": self.traffic[i],
                    "packets": waiter.packets,
                    "dropped_packets": waiter.dropped,
                    "transmitted_bytes": waiter.sent_bytes,
                    "transmitted_bits_per_second": self.bits_per_second(waiter),
                    "wait_seconds": waiter.waited.as_s_f64(),
                    "longest_wait_seconds": waiter.longest.as_s_f64(),
                    "in_front_bytes": queue.bytes(i),
                    "in_front": in_front.collect::<Vec<_>>(),
                })
            });
            json!({ "case": case, "queue": queue.name, "waiters": waiters.collect::<Vec<_>>() })
        });
        queues.collect()
    }
}

/// Classes for traffic, or VMs, of these names at so many queues, and what the classes are called: one for each, or
/// the last one for all beyond the room.
pub(crate) fn classes(traffic: &[String], queues: usize) -> (Vec<u8>, Vec<String>) {
    let room = (SUMS_BYTES_MAX / 8 / queues.max(1)).isqrt().clamp(2, CLASSES_MAX);
    let own = if traffic.len() > room { room - 1 } else { traffic.len() };
    let mut names = traffic[..own].to_vec();
    if own < traffic.len() {
        names.push(format!("{} others", traffic.len() - own));
    }
    ((0..traffic.len()).map(|i| i.min(own) as u8).collect(), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What there is no room for shares a class; that of all ports together stays within the limit.
    #[test]
    fn room_for_classes() {
        let names: Vec<String> = (0..20).map(|i| format!("t{i}")).collect();
        let (all, called) = classes(&names[..3], 100);
        assert_eq!((all, called), (vec![0, 1, 2], names[..3].to_vec()));
        let (all, called) = classes(&names, 100);
        assert_eq!(called.len(), 16);
        assert_eq!(all[14..], [14, 15, 15, 15, 15, 15]);
        assert_eq!(called[14..], ["t14", "5 others"]);
        for ports in [1_000, 100_000, 1_000_000] {
            let (all, called) = classes(&names, ports);
            assert_eq!(usize::from(all[19]) + 1, called.len());
            assert!(ports * called.len() * called.len() * 8 <= SUMS_BYTES_MAX);
        }
    }
}
