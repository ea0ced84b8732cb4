//! The way of a packet through the host: NICs, event channels, shared rings, and the port to the
//! network.
//!
//! This is what domains share and hardware does; what the kernels in the domains do with it
//! stands in [`guest`](crate::guest). A packet comes in by the [port] into the receive ring of a
//! NIC, whose interrupt is an event for the driver domain; this one puts it into the shared
//! ring of a guest and notifies that; and back.

pub mod blame;
pub mod costs;
pub mod lock;
pub mod nic;
pub mod packet;
pub mod port;
pub mod ports;
pub mod ring;
pub(crate) mod vhost;

use lowtail_engine::{Duration, EventQueue, Hist, Time};

use crate::event::Event;
use crate::host_state::HostState;
use crate::ids::{Dom, Vcpu};
use blame::BackEndBlame;
use costs::PathCosts;
use nic::{Nic, NicConfig};
use packet::Packet;
use port::{LostAt, PortEvent};
use ports::{Order, Port, Ports};
use ring::{RxRing, TxRing};
use vhost::{Full, Turn, Vhosts};

/// NICs, and how events are delivered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IoConfig {
    /// The NICs, all in the hands of the driver domain.
    pub nics: Vec<NicConfig>,
    /// In which order kernels serve their events.
    pub order: Order,
    /// What the way costs.
    pub costs: PathCosts,
}

/// One queue of a virtual interface.
#[derive(Debug)]
pub struct VifQueue {
    /// Whose.
    pub dom: Dom,
    /// From the guest.
    pub tx: TxRing,
    /// To the guest.
    pub rx: RxRing,
}

/// Packets of one poll of a NIC by the host's own kernel (NAPI's weight).
const POLL_PACKETS: usize = 64;

/// Ports of a domain: the first two of each vCPU are its timer and its other vCPUs' calls.
const PORTS_PER_VCPU: u16 = 2;

/// The port of `vcpu`'s timer.
pub fn timer_port(vcpu: usize) -> Port {
    Port(vcpu as u16 * PORTS_PER_VCPU)
}

/// The port on which other vCPUs of the domain call `vcpu`.
pub fn call_port(vcpu: usize) -> Port {
    Port(vcpu as u16 * PORTS_PER_VCPU + 1)
}

/// The number of a port behind those of `vcpus` vCPUs, if it is one.
pub fn device_of(port: Port, vcpus: usize) -> Option<usize> {
    usize::from(port.0).checked_sub(vcpus * usize::from(PORTS_PER_VCPU))
}

/// The other way round.
pub fn device_port(device: usize, vcpus: usize) -> Port {
    Port((vcpus * usize::from(PORTS_PER_VCPU) + device) as u16)
}

/// A domain's event channels: which vCPU each port is bound to.
#[derive(Debug, Default)]
struct Channels {
    bound: Vec<u16>,
}

/// Everything between the domains.
#[derive(Debug)]
pub struct Io {
    /// The NICs.
    pub nics: Vec<Nic>,
    /// Queues of all virtual interfaces, those of one domain side by side.
    pub queues: Vec<VifQueue>,
    /// What the way costs.
    pub costs: PathCosts,
    /// First and number of the queues of each domain.
    vifs: Vec<(u16, u16)>,
    driver: Option<Dom>,
    /// Taps and workers, where back ends are vhost's.
    pub(crate) vhosts: Vhosts,
    /// Packets of each NIC that the host's own kernel polls, where no domain has the NICs.
    polled: Vec<usize>,
    channels: Vec<Channels>,
    ports: Vec<Ports>,
    /// What comes out of the port and nobody has taken yet.
    pub(crate) handed: Vec<PortEvent>,
    /// Whose bytes were in front of whose packets at the back ends, if that is asked for.
    pub(crate) blame: Option<Box<BackEndBlame>>,
}

