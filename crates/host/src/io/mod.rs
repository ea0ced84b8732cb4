//! The way of a packet through the host: NICs and wires, event channels, shared rings, and
//! the traffic on them.
//!
//! This is what domains share and hardware does; what the kernels in the domains do with it
//! stands in [`guest`](crate::guest). A packet comes in by a wire into the receive ring of a
//! NIC, whose interrupt is an event for the driver domain; this one puts it into the shared
//! ring of a guest and notifies that; and back. A machine outside sends and answers at once.

pub mod costs;
pub(crate) mod event;
pub mod flow;
pub mod lock;
pub mod nic;
pub mod packet;
pub mod port;
pub mod ports;
pub mod ring;

use lowtail_engine::{EventQueue, Rng};

use crate::event::Event;
use crate::host_state::HostState;
use crate::ids::{Dom, Vcpu};
use crate::notification::Origin;
use costs::PathCosts;
pub use event::IoEvent;
use flow::{Flow, FlowConfig, Pace, RESEND_AFTER, Way};
use nic::{Nic, NicConfig};
use packet::{FlowId, Kind, Packet};
use port::{Handed, LostAt};
use ports::{Order, Port, Ports};
use ring::{RxRing, TxRing};

/// NICs, traffic, and how events are delivered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IoConfig {
    /// The NICs, all in the hands of the driver domain.
    pub nics: Vec<NicConfig>,
    /// Who sends what to whom.
    pub flows: Vec<FlowConfig>,
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
    /// The traffic.
    pub flows: Vec<Flow>,
    /// Queues of all virtual interfaces, those of one domain side by side.
    pub queues: Vec<VifQueue>,
    /// What the way costs.
    pub costs: PathCosts,
    /// First and number of the queues of each domain.
    vifs: Vec<(u16, u16)>,
    driver: Option<Dom>,
    channels: Vec<Channels>,
    ports: Vec<Ports>,
    /// What comes out of the port and nobody has taken yet.
    pub(crate) handed: Vec<Handed>,
}

impl Io {
    /// At rest. `queues` are the queues of each domain's virtual interface; `driver` is the
    /// domain that has the NICs.
    pub(crate) fn new(
        config: &IoConfig,
        facts: &HostState,
        queues: &[u16],
        driver: Option<Dom>,
        seed: u64,
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
        for (dom, params) in facts.doms.iter().enumerate() {
            let vcpus = params.vcpus.len();
            let n = vcpus * usize::from(PORTS_PER_VCPU) + devices(dom);
            let own = (0..vcpus).flat_map(|v| [v as u16; PORTS_PER_VCPU as usize]);
            let device = (0..devices(dom)).map(|d| (d % vcpus) as u16);
            channels.push(Channels { bound: own.chain(device).collect() });
            ports.extend((0..vcpus).map(|_| Ports::new(config.order, n)));
        }
        let flows = config.flows.iter().enumerate();
        let flows =
            flows.map(|(i, flow)| Flow::new(flow.clone(), Rng::new(seed, &format!("flow {i}"))));
        Io {
            nics: config.nics.iter().map(|&nic| Nic::new(nic)).collect(),
            flows: flows.collect(),
            queues: all,
            costs: config.costs,
            vifs,
            driver,
            channels,
            ports,
            // A batch of the back end, or a poll.
            handed: Vec::with_capacity(256),
        }
    }

    /// The outside begins to send.
    pub(crate) fn start(&mut self, queue: &mut EventQueue<Event>) {
        for i in 0..self.flows.len() {
            let flow = &mut self.flows[i];
            if matches!(flow.config.way, Way::In { .. }) {
                let delay = flow.draw_start();
                queue.after(delay, Event::Io(IoEvent::Send(FlowId(i as u16))));
            }
        }
    }

    /// First and number of the queues of `dom`'s virtual interface.
    pub fn vif(&self, dom: Dom) -> std::ops::Range<usize> {
        let (first, n) = self.vifs[dom.index()];
        usize::from(first)..usize::from(first + n)
    }

    /// The queue of `dom`'s virtual interface that carries `flow`, chosen by the sender's hash.
    pub fn queue_of(&self, dom: Dom, flow: FlowId) -> usize {
        let range = self.vif(dom);
        range.start + flow.index() % range.len().max(1)
    }

