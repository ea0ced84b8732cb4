//! The machine: a host and its guests in one clock.
//!
//! Takes event after event, passes those of the host on to its mechanics (`core.rs`) and
//! those of workloads to the guests, and asks a guest for its next step whenever one of
//! its vCPUs has a pCPU and nothing to do.

use lowtail_engine::{AdvanceError, Duration, Time};

use crate::cgroup::CgroupStats;
use crate::config::{Config, ConfigError, Pause, VmConfig};
use crate::core::Core;
use crate::event::Event;
use crate::guest::part::MixPart;
use crate::guest::{Guest, GuestContext, Step};
use crate::host_state::HostState;
use crate::ids::{Cgroup, Dom, Pcpu, Vcpu};
use crate::io::Io;
use crate::io::blame::BackEndBlame;
use crate::io::packet::Course;
use crate::io::port::{Destination, Job, PacketSpec, PortError, PortEvent, PortRequest};
use crate::keep::Keep;
use crate::notification::Origin;
use crate::record::Recorder;
use crate::stats::{PcpuStats, VcpuStats, Worst};

/// Steps that a guest may take at one instant before it is taken for broken.
const STEPS_MAX: u32 = 10_000;

/// A host and its guests.
pub struct Host {
    core: Core,
    guests: Vec<Box<dyn Guest>>,
    /// Number of each vCPU within its domain.
    vcpu_in_dom: Vec<usize>,
    /// Notifications that a guest's call has left; empty between calls.
    notifications: Vec<(Vcpu, Origin)>,
    /// What domains share, and the hardware.
    io: Io,
    started: bool,
    /// When each domain is paused.
    pauses: Vec<(Dom, Pause)>,
    /// The vCPU whose guest waits for the answer to what it has handed out; it is next.
    asking: Option<Vcpu>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("core", &self.core).finish_non_exhaustive()
    }
}

impl Host {
    /// Builds the host that `config` describes, with every random stream drawn from `seed`.
    ///
    /// # Errors
    /// If the configuration contradicts itself; see [`ConfigError`].
    pub fn new(config: &Config, seed: u64) -> Result<Self, ConfigError> {
        let host = config.host_state()?;
        let vcpu_in_dom = host.doms.iter().flat_map(|dom| 0..dom.vcpus.len()).collect();
        let watched = config.watch.map(|dom| host.doms[dom.index()].vcpus[0]);
        let vms = &config.vms;
        let queues: Vec<u16> = vms.iter().map(VmConfig::queues).collect();
        let mut io = Io::new(&config.io, &host, &queues, config.driver());
        for (dom, vm) in host.doms.iter().zip(vms).filter(|(_, vm)| vm.has_vhost()) {
            let workers: Vec<Vcpu> = vm.workload.vhosts().map(|(at, _)| dom.vcpus[at]).collect();
            let room = vm.workload.vhosts().next().map_or(0, |(_, config)| config.queue_packets);
            io.vhosts.add(&workers, vm.queues(), room);
        }
        let core = Core::new(host, config, watched, seed);
        let names: Vec<&str> = vms.iter().map(|vm| vm.name.as_str()).collect();
        let guests = vms.iter().map(|vm| vm.workload.build(seed, &vm.name, &names)).collect();
        Ok(Host {
            core,
            guests,
            vcpu_in_dom,
            notifications: Vec::new(),
            io,
            started: false,
            pauses: vms
                .iter()
                .enumerate()
                .flat_map(|(dom, vm)| vm.pauses.iter().map(move |&p| (Dom(dom as u16), p)))
                .collect(),
            asking: None,
        })
    }

    /// Runs until `end`, or until every guest that measures something is done.
    /// Can be called again with a later end. Returns whether they are done.
    pub fn run(&mut self, end: Time) -> bool {
        loop {
            // Asking each guest costs more than an event; now and then is often enough.
            if self.done() == Some(true) {
                return true;
            }
            for _ in 0..64 {
                if !self.step(end) {
                    return self.done() == Some(true);
                }
            }
        }
    }

