//! Workloads as scenario files write them.

use lowtail_engine::Duration;
use lowtail_host::Workload;
use lowtail_host::guest::Distribution;
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::bucket_surfer::BucketSurferConfig;
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::edge_burner::EdgeBurnerConfig;
use lowtail_host::guest::request_server::{Load, Path, RequestServerConfig};
use lowtail_host::guest::splitter::SplitterConfig;
use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
use lowtail_host::guest::wake_storm::WakeStormConfig;
use lowtail_host::guest::yielder::YielderConfig;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::KeyError;
use crate::traffic::{DriverFile, NetFile};
use crate::value::{DurationText, MaybeSpread, SpreadValue};

/// More requests than any run has time for.
const UNTIL_THE_END: u64 = u64::MAX / 2;

/// Most requests or wake-ups of one run.
const COUNT_MAX: u64 = 100_000_000;

/// What runs in a VM.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind", rename_all = "kebab-case")]
pub enum WorkloadFile {
    /// Computes for ever on all its vCPUs.
    CpuLoop(CpuLoopFile),
    /// Bursts of work with sleeps between them.
    DutyHog(DutyHogFile),
    /// A server that answers small requests, with its client on another machine.
    RequestServer(Box<RequestServerFile>),
    /// Sleeps, wakes, notes how late it is, over and over.
    TimerSleeper(TimerSleeperFile),
    /// Yields after each piece of work.
    Yielder(YielderFile),
    /// Hostile: computes between the host's ticks and is never there when one comes.
    TickDodger(TickDodgerFile),
    /// Hostile: sleeps to look harmless, then spends at one go what it has saved.
    BoostSaver(BoostSaverFile),
    /// Hostile: two VMs that wake each other in turn.
    WakeStorm(WakeStormFile),
    /// Hostile: bursts that a token bucket of a given rate and depth just lets pass.
    BucketSurfer(BucketSurferFile),
    /// Hostile: one thread of work handed round among many vCPUs.
    Splitter(SplitterFile),
    /// Hostile: asleep until shortly before the host's accounting, busy until just behind it.
    EdgeBurner(EdgeBurnerFile),
    /// Drives the NICs and serves the interfaces of all net-guests.
    DriverDomain(DriverFile),
    /// A guest with a virtual interface, for the flows of the file.
    NetGuest(NetFile),
}

/// Has no parameters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuLoopFile {}

/// Parameters of a `duty-hog`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DutyHogFile {
    /// Work of a burst; or else give the period.
    pub burst: Option<SpreadValue>,
    /// A burst and the sleep after it together, when it has a pCPU to itself; the work of a
    /// burst is the busy share of this.
    pub period: Option<DurationText>,
    /// How bursts vary around that, with a period.
    #[serde(default)]
    pub bursts: Bursts,
    /// Busy share in percent when it has a pCPU to itself; at 100 it never sleeps.
    #[schemars(range(min = 1, max = 100))]
    pub busy_percent: u64,
}

/// How the bursts of a `duty-hog` with a period vary.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bursts {
    /// All the same.
    #[default]
    Fixed,
    /// Exponentially distributed.
    Exponential,
    /// Uniform between nothing and twice the mean.
    Uniform,
}

/// Parameters of a `request-server`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestServerFile {
    /// When the client sends.
    pub load: LoadFile,
    /// Processor work per request.
    pub service: SpreadValue,
    /// The way between client and guest, each way.
    #[serde(default)]
    pub path: PathFile,
    /// How long after a reply was sent the back end notifies the guest that the packet has
    /// left; no such notification if this is absent.
    pub tx_completion: Option<MaybeSpread>,
    /// Processor work of that notification.
    #[serde(default = "one_microsecond")]
    pub tx_completion_work: DurationText,
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

fn one_microsecond() -> DurationText {
    DurationText(Duration::from_us(1))
}

