//! Workloads as scenario files write them.

use lowtail_engine::Duration;
use lowtail_host::Workload;
use lowtail_host::guest::Distribution;
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::bucket_surfer::BucketSurferConfig;
use lowtail_host::guest::client::ClientConfig;
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::edge_burner::EdgeBurnerConfig;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::guest::request_server::{Batches, Load, OnOff, RequestServerConfig};
use lowtail_host::guest::splitter::SplitterConfig;
use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
use lowtail_host::guest::timer_sleeper::{LongWork, TimerSleeperConfig};
use lowtail_host::guest::vhost::VhostConfig;
use lowtail_host::guest::wake_storm::WakeStormConfig;
use lowtail_host::guest::yielder::YielderConfig;
use lowtail_host::io::lock::GrantLock;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::KeyError;
use crate::value::{DistributionText, DurationText};

/// What runs in a VM.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "kind", rename_all = "kebab-case")]
pub enum WorkloadFile {
    /// Computes for ever on all its vCPUs.
    CpuLoop(CpuLoopFile),
    /// Bursts of work with sleeps between them.
    DutyHog(DutyHogFile),
    /// A server that answers small requests, with its client on another host.
    RequestServer(Box<RequestServerConfig>),
    /// A client of request servers on this host, which waits for a pCPU as they do.
    Client(ClientConfig),
    /// Sleeps, wakes, notes how late it is, over and over.
    TimerSleeper(TimerSleeperConfig),
    /// Yields after each piece of work.
    Yielder(YielderConfig),
    /// Hostile: computes between the host's ticks and is never there when one comes.
    TickDodger(TickDodgerConfig),
    /// Hostile: sleeps to look harmless, then spends at one go what it has saved.
    BoostSaver(BoostSaverConfig),
    /// Hostile: two VMs that wake each other in turn.
    WakeStorm(WakeStormConfig),
    /// Hostile: bursts that a token bucket of a given rate and depth just lets pass.
    BucketSurfer(BucketSurferConfig),
    /// Hostile: one thread of work handed round among many vCPUs.
    Splitter(SplitterConfig),
    /// Hostile: asleep until shortly before the host's accounting, busy until just behind it.
    EdgeBurner(EdgeBurnerConfig),
    /// Drives the NICs and serves the interfaces of all net-guests.
    DriverDomain(DriverConfig),
    /// A guest with a virtual interface, for the flows of the file.
    NetGuest(NetGuestConfig),
    /// A worker of the VM's own back end on a KVM host: the kernel's vhost. What `[vm.NAME.vhost]` does unless it says otherwise.
    Vhost(VhostConfig),
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
    pub burst: Option<DistributionText>,
    /// A burst and the sleep after it together, when it has a pCPU to itself; the work of a
    /// burst is the busy share of this.
    pub period: Option<DurationText>,
    /// How bursts vary around that, with a period.
    #[serde(default)]
    pub bursts: Bursts,
    /// Busy share in percent when it has a pCPU to itself, with sleeps that are always alike; at 100 it never sleeps. Or else give
    /// the sleep.
    #[schemars(range(min = 1, max = 100))]
    pub busy_percent: Option<u64>,
    /// How long it sleeps after each burst.
    pub sleep: Option<DistributionText>,
    /// How long each vCPU sleeps before its first burst; default: a random part of a burst and a sleep.
    pub start: Option<DistributionText>,
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

impl WorkloadFile {
    /// The workload for the host.
    pub(crate) fn build(&self) -> Result<Workload, KeyError> {
        let (kind, workload) = match self {
            WorkloadFile::CpuLoop(_) => return Ok(Workload::CpuLoop),
            WorkloadFile::DutyHog(file) => ("duty-hog", file.build()),
            WorkloadFile::RequestServer(config) => (
                "request-server",
                config.check().map(|()| Workload::RequestServer((**config).clone())),
            ),
            WorkloadFile::Client(config) => {
                ("client", config.check().map(|()| Workload::Client(*config)))
            }
            WorkloadFile::TimerSleeper(config) => {
                ("timer-sleeper", config.check().map(|()| Workload::TimerSleeper(*config)))
            }
            WorkloadFile::Yielder(config) => {
                ("yielder", config.check().map(|()| Workload::Yielder(*config)))
            }
            WorkloadFile::TickDodger(config) => {
                ("tick-dodger", config.check().map(|()| Workload::TickDodger(*config)))
            }
            WorkloadFile::BoostSaver(config) => {
                ("boost-saver", config.check().map(|()| Workload::BoostSaver(*config)))
            }
            WorkloadFile::WakeStorm(config) => {
                ("wake-storm", config.check().map(|()| Workload::WakeStorm(config.clone())))
            }
            WorkloadFile::BucketSurfer(config) => {
                ("bucket-surfer", config.check().map(|()| Workload::BucketSurfer(*config)))
            }
            WorkloadFile::Splitter(config) => {
                ("splitter", config.check().map(|()| Workload::Splitter(*config)))
            }
            WorkloadFile::EdgeBurner(config) => {
                ("edge-burner", config.check().map(|()| Workload::EdgeBurner(*config)))
            }
            WorkloadFile::DriverDomain(config) => {
                ("driver-domain", config.check().map(|()| Workload::Driver(config.clone())))
            }
            WorkloadFile::NetGuest(config) => {
                ("net-guest", config.check().map(|()| Workload::Net(*config)))
            }
            WorkloadFile::Vhost(config) => {
                ("vhost", config.check().map(|()| Workload::Vhost(*config)))
            }
        };
        workload.map_err(|bad| bad.under(&[kind]))
    }

