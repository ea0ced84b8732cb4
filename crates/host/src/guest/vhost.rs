//! A worker of vhost: the kernel's thread that copies packets between a VM's rings and its tap.
//!
//! It works off its list, one turn after the other, and sleeps when there is none. In a turn it takes what a guest sends, or hands over
//! what the tap has, 64 packets at a time (`VHOST_NET_BATCH`): only then do they pass the host's network, one after the other, or does the guest know of
//! them. A turn ends when there is nothing more, after 256 packets (`VHOST_NET_PKT_WEIGHT`) or after 512 KiB (`VHOST_NET_WEIGHT`); in the two
//! latter cases its other half goes to the end of the list. A guest is not to kick, nor a tap to wake the worker, while it is at them.
//! It calls the guest, by an eventfd, if that listens. It is in the kernel all the time, which gives its CPU to others between turns.
//!
//! What a guest sends goes through the host's network in the worker's own time: `tun_sendmsg` receives it as a NIC's driver would, and the
//! bridge hands it to the other tap or the NIC. From `drivers/vhost/net.c` and `vhost.c`, Linux 4.20 (batches on the way out, 0a0be13b8fe2) to 6.18.
//! Left out: polling (`busyloop_timeout`, off by default), zero copy (off by default), a turn on the guest's account where the worker's thread
//! is the kernel's own.

use lowtail_config_text::KeyError;
use lowtail_engine::{Duration, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::context::GuestContext;
use super::model::{Guest, Step};
use crate::io::packet::{Destination, Packet};
use crate::io::port::LostAt;
use crate::io::vhost::Turn;
use crate::keep::Keep;

/// Packets that are handed on together (`VHOST_NET_BATCH`).
const BATCH_PACKETS: usize = 64;
/// Packets of a turn (`VHOST_NET_PKT_WEIGHT`).
const TURN_PACKETS: u32 = 256;
/// Bytes of a turn (`VHOST_NET_WEIGHT`).
const TURN_BYTES: u64 = 0x80000;
/// Longest IP packet that goes into a batch on its way out: with 14 bytes of Ethernet, 12 of virtio, 128 of head room and 320 behind it, it fits
/// into a page of 4096 (`vhost_net_build_xdp`). Longer ones go one by one.
const BATCHED_BYTES: u32 = 4096 - 320 - 128 - 12 - 14;

/// Parameters of a worker of vhost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VhostConfig {
    /// Packets that the tap has room for; beyond they are lost. 1000 is the kernel's default (`tx_queue_len`).
    #[serde(default = "thousand")]
    #[schemars(range(min = 1, max = 65535))]
    pub queue_packets: u16,
}

fn thousand() -> u16 {
    1000
}

impl Default for VhostConfig {
    fn default() -> Self {
        VhostConfig { queue_packets: thousand() }
    }
}

impl VhostConfig {
    /// Refuses a tap for no packets.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        if self.queue_packets == 0 {
            return Err(KeyError::new("queue_packets", "a tap for no packets: at least 1"));
        }
        Ok(())
    }
}

/// What the worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Nothing, or the way into a turn.
    Nothing,
    /// Copies a batch.
    Batch,
    /// Has a packet of it, number so much, pass the host's network.
    Network(usize),
    /// Calls the guest.
    Call(usize),
}

/// A worker.
#[derive(Debug)]
pub struct Vhost {
    worker: usize,
    doing: Doing,
    turn: Option<Turn>,
    /// What it has taken in this turn.
    packets: u32,
    bytes: u64,
    /// What it is copying: when it came to the tap, and, for blame, the number of its queue.
    came: Vec<Time>,
    batch: Vec<(usize, Packet)>,
}

impl Vhost {
    /// A worker that sleeps.
    pub fn new() -> Self {
        Vhost {
            worker: 0,
            doing: Doing::Nothing,
            turn: None,
            packets: 0,
            bytes: 0,
            came: Vec::with_capacity(BATCH_PACKETS),
            batch: Vec::with_capacity(BATCH_PACKETS),
        }
    }

    /// Takes a batch of `turn`, and says what it takes.
    fn take(&mut self, cx: &mut GuestContext<'_>, Turn { queue, sends }: Turn) -> Duration {
        let io = cx.io();
        let costs = io.costs;
        let mut work = Duration::ZERO;
        while self.batch.len() < BATCH_PACKETS
            && self.packets < TURN_PACKETS
            && self.bytes < TURN_BYTES
        {
            let next = if sends { io.queues[queue].tx.first() } else { io.vhosts.first(queue) };
            let Some(&packet) = next else { break };
            let alone = sends && packet.bytes > BATCHED_BYTES;
            if alone && !self.batch.is_empty() {
                break;
            }
            if sends {
                io.queues[queue].tx.take();
                work += costs.vhost_copy(&packet);
            } else {
                // The guest kicks when it has posted buffers again.
                if !io.queues[queue].rx.reserve(&packet) {
                    break;
                }
                let came = io.vhosts.take(queue).map_or(Time::ZERO, |(came, _)| came);
                self.came.push(came);
                work += costs.vhost_receive(&packet);
            }
            self.packets += 1;
            self.bytes += u64::from(packet.bytes);
            self.batch.push((queue, packet));
            if alone {
                break;
            }
        }
        if let Some(blame) = io.blame.as_mut().filter(|_| !self.batch.is_empty()) {
            blame.taken(self.worker, &self.batch, sends);
        }
        work
    }