impl Io {
    /// At rest. `queues` are the queues of each domain's virtual interface; `driver` is the
    /// domain that has the NICs.
    pub(crate) fn new(
        config: &IoConfig,
        host: &HostState,
        queues: &[u16],
        driver: Option<Dom>,
    ) -> Self {
        let mut all = Vec::new();
        let vifs = queues.iter().enumerate().map(|(dom, &n)| {
            let first = all.len() as u16;
            let queue =
                || VifQueue { dom: Dom(dom as u16), tx: TxRing::default(), rx: RxRing::default() };
            all.extend((0..n).map(|_| queue()));
            (first, n)
        });
        let vifs: Vec<_> = vifs.collect();
        let devices = |dom: usize| match driver {
            Some(driver) if driver.index() == dom => config.nics.len() + all.len(),
            _ => usize::from(queues[dom]),
        };
        let mut channels = Vec::new();
        let mut ports = Vec::new();
        for (dom, params) in host.doms.iter().enumerate() {
            let vcpus = params.vcpus.len();
            let n = vcpus * usize::from(PORTS_PER_VCPU) + devices(dom);
            let own = (0..vcpus).flat_map(|v| [v as u16; PORTS_PER_VCPU as usize]);
            let device = (0..devices(dom)).map(|d| (d % vcpus) as u16);
            channels.push(Channels { bound: own.chain(device).collect() });
            ports.extend((0..vcpus).map(|_| Ports::new(config.order, n)));
        }
        Io {
            nics: config.nics.iter().map(|&nic| Nic::new(nic)).collect(),
            queues: all,
            costs: config.costs,
            vifs,
            driver,
            vhosts: Vhosts::default(),
            polled: vec![0; config.nics.len()],
            channels,
            ports,
            // A batch of the back end, or a poll.
            handed: Vec::with_capacity(256),
            blame: None,
        }
    }

    /// First and number of the queues of `dom`'s virtual interface.
    pub fn vif(&self, dom: Dom) -> std::ops::Range<usize> {
        let (first, n) = self.vifs[dom.index()];
        usize::from(first)..usize::from(first + n)
    }

    /// Whether there is a domain `dom`, with a virtual interface.
    pub fn has_vif(&self, dom: Dom) -> bool {
        self.vifs.get(dom.index()).is_some_and(|&(_, n)| n > 0)
    }

    /// The queue of `dom`'s virtual interface for packets with this hash of the sender's.
    pub fn queue_of(&self, dom: Dom, hash: u16) -> usize {
        let range = self.vif(dom);
        range.start + usize::from(hash) % range.len().max(1)
    }

    /// The driver domain.
    pub fn driver(&self) -> Dom {
        self.driver.unwrap_or(Dom(0))
    }

    /// A packet comes to the tap of `queue` at `now`. Returns the thread of the worker that is to be woken.
    pub(crate) fn put_into_tap(
        &mut self,
        queue: usize,
        packet: Packet,
        now: Time,
    ) -> Result<Option<Vcpu>, Full> {
        let woken = self.vhosts.put(queue, packet, now)?;
        if let Some(blame) = &mut self.blame {
            blame.came(queue, false, now);
        }
        Ok(woken)
    }

    /// A guest kicks the worker of `queue`: it has put packets into the ring (`sends`), or posted buffers.
    pub(crate) fn kick(&mut self, queue: usize, sends: bool) -> Option<Vcpu> {
        self.vhosts.list(Turn { queue, sends })
    }

    /// How long packets for `dom` were in the ring of its tap until vhost had copied each; `None` if it has no tap.
    pub fn tap_waits(&self, dom: Dom) -> Option<Hist> {
        let waits = self.vif(dom).filter_map(|queue| self.vhosts.waited(queue));
        waits.fold(None, |all: Option<Hist>, one| {
            let mut all = all.unwrap_or_default();
            all.merge(one);
            Some(all)
        })
    }

    /// Whose bytes were in front of whose packets at the back ends, if that was asked for.
    pub fn blame(&self) -> Option<&BackEndBlame> {
        self.blame.as_deref()
    }

    /// Binds `port` of `dom` to its vCPU number `vcpu`.
    pub fn bind(&mut self, dom: Dom, port: Port, vcpu: usize) {
        self.channels[dom.index()].bound[usize::from(port.0)] = vcpu as u16;
    }