    /// The same as [`run`](Self::run), event by event; and on the way calls `look` at each
    /// multiple of `every`, when all events up to that instant have been handled.
    ///
    /// # Panics
    /// If `every` is zero.
    pub fn run_watched(&mut self, end: Time, every: Duration, mut look: impl FnMut(&Self)) -> bool {
        let into = Duration::from_ps(self.now().as_ps() % every.as_ps());
        let mut next = self.now() + (every - into);
        loop {
            if self.done() == Some(true) {
                return true;
            }
            for _ in 0..64 {
                while !self.step(end.min(next)) {
                    if next > end {
                        return self.done() == Some(true);
                    }
                    self.look_at(next, &mut look);
                    next += every;
                }
            }
        }
    }

    /// Calls `look` as if it were `now`, before which there is no event left. The clock itself stays
    /// where [`run`](Self::run) would leave it.
    pub fn look_at(&mut self, now: Time, mut look: impl FnMut(&Self)) {
        let before = std::mem::replace(&mut self.core.host.now, now);
        look(self);
        self.core.host.now = before;
    }

    /// Runs until `end`, however much the guests have measured by then.
    pub fn run_to(&mut self, end: Time) {
        while self.step(end) {}
        self.core.host.now = end;
    }

    /// Handles one event, unless the next one is later than `end`, or something came out of the
    /// [port](Self::handed) and was not taken. Returns whether it did.
    #[inline]
    pub fn step(&mut self, end: Time) -> bool {
        if !self.io.handed.is_empty() {
            return false;
        }
        if !self.started {
            self.start();
        }
        if self.core.needs_step.is_some() {
            // A guest has had the answer for which it waited.
            self.asking = None;
            self.step_guests();
            return true;
        }
        let core = &mut self.core;
        let Some((now, event)) = core.queue.pop_until(end) else { return false };
        core.host.now = now;
        match event {
            Event::Tickled(p) => core.tickle_arrived(p),
            Event::SliceOver(p) => core.slice_over(p),
            Event::Switched(p) => core.switched(p),
            Event::Reschedule(p) => core.reschedule(p),
            Event::Tick(p) => core.tick(p),
            Event::GuestTick(v) => core.guest_tick(v),
            Event::StepDone(v) => core.step_done(v),
            Event::SchedulerTimer(timer) => core.scheduler_timer(timer),
            Event::Pause(dom) => core.pause(dom),
            Event::Unpause(dom) => core.unpause(dom),
            Event::Interrupt(nic) if self.io.vhosts.any() => {
                self.io.nics[usize::from(nic)].interrupted(now);
                self.poll(nic);
            }
            Event::Polled(nic) => {
                let p = self.pcpu_of(nic);
                let Host { core, io, notifications, .. } = self;
                let near = |v: Vcpu| core.host.vcpus[v.index()].processor == p;
                io.end_poll(nic, now, |v| {
                    let origin = if near(v) { Origin::OwnProcessor } else { Origin::Elsewhere };
                    notifications.push((v, origin));
                });
                self.deliver_notifications();
                self.poll(nic);
            }
            Event::Interrupt(nic) => {
                let vcpu = self.io.interrupt(&core.host, now, nic);
                self.notifications.extend(vcpu.map(|v| (v, Origin::Elsewhere)));
                self.deliver_notifications();
            }
            Event::Guest { dom, token } => self.with_guest(dom, |g, cx| g.timer(cx, token)),
        }
        self.step_guests();
        true
    }

    /// The pCPU to which NIC number `nic` interrupts, where no domain has the NICs: in turn.
    fn pcpu_of(&self, nic: u16) -> Pcpu {
        Pcpu(nic % self.core.host.pcpus.len() as u16)
    }

    /// The host's own kernel takes packets from NIC number `nic`, in a softirq: who runs there stands still meanwhile.
    fn poll(&mut self, nic: u16) {
        if let Some(span) = self.io.begin_poll(&mut self.core.queue, nic) {
            let p = self.pcpu_of(nic);
            self.core.take_time(p, span);
        }
    }

