//! A server that answers small requests, and its client on another host.
//!
//! The way between client and guest (wire, driver domain, guest network stack) is a
//! delay with a distribution here; queues on that way are not modelled by this file.

use std::collections::VecDeque;

use lowtail_config_text::{DistributionText, DurationText, KeyError, MaybeDistributionText, field};
use lowtail_engine::{Distribution, Duration, Hist, Rng, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{at_least_1us, count};
use super::client::{self, Job};
use super::context::GuestContext;
use super::model::{Guest, Outcome, Step};
use crate::ids::Dom;
use crate::notification::Origin;

/// When the client sends its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Closed loop: one request in flight, the next one a think time after the reply.
    Think(
        #[serde(deserialize_with = "field::distribution")]
        #[schemars(with = "DistributionText")]
        Distribution,
    ),
    /// Closed loop on a grid: one request in flight, sent at the next multiple of the
    /// period, or at once if that has passed already. This is sockperf's ping-pong mode
    /// with a message rate (`SwitchOnCycleDuration` in its `src/switches.h`).
    Paced(
        #[serde(deserialize_with = "field::duration")]
        #[schemars(with = "DurationText")]
        Duration,
    ),
    /// Open loop: the next request is sent a gap after the last, answered or not.
    Open(
        #[serde(deserialize_with = "field::distribution")]
        #[schemars(with = "DistributionText")]
        Distribution,
    ),
    /// Open loop, on and off: requests with gaps for a while, then none for a while.
    OnOff(OnOff),
    /// Open loop: several requests at once.
    Batches(Batches),
}

/// Requests that come for a while, and then do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Between two requests.
    #[serde(deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub gap: Distribution,
    /// How long they come.
    #[serde(deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub on: Distribution,
    /// How long none come then.
    #[serde(deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub off: Distribution,
}

/// Requests that come several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batches {
    /// Between two batches.
    #[serde(deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub gap: Distribution,
    /// Requests in each.
    #[schemars(range(min = 1, max = 1000))]
    pub size: u32,
}

/// Most requests of a batch.
const BATCH_MAX: u32 = 1000;

impl Load {
    /// Refuses gaps with which a run would take too long, and batches without requests.
    fn check(&self) -> Result<(), KeyError> {
        let result = match self {
            Load::Think(_) | Load::Paced(_) => Ok(()),
            Load::Open(gap) => return at_least_1us("load", gap.mean()),
            Load::OnOff(OnOff { gap, on, .. }) => at_least_1us("gap", gap.mean()).and_then(|()| {
                let message = format!("{} on average: at least a gap, {}", on.mean(), gap.mean());
                let fits = on.mean() >= gap.mean();
                if fits { Ok(()) } else { Err(KeyError::new("on", message)) }
            }),
            Load::Batches(Batches { gap, size }) => {
                at_least_1us("gap", gap.mean()).and_then(|()| {
                    let message = format!("{size} requests at once: 1 to {BATCH_MAX}");
                    let fits = (1..=BATCH_MAX).contains(size);
                    if fits { Ok(()) } else { Err(KeyError::new("size", message)) }
                })
            }
        };
        let key = if matches!(self, Load::OnOff(_)) { "on_off" } else { "batches" };
        result.map_err(|error| error.under(&["load", key]))
    }
}

/// Delay between client and guest, one way: fixed, plus log-normal jitter, plus now and
/// then an exponential extra.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The part that every packet takes.
    #[serde(default, deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub fixed: Duration,
    /// Median of the log-normal jitter, at most 100ms.
    #[serde(default, deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub jitter_median: Duration,
    /// Its sigma, in natural logarithms.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2))]
    pub jitter_sigma: f64,
    /// Share of packets that meet the extra delay.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub extra_share: f64,
    /// Mean of that delay.
    #[serde(default, deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub extra_mean: Duration,
}

impl Path {
    /// A way without jitter.
    pub fn fixed(delay: Duration) -> Self {
        Path { fixed: delay, ..Path::default() }
    }

