//! Network and hosts in one clock.
//!
//! Each has its own queue of events. The one whose next event is the earliest handles it; what
//! comes out of it is handed to the others at that very moment. The network goes first where
//! times are equal, then hosts by number, so that a run is the same wherever it runs.

use std::collections::VecDeque;

use lowtail_engine::{Duration, Time};
use lowtail_host::io::port::{Destination, PacketSpec, PortError, PortEvent};
use lowtail_host::{Dom, Host};
use lowtail_net::packet::PacketId;
use lowtail_net::{End, Net, NetEvent};

/// Where an end of the network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A VM of a simulated host.
    Vm {
        /// The host.
        host: usize,
        /// The VM.
        dom: Dom,
    },
    /// At the far end of a link, without processors; hosts reach it by their NIC of this number.
    Remote {
        /// The NIC.
        nic: u16,
    },
}

/// When a run looks whether all has been measured: that costs more than an event, and now and
/// then is often enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckEvery {
    /// After so many steps of network and hosts.
    Steps(u32),
    /// After so many events.
    Events(u64),
}

/// A network with its hosts.
#[derive(Debug)]
pub struct World {
    net: Net,
    hosts: Vec<Host>,
    /// By number of the end.
    homes: Vec<Home>,
    /// The end of each VM, by host and VM.
    ends: Vec<Vec<Option<End>>>,
    check_every: CheckEvery,
    /// When the next event of each host is.
    next: Vec<Time>,
    /// What has come out of hosts, with their numbers.
    handed: VecDeque<(usize, PortEvent)>,
    out: Vec<NetEvent>,
}

/// What a case has checked when it was read.
const CHECKED: &str = "ends, NICs and processes are those of the hosts";

impl World {
    /// At rest; `homes` has the place of each end of `net`.
    pub fn new(net: Net, hosts: Vec<Host>, homes: Vec<Home>, every: CheckEvery) -> Self {
        let next = vec![Time::ZERO; hosts.len()];
        let mut ends: Vec<_> =
            hosts.iter().map(|host| vec![None; host.state().doms.len()]).collect();
        for (end, home) in homes.iter().enumerate() {
            if let Home::Vm { host, dom } = *home {
                ends[host][dom.index()] = Some(End(end as u32));
            }
        }
        let (handed, out) = (VecDeque::with_capacity(256), Vec::with_capacity(64));
        World { net, hosts, homes, ends, check_every: every, next, handed, out }
    }

    /// The network.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// The network, to be tapped.
    pub(crate) fn net_mut(&mut self) -> &mut Net {
        &mut self.net
    }

    /// The network, and the hosts at its ends.
    pub(crate) fn parts_mut(&mut self) -> (&mut Net, &[Host]) {
        (&mut self.net, &self.hosts)
    }