    /// When the machine has something to do; now, if a guest waits for the answer to what it
    /// has handed out. Starts the machine if nobody has.
    #[inline]
    pub fn next_time(&mut self) -> Option<Time> {
        if !self.started {
            self.start();
        }
        if self.core.needs_step.is_some() {
            return Some(self.now());
        }
        self.core.queue.next_time()
    }

    /// Moves the clock to `now`, at which something comes in through the port.
    ///
    /// # Errors
    /// If that is past, or the host has something to do before.
    pub fn advance(&mut self, now: Time) -> Result<(), PortError> {
        if now == self.now() && self.started {
            return Ok(());
        }
        if now < self.now() {
            return Err(PortError::Past { at: now, now: self.now() });
        }
        if !self.started {
            self.start();
        }
        if now > self.now() && self.core.needs_step.is_some() {
            return Err(PortError::BehindEvent { at: now, next: self.now() });
        }
        self.core.queue.advance_to(now).map_err(|error| match error {
            AdvanceError::Past(is) => PortError::Past { at: now, now: is },
            AdvanceError::BehindEvent(next) => PortError::BehindEvent { at: now, next },
        })?;
        self.core.host.now = now;
        Ok(())
    }

    /// A packet for `dom` arrives at NIC number `nic`. It comes out as [`PortEvent::Received`], or
    /// lost.
    ///
    /// # Errors
    /// As [`advance`](Self::advance); and if there is no such NIC, or `dom` has no interface.
    pub fn arrive(
        &mut self,
        now: Time,
        nic: u16,
        dom: Dom,
        spec: PacketSpec,
    ) -> Result<(), PortError> {
        self.check_nic(nic)?;
        self.check_interface(dom)?;
        self.advance(now)?;
        self.io.arrived(&mut self.core.queue, nic, spec.packet(Course::In { to: dom }));
        Ok(())
    }

    /// The network stack of `dom` sends a packet: in answer to what has just come out of the
    /// port, else from its timer. It comes out as [`PortEvent::Transmit`] or, if it is for
    /// another guest, as [`PortEvent::Received`]; or lost.
    ///
    /// # Errors
    /// As [`arrive`](Self::arrive); and if it is for `dom` itself.
    pub fn send(
        &mut self,
        now: Time,
        dom: Dom,
        to: Destination,
        spec: PacketSpec,
    ) -> Result<(), PortError> {
        let packet = spec.packet(self.course(dom, to)?);
        self.advance(now)?;
        self.request(dom, PortRequest::Send(packet));
        Ok(())
    }

    /// Process number `process` of `dom` sends a packet when it has done what it was to do before
    /// and there is room in the ring of the interface. It comes out as with [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send); and if there is no such process.
    pub fn write(
        &mut self,
        now: Time,
        (dom, process): (Dom, u16),
        to: Destination,
        spec: PacketSpec,
    ) -> Result<(), PortError> {
        let packet = spec.packet(self.course(dom, to)?);
        self.check_process(dom, process)?;
        self.advance(now)?;
        self.request(dom, PortRequest::Process { process, job: Job::Write(packet) });
        Ok(())
    }

    /// Process number `process` of `dom` works for `span` when it has done what it was to do
    /// before; then [`PortEvent::Worked`] comes out.
    ///
    /// # Errors
    /// As [`advance`](Self::advance); and if `dom` has no interface, or no such process.
    pub fn work(
        &mut self,
        now: Time,
        (dom, process): (Dom, u16),
        span: Duration,
        token: u32,
    ) -> Result<(), PortError> {
        self.check_interface(dom)?;
        self.check_process(dom, process)?;
        self.advance(now)?;
        self.request(dom, PortRequest::Process { process, job: Job::Work { span, token } });
        Ok(())
    }