/// When a client sends its next request.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadFile {
    /// A think time after the reply.
    Think(SpreadValue),
    /// At the next multiple of this period, or at once if that has passed.
    Paced(DurationText),
    /// A gap after the last request, answered or not.
    Open(SpreadValue),
}

/// Delay between client and guest, one way: fixed, plus log-normal jitter, plus now and
/// then an exponential extra.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathFile {
    /// The part that every packet takes.
    pub fixed: Option<DurationText>,
    /// Median of the log-normal jitter.
    pub jitter_median: Option<DurationText>,
    /// Its sigma, in natural logarithms.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2))]
    pub jitter_sigma: f64,
    /// Share of packets that meet the extra delay.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub extra_share: f64,
    /// Mean of that delay.
    pub extra_mean: Option<DurationText>,
}

/// Parameters of a `timer-sleeper`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimerSleeperFile {
    /// How long to sleep.
    pub sleep: DurationText,
    /// Work after each wake-up.
    #[serde(default = "one_microsecond")]
    pub work: DurationText,
    /// Wake-ups to measure.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub wakeups: u64,
    /// From when on a turn (sleep and wait) counts as late.
    #[serde(default = "ten_milliseconds")]
    pub late_limit: DurationText,
}

fn ten_milliseconds() -> DurationText {
    DurationText(Duration::from_ms(10))
}

/// Parameters of a `yielder`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct YielderFile {
    /// Work between yields, at least 1us.
    pub work: DurationText,
}

/// Parameters of a `tick-dodger`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TickDodgerFile {
    /// From one tick of the host to the next; they come at multiples of this.
    #[serde(default = "ten_milliseconds")]
    pub tick: DurationText,
    /// How long before a tick it leaves the pCPU.
    #[serde(default = "half_a_millisecond")]
    pub margin: DurationText,
    /// How long after a tick it wants the pCPU back.
    #[serde(default = "fifty_microseconds")]
    pub after: DurationText,
    /// How it leaves.
    #[serde(default)]
    pub give_up: GiveUpFile,
}

fn half_a_millisecond() -> DurationText {
    DurationText(Duration::from_us(500))
}

fn fifty_microseconds() -> DurationText {
    DurationText(Duration::from_us(50))
}

/// How a `tick-dodger` leaves the pCPU.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GiveUpFile {
    /// Sleeps until the tick is over.
    #[default]
    Sleep,
    /// Yields once.
    Yield,
}

/// Parameters of a `boost-saver`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoostSaverFile {
    /// How long it sleeps.
    pub save: DurationText,
    /// Work after each sleep, at least 1us.
    pub burn: DurationText,
}

/// Parameters of a `wake-storm`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WakeStormFile {
    /// The VM that it wakes: another `wake-storm` with as many vCPUs.
    pub partner: String,
    /// Work after each wake-up, at least 1us.
    pub work: DurationText,
}

/// Parameters of a `bucket-surfer`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketSurferFile {
    /// Work of a burst, at least 1us.
    pub burst: DurationText,
    /// Share of a pCPU that each vCPU takes, in percent.
    #[schemars(range(min = 1, max = 100))]
    pub share_percent: u64,
}

/// Parameters of a `splitter`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitterFile {
    /// Work of a vCPU until it is the next one's turn, at least 1us.
    pub turn: DurationText,
}

/// Parameters of an `edge-burner`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EdgeBurnerFile {
    /// From one edge of the host's accounting to the next; they come at multiples of this.
    #[serde(default = "thirty_milliseconds")]
    pub period: DurationText,
    /// How long before an edge it begins, at least 1us.
    pub before: DurationText,
    /// How long behind an edge it stops.
    pub after: DurationText,
}

fn thirty_milliseconds() -> DurationText {
    DurationText(Duration::from_ms(30))
}