    /// How many requests or wake-ups it measures; `None` if it measures nothing.
    pub(crate) fn measures(&self) -> Option<u64> {
        match self {
            WorkloadFile::RequestServer(file) => Some(file.requests.unwrap_or(0)),
            WorkloadFile::TimerSleeper(file) => Some(file.wakeups),
            WorkloadFile::DriverDomain(config) => config.measures().then_some(0),
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
        if let Some(percent) = self.busy_percent {
            DutyHogConfig::check_busy_percent(percent)?;
        }
        let burst = match (&self.burst, &self.period, self.busy_percent) {
            (Some(burst), None, _) => burst.0,
            (None, Some(period), Some(percent)) => {
                let mean = period.0.mul_div(percent, 100);
                match self.bursts {
                    Bursts::Fixed => Distribution::Fixed(mean),
                    Bursts::Exponential => Distribution::Exponential(mean),
                    Bursts::Uniform => Distribution::Uniform(Duration::ZERO, mean * 2),
                }
            }
            (None, Some(_), None) => {
                return Err(KeyError::new("period", "with a period goes a busy_percent"));
            }
            _ => return Err(KeyError::new("burst", "a duty-hog has a burst or a period")),
        };
        let mut config = match (self.busy_percent, &self.sleep) {
            (Some(percent), None) => DutyHogConfig::busy(burst, percent),
            (None, Some(sleep)) => DutyHogConfig { burst, sleep: sleep.0, start: None },
            _ => {
                let what = "a duty-hog has a busy_percent or a sleep";
                return Err(KeyError::new("busy_percent", what));
            }
        };
        config.start = self.start.as_ref().map(|start| start.0);
        config.check()?;
        Ok(Workload::DutyHog(config))
    }
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
        Workload::DutyHog(config) => describe_hog(config),
        Workload::RequestServer(config) => {
            let load = match config.load {
                Load::Think(think) => format!("think {}", spread_text(think)),
                Load::Paced(period) => format!("paced {period}"),
                Load::Open(gap) => format!("open, gap {}", spread_text(gap)),
                Load::OnOff(OnOff { gap, on, off }) => {
                    let [gap, on, off] = [gap, on, off].map(spread_text);
                    format!("open, gap {gap} for {on}, then none for {off}")
                }
                Load::Batches(Batches { gap, size }) => {
                    format!("open, {size} at once, gap {}", spread_text(gap))
                }
            };
            let half = if config.half { ", half round trip" } else { "" };
            let tx =
                config.tx_completion.map(|t| format!(", TX completion after {}", spread_text(t)));
            let service = spread_text(config.service);
            let n = match config.requests {
                None => "requests".to_string(),
                Some(n) => format!("{n} requests"),
            };
            let after = match config.after_reply.mean().is_zero() {
                true => String::new(),
                false => format!(", after a reply {}", spread_text(config.after_reply)),
            };
            let tx = tx.map(|tx| match config.tx_completion_percent {
                100 => tx,
                percent => format!("{tx} of {percent} %"),
            });
            let network = match config.network_work.is_zero() {
                true => String::new(),
                false => format!(" and {} of its kernel", config.network_work),
            };
            let client = config.client.as_ref();
            let client = client.map_or(String::new(), |vm| format!(", client in {vm}"));
            let tx = tx.unwrap_or_default();
            format!("{n}, {load}, service {service}{network}{after}{tx}{half}{client}")
        }
        Workload::Client(ClientConfig { send, receive }) => {
            format!("a client: {send} to send, {receive} to receive")
        }
        Workload::TimerSleeper(config) => describe_sleeper(config),
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
        Workload::Driver(config) => describe_driver(config),
        Workload::Net(config) => {
            let computes = if config.computes { ", and computes" } else { "" };
            format!("virtual interface, {} queues{computes}", config.queues)
        }
        Workload::Vhost(config) => {
            format!("serves its interface, a tap for {} packets", config.queue_packets)
        }
        Workload::Splitter(SplitterConfig { turn }) => {
            format!("one vCPU works at a time, turns of {turn}")
        }
        Workload::EdgeBurner(EdgeBurnerConfig { period, before, after }) => {
            format!("works from {before} before each multiple of {period} to {after} behind it")
        }
        Workload::Replay(replay) => format!("{} recorded threads", replay.threads.len()),
    }
}

/// One line about a duty-hog, for reports.
fn describe_hog(config: &DutyHogConfig) -> String {
    let bursts = spread_text(config.burst);
    let from = config.start.map_or_else(String::new, first);
    let busy = config.busy_percent().round();
    match config.sleep {
        // As the file has it.
        Distribution::Fixed(_) if (config.busy_percent() - busy).abs() < 0.01 => {
            format!("busy {busy} % when alone, bursts {bursts}{from}")
        }
        sleep => format!("bursts {bursts}, sleeps {}{from}", spread_text(sleep)),
    }
}

/// One line about a timer-sleeper, for reports.
fn describe_sleeper(config: &TimerSleeperConfig) -> String {
    let TimerSleeperConfig { wakeups, work, .. } = config;
    let mut text = format!("{wakeups} sleeps of {}", spread_text(config.sleep));
    if !config.start.mean().is_zero() {
        text += &first(config.start);
    }
    text += &format!(", work {work}");
    if !config.wake_work.is_zero() {
        text += &format!(", {} before it reads the clock", config.wake_work);
    }
    if let Some(LongWork { every, work }) = config.long {
        text += &format!(", once in {every} {work}");
    }
    let (limit, what) = match config.late_wait_limit {
        Some(limit) => (limit, " of waiting"),
        None => (config.late_limit, ""),
    };
    text + &format!(", late from {limit}{what}")
}

/// When the first one is due.
fn first(start: Distribution) -> String {
    format!(", the first after {}", spread_text(start))
}

/// One line about a driver domain, for reports.
fn describe_driver(config: &DriverConfig) -> String {
    let backend = match config.backend {
        Backend::Tasklet => "one tasklet pair".to_string(),
        Backend::Tasklets => match config.groups {
            None => "a tasklet pair for each vCPU".to_string(),
            Some(n) => format!("{n} tasklet pairs"),
        },
        Backend::Threads => "a thread for each vCPU".to_string(),
        Backend::Napi => "a poll and a thread for each queue".to_string(),
        Backend::SmallFirst => "small-first threads".to_string(),
    };
    let lock = match config.grant_lock {
        GrantLock::None => "",
        GrantLock::Global => ", one grant lock",
        GrantLock::PerDomain => ", a grant lock for each guest",
        GrantLock::PerCpu => ", grant locks for each pCPU",
    };
    let interrupts = match config.interrupts {
        Interrupts::Fixed => ", events to the first vCPU",
        Interrupts::Spread => "",
        Interrupts::Balanced => ", events balanced",
    };
    format!("driver domain: {backend}{lock}{interrupts}")
}