    /// The way of a packet that `dom` sends.
    fn course(&self, from: Dom, to: Destination) -> Result<Course, PortError> {
        self.check_interface(from)?;
        match to {
            Destination::Nic(nic) => {
                self.check_nic(nic)?;
                Ok(Course::Out { from, nic })
            }
            Destination::Dom(to) if to == from => Err(PortError::ToItself(from)),
            Destination::Dom(to) => {
                self.check_interface(to)?;
                Ok(Course::Between { from, to })
            }
        }
    }

    fn check_nic(&self, nic: u16) -> Result<(), PortError> {
        let known = usize::from(nic) < self.io.nics.len();
        if known { Ok(()) } else { Err(PortError::NoNic(nic)) }
    }

    fn check_interface(&self, dom: Dom) -> Result<(), PortError> {
        if self.io.has_vif(dom) { Ok(()) } else { Err(PortError::NoInterface(dom)) }
    }

    fn check_process(&self, dom: Dom, process: u16) -> Result<(), PortError> {
        let known = process < self.guests[dom.index()].processes();
        if known { Ok(()) } else { Err(PortError::NoProcess { dom, process }) }
    }

    /// What has come out of the port, at the machine's own time; empty it after each
    /// [`step`](Self::step) and whatever was handed in. The guest that has received something
    /// does nothing else before the next `step`, so that the answer finds it in its stack.
    #[inline]
    pub fn handed(&mut self) -> &mut Vec<PortEvent> {
        &mut self.io.handed
    }

    /// Has the guest of `dom` do something.
    fn request(&mut self, dom: Dom, request: PortRequest) {
        let asking = self.asking.filter(|v| self.core.host.vcpus[v.index()].dom == dom);
        let vcpu = asking.map(|v| self.vcpu_in_dom[v.index()]);
        self.with_guest(dom, |guest, cx| guest.request(cx, vcpu, request));
    }

    /// Asks guests for work until every executing vCPU has some, or one of them waits for the
    /// answer to what it has handed out.
    #[inline]
    fn step_guests(&mut self) {
        let mut steps = 0;
        while self.io.handed.is_empty()
            && let Some(v) = self.core.needs_step.take()
        {
            steps += 1;
            assert!(steps < STEPS_MAX, "{v:?} takes step after step in no time");
            let last = self.core.begin_step(v);
            let dom = self.core.host.vcpus[v.index()].dom;
            let vcpu = self.vcpu_in_dom[v.index()];
            let (step, served, keep) = self.with_guest(dom, |guest, cx| {
                (cx.left, cx.ran) = last;
                let step = guest.step(cx, vcpu);
                (step, cx.served, cx.keep)
            });
            self.core.keep(v, keep);
            if served {
                self.core.served(v);
            }
            match step {
                Step::Compute(work) => self.core.compute(v, work, false),
                Step::Run(work) => self.core.compute(v, work, true),
                Step::Block => self.core.block(v),
                Step::Yield => self.core.yielded(v),
            }
            if keep != Keep::Yes {
                self.core.give_way(v);
            }
        }
        if self.io.asks() {
            // Nobody was asked for work after the one that waits.
            self.asking = self.core.needs_step;
        }
    }

