//! A server that answers small requests, and its client on another host.
//!
//! The way between client and guest (wire, driver domain, guest network stack) is a
//! delay with a distribution here; queues on that way are not modelled by this file.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Hist, Rng, Time};

use super::context::GuestContext;
use super::model::{Guest, Outcome, Step};
use crate::notification::Origin;
use lowtail_engine::Distribution;

/// When the client sends its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Closed loop: one request in flight, the next one a think time after the reply.
    Think(Distribution),
    /// Closed loop on a grid: one request in flight, sent at the next multiple of the
    /// period, or at once if that has passed already. This is sockperf's ping-pong mode
    /// with a message rate (`SwitchOnCycleDuration` in its `src/switches.h`).
    Paced(Duration),
    /// Open loop: the next request is sent a gap after the last, answered or not.
    Open(Distribution),
}

/// The delay between client and guest, one way: `fixed`, plus a log-normal jitter, plus
/// now and then an exponential one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// The part that every packet takes.
    pub fixed: Duration,
    /// Median of the log-normal jitter.
    pub jitter_median: Duration,
    /// Its sigma, in natural logarithms.
    pub jitter_sigma: f64,
    /// Share of packets that meet an extra delay, 0 to 1.
    pub extra_share: f64,
    /// Mean of that delay.
    pub extra_mean: Duration,
}

impl Path {
    /// A way without jitter.
    pub fn fixed(delay: Duration) -> Self {
        Path {
            fixed: delay,
            jitter_median: Duration::ZERO,
            jitter_sigma: 0.0,
            extra_share: 0.0,
            extra_mean: Duration::ZERO,
        }
    }

    fn draw(&self, rng: &mut Rng) -> Duration {
        let mut delay = self.fixed;
        if !self.jitter_median.is_zero() {
            delay += rng.log_normal(self.jitter_median, self.jitter_sigma);
        }
        if self.extra_share > 0.0 && rng.unit() < self.extra_share {
            delay += rng.exponential(self.extra_mean);
        }
        delay
    }
}

/// What server and client are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestServerConfig {
    /// When requests are sent.
    pub load: Load,
    /// Processor work per request.
    pub service: Distribution,
    /// The way from client to guest and back.
    pub path: Path,
    /// How long after a reply was sent the back end notifies the guest that the packet
    /// has left, so that its buffer can be reused; `None` if it never does.
    pub tx_completion: Option<Distribution>,
    /// Processor work of that notification.
    pub tx_completion_work: Duration,
    /// Requests to measure.
    pub requests: u64,
    /// Requests before that, not measured.
    pub warmup: u64,
    /// Report half the round trip, as sockperf does, instead of all of it.
    pub half: bool,
}

const SEND: u32 = 0;
const ARRIVE: u32 = 1;
const REPLY: u32 = 2;
/// This and the vCPU's number.
const TX_DONE: u32 = 3;

/// What a vCPU of the server is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    Request(Time),
    TxCompletion,
}

/// A vCPU of the server.
#[derive(Debug)]
struct Worker {
    /// Send times of requests that it has not taken up.
    waiting: VecDeque<Time>,
    tx_done: u32,
    busy: Busy,
}

/// A server with its client. Each vCPU has a queue of its own, and requests go to them in turn,
/// as a network card with a queue per vCPU spreads connections.
#[derive(Debug)]
pub struct RequestServer {
    config: RequestServerConfig,
    rng: Rng,
    grid: Time,
    sent: u64,
    replied: u64,
    /// Send times of requests under way to the guest, in order of arrival.
    flying: VecDeque<Time>,
    workers: Vec<Worker>,
    /// Whose turn it is.
    next: usize,
    /// Send times of requests whose replies are under way.
    returning: VecDeque<Time>,
    latency: Hist,
}