    /// Refuses delays that do not fit the simulator's clock, and shares that are none.
    fn check(&self) -> Result<(), KeyError> {
        // A log-normal draw of this median and sigma stays within the simulator's clock.
        if self.jitter_median > Duration::from_ms(100) {
            return Err(KeyError::new(
                "jitter_median",
                "longer than 100ms: use `fixed` or `extra_mean`",
            ));
        }
        if !(0.0..=2.0).contains(&self.jitter_sigma) {
            let message = format!("sigma {}: 0 to 2", self.jitter_sigma);
            return Err(KeyError::new("jitter_sigma", message));
        }
        if !(0.0..=1.0).contains(&self.extra_share) {
            let message = format!("share {}: 0 to 1", self.extra_share);
            return Err(KeyError::new("extra_share", message));
        }
        Ok(())
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

/// Parameters of a `request-server`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestServerConfig {
    /// When the client sends.
    pub load: Load,
    /// The VM of this host in which the client is, a `client`; absent, it is on another host and takes no pCPU. Round trips then are
    /// from when it begins to send until it has the answer.
    #[serde(default)]
    pub client: Option<String>,
    /// Processor work per request.
    #[serde(deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub service: Distribution,
    /// The way between client and guest, each way.
    #[serde(default)]
    pub path: Path,
    /// How long after a reply was sent the back end notifies the guest that the packet has
    /// left, so that its buffer can be reused; no such notification if this is absent.
    #[serde(default, deserialize_with = "field::maybe_distribution")]
    #[schemars(with = "Option<MaybeDistributionText>")]
    pub tx_completion: Option<Distribution>,
    /// After how many percent of the replies, at random: a back end leaves it out where the guest does not ask for it.
    #[serde(default = "always")]
    #[schemars(range(min = 1, max = 100))]
    pub tx_completion_percent: u8,
    /// Processor work of that notification.
    #[serde(default = "one_microsecond", deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub tx_completion_work: Duration,
    /// Processor work of the guest's kernel for each request, besides: to take it in, wake the server, and send the reply.
    #[serde(default, deserialize_with = "field::duration")]
    #[schemars(with = "DurationText")]
    pub network_work: Duration,
    /// Processor work after a reply, before the guest looks for the next request or blocks.
    #[serde(default = "none", deserialize_with = "field::distribution")]
    #[schemars(with = "DistributionText")]
    pub after_reply: Distribution,
    /// Requests to measure; as many as there are until the time is over if this is absent.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub requests: Option<u64>,
    /// Requests before that, not measured.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub warmup: u64,
    /// Report half of the round trip, as sockperf does.
    #[serde(default)]
    pub half: bool,
}

fn none() -> Distribution {
    Distribution::ZERO
}

fn always() -> u8 {
    100
}

fn one_microsecond() -> Duration {
    Duration::from_us(1)
}

/// More requests than any run has time for.
const UNTIL_THE_END: u64 = u64::MAX / 2;

impl RequestServerConfig {
    /// A server that does nothing but what is said, with its client at no distance on another host.
    pub fn new(load: Load, service: Distribution) -> Self {
        RequestServerConfig {
            load,
            service,
            client: None,
            path: Path::default(),
            tx_completion: None,
            tx_completion_percent: always(),
            tx_completion_work: one_microsecond(),
            network_work: Duration::ZERO,
            after_reply: none(),
            requests: None,
            warmup: 0,
            half: false,
        }
    }

    /// Refuses parameters with which the guest makes no sense, or takes too long to simulate.
    ///
    /// # Errors
    /// Which parameter, and what would be right.
    pub fn check(&self) -> Result<(), KeyError> {
        if let Some(requests) = self.requests {
            count("requests", requests, 1)?;
        }
        count("warmup", self.warmup, 0)?;
        if self.service.mean().as_ns() == 0 {
            return Err(KeyError::new("service", "a request costs some work: at least 1ns"));
        }
        if !(1..=100).contains(&self.tx_completion_percent) {
            let message = format!("{} %: 1 to 100", self.tx_completion_percent);
            return Err(KeyError::new("tx_completion_percent", message));
        }
        self.load.check()?;
        self.path.check().map_err(|error| error.under(&["path"]))
    }

