//! A guest with a virtual interface: front end, stack, and the programs at the end of flows.
//!
//! What comes in is polled in a softirq, 64 packets at a time, as NAPI does. Data is
//! acknowledged, a ping answered right there; a request that takes work is answered by
//! a process. What goes out is sent by a process, as far as window and ring have room.

use std::collections::VecDeque;

use lowtail_engine::Duration;

use super::kernel::fair::{TaskConfig, TaskId};
use super::kernel::{Begin, Hands, KernelGuest, Program, Rules, SoftId};
use crate::io::flow::{Pace, Way};
use crate::io::packet::{FlowId, Kind, Packet};

/// A guest with a virtual interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queues of its interface, 1 to 64.
    pub queues: u16,
    /// How its kernel goes about softirqs.
    pub rules: Rules,
    /// A process computes for ever, beside all else.
    pub computes: bool,
}

/// Packets of one poll (NAPI weight).
const POLL_PACKETS: usize = 64;
/// Packets that may wait for room in the ring (`txqueuelen`).
const OUT_PACKETS: usize = 1000;
/// Packets that a process sends in one go.
const SEND_PACKETS: usize = 16;

/// A queue of the interface as the guest sees it.
#[derive(Debug, Default)]
struct Lane {
    /// What is to be sent by the kernel: acknowledgements, answers.
    out: VecDeque<Packet>,
    /// How much of that, and of what has come, is being worked on.
    sending: usize,
    polling: usize,
    /// Streams with a window that end here.
    ends: Vec<FlowId>,
}

/// Programs and interface of a guest.
#[derive(Debug)]
pub struct NetGuest {
    config: Config,
    lanes: Vec<Lane>,
    /// Flows that begin here, in turn.
    sends: VecDeque<FlowId>,
    sender: Option<TaskId>,
    sending: Vec<Packet>,
    server: Option<TaskId>,
    requests: VecDeque<Packet>,
    looper: Option<TaskId>,
}

impl NetGuest {
    /// The domain.
    pub fn guest(config: Config) -> KernelGuest<NetGuest> {
        let guest = NetGuest {
            config,
            lanes: Vec::new(),
            sends: VecDeque::new(),
            sender: None,
            sending: Vec::with_capacity(SEND_PACKETS),
            server: None,
            requests: VecDeque::with_capacity(OUT_PACKETS),
            looper: None,
        };
        KernelGuest::new(config.rules, guest)
    }

    /// The softirq that polls lane `lane` (`false`) or sends what it has (`true`).
    fn soft(&self, lane: usize, sends: bool) -> SoftId {
        SoftId((lane * 2 + usize::from(sends)) as u16)
    }

    /// Lane number `lane`'s place among the queues of the host.
    fn queue(hands: &mut Hands<'_, '_>, lane: usize) -> usize {
        let own = hands.cx.own();
        hands.cx.io().vif(own).start + lane
    }

    /// Tells the back end.
    fn notify(hands: &mut Hands<'_, '_>, lane: usize) {
        let queue = Self::queue(hands, lane);
        let (from, driver) = (hands.cpu, hands.cx.io().driver());
        let device = hands.cx.io().nics.len() + queue;
        let port = hands.cx.device_port(driver, device);
        hands.cx.raise(Some(from), driver, port);
    }

    /// Puts as much as there is room for of `packets` into the ring of `lane`.
    fn push(hands: &mut Hands<'_, '_>, lane: usize, packet: Packet) -> Option<bool> {
        let queue = Self::queue(hands, lane);
        let ring = &mut hands.cx.io().queues[queue].tx;
        ring.reap();
        ring.push(packet)
    }

    fn answer(&mut self, hands: &mut Hands<'_, '_>, lane: usize, packet: Packet) {
        if self.lanes[lane].out.len() >= OUT_PACKETS {
            hands.cx.lose(&packet);
        } else {
            self.lanes[lane].out.push_back(packet);
        }
        let soft = self.soft(lane, true);
        hands.raise(soft);
    }