impl WorkloadFile {
    /// The workload for the host.
    pub(crate) fn build(&self) -> Result<Workload, KeyError> {
        let (kind, workload) = match self {
            WorkloadFile::CpuLoop(_) => return Ok(Workload::CpuLoop),
            WorkloadFile::DutyHog(file) => ("duty-hog", file.build()),
            WorkloadFile::RequestServer(file) => ("request-server", file.build()),
            WorkloadFile::TimerSleeper(file) => ("timer-sleeper", file.build()),
            WorkloadFile::Yielder(file) => ("yielder", file.build()),
            WorkloadFile::TickDodger(file) => ("tick-dodger", file.build()),
            WorkloadFile::BoostSaver(file) => ("boost-saver", file.build()),
            WorkloadFile::WakeStorm(file) => ("wake-storm", file.build()),
            WorkloadFile::BucketSurfer(file) => ("bucket-surfer", file.build()),
            WorkloadFile::Splitter(file) => ("splitter", file.build()),
            WorkloadFile::EdgeBurner(file) => ("edge-burner", file.build()),
            WorkloadFile::DriverDomain(file) => ("driver-domain", file.build()),
            WorkloadFile::NetGuest(file) => ("net-guest", file.build()),
        };
        workload.map_err(|bad| bad.under(&[kind]))
    }

    /// How many requests or wake-ups it measures; `None` if it measures nothing.
    pub(crate) fn measures(&self) -> Option<u64> {
        match self {
            WorkloadFile::RequestServer(file) => Some(file.requests.unwrap_or(0)),
            WorkloadFile::TimerSleeper(file) => Some(file.wakeups),
            WorkloadFile::DriverDomain(file) => file.measures().then_some(0),
            _ => None,
        }
    }

    /// Whether it counts wake-ups that come late.
    pub(crate) fn counts_late(&self) -> bool {
        matches!(self, WorkloadFile::TimerSleeper(_))
    }
}

impl DutyHogFile {
    fn build(&self) -> Result<Workload, KeyError> {
        if !(1..=100).contains(&self.busy_percent) {
            let message = format!("busy share {} %: 1 to 100", self.busy_percent);
            return Err(KeyError::new("busy_percent", message));
        }
        let burst = match (&self.burst, &self.period) {
            (Some(burst), None) => burst.0,
            (None, Some(period)) => {
                let mean = period.0.mul_div(self.busy_percent, 100);
                match self.bursts {
                    Bursts::Fixed => Distribution::Fixed(mean),
                    Bursts::Exponential => Distribution::Exponential(mean),
                    Bursts::Uniform => Distribution::Uniform(Duration::ZERO, mean * 2),
                }
            }
            _ => return Err(KeyError::new("busy_percent", "a duty-hog has a burst or a period")),
        };
        at_least_1us("burst", burst.mean())?;
        Ok(Workload::DutyHog(DutyHogConfig { burst, busy_percent: self.busy_percent }))
    }
}

impl RequestServerFile {
    fn build(&self) -> Result<Workload, KeyError> {
        if let Some(requests) = self.requests {
            count("requests", requests, 1)?;
        }
        count("warmup", self.warmup, 0)?;
        if self.service.0.mean().as_ns() == 0 {
            return Err(KeyError::new("service", "a request costs some work: at least 1ns"));
        }
        let load = match self.load {
            LoadFile::Think(think) => Load::Think(think.0),
            LoadFile::Paced(period) => Load::Paced(period.0),
            LoadFile::Open(gap) => {
                at_least_1us("load", gap.0.mean())?;
                Load::Open(gap.0)
            }
        };
        Ok(Workload::RequestServer(RequestServerConfig {
            load,
            service: self.service.0,
            path: self.path.build().map_err(|bad| bad.under(&["path"]))?,
            tx_completion: self.tx_completion.and_then(|spread| spread.0),
            tx_completion_work: self.tx_completion_work.0,
            requests: self.requests.unwrap_or(UNTIL_THE_END),
            warmup: self.warmup,
            half: self.half,
        }))
    }
}