    /// The hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.net.events() + self.hosts.iter().map(Host::events).sum::<u64>()
    }

    /// Whether all that is to be measured has been, in the network and by guests; `None` if
    /// nothing is.
    pub fn done(&self) -> Option<bool> {
        let hosts = self.hosts.iter().filter_map(Host::done);
        hosts.chain(self.net.done()).reduce(|all, done| all && done)
    }

    /// Runs until `end`, or until all that is to be measured has been. Returns whether it has.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    pub fn run(&mut self, end: Time) -> bool {
        while self.done() != Some(true) {
            let more = match self.check_every {
                CheckEvery::Events(events) if self.hosts.len() == 1 => self.run_events(end, events),
                _ => self.steps(|world| world.step(end)),
            };
            if !more {
                return self.done() == Some(true);
            }
        }
        true
    }

    /// Handles so many `events` of the network and its only host, in the order of [`step`](Self::step).
    /// Returns whether there may be more.
    fn run_events(&mut self, end: Time, events: u64) -> bool {
        let until = self.events() + events;
        while self.events() < until {
            let net = self.net.next_time().unwrap_or(Time::NEVER);
            let at = self.next[0].min(net);
            if at > end || at == Time::NEVER {
                return false;
            }
            if self.next[0] >= net {
                self.step_net(net, end);
                continue;
            }
            // As long as it hands out nothing, the network has no part in it.
            let before = Time::from_ps(net.as_ps() - 1).min(end);
            let host = &mut self.hosts[0];
            let host_until = until - self.net.events();
            while host.events() < host_until && host.step(before) {}
            self.take(0);
            if !self.handed.is_empty() {
                self.exchange(self.hosts[0].now());
            }
        }
        true
    }

    /// The same, and on the way calls `look` for each host at each multiple of `every`, when all
    /// events up to that instant have been handled.
    ///
    /// # Panics
    /// As [`step`](Self::step); and if `every` is zero.
    pub fn run_watched(&mut self, end: Time, every: Duration, mut look: impl FnMut(&Host)) -> bool {
        assert!(!every.is_zero(), "a look each moment");
        let mut next = Time::ZERO + every;
        let mut look_until = |world: &mut Self, until: Time| {
            while next < until {
                world.hosts.iter_mut().for_each(|host| host.look_at(next, &mut look));
                next += every;
            }
        };
        while self.done() != Some(true) {
            let more = self.steps(|world| {
                let next = world.earliest().1;
                look_until(world, next.min(end));
                world.step(end)
            });
            if !more {
                look_until(self, end + Duration::from_ps(1));
                return self.done() == Some(true);
            }
        }
        true
    }

    /// Takes steps until it is time to look whether all is done. Returns whether there may be more.
    fn steps(&mut self, mut step: impl FnMut(&mut Self) -> bool) -> bool {
        match self.check_every {
            CheckEvery::Steps(steps) => (0..steps).all(|_| step(self)),
            CheckEvery::Events(events) => {
                let until = self.events() + events;
                while self.events() < until {
                    if !step(self) {
                        return false;
                    }
                }
                true
            }
        }
    }

    /// Who has the earliest event, a host or (`None`) the network, and when that is.
    #[inline]
    fn earliest(&mut self) -> (Option<usize>, Time) {
        let (mut first, mut at) = (None, self.net.next_time().unwrap_or(Time::NEVER));
        for (i, &time) in self.next.iter().enumerate() {
            if time < at {
                (first, at) = (Some(i), time);
            }
        }
        (first, at)
    }

    /// Handles one event, unless the next one is later than `end`. Returns whether it did.
    ///
    /// # Panics
    /// If an end is at home where there is no VM, NIC or process for it.
    pub fn step(&mut self, end: Time) -> bool {
        let (first, at) = self.earliest();
        if at > end || at == Time::NEVER {
            return false;
        }
        let Some(host) = first else {
            self.step_net(at, end);
            return true;
        };
        self.hosts[host].step(at);
        self.take(host);
        if !self.handed.is_empty() {
            self.exchange(at);
        }
        true
    }

    /// Handles the network's next event, which is at `at`; the network may prepare those up to
    /// `end`.
    #[inline]
    fn step_net(&mut self, at: Time, end: Time) {
        self.net.step(end);
        if !self.net.out().is_empty() {
            self.pass_on(at);
            if !self.handed.is_empty() {
                self.exchange(at);
            }
        }
    }

    /// Takes what host number `host` has handed out.
    #[inline]
    fn take(&mut self, host: usize) {
        let own = &mut self.hosts[host];
        let handed = own.handed();
        if !handed.is_empty() {
            handed.iter().for_each(|&event| self.handed.push_back((host, event)));
            handed.clear();
        }
        self.next[host] = own.next_time().unwrap_or(Time::NEVER);
    }

    /// Hands all that has come out of hosts to the network, and the answers to hosts, one by one:
    /// a guest that has just received something answers before it does anything else.
    fn exchange(&mut self, now: Time) {
        self.net.advance(now);
        while let Some((host, event)) = self.handed.pop_front() {
            match event {
                PortEvent::Received { token, .. } => self.net.receive(PacketId(token)),
                PortEvent::CaughtUp { dom, queue } => {
                    let queues = self.hosts[host].io().vif(dom).len();
                    if let Some(end) = self.ends[host][dom.index()] {
                        self.net.caught_up(end, usize::from(queue), queues);
                    }
                }
                PortEvent::Transmit { token, .. } => self.net.transmit(PacketId(token)),
                PortEvent::Worked { token, .. } => self.net.served(token),
                PortEvent::Lost { token, .. } => self.net.lose(PacketId(token)),
            }
            if !self.net.out().is_empty() {
                self.pass_on(now);
            }
        }
        // From its first place again, which is in the cache.
        self.handed.clear();
    }

    /// Passes on what the network has handed out.
    fn pass_on(&mut self, now: Time) {
        std::mem::swap(&mut self.out, self.net.out());
        for i in 0..self.out.len() {
            let (NetEvent::Arrived { end, .. }
            | NetEvent::Sends { end, .. }
            | NetEvent::Writes { end, .. }
            | NetEvent::Work { end, .. }) = self.out[i];
            let Home::Vm { host, dom } = self.homes[end.index()] else { continue };
            self.hand(host, dom, now, self.out[i]).expect(CHECKED);
            // It may have been lost at once.
            self.take(host);
        }
        self.out.clear();
    }

    /// Hands `out` to `dom` of host number `host`.
    fn hand(&mut self, host: usize, dom: Dom, now: Time, out: NetEvent) -> Result<(), PortError> {
        match out {
            NetEvent::Arrived { id, .. } => {
                let spec = self.spec(id)?;
                let nic = match self.homes[self.net.pool()[id].src.index()] {
                    Home::Remote { nic } => nic,
                    Home::Vm { .. } => 0,
                };
                self.hosts[host].arrive(now, nic, dom, spec)
            }
            NetEvent::Sends { id, .. } => {
                let (to, spec) = (self.destination(host, id), self.spec(id)?);
                self.hosts[host].send(now, dom, to, spec)
            }
            NetEvent::Writes { id, process, .. } => {
                let (to, spec) = (self.destination(host, id), self.spec(id)?);
                self.hosts[host].write(now, (dom, process), to, spec)
            }
            NetEvent::Work { process, span, job, .. } => {
                self.hosts[host].work(now, (dom, process), span, job)
            }
        }
    }

    /// Where packet `id` leaves host number `host` to.
    fn destination(&self, host: usize, id: PacketId) -> Destination {
        match self.homes[self.net.pool()[id].dst.index()] {
            Home::Vm { host: there, dom } if there == host => Destination::Dom(dom),
            Home::Vm { .. } => Destination::Nic(0),
            Home::Remote { nic } => Destination::Nic(nic),
        }
    }

    fn spec(&self, id: PacketId) -> Result<PacketSpec, PortError> {
        let packet = &self.net.pool()[id];
        PacketSpec::new(packet.bytes(), packet.flow.0 as u16, id.0)
    }

    /// What has become of it.
    pub fn into_parts(self) -> (Net, Vec<Host>) {
        (self.net, self.hosts)
    }
}