    /// Requests in all, those that are not measured included.
    fn all_requests(&self) -> u64 {
        self.requests.unwrap_or(UNTIL_THE_END) + self.warmup
    }
}

const SEND: u32 = 0;
const ARRIVE: u32 = 1;
const REPLY: u32 = 2;
/// This and the vCPU's number.
const TX_DONE: u32 = client::FREE;

/// What a vCPU of the server is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    Request(Time),
    AfterReply,
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
    /// Where the client is, if on this host.
    client: Option<Dom>,
    rng: Rng,
    grid: Time,
    /// When requests stop coming for a while.
    off_from: Time,
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
    /// A server and client at rest; `client` is the domain that has the client.
    pub fn new(config: RequestServerConfig, client: Option<Dom>, rng: Rng) -> Self {
        let room = || VecDeque::with_capacity(64);
        RequestServer {
            config,
            client,
            rng,
            grid: Time::ZERO,
            off_from: Time::ZERO,
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
        self.config.all_requests()
    }

    fn send(&mut self, cx: &mut GuestContext<'_>) {
        let batch = match self.config.load {
            Load::Batches(Batches { size, .. }) => size,
            _ => 1,
        };
        for _ in 0..batch {
            if self.sent >= self.wanted() {
                return;
            }
            self.sent += 1;
            match self.client {
                Some(client) => cx.signal(client, client::token(cx.own(), Job::Send)),
                None => {
                    self.flying.push_back(cx.now());
                    self.leave(cx);
                }
            }
        }
        match self.config.load {
            Load::Open(gap) | Load::Batches(Batches { gap, .. }) => {
                let gap = gap.draw(&mut self.rng);
                cx.after(gap, SEND);
            }
            Load::OnOff(OnOff { gap, on, off }) => {
                let mut next = cx.now() + gap.draw(&mut self.rng);
                // Some phases have no request; no gap is always longer than a phase, see `check`.
                while next > self.off_from {
                    let start = self.off_from.max(cx.now()) + off.draw(&mut self.rng);
                    self.off_from = start + on.draw(&mut self.rng);
                    next = start + gap.draw(&mut self.rng);
                }
                cx.at(next, SEND);
            }
            Load::Think(_) | Load::Paced(_) => {}
        }
    }

    /// A request goes on its way to the guest.
    fn leave(&mut self, cx: &mut GuestContext<'_>) {
        let delay = self.config.path.draw(&mut self.rng);
        cx.after(delay, ARRIVE);
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
            Load::Open(_) | Load::OnOff(_) | Load::Batches(_) => {}
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
            let percent = self.config.tx_completion_percent;
            let told = percent == 100 || self.rng.below(100) < percent.into();
            if let Some(delay) = self.config.tx_completion.filter(|_| told) {
                let delay = delay.draw(&mut self.rng);
                cx.after(delay, TX_DONE + vcpu as u32);
            }
            let after = self.config.after_reply.draw(&mut self.rng);
            if !after.is_zero() {
                worker.busy = Busy::AfterReply;
                return Step::Compute(after);
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
            let service = self.config.service.draw(&mut self.rng);
            return Step::Compute(self.config.network_work + service);
        }
        Step::Block
    }

    fn timer(&mut self, cx: &mut GuestContext<'_>, token: u32) {
        match token {
            SEND => self.send(cx),
            REPLY => match self.client {
                Some(client) => cx.signal(client, client::token(cx.own(), Job::Receive)),
                None => self.reply_received(cx),
            },
            client::SENDING => self.flying.push_back(cx.now()),
            client::SENT => self.leave(cx),
            client::RECEIVED => self.reply_received(cx),
            ARRIVE => {
                let vcpu = self.next;
                self.next = (vcpu + 1) % self.workers.len();
                self.workers[vcpu].waiting.extend(self.flying.pop_front());
                let origin = self.client.map_or(Origin::Elsewhere, |client| cx.origin_from(client));
                cx.notify(vcpu, origin);
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
