//! What a guest can see and do while the host calls it.

use lowtail_engine::{Duration, EventQueue, Time, Timer};

use super::part::MixPart;
use crate::event::Event;
use crate::host_state::HostState;
use crate::ids::{Dom, Vcpu};
use crate::io::packet::Packet;
use crate::io::port::LostAt;
use crate::io::ports::Port;
use crate::io::{Io, device_of, device_port};
use crate::keep::Keep;
use crate::notification::Origin;

/// A guest's access to the world.
#[derive(Debug)]
pub struct GuestContext<'a> {
    pub(crate) host: &'a HostState,
    pub(crate) queue: &'a mut EventQueue<Event>,
    pub(crate) dom: Dom,
    /// The vCPUs that the guest knows of, if it is one of several in its domain.
    pub(crate) part: MixPart,
    /// Whom to notify when the call is over.
    pub(crate) notifications: &'a mut Vec<(Vcpu, Origin)>,
    /// What domains share, and the hardware.
    pub(crate) io: &'a mut Io,
    /// What was left of the vCPU's last step, and what it has done of that.
    pub(crate) left: Duration,
    pub(crate) ran: Duration,
    /// The vCPU has served all its events.
    pub(crate) served: bool,
    /// Whether it keeps its pCPU in the step that begins.
    pub(crate) keep: Keep,
    /// The hypervisor's timers end no sooner than this after they are set.
    pub(crate) timer_slop: Duration,
}

