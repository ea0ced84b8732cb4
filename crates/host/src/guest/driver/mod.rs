//! The driver domain: drivers of the NICs, a bridge, and the back ends of all virtual
//! interfaces, in a kernel with processes of its own.
//!
//! A packet from a NIC: interrupt, poll (a softirq), bridge, the queue of a virtual interface,
//! the back end, which copies a batch into the guests' rings in one hypercall and then notifies
//! each guest that listens, one after the other. A packet from a guest: its notification, the
//! back end, which takes a batch in turns of one packet from each ring, bridge, NIC or another
//! guest's queue. Who does the work of the back end is a matter of [`Backend`].
//!
//! From Linux 2.6.18-xen, 2.6.32 pvops and 3.x (`drivers/xen/netback`): batches, the order of
//! notifications, where packets are dropped. Left out: flipping of pages, the split of a batch
//! of grants by preemption of the hypercall, checksums, transmit completions of the NIC.
//!
//! The file is one thing although it is long: every step of a back end, from the poll to the
//! notification, changes the same queues, workers and locks. What a worker serves in which order
//! (`worker.rs`) and the domain's processes (`processes.rs`) know none of the rest.

mod config;
mod processes;
mod worker;

use std::collections::VecDeque;

use lowtail_engine::Duration;

use super::kernel::fair::{TaskConfig, TaskId, WEIGHT, WEIGHT_MOST};
use super::kernel::{Begin, KernelContext, KernelGuest, Program, SoftId};
use crate::guest::context::GuestContext;
use crate::ids::Dom;
use crate::io::lock::{GrantLock, SpinLock};
use crate::io::packet::{Destination, Packet};
use crate::io::port::LostAt;
pub use config::{Backend, DriverConfig, Interrupts, Process};
use processes::Processes;
use worker::{Work, Worker};

/// Packets of one poll of a NIC or queue (`NAPI` weight).
const POLL_PACKETS: usize = 64;
/// How often interrupts are balanced.
const BALANCE_PERIOD: Duration = Duration::from_ms(10_000);

/// A queue of an interface as the back end sees it.
#[derive(Debug)]
struct BackQueue {
    worker: usize,
    /// Packets for which the guest has no buffers.
    backlog: VecDeque<Packet>,
}

/// The back ends of a host.
#[derive(Debug)]
pub struct Driver {
    config: DriverConfig,
    nics: usize,
    /// Packets of each NIC that are being polled.
    polled: Vec<usize>,
    queues: Vec<BackQueue>,
    workers: Vec<Worker>,
    lock: SpinLock,
    locks: Vec<SpinLock>,
    users: Processes,
    /// Balancing is a process that sleeps.
    balancer: Option<TaskId>,
    balanced: bool,
    /// Interrupts of each device since the last balancing.
    load: Vec<u64>,
    /// Devices, those that interrupt most first; and what each vCPU has of that.
    busiest: Vec<usize>,
    sums: Vec<u64>,
}

impl Driver {
    /// The domain.
    pub fn guest(config: &DriverConfig) -> KernelGuest<Driver> {
        let driver = Driver {
            config: config.clone(),
            nics: 0,
            polled: Vec::new(),
            queues: Vec::new(),
            workers: Vec::new(),
            lock: SpinLock::default(),
            locks: Vec::new(),
            users: Processes::new(&config.processes),
            balancer: None,
            balanced: false,
            load: Vec::new(),
            busiest: Vec::new(),
            sums: Vec::new(),
        };
        KernelGuest::new(config.softirqs, driver)
    }

    fn small_first(&self) -> bool {
        self.config.backend == Backend::SmallFirst
    }

    /// Whether what guests send has workers of its own: a tasklet or a poll.
    fn split(&self) -> bool {
        matches!(self.config.backend, Backend::Tasklet | Backend::Tasklets | Backend::Napi)
    }

    /// The worker that hands packets to the guest behind `queue`, or takes those that it sends.
    fn worker(&self, queue: usize, sends: bool) -> usize {
        self.queues[queue].worker + usize::from(sends && self.split())
    }

