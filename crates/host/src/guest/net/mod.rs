//! A guest with a virtual interface: front end, stack, and processes.
//!
//! What comes in is polled in a softirq, 64 packets at a time, as NAPI does, and comes out of the
//! port. What goes out is sent by the stack in a softirq, or by a process, as far as the ring
//! has room.

mod process;

use std::collections::VecDeque;

use lowtail_config_text::KeyError;
use lowtail_engine::Duration;
use schemars::JsonSchema;
use serde::Deserialize;

use process::{Processes, SEND_PACKETS};

use super::kernel::fair::{TaskConfig, TaskId};
use super::kernel::{Begin, KernelContext, KernelGuest, Program, SoftId, Softirqs};
use crate::io::packet::Packet;
use crate::io::port::{Job, LostAt, PortEvent};

/// Parameters of a `net-guest`, a guest with a virtual interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetGuestConfig {
    /// Queues of its interface.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub queues: u16,
    /// When its kernel runs softirqs.
    #[serde(default)]
    pub softirqs: Softirqs,
    /// Whether a process in it computes for ever.
    #[serde(default)]
    pub computes: bool,
    /// Processes for what comes through the port, at least 1 where there is work; files have no key for it: flows say how many.
    #[serde(skip, default = "one")]
    pub processes: u16,
}

fn one() -> u16 {
    1
}

impl NetGuestConfig {
    /// One queue, one process, nothing that computes.
    pub const PLAIN: NetGuestConfig =
        NetGuestConfig { queues: 1, softirqs: Softirqs::AfterAll, computes: false, processes: 1 };

    /// Refuses a number of queues that no interface has.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        if (1..=64).contains(&self.queues) {
            return Ok(());
        }
        Err(KeyError::new("queues", format!("{} queues: 1 to 64", self.queues)))
    }
}

/// Packets of one poll (NAPI weight).
const POLL_PACKETS: usize = 64;
/// Packets that may wait for room in the ring (`txqueuelen`).
const OUT_PACKETS: usize = 1000;

/// What a process has room for at first.
const JOBS: usize = 256;

/// A queue of the interface as the guest sees it.
#[derive(Debug, Default)]
struct Lane {
    /// What is to be sent by the kernel.
    out: VecDeque<Packet>,
    /// How much of that, and of what has come, is being worked on.
    sending: usize,
    polling: usize,
}

/// Programs and interface of a guest.
#[derive(Debug)]
pub struct NetGuest {
    config: NetGuestConfig,
    lanes: Vec<Lane>,
    processes: Processes,
    looper: Option<TaskId>,
}

impl NetGuest {
    /// The domain.
    pub fn guest(config: NetGuestConfig) -> KernelGuest<NetGuest> {
        let processes = Processes::default();
        let guest = NetGuest { config, lanes: Vec::new(), processes, looper: None };
        KernelGuest::new(config.softirqs, guest)
    }

    /// The softirq that polls lane `lane` (`false`) or sends what it has (`true`).
    fn soft(&self, lane: usize, sends: bool) -> SoftId {
        SoftId((lane * 2 + usize::from(sends)) as u16)
    }

    /// Lane number `lane`'s place among the queues of the host.
    fn queue(kernel: &mut KernelContext<'_, '_>, lane: usize) -> usize {
        let own = kernel.cx.own();
        kernel.cx.io().vif(own).start + lane
    }

    /// Tells the back end that there is something in the ring (`sends`), or that there are buffers again.
    fn notify(kernel: &mut KernelContext<'_, '_>, lane: usize, sends: bool) {
        let queue = Self::queue(kernel, lane);
        let (from, driver) = (kernel.cpu, kernel.cx.io().driver());
        if kernel.cx.io().vhosts.any() {
            if let Some(worker) = kernel.cx.io().kick(queue, sends) {
                kernel.cx.wake_thread(from, worker);
                let rest = kernel.cx.io().costs.vhost_kick;
                kernel.spend(rest);
            }
            return;
        }
        let device = kernel.cx.io().nics.len() + queue;
        let port = kernel.cx.device_port(driver, device);
        kernel.cx.raise(Some(from), driver, port);
    }

    /// Puts as much as there is room for of `packets` into the ring of `lane`.
    fn push(kernel: &mut KernelContext<'_, '_>, lane: usize, packet: Packet) -> Option<bool> {
        let queue = Self::queue(kernel, lane);
        let now = kernel.now();
        let io = kernel.cx.io();
        let ring = &mut io.queues[queue].tx;
        ring.reap();
        let pushed = ring.push(packet);
        if let Some(blame) = io.blame.as_mut().filter(|_| pushed.is_some()) {
            blame.came(queue, true, now);
        }
        pushed
    }
}

impl Program for NetGuest {
    fn start(&mut self, kernel: &mut KernelContext<'_, '_>) {
        let (cpus, own) = (kernel.cpus(), kernel.cx.own());
        // A go of a process may be put on top.
        let out = || VecDeque::with_capacity(OUT_PACKETS + SEND_PACKETS);
        let lane = || Lane { out: out(), ..Lane::default() };
        self.lanes = (0..self.config.queues).map(|_| lane()).collect();
        for lane in 0..self.lanes.len() {
            let port = kernel.cx.device_port(own, lane);
            kernel.cx.io().bind(own, port, lane % cpus);
        }
        for _ in 0..self.config.processes {
            let task = kernel.add_task(TaskConfig::PROCESS);
            self.processes.add(task, JOBS);
        }
        if self.config.computes {
            let task = kernel.add_task(TaskConfig::PROCESS);
            self.looper = Some(task);
            kernel.wake(task);
        }
    }