impl GuestContext<'_> {
    /// Now.
    pub fn now(&self) -> Time {
        self.host.now
    }

    /// How many vCPUs the guest has.
    pub fn vcpus(&self) -> usize {
        self.host.doms[self.dom.index()].vcpus.len().min(self.part.count)
    }

    /// The guest's vCPU number `vcpu`.
    fn vcpu(&self, vcpu: usize) -> Vcpu {
        self.host.doms[self.dom.index()].vcpus[self.part.first + vcpu]
    }

    /// Has [`Guest::timer`](super::Guest::timer) called with `token` after `delay`.
    pub fn after(&mut self, delay: Duration, token: u32) -> Timer {
        self.queue.after(delay, Event::Guest { dom: self.dom, token: self.part.token(token) })
    }

    /// The same by a timer that a vCPU sets before it sleeps: where the hypervisor's timers have a slop (`timer_slop` of the costs), no
    /// sooner than that.
    pub fn sleep(&mut self, delay: Duration, token: u32) -> Timer {
        self.after(delay.max(self.timer_slop), token)
    }

    /// Has [`Guest::timer`](super::Guest::timer) called with `token` at `time`.
    pub fn at(&mut self, time: Time, token: u32) -> Timer {
        self.queue.at(time, Event::Guest { dom: self.dom, token: self.part.token(token) })
    }

    /// Undoes [`after`](Self::after).
    pub fn cancel(&mut self, timer: Timer) {
        self.queue.cancel(timer);
    }

    /// Notifies the domain's vCPU number `vcpu` as soon as this call is over; wakes it if it
    /// is blocked.
    pub fn notify(&mut self, vcpu: usize, origin: Origin) {
        self.notifications.push((self.vcpu(vcpu), origin));
    }

    /// In [`Guest::step`](super::Guest::step): what was left of the vCPU's last step when it was ended early.
    pub fn left(&self) -> Duration {
        self.left
    }

    /// In [`Guest::step`](super::Guest::step): how much work the vCPU has done in its last step.
    pub fn ran(&self) -> Duration {
        self.ran
    }

    /// What domains share, and the hardware.
    pub fn io(&mut self) -> &mut Io {
        self.io
    }

    /// Gives `packet` to NIC number `nic`; for the driver domain.
    pub fn transmit(&mut self, nic: u16, packet: &Packet) {
        self.io.transmit(nic, packet);
    }

    /// Loses `packet`, there.
    pub fn lose(&mut self, packet: &Packet, at: LostAt) {
        self.io.lose(packet, at);
    }

    /// Asks NIC number `nic` for interrupts again.
    pub fn listen(&mut self, nic: usize) {
        self.io.nics[nic].listen();
        self.io.moderate(self.queue, nic as u16);
    }

    /// The next event that the domain's vCPU number `vcpu` is to serve.
    pub fn take_event(&mut self, vcpu: usize) -> Option<Port> {
        let v = self.vcpu(vcpu);
        self.io.pending(v).take()
    }

    /// The port of device number `device` of `dom`.
    pub fn device_port(&self, dom: Dom, device: usize) -> Port {
        device_port(device, self.host.doms[dom.index()].vcpus.len())
    }

    /// Raises `port` of `dom`; `from` is the number of the vCPU of this domain that does.
    pub fn raise(&mut self, from: Option<usize>, dom: Dom, port: Port) {
        let Some(to) = self.io.raise(self.host, dom, port) else { return };
        let processor = |v: Vcpu| self.host.vcpus[v.index()].processor;
        let from = from.map(|from| self.vcpu(from));
        let origin = match from {
            None => Origin::OwnProcessor,
            Some(from) if processor(from) == processor(to) => Origin::Beside,
            Some(_) => Origin::Elsewhere,
        };
        self.notifications.push((to, origin));
    }

    /// The guest's vCPU number `vcpu`, as the host knows it.
    pub(crate) fn thread(&self, vcpu: usize) -> Vcpu {
        self.vcpu(vcpu)
    }

    /// The domain's vCPU number `from`, which has a pCPU, wakes the thread `woken` of the host's in its own time: by an eventfd, or in the
    /// host's kernel.
    pub(crate) fn wake_thread(&mut self, from: usize, woken: Vcpu) {
        let origin = match self.origin_of_thread(self.vcpu(from), woken) {
            Origin::Beside => Origin::Thread,
            other => other,
        };
        self.notifications.push((woken, origin));
    }

    /// The same for the vCPU to which `port` of `dom` is bound, if that is news.
    pub(crate) fn call(&mut self, from: usize, dom: Dom, port: Port) {
        if let Some(to) = self.io.raise(self.host, dom, port) {
            self.wake_thread(from, to);
        }
    }

    /// The number of a device's port, behind those of the domain's vCPUs, if it is one.
    pub(crate) fn device_of(&self, port: Port) -> Option<usize> {
        device_of(port, self.host.doms[self.dom.index()].vcpus.len())
    }

    /// The domain's vCPU number `vcpu`, which spins, is to look again.
    pub fn poke(&mut self, vcpu: usize) {
        self.notifications.push((self.vcpu(vcpu), Origin::Memory));
    }

    /// In [`Guest::step`](super::Guest::step): the vCPU has served all events that were pending.
    pub fn served(&mut self) {
        self.served = true;
    }

    /// Has `timer` of another domain's guest called with `token`, at this instant, when this call is over.
    pub(super) fn signal(&mut self, dom: Dom, token: u32) {
        self.queue.after(Duration::ZERO, Event::Guest { dom, token });
    }

    /// The domain's vCPU number `from`, which has a pCPU, has `timer` of `dom`'s guest called at this instant, with a token that says who it
    /// was.
    pub(super) fn wake(&mut self, from: usize, dom: Dom, token: impl FnOnce(Vcpu) -> u32) {
        let waker = self.vcpu(from);
        self.signal(dom, token(waker));
    }

    /// Where a notification of the domain's vCPU number `vcpu` comes from that `waker` sends, which runs.
    pub(super) fn origin_of(&self, waker: Vcpu, vcpu: usize) -> Origin {
        self.origin_of_thread(waker, self.vcpu(vcpu))
    }

    fn origin_of_thread(&self, waker: Vcpu, woken: Vcpu) -> Origin {
        let processor = |v: Vcpu| self.host.vcpus[v.index()].processor;
        if processor(waker) == processor(woken) { Origin::Beside } else { Origin::Elsewhere }
    }

    /// Where a notification of the domain's first vCPU comes from that the first one of `dom` sends.
    pub(super) fn origin_from(&self, dom: Dom) -> Origin {
        let processor = |dom: Dom| {
            let first = self.host.doms[dom.index()].vcpus.first();
            first.map(|v| self.host.vcpus[v.index()].processor)
        };
        if processor(dom) == processor(self.dom) { Origin::Beside } else { Origin::Elsewhere }
    }

    /// The guest's own domain.
    pub fn own(&self) -> Dom {
        self.dom
    }

    /// The domain's vCPU number `from`, which has a pCPU, sends an interrupt to vCPU number
    /// `to` of `dom`, which may be another domain (an event channel). Nothing happens if
    /// there is no such vCPU.
    pub fn interrupt(&mut self, from: usize, dom: Dom, to: usize) {
        let Some(&to) = self.host.doms[dom.index()].vcpus.get(to) else { return };
        let from = self.vcpu(from);
        let processor = |v: Vcpu| self.host.vcpus[v.index()].processor;
        let near = processor(from) == processor(to);
        self.notifications.push((to, if near { Origin::OwnProcessor } else { Origin::Elsewhere }));
    }
}