    /// Starts the work of `worker`.
    fn start_worker(&mut self, kernel: &mut KernelContext<'_, '_>, worker: usize) {
        match self.workers[worker].thread {
            Some(thread) => kernel.wake(thread),
            None => kernel.raise(SoftId((self.nics + worker) as u16)),
        }
    }

    /// A packet for the guest behind `queue`.
    fn enqueue(&mut self, kernel: &mut KernelContext<'_, '_>, queue: usize, packet: Packet) {
        if !self.queues[queue].backlog.is_empty() {
            // The guest may have posted buffers without our having handled its event yet.
            self.buffers_posted(kernel, queue);
        }
        let back = &mut self.queues[queue];
        let io = kernel.cx.io();
        if back.backlog.is_empty() && io.queues[queue].rx.reserve(&packet) {
            let worker = back.worker;
            self.workers[worker].receive(queue, packet);
            came(kernel, queue);
            self.start_worker(kernel, worker);
        } else if back.backlog.len() < usize::from(self.config.queue_packets) {
            // The buffers that were too few have said that we wait for more.
            back.backlog.push_back(packet);
        } else {
            kernel.cx.lose(&packet, LostAt::BackEnd);
        }
    }

    /// The guest behind `queue` has posted buffers.
    fn buffers_posted(&mut self, kernel: &mut KernelContext<'_, '_>, queue: usize) {
        let back = &mut self.queues[queue];
        let worker = back.worker;
        let mut any = false;
        while let Some(packet) = back.backlog.front() {
            if !kernel.cx.io().queues[queue].rx.reserve(packet) {
                break;
            }
            if let Some(packet) = back.backlog.pop_front() {
                self.workers[worker].receive(queue, packet);
                came(kernel, queue);
                any = true;
            }
        }
        if any {
            self.start_worker(kernel, worker);
        }
    }

    /// The bridge.
    fn forward(&mut self, kernel: &mut KernelContext<'_, '_>, packet: Packet) {
        match packet.to() {
            Destination::Nic(nic) => kernel.cx.transmit(nic, &packet),
            Destination::Dom(dom) => {
                let queue = kernel.cx.io().queue_of(dom, packet.hash);
                self.enqueue(kernel, queue, packet);
            }
        }
    }

    /// The work of a batch of `worker`, with its waits for locks.
    fn cost(&mut self, cx: &mut GuestContext<'_>, worker: usize) -> Duration {
        let costs = cx.io().costs;
        let now = cx.now();
        let receives = self.workers[worker].work == Work::Receive;
        let sends = self.workers[worker].work == Work::Send;
        let (mut work, mut grant) = (Duration::ZERO, Duration::ZERO);
        let mut own = Duration::ZERO;
        for (queue, packet) in &self.workers[worker].batch {
            work += costs.back(packet);
            if let (Destination::Nic(nic), true) = (packet.to(), sends) {
                let pieces = cx.io().nics[usize::from(nic)].pieces(packet);
                work += costs.split_piece * u64::from(pieces);
            }
            let span = costs.grant(packet);
            match self.config.grant_lock {
                GrantLock::PerDomain => {
                    let dom = cx.io().queues[*queue].dom;
                    own += self.locks[dom.index()].take(now + own, span);
                    // Copied out of another guest's pages: with its lock, too.
                    if let (Some(source), true) = (packet.from(), receives) {
                        own += self.locks[source.index()].take(now + (own - span), span) - span;
                    }
                }
                _ => grant += span,
            }
        }
        let held = match self.config.grant_lock {
            // One hypercall for all of them, with the lock held.
            GrantLock::Global => self.lock.take(now + work, grant),
            _ => grant,
        };
        work + held + own
    }