    /// One of the packets that have come in on `lane`.
    fn received(&mut self, hands: &mut Hands<'_, '_>, lane: usize, packet: Packet) {
        let now = hands.now();
        let flow = &mut hands.cx.io().flows[packet.flow.index()];
        match packet.kind {
            Kind::Data => {
                if let Some(ack) = flow.arrived(&packet, now) {
                    self.answer(hands, lane, ack);
                }
            }
            Kind::Ack => {
                flow.acked(packet.acks);
                if let Some(sender) = self.sender {
                    hands.wake(sender);
                }
            }
            Kind::Request if flow.config.service.is_zero() => {
                let reply = flow.reply(&packet);
                self.answer(hands, lane, reply);
            }
            Kind::Request => {
                self.requests.push_back(packet);
                if let Some(server) = self.server {
                    hands.wake(server);
                }
            }
            Kind::Reply => {}
        }
    }

    /// Whatever is in flight has arrived: nobody else will make up the pair.
    fn acknowledge_rest(&mut self, hands: &mut Hands<'_, '_>, lane: usize) {
        let now = hands.now();
        let io = hands.cx.io();
        let before = self.lanes[lane].out.len();
        let Lane { ends, out, .. } = &mut self.lanes[lane];
        out.extend(ends.iter().filter_map(|&id| io.flows[id.index()].ack(id, now)));
        if out.len() > before {
            let soft = self.soft(lane, true);
            hands.raise(soft);
        }
    }
}

impl Program for NetGuest {
    fn start(&mut self, hands: &mut Hands<'_, '_>) {
        let (cpus, own) = (hands.cpus(), hands.cx.own());
        // A go of a process may be put on top.
        let out = || VecDeque::with_capacity(OUT_PACKETS + SEND_PACKETS);
        let lane = || Lane { out: out(), ..Lane::default() };
        self.lanes = (0..self.config.queues).map(|_| lane()).collect();
        for lane in 0..self.lanes.len() {
            let port = crate::io::device_port(lane, cpus);
            hands.cx.io().bind(own, port, lane % cpus);
        }
        let flows = &hands.cx.io().flows;
        let mut serves = false;
        for (i, flow) in flows.iter().enumerate() {
            let here = flow.config.dom == own;
            match flow.config.way {
                Way::In { .. } => serves |= here && !flow.config.service.is_zero(),
                _ if here => self.sends.push_back(FlowId(i as u16)),
                _ => {}
            }
            let ends = match flow.config.way {
                Way::In { .. } => here,
                Way::Out { .. } => false,
                Way::Between { to } => to == own,
            };
            if ends && matches!(flow.config.pace, Pace::Window(_)) {
                self.lanes[i % usize::from(self.config.queues)].ends.push(FlowId(i as u16));
            }
        }
        if serves {
            self.server = Some(hands.add_task(TaskConfig::PROCESS));
        }
        if !self.sends.is_empty() {
            let task = hands.add_task(TaskConfig::PROCESS);
            self.sender = Some(task);
            hands.wake_after(task, Duration::from_us(100));
        }
        if self.config.computes {
            let task = hands.add_task(TaskConfig::PROCESS);
            self.looper = Some(task);
            hands.wake(task);
        }
    }

    fn irq_cost(&self, _device: usize, costs: &crate::io::costs::PathCosts) -> Duration {
        costs.irq
    }

    fn irq(&mut self, hands: &mut Hands<'_, '_>, device: usize) {
        let soft = self.soft(device, false);
        hands.raise(soft);
        // There may be room in the ring again.
        if !self.lanes[device].out.is_empty() {
            let soft = self.soft(device, true);
            hands.raise(soft);
        }
        if let Some(sender) = self.sender {
            hands.wake(sender);
        }
    }

    fn soft_begin(&mut self, hands: &mut Hands<'_, '_>, soft: SoftId) -> Begin {
        let (lane, sends) = (usize::from(soft.0 / 2), soft.0 % 2 == 1);
        let queue = Self::queue(hands, lane);
        let io = hands.cx.io();
        let costs = io.costs;
        if sends {
            io.queues[queue].tx.reap();
            let out = &self.lanes[lane].out;
            let n = out.len().min(POLL_PACKETS);
            let work = out.iter().take(n).fold(costs.notify, |sum, p| sum + costs.front(p));
            self.lanes[lane].sending = n;
            return if n == 0 { Begin::Nothing } else { Begin::Work(work) };
        }
        let ring = &mut io.queues[queue].rx;
        if ring.waiting() == 0 {
            ring.front_sleeps();
            return Begin::Nothing;
        }
        let n = ring.waiting().min(POLL_PACKETS);
        let work = ring.iter().take(n).fold(Duration::ZERO, |sum, p| sum + costs.front(p));
        self.lanes[lane].polling = n;
        Begin::Work(work)
    }

