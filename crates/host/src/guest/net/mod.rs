//! A guest with a virtual interface: front end, stack, and the programs at the end of flows.
//!
//! What comes in is polled in a softirq, 64 packets at a time, as NAPI does. Data is
//! acknowledged, a ping answered right there; a request that takes work is answered by
//! a process. What goes out is sent by a process, as far as window and ring have room.

mod process;

use std::collections::VecDeque;

use lowtail_engine::Duration;

use process::{Processes, SEND_PACKETS};

use super::kernel::fair::{TaskConfig, TaskId};
use super::kernel::{Begin, Hands, KernelGuest, Program, Rules, SoftId};
use crate::io::flow::Pace;
use crate::io::packet::{FlowId, Kind, Packet};
use crate::io::port::{Errand, Handed, LostAt};

/// A guest with a virtual interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetGuestConfig {
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

/// Packets that wait for a process: about what Linux's socket buffer of 208 KB has room for.
const SOCKET_PACKETS: usize = 150;

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
    config: NetGuestConfig,
    lanes: Vec<Lane>,
    processes: Processes,
    looper: Option<TaskId>,
    worker: Option<Worker>,
}

/// The process that works for what comes through the port, first come first served.
#[derive(Debug)]
struct Worker {
    task: TaskId,
    /// For how long, and what that is called on the other side.
    work: VecDeque<(Duration, u32)>,
}