    /// The guest gets what is copied for it, or its buffers back. Returns whether it listens.
    fn hand_on(&mut self, cx: &mut GuestContext<'_>, Turn { queue, sends }: Turn) -> bool {
        let now = cx.now();
        if let Some(blame) = &mut cx.io().blame {
            blame.done(self.worker, &self.batch, sends, now);
        }
        // All are the guest's at once, but each was out of the tap as soon as it was copied.
        let io = cx.io();
        let mut later = Duration::ZERO;
        for (came, (_, packet)) in self.came.drain(..).zip(&self.batch).rev() {
            let waited = now.since(came).saturating_sub(later);
            io.vhosts.copied(queue, waited);
            later += io.costs.vhost_receive(packet);
        }
        let shared = &mut cx.io().queues[queue];
        let mut listens = false;
        for (_, packet) in self.batch.drain(..) {
            listens |= if sends { shared.tx.answer(&packet) } else { shared.rx.fill(packet) };
        }
        listens
    }

    /// What it was at is done. Returns what that has it do next, if it is not the next batch.
    fn end(&mut self, cx: &mut GuestContext<'_>) -> Option<Step> {
        let done = std::mem::replace(&mut self.doing, Doing::Nothing);
        cx.keep = Keep::Yes;
        let turn = self.turn?;
        let next = match done {
            Doing::Nothing => return None,
            Doing::Call(queue) => {
                let io = cx.io();
                let dom = io.queues[queue].dom;
                let device = queue - io.vif(dom).start;
                let port = cx.device_port(dom, device);
                cx.call(0, dom, port);
                return None;
            }
            Doing::Network(at) => {
                let (_, packet) = self.batch[at];
                forward(cx, &packet);
                at + 1
            }
            Doing::Batch => 0,
        };
        if turn.sends && next < self.batch.len() {
            self.doing = Doing::Network(next);
            return Some(Step::Compute(cx.io().costs.vhost_send));
        }
        self.hand_on(cx, turn).then(|| {
            self.doing = Doing::Call(turn.queue);
            Step::Compute(cx.io().costs.notify)
        })
    }

    /// The next batch, or the next turn.
    fn go_on(&mut self, cx: &mut GuestContext<'_>) -> Step {
        loop {
            let fresh = self.turn.is_none();
            let Some(turn) = self.turn.or_else(|| cx.io().vhosts.next(self.worker)) else {
                cx.keep = Keep::No;
                return Step::Block;
            };
            // `vhost_run_work_list` lets others have the CPU between two turns (`cond_resched`).
            cx.keep = if fresh { Keep::AfterPoint } else { Keep::Yes };
            self.turn = Some(turn);
            if fresh {
                (self.packets, self.bytes) = (0, 0);
            }
            let work = self.take(cx, turn);
            if !self.batch.is_empty() {
                self.doing = Doing::Batch;
                return Step::Compute(work);
            }
            let io = cx.io();
            let over = self.packets >= TURN_PACKETS || self.bytes >= TURN_BYTES;
            // Only now does the guest have to kick: as long as it is at the ring it looks anyway.
            if over || turn.sends && !io.queues[turn.queue].tx.back_sleeps() {
                io.vhosts.list(turn);
            } else if !turn.sends {
                io.vhosts.watch(turn.queue);
            }
            self.turn = None;
            let out = cx.io().costs.vhost_turn;
            if !out.is_zero() {
                return Step::Compute(out);
            }
        }
    }
}

impl Default for Vhost {
    fn default() -> Self {
        Vhost::new()
    }
}

/// The host's network: what a guest has sent goes to a NIC, or to the tap of another guest.
fn forward(cx: &mut GuestContext<'_>, packet: &Packet) {
    match packet.to() {
        Destination::Nic(nic) => cx.transmit(nic, packet),
        Destination::Dom(dom) => {
            let (queue, now) = (cx.io().queue_of(dom, packet.hash), cx.now());
            match cx.io().put_into_tap(queue, *packet, now) {
                Ok(Some(worker)) => cx.wake_thread(0, worker),
                Ok(None) => {}
                Err(_) => cx.lose(packet, LostAt::BackEnd),
            }
        }
    }
}

impl Guest for Vhost {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        let own = cx.thread(0);
        self.worker = cx.io().vhosts.worker(own).unwrap_or(0);
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, _vcpu: usize) -> Step {
        if let Some(step) = self.end(cx) {
            return step;
        }
        self.go_on(cx)
    }

    fn timer(&mut self, _cx: &mut GuestContext<'_>, _token: u32) {}
}