impl RequestServer {
    /// A server and client at rest.
    pub fn new(config: RequestServerConfig, rng: Rng) -> Self {
        let room = || VecDeque::with_capacity(64);
        RequestServer {
            config,
            rng,
            grid: Time::ZERO,
            sent: 0,
            replied: 0,
            flying: room(),
            workers: Vec::new(),
            next: 0,
            returning: room(),
            latency: Hist::new(),
        }
    }

    fn wanted(&self) -> u64 {
        self.config.requests + self.config.warmup
    }

    fn send(&mut self, cx: &mut GuestContext<'_>) {
        if self.sent >= self.wanted() {
            return;
        }
        self.sent += 1;
        self.flying.push_back(cx.now());
        let delay = self.config.path.draw(&mut self.rng);
        cx.after(delay, ARRIVE);
        if let Load::Open(gap) = self.config.load {
            let gap = gap.draw(&mut self.rng);
            cx.after(gap, SEND);
        }
    }

    fn reply_received(&mut self, cx: &mut GuestContext<'_>) {
        // Packets may overtake each other on the jittery way; replies are matched in
        // order all the same. With one request in flight there is nothing to mix up.
        let Some(sent_at) = self.returning.pop_front() else { return };
        self.replied += 1;
        if self.replied > self.config.warmup {
            let round_trip = cx.now().since(sent_at);
            self.latency.record(if self.config.half { round_trip / 2 } else { round_trip });
        }
        match self.config.load {
            Load::Think(think) => {
                let think = think.draw(&mut self.rng);
                cx.after(think, SEND);
            }
            Load::Paced(period) => {
                self.grid += period;
                cx.at(self.grid.max(cx.now()), SEND);
            }
            Load::Open(_) => {}
        }
    }
}

impl Guest for RequestServer {
    fn start(&mut self, cx: &mut GuestContext<'_>) {
        let worker = || Worker { waiting: VecDeque::with_capacity(64), tx_done: 0, busy: Busy::No };
        self.workers = (0..cx.vcpus()).map(|_| worker()).collect();
        // The first request comes at a random moment of the first millisecond, so that
        // client and host share no phase by construction.
        let first = self.rng.uniform(Duration::ZERO, Duration::from_ms(1));
        self.grid = cx.now() + first;
        cx.after(first, SEND);
    }

    fn step(&mut self, cx: &mut GuestContext<'_>, vcpu: usize) -> Step {
        let worker = &mut self.workers[vcpu];
        if let Busy::Request(sent_at) = worker.busy {
            self.returning.push_back(sent_at);
            let delay = self.config.path.draw(&mut self.rng);
            cx.after(delay, REPLY);
            if let Some(delay) = self.config.tx_completion {
                let delay = delay.draw(&mut self.rng);
                cx.after(delay, TX_DONE + vcpu as u32);
            }
        }
        worker.busy = Busy::No;
        if worker.tx_done > 0 {
            worker.tx_done = 0;
            worker.busy = Busy::TxCompletion;
            return Step::Compute(self.config.tx_completion_work);
        }
        if let Some(sent_at) = worker.waiting.pop_front() {
            worker.busy = Busy::Request(sent_at);
            return Step::Compute(self.config.service.draw(&mut self.rng));
        }
        Step::Block
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        match token {
            SEND => self.send(cx),
            REPLY => self.reply_received(cx),
            ARRIVE => {
                let vcpu = self.next;
                self.next = (vcpu + 1) % self.workers.len();
                self.workers[vcpu].waiting.extend(self.flying.pop_front());
                cx.notify(vcpu, Origin::Elsewhere);
            }
            _ => {
                let vcpu = (token - TX_DONE) as usize;
                self.workers[vcpu].tx_done += 1;
                cx.notify(vcpu, Origin::Elsewhere);
            }
        }
    }

    fn done(&self) -> Option<bool> {
        Some(self.replied >= self.wanted())
    }

    fn outcome(&self) -> Outcome {
        Outcome { latency: Some(self.latency.clone()), counters: vec![("requests", self.sent)] }
    }
}