impl NetGuest {
    /// The domain.
    pub fn guest(config: NetGuestConfig) -> KernelGuest<NetGuest> {
        let processes = Processes::default();
        let guest = NetGuest { config, lanes: Vec::new(), processes, looper: None, worker: None };
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
            hands.cx.lose(&packet, LostAt::Guest);
        } else {
            self.lanes[lane].out.push_back(packet);
        }
        let soft = self.soft(lane, true);
        hands.raise(soft);
    }

    /// One of the packets that have come in on `lane`.
    fn received(&mut self, hands: &mut Hands<'_, '_>, lane: usize, packet: Packet) {
        let now = hands.now();
        if let Kind::Foreign(_) = packet.kind {
            // Who receives it is not always who sent it.
            let (dom, token) = (hands.cx.own(), packet.foreign.token);
            hands.cx.io().handed.push(Handed::Received { dom, token });
            return;
        }
        let flow = &mut hands.cx.io().flows[packet.flow.index()];
        match packet.kind {
            Kind::Data | Kind::Request if !flow.config.service.is_zero() => {
                match self.processes.of(packet.flow, false) {
                    Some(process) if process.packets.len() < SOCKET_PACKETS => {
                        process.packets.push_back(packet);
                        hands.wake(process.task);
                    }
                    // The socket's buffer is full.
                    _ => hands.cx.lose(&packet, LostAt::Guest),
                }
            }
            Kind::Data => {
                if let Some(ack) = flow.arrived(&packet, now) {
                    self.answer(hands, lane, ack);
                }
            }
            Kind::Ack => {
                flow.acked(packet.acks);
                if let Some(process) = self.processes.of(packet.flow, true) {
                    hands.wake(process.task);
                }
            }
            Kind::Request => {
                let reply = flow.reply(&packet);
                self.answer(hands, lane, reply);
            }
            Kind::Reply | Kind::Foreign(_) => {}
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
        for i in 0..hands.cx.io().flows.len() {
            let (id, config) = (FlowId(i as u16), &hands.cx.io().flows[i].config);
            let ends = config.receiver() == Some(own);
            let begins = config.dom == own && !ends;
            let works = ends && !config.service.is_zero();
            // A window at most waits for a process; requests that are not measured may be more.
            let room = match config.pace {
                Pace::Window(packets) => usize::from(packets),
                _ => SOCKET_PACKETS,
            };
            if ends && matches!(config.pace, Pace::Window(_)) {
                self.lanes[i % usize::from(self.config.queues)].ends.push(id);
            }
            if begins || works {
                let task = hands.add_task(TaskConfig::PROCESS);
                self.processes.add(task, id, begins, room.max(SEND_PACKETS));
                if begins {
                    hands.wake_after(task, Duration::from_us(100));
                }
            }
        }
        if self.config.computes {
            let task = hands.add_task(TaskConfig::PROCESS);
            self.looper = Some(task);
            hands.wake(task);
        }
        let task = hands.add_task(TaskConfig::PROCESS);
        self.worker = Some(Worker { task, work: VecDeque::with_capacity(SOCKET_PACKETS) });
    }

    fn irq(&mut self, hands: &mut Hands<'_, '_>, device: usize) {
        let soft = self.soft(device, false);
        hands.raise(soft);
        // There may be room in the ring again.
        if !self.lanes[device].out.is_empty() {
            let soft = self.soft(device, true);
            hands.raise(soft);
        }
        for process in self.processes.senders() {
            if process.flow.index() % self.lanes.len() == device {
                hands.wake(process.task);
            }
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
        // Packet by packet buffers are posted anew; here a page's worth of slots at a time.
        let (mut n, mut slots, mut work) = (0, 0, Duration::ZERO);
        for packet in ring.iter().take(POLL_PACKETS) {
            slots += packet.slots();
            if n > 0 && slots > POLL_PACKETS as u32 {
                break;
            }
            n += 1;
            work += costs.front(packet);
        }
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
        if let Some(worker) = self.worker.as_ref().filter(|worker| worker.task == task) {
            return worker.work.front().map_or(Begin::Nothing, |&(span, _)| Begin::Work(span));
        }
        let now = hands.now();
        let own = hands.cx.own();
        let Some(process) = self.processes.by_task(task) else { return Begin::Nothing };
        let io = hands.cx.io();
        let flow = &mut io.flows[process.flow.index()];
        if !process.sends {
            let some = !process.packets.is_empty();
            return if some { Begin::Work(flow.config.service) } else { Begin::Nothing };
        }
        let packet = flow.packet(process.flow, now);
        let queue = io.queue_of(own, process.flow);
        io.queues[queue].tx.reap();
        let mut room = io.queues[queue].tx.room(&packet);
        let flow = &mut io.flows[process.flow.index()];
        let mut work = Duration::ZERO;
        while process.packets.len() < SEND_PACKETS && room > 0 && flow.may_send(now) {
            flow.sent();
            process.packets.push_back(packet);
            work += io.costs.front(&packet);
            room -= 1;
        }
        if process.packets.is_empty() {
            return Begin::Nothing;
        }
        Begin::Work(work + io.costs.notify)
    }

    fn task_end(&mut self, hands: &mut Hands<'_, '_>, task: TaskId) {
        let (now, own) = (hands.now(), hands.cx.own());
        if let Some(worker) = self.worker.as_mut().filter(|worker| worker.task == task) {
            let done = worker.work.pop_front().map(|(_, token)| Handed::Worked { dom: own, token });
            hands.cx.io().handed.extend(done);
            return;
        }
        let Some(process) = self.processes.by_task(task) else { return };
        let io = hands.cx.io();
        let lane = io.queue_of(own, process.flow) - io.vif(own).start;
        if !process.sends {
            let Some(packet) = process.packets.pop_front() else { return };
            let flow = &mut io.flows[process.flow.index()];
            let answer = match packet.kind {
                Kind::Request => Some(flow.reply(&packet)),
                _ => {
                    let ack = flow.arrived(&packet, now);
                    // It has caught up: nobody else makes up the pair.
                    let rest = process.packets.is_empty();
                    ack.or_else(|| rest.then(|| flow.ack(packet.flow, now)).flatten())
                }
            };
            if let Some(answer) = answer {
                self.answer(hands, lane, answer);
            }
            return;
        }
        let mut news = false;
        while let Some(packet) = process.packets.pop_front() {
            match Self::push(hands, lane, packet) {
                Some(listens) => news |= listens,
                None => self.lanes[lane].out.push_back(packet),
            }
        }
        if news {
            Self::notify(hands, lane);
        }
    }

    fn errand(&mut self, hands: &mut Hands<'_, '_>, errand: Errand) {
        match errand {
            Errand::Send(packet) => {
                let own = hands.cx.own();
                let io = hands.cx.io();
                let lane = io.queue_of(own, packet.flow) - io.vif(own).start;
                self.answer(hands, lane, packet);
            }
            Errand::Work { span, token } => {
                let Some(worker) = &mut self.worker else { return };
                worker.work.push_back((span, token));
                hands.wake(worker.task);
            }
        }
    }

    fn nudged(&mut self, hands: &mut Hands<'_, '_>) {
        for process in self.processes.senders() {
            hands.wake(process.task);
        }
    }
}