    /// `worker` begins a batch.
    fn begin(&mut self, kernel: &mut KernelContext<'_, '_>, worker: usize) -> Begin {
        let sends = self.split() && worker % 2 == 1;
        let state = &mut self.workers[worker];
        if !state.to_notify.is_empty() {
            state.work = Work::Notify;
            return Begin::Work(kernel.cx.io().costs.notify);
        }
        let now_ns = kernel.now().as_ns();
        let io = kernel.cx.io();
        match self.config.backend {
            Backend::SmallFirst => {
                let choice = state.choose(io, now_ns);
                if choice.is_none_or(|choice| !choice.small)
                    && let Some(begin) = self.poll_small_first(kernel, worker)
                {
                    return begin;
                }
                if let Some(choice) = choice {
                    self.workers[worker].take(kernel.cx.io(), choice, now_ns);
                }
            }
            Backend::Napi if sends => state.take_sent(io, worker::COPY_BATCH),
            Backend::Threads => state.take_either(io),
            Backend::Napi => state.take_received(worker::COPY_BATCH),
            _ if sends => state.take_sent(io, worker::MAX_PENDING),
            _ => state.take_received(worker::BATCH_SLOTS),
        }
        let state = &self.workers[worker];
        if state.batch.is_empty() {
            return Begin::Nothing;
        }
        if let Some(blame) = &mut kernel.cx.io().blame {
            blame.taken(worker, &state.batch, state.work == Work::Send);
        }
        Begin::Work(self.cost(kernel.cx, worker))
    }

    /// Polls the NIC that is next: a small one at once, another one when no more than a portion
    /// waits for guests. So what is too much stays in the NICs and costs nothing.
    fn poll_small_first(
        &mut self,
        kernel: &mut KernelContext<'_, '_>,
        worker: usize,
    ) -> Option<Begin> {
        let now_ns = kernel.now().as_ns();
        loop {
            let state = &mut self.workers[worker];
            let (nic, small) = state.choose_nic(&kernel.cx.io().nics, now_ns)?;
            if !small && state.inbound() >= worker::PORTION_PACKETS {
                return None;
            }
            state.work = Work::Poll(nic);
            let most = if small { 1 } else { worker::PORTION_PACKETS };
            let begin = self.begin_poll(kernel, nic, most);
            if begin != Begin::Nothing {
                let packets = kernel.cx.io().nics[nic].iter().take(self.polled[nic]);
                let bytes = packets.map(|packet| packet.bytes).sum();
                self.workers[worker].charge_nic(nic, bytes);
                return Some(begin);
            }
            self.workers[worker].nic_ready(nic, false);
        }
    }

    /// `worker` has done its batch. Returns whether there is more.
    fn end(&mut self, kernel: &mut KernelContext<'_, '_>, worker: usize) -> bool {
        let state = &mut self.workers[worker];
        if state.work == Work::Notify {
            // The last one first, as the array of interrupts is worked off.
            if let Some(queue) = state.to_notify.pop() {
                self.notify_front(kernel, queue);
            }
            return self.workers[worker].has_work();
        }
        let mut batch = std::mem::take(&mut state.batch);
        let (work, now) = (state.work, kernel.now());
        if let Some(blame) = &mut kernel.cx.io().blame {
            blame.done(worker, &batch, work == Work::Send, now);
        }
        for (queue, packet) in batch.drain(..) {
            let shared = &mut kernel.cx.io().queues[queue];
            let listens = match work {
                Work::Receive => shared.rx.fill(packet),
                _ => shared.tx.answer(&packet),
            };
            let state = &mut self.workers[worker];
            if (listens || !self.config.suppress) && !state.to_notify.contains(&queue) {
                state.to_notify.push(queue);
            }
            if work == Work::Send {
                self.forward(kernel, packet);
            }
        }
        let state = &mut self.workers[worker];
        state.batch = batch;
        state.has_work()
    }

    fn notify_front(&mut self, kernel: &mut KernelContext<'_, '_>, queue: usize) {
        let from = kernel.cpu;
        let io = kernel.cx.io();
        let dom = io.queues[queue].dom;
        let device = queue - io.vif(dom).start;
        let port = kernel.cx.device_port(dom, device);
        kernel.cx.raise(Some(from), dom, port);
    }