    fn soft_end(&mut self, hands: &mut Hands<'_, '_>, soft: SoftId) -> bool {
        let (lane, sends) = (usize::from(soft.0 / 2), soft.0 % 2 == 1);
        let queue = Self::queue(hands, lane);
        if sends {
            let (mut news, mut full) = (false, false);
            for _ in 0..self.lanes[lane].sending {
                let Some(packet) = self.lanes[lane].out.pop_front() else { break };
                let Some(listens) = Self::push(hands, lane, packet) else {
                    // The ring is full; the back end's notification comes when it is not.
                    self.lanes[lane].out.push_front(packet);
                    full = true;
                    break;
                };
                news |= listens;
            }
            if news {
                Self::notify(hands, lane);
            }
            return !full && !self.lanes[lane].out.is_empty();
        }
        for _ in 0..self.lanes[lane].polling {
            let Some(packet) = hands.cx.io().queues[queue].rx.take() else { break };
            self.received(hands, lane, packet);
        }
        if hands.cx.io().queues[queue].rx.wake_back() {
            Self::notify(hands, lane);
        }
        let ring = &mut hands.cx.io().queues[queue].rx;
        let again = ring.waiting() > 0 || !ring.front_sleeps();
        if !again {
            self.acknowledge_rest(hands, lane);
        }
        again
    }

    fn task_begin(&mut self, hands: &mut Hands<'_, '_>, task: TaskId) -> Begin {
        if self.looper == Some(task) {
            return Begin::Work(Duration::MAX);
        }
        if self.server == Some(task) {
            let Some(request) = self.requests.front() else { return Begin::Nothing };
            let service = hands.cx.io().flows[request.flow.index()].config.service;
            return Begin::Work(service);
        }
        let now = hands.now();
        let own = hands.cx.own();
        for _ in 0..self.sends.len() {
            let Some(&id) = self.sends.front() else { break };
            self.sends.rotate_left(1);
            let io = hands.cx.io();
            let queue = io.queue_of(own, id);
            let packet = io.flows[id.index()].packet(id, now);
            io.queues[queue].tx.reap();
            let mut room = io.queues[queue].tx.room(&packet);
            let (mut work, costs) = (Duration::ZERO, io.costs);
            while self.sending.len() < SEND_PACKETS && room > 0 {
                if !io.flows[id.index()].may_send(now) {
                    break;
                }
                io.flows[id.index()].sent();
                self.sending.push(packet);
                work += costs.front(&packet);
                room -= 1;
            }
            if !self.sending.is_empty() {
                return Begin::Work(work + costs.notify);
            }
        }
        Begin::Nothing
    }

    fn task_end(&mut self, hands: &mut Hands<'_, '_>, task: TaskId) {
        if self.server == Some(task) {
            let Some(request) = self.requests.pop_front() else { return };
            let own = hands.cx.own();
            let io = hands.cx.io();
            let reply = io.flows[request.flow.index()].reply(&request);
            let lane = io.queue_of(own, request.flow) - io.vif(own).start;
            self.answer(hands, lane, reply);
            return;
        }
        let own = hands.cx.own();
        let mut sending = std::mem::take(&mut self.sending);
        let mut news = None;
        for packet in sending.drain(..) {
            let io = hands.cx.io();
            let lane = io.queue_of(own, packet.flow) - io.vif(own).start;
            match Self::push(hands, lane, packet) {
                Some(true) => news = Some(lane),
                Some(false) => {}
                None => self.lanes[lane].out.push_back(packet),
            }
        }
        self.sending = sending;
        if let Some(lane) = news {
            Self::notify(hands, lane);
        }
    }

    fn nudged(&mut self, hands: &mut Hands<'_, '_>) {
        if let Some(sender) = self.sender {
            hands.wake(sender);
        }
    }
}