    /// The vCPU number to which `port` of `dom` is bound.
    pub fn bound(&self, dom: Dom, port: Port) -> usize {
        usize::from(self.channels[dom.index()].bound[usize::from(port.0)])
    }

    /// What is pending at `v`.
    pub fn pending(&mut self, v: Vcpu) -> &mut Ports {
        &mut self.ports[v.index()]
    }

    /// Sets `port` of `dom`. Returns the vCPU to notify, if that is news.
    pub(crate) fn raise(&mut self, host: &HostState, dom: Dom, port: Port) -> Option<Vcpu> {
        let vcpu = self.bound(dom, port);
        let v = host.doms[dom.index()].vcpus[vcpu];
        self.ports[v.index()].raise(port).then_some(v)
    }

    /// Whether a guest that has just received packets, or worked, waits for the answer from the
    /// other side of the port.
    pub(crate) fn asks(&self) -> bool {
        matches!(
            self.handed.last(),
            Some(
                PortEvent::Received { .. } | PortEvent::CaughtUp { .. } | PortEvent::Worked { .. }
            )
        )
    }

    /// A packet arrives at NIC number `nic`, through the port.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, queue: &mut EventQueue<Event>, nic: u16, packet: Packet) {
        if !self.nics[usize::from(nic)].arrived(packet) {
            self.lose(&packet, LostAt::Nic);
        }
        self.moderate(queue, nic);
    }

    /// The driver domain gives `packet` to NIC number `nic`.
    pub(crate) fn transmit(&mut self, nic: u16, packet: &Packet) {
        let (dom, token) = (packet.guest(), packet.token);
        self.handed.push(PortEvent::Transmit { nic, dom, token });
    }

    /// `packet` is lost, there.
    pub(crate) fn lose(&mut self, packet: &Packet, at: LostAt) {
        let (dom, token) = (packet.guest(), packet.token);
        self.handed.push(PortEvent::Lost { dom, token, at });
    }

    /// NIC number `nic` interrupts. Returns the vCPU to notify, if that is news.
    pub(crate) fn interrupt(&mut self, host: &HostState, now: Time, nic: u16) -> Option<Vcpu> {
        self.nics[usize::from(nic)].interrupted(now);
        let driver = self.driver();
        let vcpus = host.doms[driver.index()].vcpus.len();
        self.raise(host, driver, device_port(usize::from(nic), vcpus))
    }

    /// The host's own kernel begins to take packets from NIC number `nic`, no more than 64 (NAPI's weight). Returns how long it takes;
    /// `None`: there are none, and the NIC interrupts again.
    pub(crate) fn begin_poll(
        &mut self,
        queue: &mut EventQueue<Event>,
        nic: u16,
    ) -> Option<Duration> {
        let index = usize::from(nic);
        let packets = self.nics[index].waiting().min(POLL_PACKETS);
        self.polled[index] = packets;
        if packets == 0 {
            self.nics[index].listen();
            self.moderate(queue, nic);
            return None;
        }
        let span = self.costs.nic_packet * packets as u64;
        queue.after(span, Event::Polled(nic));
        Some(span)
    }

    /// It has taken these: they are in the rings of taps. `woken` has the workers' threads that are to be woken.
    pub(crate) fn end_poll(&mut self, nic: u16, now: Time, mut woken: impl FnMut(Vcpu)) {
        for _ in 0..std::mem::take(&mut self.polled[usize::from(nic)]) {
            let Some(packet) = self.nics[usize::from(nic)].take() else { break };
            let queue = self.queue_of(packet.guest(), packet.hash);
            match self.put_into_tap(queue, packet, now) {
                Ok(worker) => worker.into_iter().for_each(&mut woken),
                Err(_) => self.lose(&packet, LostAt::BackEnd),
            }
        }
    }

    /// Has NIC number `nic` interrupt when it should.
    pub(crate) fn moderate(&mut self, queue: &mut EventQueue<Event>, nic: u16) {
        if let Some(at) = self.nics[usize::from(nic)].interrupt_at(queue.now()) {
            queue.at(at, Event::Interrupt(nic));
        }
    }
}