    /// The driver domain.
    pub fn driver(&self) -> Dom {
        self.driver.unwrap_or(Dom(0))
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
    pub(crate) fn raise(&mut self, facts: &HostState, dom: Dom, port: Port) -> Option<Vcpu> {
        let vcpu = self.bound(dom, port);
        let v = facts.doms[dom.index()].vcpus[vcpu];
        self.ports[v.index()].raise(port).then_some(v)
    }

    /// The guest of `packet` and the way it goes.
    pub fn course(&self, packet: &Packet) -> (Dom, Way) {
        packet.course().unwrap_or_else(|| {
            let flow = &self.flows[packet.flow.index()].config;
            (flow.dom, flow.way)
        })
    }

    /// Whether what a guest has just received, or worked for, waits for the answer from the
    /// other side of the port.
    pub(crate) fn asks(&self) -> bool {
        matches!(self.handed.last(), Some(Handed::Received { .. } | Handed::Worked { .. }))
    }

    /// A packet comes from the wire of NIC number `nic`, through the port.
    pub(crate) fn hand_in(&mut self, queue: &mut EventQueue<Event>, nic: u16, packet: Packet) {
        if !self.nics[usize::from(nic)].hand_in(packet) {
            self.lose(queue, &packet, LostAt::Nic);
        }
        self.moderate(queue, nic);
    }

    /// The driver domain gives `packet` to NIC number `nic`.
    pub(crate) fn transmit(&mut self, queue: &mut EventQueue<Event>, nic: usize, packet: Packet) {
        if let Kind::Foreign(_) = packet.kind {
            let packet::Foreign { token, dom, .. } = packet.foreign;
            self.handed.push(Handed::Transmit { nic: nic as u16, dom, token });
            return;
        }
        let at = self.nics[nic].send_out(packet, queue.now());
        queue.at(at, Event::Io(IoEvent::Depart(nic as u16)));
    }

    /// `packet` is lost. Data of a window is sent again later; others are not missed, or their
    /// sender finds out by itself.
    pub(crate) fn lose(&mut self, queue: &mut EventQueue<Event>, packet: &Packet, at: LostAt) {
        if let Kind::Foreign(_) = packet.kind {
            let packet::Foreign { token, dom, .. } = packet.foreign;
            self.handed.push(Handed::Lost { dom, token, at });
            return;
        }
        let flow = &mut self.flows[packet.flow.index()];
        flow.count_loss(packet.kind);
        let times = match (flow.config.pace, packet.kind) {
            (Pace::Window(_), Kind::Data) => 1,
            // Later acknowledgements would tell; here each tells of its own packets only.
            (Pace::Window(_), Kind::Ack) => packet.acks,
            _ => 0,
        };
        for _ in 0..times {
            queue.after(RESEND_AFTER, Event::Io(IoEvent::Resend(packet.flow)));
        }
    }

    /// Handles `event`; notifications go to `out`.
    pub(crate) fn event(
        &mut self,
        facts: &HostState,
        queue: &mut EventQueue<Event>,
        event: IoEvent,
        out: &mut Vec<(Vcpu, Origin)>,
    ) {
        let mut raised = None;
        match event {
            IoEvent::Arrive(nic) => {
                if let Some(lost) = self.nics[usize::from(nic)].arrived() {
                    self.lose(queue, &lost, LostAt::Nic);
                }
                self.moderate(queue, nic);
            }
            IoEvent::Interrupt(nic) => {
                self.nics[usize::from(nic)].interrupted(queue.now());
                let driver = self.driver();
                let vcpus = facts.doms[driver.index()].vcpus.len();
                let port = device_port(usize::from(nic), vcpus);
                raised = Some((driver, port));
            }
            IoEvent::Depart(nic) => {
                if let Some(packet) = self.nics[usize::from(nic)].departed() {
                    self.outside_receives(queue, nic, packet);
                }
            }
            IoEvent::Send(flow) => self.outside_sends(queue, flow),
            IoEvent::Resend(id) => {
                let flow = &mut self.flows[id.index()];
                flow.acked(1);
                match flow.config.way {
                    Way::In { .. } => self.outside_sends(queue, id),
                    // The guest's own timer tells it.
                    _ => raised = Some((flow.config.dom, timer_port(0))),
                }
            }
        }
        let news = raised.and_then(|(dom, port)| self.raise(facts, dom, port));
        out.extend(news.map(|v| (v, Origin::Elsewhere)));
    }

    /// Has NIC number `nic` interrupt when it should.
    pub(crate) fn moderate(&mut self, queue: &mut EventQueue<Event>, nic: u16) {
        if let Some(at) = self.nics[usize::from(nic)].interrupt_at(queue.now()) {
            queue.at(at, Event::Io(IoEvent::Interrupt(nic)));
        }
    }

    /// The outside sends what it may of `id`.
    fn outside_sends(&mut self, queue: &mut EventQueue<Event>, id: FlowId) {
        let now = queue.now();
        let flow = &mut self.flows[id.index()];
        let Way::In { nic } = flow.config.way else { return };
        let paced = !matches!(flow.config.pace, Pace::Window(_));
        let wire = &mut self.nics[usize::from(nic)];
        while flow.may_send(now) {
            let packet = flow.packet(id, now);
            flow.sent();
            let at = wire.send_in(packet, now);
            queue.at(at, Event::Io(IoEvent::Arrive(nic)));
            if paced {
                // As fast as the wire takes them: the next one when this one has left.
                let next = flow.draw_gap().map_or_else(|| wire.inward_free_at(), |gap| now + gap);
                queue.at(next.max(now), Event::Io(IoEvent::Send(id)));
                return;
            }
        }
    }

    /// `packet` has reached the outside through NIC number `nic`.
    fn outside_receives(&mut self, queue: &mut EventQueue<Event>, nic: u16, packet: Packet) {
        let now = queue.now();
        let flow = &mut self.flows[packet.flow.index()];
        match packet.kind {
            Kind::Ack => {
                flow.acked(packet.acks);
                self.outside_sends(queue, packet.flow);
            }
            Kind::Reply => flow.answered(packet.sent, now),
            Kind::Data => {
                let ack = flow.arrived(&packet, now);
                // Whatever is in flight is here: nobody else will make up the pair.
                let rest = flow.in_flight <= u32::from(flow.unacked);
                let ack = ack.or_else(|| rest.then(|| flow.ack(packet.flow, now)).flatten());
                if let Some(ack) = ack {
                    let at = self.nics[usize::from(nic)].send_in(ack, now);
                    queue.at(at, Event::Io(IoEvent::Arrive(nic)));
                }
            }
            // Those leave by the port.
            Kind::Request | Kind::Foreign(_) => {}
        }
    }

    /// What the flows that end or begin in `dom` have delivered, lost, and measured.
    pub fn flows_of(&self, dom: Dom) -> impl Iterator<Item = &Flow> {
        let at = move |flow: &&Flow| flow.config.receiver().unwrap_or(flow.config.dom) == dom;
        self.flows.iter().filter(at)
    }
}
