//! Workloads with their parameters, and the guests that they describe.

use std::sync::Arc;

use lowtail_engine::Rng;

use crate::guest::Guest;
use crate::guest::boost_saver::{BoostSaver, BoostSaverConfig};
use crate::guest::bucket_surfer::{BucketSurfer, BucketSurferConfig};
use crate::guest::client::{Client, ClientConfig};
use crate::guest::cpu_loop::CpuLoop;
use crate::guest::driver::{Driver, DriverConfig};
use crate::guest::duty_hog::{DutyHog, DutyHogConfig};
use crate::guest::edge_burner::{EdgeBurner, EdgeBurnerConfig};
use crate::guest::mix::Mix;
use crate::guest::net::{NetGuest, NetGuestConfig};
use crate::guest::replay::{Replay, ReplayConfig};
use crate::guest::request_server::{RequestServer, RequestServerConfig};
use crate::guest::splitter::{Splitter, SplitterConfig};
use crate::guest::tick_dodger::{TickDodger, TickDodgerConfig};
use crate::guest::timer_sleeper::{TimerSleeper, TimerSleeperConfig};
use crate::guest::vhost::{Vhost, VhostConfig};
use crate::guest::wake_storm::{WakeStorm, WakeStormConfig};
use crate::guest::yielder::{Yielder, YielderConfig};
use crate::ids::Dom;

/// A workload with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// See [`CpuLoop`].
    CpuLoop,
    /// See [`DutyHog`].
    DutyHog(DutyHogConfig),
    /// See [`RequestServer`].
    RequestServer(RequestServerConfig),
    /// See [`Client`].
    Client(ClientConfig),
    /// See [`TimerSleeper`].
    TimerSleeper(TimerSleeperConfig),
    /// See [`Yielder`].
    Yielder(YielderConfig),
    /// See [`TickDodger`].
    TickDodger(TickDodgerConfig),
    /// See [`BoostSaver`].
    BoostSaver(BoostSaverConfig),
    /// See [`WakeStorm`].
    WakeStorm(WakeStormConfig),
    /// See [`BucketSurfer`].
    BucketSurfer(BucketSurferConfig),
    /// See [`Splitter`].
    Splitter(SplitterConfig),
    /// The driver domain, which has the NICs and the back ends; see [`driver`](crate::guest::driver).
    Driver(DriverConfig),
    /// A guest with a virtual interface; see [`net`](crate::guest::net).
    Net(NetGuestConfig),
    /// Several workloads on so many vCPUs each, one after another; see [`Mix`].
    Mix(Vec<(u16, Workload)>),
    /// See [`EdgeBurner`].
    EdgeBurner(EdgeBurnerConfig),
    /// See [`Replay`].
    Replay(Arc<ReplayConfig>),
    /// A worker of the back end of the VM that it is a part of, whose first part is [`Net`](Self::Net); see [`vhost`](crate::guest::vhost).
    Vhost(VhostConfig),
}

impl Workload {
    /// The guest of a domain called `name` on a host with the domains `vms`, by name, with a
    /// random stream of its own.
    pub fn build(&self, seed: u64, name: &str, vms: &[&str]) -> Box<dyn Guest> {
        let rng = Rng::new(seed, name);
        let dom = |name: &String| vms.iter().position(|vm| vm == name).map(|dom| Dom(dom as u16));
        match *self {
            Workload::CpuLoop => Box::new(CpuLoop),
            Workload::DutyHog(config) => Box::new(DutyHog::new(config, rng)),
            Workload::RequestServer(ref config) => {
                let client = config.client.as_ref().and_then(dom);
                Box::new(RequestServer::new(config.clone(), client, rng))
            }
            Workload::Client(config) => Box::new(Client::new(config)),
            Workload::TimerSleeper(config) => Box::new(TimerSleeper::new(config, rng)),
            Workload::Yielder(config) => Box::new(Yielder::new(config)),
            Workload::TickDodger(config) => Box::new(TickDodger::new(config)),
            Workload::BoostSaver(config) => Box::new(BoostSaver::new(config)),
            Workload::WakeStorm(ref config) => {
                // That there is one was checked; without it the interrupts go to nobody.
                let partner = dom(&config.partner).unwrap_or(Dom(0));
                Box::new(WakeStorm::new(partner, config.work))
            }
            Workload::BucketSurfer(config) => Box::new(BucketSurfer::new(config)),
            Workload::Splitter(config) => Box::new(Splitter::new(config)),
            Workload::Driver(ref config) => Box::new(Driver::guest(config)),
            Workload::Net(config) => Box::new(NetGuest::guest(config)),
            Workload::Mix(ref parts) => {
                let part = |(i, (vcpus, workload)): (usize, &(u16, Workload))| {
                    (*vcpus, workload.build(seed, &format!("{name}, part {i}"), vms))
                };
                Box::new(Mix::new(parts.iter().enumerate().map(part)))
            }
            Workload::EdgeBurner(config) => Box::new(EdgeBurner::new(config)),
            Workload::Replay(ref config) => Box::new(Replay::new(Arc::clone(config))),
            Workload::Vhost(_) => Box::new(Vhost::new()),
        }
    }

    /// Whether it has one vCPU.
    pub(super) fn is_single(&self) -> bool {
        matches!(self, Workload::TimerSleeper(_))
    }

    /// Whether it has a domain to itself: devices, and those who are called by others.
    pub fn has_domain_to_itself(&self) -> bool {
        matches!(
            self,
            Workload::Driver(_)
                | Workload::Net(_)
                | Workload::WakeStorm(_)
                | Workload::Client(_)
                | Workload::Replay(_)
                | Workload::Vhost(_)
                | Workload::RequestServer(RequestServerConfig { client: Some(_), .. })
        )
    }

    /// Its virtual interface, if it has one.
    pub fn net(&self) -> Option<&NetGuestConfig> {
        match self {
            Workload::Net(net) => Some(net),
            Workload::Mix(parts) => parts.first().and_then(|(_, first)| first.net()),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn net_mut(&mut self) -> Option<&mut NetGuestConfig> {
        match self {
            Workload::Net(net) => Some(net),
            Workload::Mix(parts) => parts.first_mut().and_then(|(_, first)| first.net_mut()),
            _ => None,
        }
    }

    /// The workers of its back end: which vCPU each is, from 0, and what it is like.
    pub(crate) fn vhosts(&self) -> impl Iterator<Item = (usize, VhostConfig)> {
        let parts = match self {
            Workload::Mix(parts) => &parts[..],
            _ => &[],
        };
        let vcpu = |first: &mut usize, (vcpus, part): &(u16, Workload)| {
            let at = *first;
            *first += usize::from(*vcpus);
            Some((at, part.clone()))
        };
        parts.iter().scan(0, vcpu).filter_map(|(at, part)| match part {
            Workload::Vhost(config) => Some((at, config)),
            _ => None,
        })
    }

    /// Whether it, on so many vCPUs, may be part number `number` of a mix: what has an interface is the first one, and has workers of its back
    /// end behind it (`served`).
    pub(super) fn can_mix(&self, number: usize, vcpus: u16, served: bool) -> bool {
        match self {
            Workload::Net(_) => number == 0 && served && vcpus > 0,
            Workload::Vhost(_) => number > 0 && served && vcpus == 1,
            Workload::Mix(_) => false,
            _ if self.has_domain_to_itself() => false,
            _ => vcpus == 1 || vcpus > 1 && !self.is_single(),
        }
    }
}