    /// Begins to take up to `most` packets from NIC number `nic`; listens to it if there are none.
    fn begin_poll(&mut self, kernel: &mut KernelContext<'_, '_>, nic: usize, most: usize) -> Begin {
        let io = kernel.cx.io();
        let packets = io.nics[nic].waiting().min(most);
        self.polled[nic] = packets;
        if packets == 0 {
            kernel.cx.listen(nic);
            return Begin::Nothing;
        }
        Begin::Work(io.costs.nic_packet * packets as u64)
    }

    /// Passes these packets on. Returns whether there are more.
    fn end_poll(&mut self, kernel: &mut KernelContext<'_, '_>, nic: usize) -> bool {
        for _ in 0..self.polled[nic] {
            let Some(packet) = kernel.cx.io().nics[nic].take() else { break };
            self.forward(kernel, packet);
        }
        let more = kernel.cx.io().nics[nic].waiting() > 0;
        if !more {
            kernel.cx.listen(nic);
        }
        more
    }

    /// Binds devices to vCPUs by how often they have interrupted.
    fn balance(&mut self, kernel: &mut KernelContext<'_, '_>) {
        let cpus = kernel.cpus();
        let own = kernel.cx.own();
        let Driver { load, busiest, sums, .. } = self;
        busiest.sort_unstable_by_key(|&device| (std::cmp::Reverse(load[device]), device));
        sums.fill(0);
        for &device in &*busiest {
            let least = (0..cpus).min_by_key(|&cpu| sums[cpu]).unwrap_or(0);
            sums[least] += load[device] + 1;
            let port = crate::io::device_port(device, cpus);
            kernel.cx.io().bind(own, port, least);
        }
        load.fill(0);
    }
}

/// A packet for the guest behind `queue` waits for its worker.
fn came(kernel: &mut KernelContext<'_, '_>, queue: usize) {
    let now = kernel.now();
    if let Some(blame) = &mut kernel.cx.io().blame {
        blame.came(queue, false, now);
    }
}

impl Program for Driver {
    fn start(&mut self, kernel: &mut KernelContext<'_, '_>) {
        let (cpus, own) = (kernel.cpus(), kernel.cx.own());
        let io = kernel.cx.io();
        self.nics = io.nics.len();
        self.polled = vec![0; self.nics];
        let queues = io.queues.len();
        let doms: Vec<usize> = io.queues.iter().map(|queue| queue.dom.index()).collect();
        let groups = match self.config.backend {
            Backend::Tasklet => 1,
            Backend::Tasklets => self.config.groups.map_or(cpus, usize::from),
            Backend::Threads | Backend::SmallFirst => cpus,
            Backend::Napi => queues,
        };
        for device in 0..self.nics + queues {
            let cpu = match self.config.interrupts {
                Interrupts::Fixed => 0,
                // An interface where its NIC is, if there are as many.
                _ if device < self.nics => device % cpus,
                _ => (device - self.nics) % cpus,
            };
            let port = crate::io::device_port(device, cpus);
            kernel.cx.io().bind(own, port, cpu);
        }
        let threads = !matches!(self.config.backend, Backend::Tasklet | Backend::Tasklets);
        let (free, split) = (self.config.backend == Backend::Napi, self.split());
        // A process that wakes interrupts a small-first thread at the end of its portion
        // whatever that weighs; one that computes all the time gets what is left over.
        let weight = if self.small_first() { WEIGHT_MOST } else { WEIGHT };
        for group in 0..groups {
            let config = TaskConfig { free, weight, ..TaskConfig::thread(group % cpus) };
            let thread = threads.then(|| kernel.add_task(config));
            self.workers.push(Worker::new(thread));
            if split {
                self.workers.push(Worker::new(None));
            }
        }
        if self.small_first() {
            for nic in 0..self.nics {
                self.workers[nic % groups].add_nic(nic);
            }
        }
        self.queues = (0..queues)
            .map(|queue| BackQueue {
                worker: queue % groups * (1 + usize::from(split)),
                backlog: VecDeque::with_capacity(usize::from(self.config.queue_packets)),
            })
            .collect();
        for queue in 0..queues {
            let worker = self.worker(queue, false);
            self.workers[worker].add(queue);
        }
        let of_queue = |(queue, &dom): (usize, &usize)| {
            (Dom(dom as u16), [false, true].map(|sends| self.worker(queue, sends)))
        };
        if let Some(blame) = &mut kernel.cx.io().blame {
            blame.start(self.workers.len(), doms.iter().enumerate().map(of_queue));
        }
        self.locks = vec![SpinLock::default(); doms.iter().max().map_or(0, |dom| dom + 1)];
        self.load = vec![0; self.nics + queues];
        self.busiest = (0..self.load.len()).collect();
        self.sums = vec![0; cpus];
        if self.config.interrupts == Interrupts::Balanced {
            let task = kernel.add_task(TaskConfig::PROCESS);
            self.balancer = Some(task);
            kernel.wake_after(task, BALANCE_PERIOD);
        }
        self.users.start(kernel);
    }