impl PathFile {
    fn build(&self) -> Result<Path, KeyError> {
        let span = |span: Option<DurationText>| span.map_or(Duration::ZERO, |span| span.0);
        // A log-normal draw of this median and sigma stays within the simulator's clock.
        if span(self.jitter_median) > Duration::from_ms(100) {
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
        Ok(Path {
            fixed: span(self.fixed),
            jitter_median: span(self.jitter_median),
            jitter_sigma: self.jitter_sigma,
            extra_share: self.extra_share,
            extra_mean: span(self.extra_mean),
        })
    }
}

impl TimerSleeperFile {
    fn build(&self) -> Result<Workload, KeyError> {
        count("wakeups", self.wakeups, 1)?;
        at_least_1us("sleep", self.sleep.0)?;
        Ok(Workload::TimerSleeper(TimerSleeperConfig {
            sleep: self.sleep.0,
            work: self.work.0,
            wakeups: self.wakeups,
            late_limit: self.late_limit.0,
        }))
    }
}

impl YielderFile {
    fn build(&self) -> Result<Workload, KeyError> {
        at_least_1us("work", self.work.0)?;
        Ok(Workload::Yielder(YielderConfig { work: self.work.0 }))
    }
}

impl TickDodgerFile {
    fn build(&self) -> Result<Workload, KeyError> {
        let (tick, margin, after) = (self.tick.0, self.margin.0, self.after.0);
        at_least("tick", tick, Duration::from_us(100))?;
        at_least("margin", margin, Duration::from_us(1))?;
        if margin + after >= tick {
            let message = format!("margin {margin} and after {after}: nothing is left of {tick}");
            return Err(KeyError::new("margin", message));
        }
        let give_up = match self.give_up {
            GiveUpFile::Sleep => GiveUp::Sleep,
            GiveUpFile::Yield => GiveUp::Yield,
        };
        Ok(Workload::TickDodger(TickDodgerConfig { tick, margin, after, give_up }))
    }
}

impl BoostSaverFile {
    fn build(&self) -> Result<Workload, KeyError> {
        at_least_1us("burn", self.burn.0)?;
        Ok(Workload::BoostSaver(BoostSaverConfig { save: self.save.0, burn: self.burn.0 }))
    }
}

impl WakeStormFile {
    /// Whether the partner plays is for the host to say, which knows them all.
    fn build(&self) -> Result<Workload, KeyError> {
        at_least_1us("work", self.work.0)?;
        Ok(Workload::WakeStorm(WakeStormConfig {
            partner: self.partner.clone(),
            work: self.work.0,
        }))
    }
}

impl BucketSurferFile {
    fn build(&self) -> Result<Workload, KeyError> {
        at_least_1us("burst", self.burst.0)?;
        if !(1..=100).contains(&self.share_percent) {
            let message = format!("share {} %: 1 to 100", self.share_percent);
            return Err(KeyError::new("share_percent", message));
        }
        Ok(Workload::BucketSurfer(BucketSurferConfig {
            burst: self.burst.0,
            share_percent: self.share_percent,
        }))
    }
}

impl SplitterFile {
    fn build(&self) -> Result<Workload, KeyError> {
        at_least_1us("turn", self.turn.0)?;
        Ok(Workload::Splitter(SplitterConfig { turn: self.turn.0 }))
    }
}

impl EdgeBurnerFile {
    fn build(&self) -> Result<Workload, KeyError> {
        let (period, before, after) = (self.period.0, self.before.0, self.after.0);
        at_least("period", period, Duration::from_us(100))?;
        at_least("before", before, Duration::from_us(1))?;
        if before + after >= period {
            let message = format!("before {before} and after {after}: all of {period}");
            return Err(KeyError::new("before", message));
        }
        Ok(Workload::EdgeBurner(EdgeBurnerConfig { period, before, after }))
    }
}

fn count(key: &str, n: u64, least: u64) -> Result<(), KeyError> {
    if (least..=COUNT_MAX).contains(&n) {
        return Ok(());
    }
    Err(KeyError::new(key, format!("{n} {key}: {least} to {COUNT_MAX}")))
}

/// Shorter loops would take the simulator hours for a second.
fn at_least_1us(key: &str, span: Duration) -> Result<(), KeyError> {
    if span >= Duration::from_us(1) {
        return Ok(());
    }
    Err(KeyError::new(key, format!("{key} of {span} on average: at least 1us")))
}

fn at_least(key: &str, span: Duration, least: Duration) -> Result<(), KeyError> {
    if span >= least {
        return Ok(());
    }
    Err(KeyError::new(key, format!("{key} of {span}: at least {least}")))
}

/// As a scenario file would write it, for reports.
pub(crate) fn spread_text(spread: Distribution) -> String {
    match spread {
        Distribution::Fixed(span) => span.to_string(),
        Distribution::Exponential(mean) => format!("exponential, mean {mean}"),
        Distribution::Uniform(low, high) => format!("uniform {low} to {high}"),
    }
}

/// One line about a workload, for reports.
pub(crate) fn describe(workload: &Workload) -> String {
    match workload {
        Workload::CpuLoop => "computes for ever".to_string(),
        Workload::Mix(parts) => {
            let part =
                |(vcpus, workload): &(u16, Workload)| format!("{vcpus} x ({})", describe(workload));
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        Workload::DutyHog(DutyHogConfig { burst, busy_percent }) => {
            format!("busy {busy_percent} % when alone, bursts {}", spread_text(*burst))
        }
        Workload::RequestServer(config) => {
            let load = match config.load {
                Load::Think(think) => format!("think {}", spread_text(think)),
                Load::Paced(period) => format!("paced {period}"),
                Load::Open(gap) => format!("open, gap {}", spread_text(gap)),
            };
            let half = if config.half { ", half round trip" } else { "" };
            let tx =
                config.tx_completion.map(|t| format!(", TX completion after {}", spread_text(t)));
            let service = spread_text(config.service);
            let n = match config.requests {
                UNTIL_THE_END => "requests".to_string(),
                n => format!("{n} requests"),
            };
            format!("{n}, {load}, service {service}{}{half}", tx.unwrap_or_default())
        }
        Workload::TimerSleeper(TimerSleeperConfig { sleep, work, wakeups, late_limit }) => {
            format!("{wakeups} sleeps of {sleep}, work {work}, late from {late_limit}")
        }
        Workload::Yielder(YielderConfig { work }) => format!("yields after each {work}"),
        Workload::TickDodger(config) => {
            let how = match config.give_up {
                GiveUp::Sleep => "sleeps",
                GiveUp::Yield => "yields",
            };
            let TickDodgerConfig { tick, margin, after, .. } = config;
            format!("{how} {margin} before each tick of {tick}, is back {after} after it")
        }
        Workload::BoostSaver(BoostSaverConfig { save, burn }) => {
            format!("sleeps {save}, works {burn}")
        }
        Workload::WakeStorm(WakeStormConfig { partner, work }) => {
            format!("works {work}, wakes {partner}")
        }
        Workload::BucketSurfer(BucketSurferConfig { burst, share_percent }) => {
            format!("bursts of {burst}, {share_percent} % of the time by the clock")
        }
        Workload::Driver(config) => crate::traffic::describe_driver(config),
        Workload::Net(config) => {
            let computes = if config.computes { ", and computes" } else { "" };
            format!("virtual interface, {} queues{computes}", config.queues)
        }
        Workload::Splitter(SplitterConfig { turn }) => {
            format!("one vCPU works at a time, turns of {turn}")
        }
        Workload::EdgeBurner(EdgeBurnerConfig { period, before, after }) => {
            format!("works from {before} before each multiple of {period} to {after} behind it")
        }
    }
}