    fn irq(&mut self, kernel: &mut KernelContext<'_, '_>, device: usize) {
        let soft = self.soft(device, false);
        kernel.raise(soft);
        // There may be room in the ring again.
        if !self.lanes[device].out.is_empty() {
            let soft = self.soft(device, true);
            kernel.raise(soft);
        }
        for process in self.processes.senders(device) {
            kernel.wake(process.task);
        }
    }

    fn soft_begin(&mut self, kernel: &mut KernelContext<'_, '_>, soft: SoftId) -> Begin {
        let (lane, sends) = (usize::from(soft.0 / 2), soft.0 % 2 == 1);
        let queue = Self::queue(kernel, lane);
        let io = kernel.cx.io();
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

    fn soft_end(&mut self, kernel: &mut KernelContext<'_, '_>, soft: SoftId) -> bool {
        let (lane, sends) = (usize::from(soft.0 / 2), soft.0 % 2 == 1);
        let queue = Self::queue(kernel, lane);
        if sends {
            let (mut notify, mut full) = (false, false);
            for _ in 0..self.lanes[lane].sending {
                let Some(packet) = self.lanes[lane].out.pop_front() else { break };
                let Some(listens) = Self::push(kernel, lane, packet) else {
                    // The ring is full; the back end's notification comes when it is not.
                    self.lanes[lane].out.push_front(packet);
                    full = true;
                    break;
                };
                notify |= listens;
            }
            if notify {
                Self::notify(kernel, lane, true);
            }
            return !full && !self.lanes[lane].out.is_empty();
        }
        for _ in 0..self.lanes[lane].polling {
            let own = kernel.cx.own();
            let io = kernel.cx.io();
            let Some(Packet { token, .. }) = io.queues[queue].rx.take() else { break };
            io.handed.push(PortEvent::Received { dom: own, token });
        }
        if kernel.cx.io().queues[queue].rx.wake_back() {
            Self::notify(kernel, lane, false);
        }
        let ring = &mut kernel.cx.io().queues[queue].rx;
        let again = ring.waiting() > 0 || !ring.front_sleeps();
        if !again {
            let (dom, queue) = (kernel.cx.own(), lane as u16);
            kernel.cx.io().handed.push(PortEvent::CaughtUp { dom, queue });
        }
        again
    }

    fn task_begin(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId) -> Begin {
        if self.looper == Some(task) {
            return Begin::Work(Duration::MAX);
        }
        let own = kernel.cx.own();
        let Some(process) = self.processes.by_task(task) else { return Begin::Nothing };
        let io = kernel.cx.io();
        let first = match (process.jobs.front(), process.last) {
            (Some(&Job::Work { span, .. }), _) => return Begin::Work(span),
            (Some(&Job::Write(packet)), _) => packet,
            // It has nothing to send, but stops the queue all the same if there is no room for
            // another packet like the last one, as Linux's front end does.
            (None, Some((last, _))) => last,
            (None, None) => return Begin::Nothing,
        };
        let queue = io.queue_of(own, first.hash);
        process.last = Some((first, queue - io.vif(own).start));
        io.queues[queue].tx.reap();
        let room = io.queues[queue].tx.room(&first) as usize;
        let like_first = |job: &Job| match *job {
            Job::Write(packet) if (packet.bytes, packet.hash) == (first.bytes, first.hash) => {
                Some(packet)
            }
            _ => None,
        };
        let packets = process.jobs.iter().map_while(like_first).take(room.min(SEND_PACKETS));
        let (mut sending, mut work) = (0, Duration::ZERO);
        for packet in packets {
            sending += 1;
            work += io.costs.front(&packet);
        }
        process.sending = sending;
        if sending == 0 { Begin::Nothing } else { Begin::Work(work + io.costs.notify) }
    }

    fn task_end(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId) {
        let Some(process) = self.processes.by_task(task) else { return };
        let (dom, sending) = (kernel.cx.own(), std::mem::take(&mut process.sending));
        if let (0, Some(Job::Work { .. })) = (sending, process.jobs.front()) {
            if let Some(Job::Work { token, .. }) = process.jobs.pop_front() {
                kernel.cx.io().handed.push(PortEvent::Worked { dom, token });
            }
            return;
        }
        let Some((_, lane)) = process.last else { return };
        let mut notify = false;
        for _ in 0..sending {
            let Some(Job::Write(packet)) = process.jobs.pop_front() else { break };
            match Self::push(kernel, lane, packet) {
                Some(listens) => notify |= listens,
                None => self.lanes[lane].out.push_back(packet),
            }
        }
        if notify {
            Self::notify(kernel, lane, true);
        }
    }

    fn send(&mut self, kernel: &mut KernelContext<'_, '_>, packet: Packet) {
        let own = kernel.cx.own();
        let io = kernel.cx.io();
        let lane = io.queue_of(own, packet.hash) - io.vif(own).start;
        let out = &mut self.lanes[lane].out;
        if out.len() >= OUT_PACKETS {
            kernel.cx.lose(&packet, LostAt::Guest);
        } else {
            out.push_back(packet);
        }
        let soft = self.soft(lane, true);
        kernel.raise(soft);
    }

    fn processes(&self) -> u16 {
        self.config.processes
    }

    fn assign(&mut self, process: u16, job: Job) -> Option<TaskId> {
        let process = self.processes.get(process)?;
        process.jobs.push_back(job);
        Some(process.task)
    }
}