    fn irq(&mut self, kernel: &mut KernelContext<'_, '_>, device: usize) {
        self.load[device] += 1;
        let Some(queue) = device.checked_sub(self.nics) else {
            if self.small_first() {
                let worker = device % self.workers.len();
                self.workers[worker].nic_ready(device, true);
                self.start_worker(kernel, worker);
            } else {
                kernel.raise(SoftId(device as u16));
            }
            return;
        };
        let worker = self.worker(queue, true);
        if self.workers[worker].list_sender(kernel.cx.io(), queue) {
            self.start_worker(kernel, worker);
        }
        self.buffers_posted(kernel, queue);
    }

    fn soft_begin(&mut self, kernel: &mut KernelContext<'_, '_>, soft: SoftId) -> Begin {
        let soft = usize::from(soft.0);
        if let Some(worker) = soft.checked_sub(self.nics) {
            return self.begin(kernel, worker);
        }
        self.begin_poll(kernel, soft, POLL_PACKETS)
    }

    fn soft_end(&mut self, kernel: &mut KernelContext<'_, '_>, soft: SoftId) -> bool {
        let soft = usize::from(soft.0);
        if let Some(worker) = soft.checked_sub(self.nics) {
            return self.end(kernel, worker);
        }
        self.end_poll(kernel, soft)
    }

    fn task_begin(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId) -> Begin {
        if let Some(worker) = self.workers.iter().position(|s| s.thread == Some(task)) {
            return self.begin(kernel, worker);
        }
        if self.balancer == Some(task) {
            if std::mem::take(&mut self.balanced) {
                kernel.wake_after(task, BALANCE_PERIOD);
                return Begin::Nothing;
            }
            return Begin::Work(Duration::from_us(100));
        }
        self.users.begin(kernel, task)
    }

    fn task_end(&mut self, kernel: &mut KernelContext<'_, '_>, task: TaskId) {
        if let Some(worker) = self.workers.iter().position(|s| s.thread == Some(task)) {
            if let Work::Poll(nic) = self.workers[worker].work {
                let more = self.end_poll(kernel, nic);
                self.workers[worker].nic_ready(nic, more);
                self.workers[worker].work = Work::Receive;
            } else {
                self.end(kernel, worker);
            }
            return;
        }
        if self.balancer == Some(task) {
            self.balance(kernel);
            self.balanced = true;
            return;
        }
        self.users.end(task);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let held: Duration = self.locks.iter().fold(self.lock.held(), |sum, l| sum + l.held());
        let waited = self.locks.iter().fold(self.lock.waited(), |sum, l| sum + l.waited());
        vec![("lock_held_ns", held.as_ns()), ("lock_waited_ns", waited.as_ns())]
    }
}