    /// Calls the guest of `dom`, then delivers the notifications that the call has left.
    #[inline]
    fn with_guest<T>(
        &mut self,
        dom: Dom,
        call: impl FnOnce(&mut dyn Guest, &mut GuestContext<'_>) -> T,
    ) -> T {
        let timer_slop = self.core.timer_slop();
        let Core { host, queue, .. } = &mut self.core;
        let mut cx = GuestContext {
            host,
            queue,
            dom,
            part: MixPart::WHOLE,
            notifications: &mut self.notifications,
            io: &mut self.io,
            left: Duration::ZERO,
            ran: Duration::ZERO,
            served: false,
            keep: Keep::No,
            timer_slop,
        };
        let result = call(self.guests[dom.index()].as_mut(), &mut cx);
        self.deliver_notifications();
        result
    }

    /// Delivers notifications.
    #[inline]
    fn deliver_notifications(&mut self) {
        for (v, origin) in self.notifications.drain(..) {
            match origin {
                Origin::Memory => self.core.interrupt(v),
                origin => self.core.notify(v, origin),
            }
        }
    }

    /// Sets up scheduler and guests and makes every vCPU runnable, once.
    #[cold]
    fn start(&mut self) {
        self.started = true;
        for (dom, Pause { at, length }) in std::mem::take(&mut self.pauses) {
            let at = Time::ZERO + at;
            self.core.queue.at(at, Event::Pause(dom));
            self.core.queue.at(at + length, Event::Unpause(dom));
        }
        self.core.start();
        if let Some(blame) = self.io.blame.as_mut().filter(|_| self.io.vhosts.any()) {
            let vhosts = &self.io.vhosts;
            let queues = self.io.queues.iter().enumerate();
            let lines = queues.map(|(i, queue)| (queue.dom, [vhosts.serves(i); 2]));
            blame.start(vhosts.workers(), lines);
        }
        for dom in (0..self.guests.len()).map(|i| Dom(i as u16)) {
            self.with_guest(dom, |guest, cx| guest.start(cx));
        }
        for v in (0..self.core.host.vcpus.len()).map(|i| Vcpu(i as u16)) {
            self.core.boot(v);
        }
    }

    /// Whether all guests that measure something have; `None` if none does.
    pub fn done(&self) -> Option<bool> {
        let mut measuring = self.guests.iter().filter_map(|guest| guest.done()).peekable();
        measuring.peek()?;
        Some(measuring.all(|done| done))
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.core.host.now
    }

    /// The host's state.
    pub fn state(&self) -> &HostState {
        &self.core.host
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.core.queue.popped()
    }

    /// What the guest of `dom` has measured.
    pub fn outcome(&self, dom: Dom) -> crate::guest::Outcome {
        self.guests[dom.index()].outcome()
    }

    /// Counts whose bytes are in front of whose packets at the back ends; `classes` has the class of each domain, numbers from 0 without
    /// gaps. To be called before the first step.
    ///
    /// # Panics
    /// If there is no class for a domain.
    pub fn blame(&mut self, classes: Vec<u8>) {
        assert_eq!(classes.len(), self.state().doms.len(), "a class for each domain");
        self.io.blame = Some(Box::new(BackEndBlame::new(classes)));
    }

    /// What domains share, and the hardware.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// The recording of the schedule.
    pub fn recorder(&self) -> &Recorder {
        &self.core.recorder
    }

    /// The same, to take the records out on the way.
    pub fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.core.recorder
    }

    /// The longest wait of the watched vCPU.
    pub fn worst(&self) -> Option<&Worst> {
        self.core.worst.as_ref()
    }

    /// What `v` has experienced, up to the last time it lost a pCPU.
    pub fn vcpu_stats(&self, v: Vcpu) -> &VcpuStats {
        self.core.vcpu_stats(v)
    }

    /// Processor time and work of `v` up to now, also of the slice that it is in.
    pub fn vcpu_time(&self, v: Vcpu) -> (Duration, Duration) {
        self.core.vcpu_time(v)
    }

    /// What has happened to `cgroup`; `None` if it has no limit or the scheduler knows no groups.
    pub fn cgroup_stats(&self, cgroup: Cgroup) -> Option<CgroupStats> {
        self.core.cgroup_stats(cgroup)
    }

    /// What `p` has done.
    pub fn pcpu_stats(&self, p: Pcpu) -> PcpuStats {
        self.core.pcpu_stats(p)
    }

    /// Checks what must hold between any two events, whatever the scheduler; for tests.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.core.check()
    }

    /// A pCPU that idles although a vCPU that may run there waits, and nothing is under way
    /// there that would change it (no tickle, no switch): lost work. For tests.
    pub fn idle_beside_waiting(&self) -> Option<(Pcpu, Vcpu)> {
        self.core.idle_beside_waiting()
    }
}
