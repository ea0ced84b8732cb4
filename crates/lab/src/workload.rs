//! Workloads as scenario files write them.

use lowtail_engine::Duration;
use lowtail_host::Workload;
use lowtail_host::guest::Distribution;
use lowtail_host::guest::boost_saver::BoostSaverConfig;
use lowtail_host::guest::bucket_surfer::BucketSurferConfig;
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::edge_burner::EdgeBurnerConfig;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::guest::request_server::{Batches, Load, OnOff, RequestServerConfig};
use lowtail_host::guest::splitter::SplitterConfig;
use lowtail_host::guest::tick_dodger::{GiveUp, TickDodgerConfig};
use lowtail_host::guest::timer_sleeper::TimerSleeperConfig;
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

impl WorkloadFile {
    /// The workload for the host.
    pub(crate) fn build(&self) -> Result<Workload, KeyError> {
        let (kind, workload) = match self {
            WorkloadFile::CpuLoop(_) => return Ok(Workload::CpuLoop),
            WorkloadFile::DutyHog(file) => ("duty-hog", file.build()),
            WorkloadFile::RequestServer(config) => {
                ("request-server", config.check().map(|()| Workload::RequestServer(**config)))
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
        DutyHogConfig::check_busy_percent(self.busy_percent)?;
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
        let config = DutyHogConfig { burst, busy_percent: self.busy_percent };
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
        Workload::DutyHog(DutyHogConfig { burst, busy_percent }) => {
            format!("busy {busy_percent} % when alone, bursts {}", spread_text(*burst))
        }
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
            format!("{n}, {load}, service {service}{}{half}", tx.unwrap_or_default())
        }
        Workload::TimerSleeper(TimerSleeperConfig { start, sleep, work, wakeups, late_limit }) => {
            let from = match start.mean().is_zero() {
                true => String::new(),
                false => format!(", the first after {}", spread_text(*start)),
            };
            format!(
                "{wakeups} sleeps of {}{from}, work {work}, late from {late_limit}",
                spread_text(*sleep)
            )
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
        Workload::Driver(config) => describe_driver(config),
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
