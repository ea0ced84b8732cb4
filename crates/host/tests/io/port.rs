//! The port: what goes in comes out once, after what it costs, whoever schedules.

use std::collections::BTreeMap;

use lowtail_engine::{Duration, Rng, Time};
use lowtail_host::guest::driver::Backend;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::port::{Destination, LostAt, PacketSpec, PortError, PortEvent};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::{Config, Dom, Host, SchedulerConfig, Workload};
use lowtail_testkit::netback::{
    BACKENDS, COSTS, SLOW, dom, driver, guest, host, nic, random_host, schedulers, with_vhost,
};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

fn spec(bytes: u32, token: u32) -> PacketSpec {
    PacketSpec::new(bytes, 0, token).expect("of a length")
}

/// The first process of guest number `guest`.
fn first(guest: u16) -> (Dom, u16) {
    (dom(guest), 0)
}

const NIC: Destination = Destination::Nic(0);

/// Guests behind a driver domain with `backend`.
fn only_port(backend: Backend, guests: usize, nics: usize, costs: PathCosts) -> Config {
    host(&driver(backend), 1, &vec![guest(); guests], vec![nic(); nics], costs)
}

/// A host, what has come out of it (but for [`PortEvent::CaughtUp`]), and when.
struct Lab {
    machine: Host,
    out: Vec<(Time, PortEvent)>,
}

impl Lab {
    fn new(config: &Config) -> Self {
        Lab { machine: Host::new(config, 1).expect("valid"), out: Vec::new() }
    }

    fn now(&self) -> Time {
        self.machine.now()
    }

    /// Takes what has come out.
    fn take(&mut self) {
        let now = self.now();
        let all = self.machine.handed().drain(..);
        let some = all.filter(|event| !matches!(event, PortEvent::CaughtUp { .. }));
        self.out.extend(some.map(|event| (now, event)));
    }

    /// Runs until `end`, and calls `answer` with all that comes out.
    fn run(&mut self, end: Time, mut answer: impl FnMut(&mut Host, Time, PortEvent)) {
        loop {
            // An answer may be lost at once.
            let mut seen = self.out.len();
            self.take();
            while seen < self.out.len() {
                let (now, handed) = self.out[seen];
                answer(&mut self.machine, now, handed);
                seen += 1;
                self.take();
            }
            let next = self.machine.next_time();
            if next.is_none_or(|next| next > end) {
                return;
            }
            assert!(self.machine.step(end));
            assert_eq!(next, Some(self.now()));
        }
    }
}

/// A request comes in, is answered by the kernel and by a process, goes to a neighbour, and
/// that one's answer leaves.
#[test]
fn what_goes_in_comes_out_once() {
    for backend in BACKENDS {
        for (name, scheduler) in schedulers() {
            let mut config = only_port(backend, 2, 1, SLOW);
            config.scheduler = scheduler;
            config.costs = COSTS;
            let mut lab = Lab::new(&config);
            let start = Time::ZERO + us(500);
            // Boots first.
            lab.run(start, |_, _, _| {});
            lab.machine.arrive(start, 0, dom(0), spec(1500, 1)).expect("taken");
            lab.run(start + ms(50), |machine, now, handed| match handed {
                PortEvent::Received { dom: at, token: 1 } => {
                    assert_eq!(at, dom(0));
                    machine.send(now, at, NIC, spec(52, 2)).expect("taken");
                    machine.work(now, (at, 0), us(100), 3).expect("taken");
                }
                PortEvent::Worked { dom: at, token: 3 } => {
                    machine
                        .send(now, at, Destination::Dom(dom(1)), spec(60_000, 4))
                        .expect("taken");
                }
                PortEvent::Received { dom: at, token: 4 } => {
                    assert_eq!(at, dom(1));
                    machine.send(now, at, NIC, spec(52, 5)).expect("taken");
                }
                _ => {}
            });
            let mut out: Vec<PortEvent> = lab.out.iter().map(|&(_, handed)| handed).collect();
            // The acknowledgement and the work race.
            out.sort_by_key(|handed| match *handed {
                PortEvent::Received { token, .. }
                | PortEvent::Transmit { token, .. }
                | PortEvent::Worked { token, .. }
                | PortEvent::Lost { token, .. } => token,
                PortEvent::CaughtUp { .. } => 0,
            });
            let expected = [
                PortEvent::Received { dom: dom(0), token: 1 },
                PortEvent::Transmit { nic: 0, dom: dom(0), token: 2 },
                PortEvent::Worked { dom: dom(0), token: 3 },
                PortEvent::Received { dom: dom(1), token: 4 },
                PortEvent::Transmit { nic: 0, dom: dom(1), token: 5 },
            ];
            assert_eq!(out, expected, "{backend:?}, {name}");
        }
    }
}

/// Costs of which each sum says what it is made of.
const PRIMES: PathCosts = PathCosts {
    upcall: Duration::from_ns(1_009),
    irq: Duration::from_ns(2_003),
    notify: Duration::from_ns(4_001),
    task_switch: Duration::from_ns(8_009),
    nic_packet: Duration::from_ns(16_001),
    back_packet: Duration::from_ns(32_003),
    back_kb: Duration::from_ns(641),
    grant_slot: Duration::from_ns(64_007),
    front_packet: Duration::from_ns(128_021),
    front_kb: Duration::from_ns(1_283),
    split_piece: Duration::from_ns(307),
    vhost_kick: Duration::from_ns(5_003),
    vhost_turn: Duration::from_ns(256_019),
    vhost_copy: Duration::from_ns(70_001),
    vhost_send: Duration::from_ns(512_009),
    vhost_receive: Duration::from_ns(1_024_021),
    vhost_kb: Duration::from_ns(2_557),
};

/// When each token came out.
fn times(lab: &Lab) -> BTreeMap<u32, Time> {
    let token = |handed| match handed {
        PortEvent::Received { token, .. }
        | PortEvent::Transmit { token, .. }
        | PortEvent::Worked { token, .. }
        | PortEvent::Lost { token, .. } => token,
        PortEvent::CaughtUp { .. } => 0,
    };
    lab.out.iter().map(|&(time, handed)| (token(handed), time)).collect()
}

/// Each piece of work on the way is paid for once, and the answer leaves in the softirq in which
/// the packet has come: without a wake-up, or an interrupt, of its own.
#[test]
fn the_way_costs_what_its_parts_cost() {
    let c = PRIMES;
    let config = only_port(Backend::Tasklet, 1, 1, c);
    let mut lab = Lab::new(&config);
    let start = Time::ZERO + ms(1);
    lab.run(start, |_, _, _| {});
    lab.machine.arrive(start, 0, dom(0), spec(2048, 1)).expect("taken");
    lab.run(start + ms(5), |machine, now, handed| {
        if handed == (PortEvent::Received { dom: dom(0), token: 1 }) {
            machine.send(now, dom(0), NIC, spec(1024, 2)).expect("taken");
        }
    });
    // Nobody asks: the stack's own timer.
    let again = start + ms(5);
    lab.machine.send(again, dom(0), NIC, spec(1024, 3)).expect("taken");
    lab.run(start + ms(10), |_, _, _| {});
    lab.machine.work(start + ms(10), first(0), us(50), 4).expect("taken");
    lab.run(start + ms(20), |machine, now, handed| {
        if handed == (PortEvent::Worked { dom: dom(0), token: 4 }) {
            machine.send(now, dom(0), NIC, spec(1024, 5)).expect("taken");
        }
    });

    let times = times(&lab);
    let event = c.upcall + c.irq;
    // A page, and what says that it is an aggregate.
    let received = event
        + c.nic_packet
        + (c.back_packet + c.back_kb * 2 + c.grant_slot * 2 + c.notify)
        + (event + c.front_packet + c.front_kb * 2);
    assert_eq!(times[&1], start + received);
    let sent = (c.front_packet + c.front_kb + c.notify)
        + (event + c.back_packet + c.back_kb + c.grant_slot);
    assert_eq!(times[&2], times[&1] + sent);
    assert_eq!(times[&3], again + c.upcall + sent);
    assert_eq!(times[&4], start + ms(10) + c.upcall + c.task_switch + us(50));
    assert_eq!(times[&5], times[&4] + sent);
}

/// Where the NIC does not cut up aggregates, the driver domain does, piece by piece.
#[test]
fn cutting_up_costs_the_driver_domain_time() {
    let leaves = |pieces, bytes| {
        let mut config = only_port(Backend::Threads, 1, 1, PRIMES);
        config.io.nics[0].piece_bytes = pieces;
        let mut lab = Lab::new(&config);
        lab.run(Time::ZERO, |_, _, _| {});
        lab.machine.send(Time::ZERO, dom(0), NIC, spec(bytes, 1)).expect("taken");
        lab.run(Time::ZERO + ms(10), |_, _, _| {});
        times(&lab)[&1]
    };
    assert_eq!(leaves(Some(1500), 60_000), leaves(None, 60_000) + PRIMES.split_piece * 40);
    assert_eq!(leaves(Some(1500), 1500), leaves(None, 1500));
}

/// How late the latest of 200 packets, each 10 ms, is received by a guest that shares its pCPU
/// with a loop.
fn latest(computes: bool) -> Duration {
    let mut config = only_port(Backend::Threads, 1, 1, SLOW);
    config.costs = COSTS;
    config.scheduler = SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Today));
    config.vms.push(lowtail_host::VmConfig::new("loop", lowtail_host::Workload::CpuLoop));
    let pcpu = |n| [lowtail_host::Pcpu(n)].into_iter().collect();
    for (i, vm) in config.vms.iter_mut().enumerate() {
        vm.hard = pcpu(u16::from(i > 0));
    }
    if let Workload::Net(net) = &mut config.vms[1].workload {
        net.computes = computes;
    }
    let mut lab = Lab::new(&config);
    let at = |i| Time::ZERO + us(10_123) * (u64::from(i) + 1);
    for i in 0..200 {
        lab.run(at(i), |_, _, _| {});
        lab.machine.arrive(at(i), 0, dom(0), spec(1500, i)).expect("taken");
    }
    lab.run(at(300), |_, _, _| {});
    let times = times(&lab);
    assert_eq!(times.len(), 200);
    times.iter().map(|(&i, time)| time.since(at(i))).max().expect("200 of them")
}

/// Who sleeps is boosted when a packet comes; who computes waits for the end of the other one's
/// slice of 30 ms.
#[test]
fn a_preempted_guest_receives_late() {
    let (idle, busy) = (latest(false), latest(true));
    assert!(idle < ms(1), "{idle:?}");
    assert!((ms(20)..ms(65)).contains(&busy), "{busy:?}");
}

/// What is too much is lost where there is no room, and said to be.
#[test]
fn losses_say_where() {
    let mut config = only_port(Backend::Threads, 2, 1, SLOW);
    config.io.nics[0].ring = 16;
    let mut lab = Lab::new(&config);
    lab.run(Time::ZERO, |_, _, _| {});
    for token in 0..100 {
        lab.machine.arrive(Time::ZERO, 0, dom(0), spec(1500, token)).expect("taken");
    }
    lab.run(Time::ZERO + ms(100), |_, _, _| {});
    let lost = |lab: &Lab, from: u32, wanted| {
        let lost = |handed: &PortEvent| matches!(*handed, PortEvent::Lost { token, at, .. } if token >= from && at == wanted);
        lab.out.iter().filter(|(_, handed)| lost(handed)).count()
    };
    assert_eq!((lab.out.len(), lost(&lab, 0, LostAt::Nic)), (100, 84));

    // 1000 may wait for room in the ring.
    let now = lab.now() + ms(100);
    lab.run(now, |_, _, _| {});
    for token in 100..1200 {
        lab.machine.send(now, dom(0), Destination::Dom(dom(1)), spec(1500, token)).expect("taken");
    }
    lab.run(now + ms(500), |_, _, _| {});
    assert_eq!(lab.out.len(), 1200);
    assert_eq!(lost(&lab, 100, LostAt::Guest), 100);
}

/// Half of the vCPU for the loop, half for the process.
#[test]
fn work_shares_its_vcpu_with_a_loop() {
    let mut config = only_port(Backend::Threads, 1, 0, PathCosts::default());
    if let Workload::Net(net) = &mut config.vms[1].workload {
        net.computes = true;
    }
    let mut lab = Lab::new(&config);
    let start = Time::ZERO + ms(10);
    lab.run(start, |_, _, _| {});
    for token in 0..4 {
        lab.machine.work(start, first(0), ms(25), token).expect("taken");
    }
    lab.run(start + ms(400), |_, _, _| {});
    let times = times(&lab);
    assert!(times.values().is_sorted(), "first come first served: {times:?}");
    let span = times[&3].since(start);
    assert!((ms(190)..ms(210)).contains(&span), "{span:?}");
}

/// What cannot be is refused, and nothing has changed then.
#[test]
fn what_cannot_be_is_refused() {
    for bytes in [0, 65_537] {
        assert_eq!(PacketSpec::new(bytes, 0, 1), Err(PortError::Length(bytes)));
    }
    let mut lab = Lab::new(&only_port(Backend::Threads, 2, 1, SLOW));
    let at = |n| Time::ZERO + ms(n);
    lab.run(at(1), |_, _, _| {});
    let host = &mut lab.machine;
    let (vm, packet) = (dom(0), spec(1500, 9));
    host.arrive(at(2), 0, vm, packet).expect("taken");
    let past = PortError::Past { at: at(1), now: at(2) };
    assert_eq!(host.arrive(at(1), 0, vm, packet), Err(past));
    let next = host.next_time().expect("an interrupt");
    let behind = PortError::BehindEvent { at: at(3), next };
    assert_eq!(host.arrive(at(3), 0, vm, packet), Err(behind));
    assert_eq!(host.arrive(at(2), 1, vm, packet), Err(PortError::NoNic(1)));
    for other in [Dom(0), Dom(7)] {
        let refused = PortError::NoInterface(other);
        assert_eq!(host.arrive(at(2), 0, other, packet), Err(refused));
        assert_eq!(host.send(at(2), other, NIC, packet), Err(refused));
        assert_eq!(host.send(at(2), vm, Destination::Dom(other), packet), Err(refused));
        assert_eq!(host.work(at(2), (other, 0), us(1), 1), Err(refused));
    }
    let itself = Destination::Dom(vm);
    assert_eq!(host.send(at(2), vm, itself, packet), Err(PortError::ToItself(vm)));
    let nobody = PortError::NoProcess { dom: vm, process: 1 };
    assert_eq!(host.write(at(2), (vm, 1), NIC, packet), Err(nobody));
    assert_eq!(host.work(at(2), (vm, 1), us(1), 1), Err(nobody));
    lab.run(at(50), |_, _, _| {});
    assert_eq!(lab.out.len(), 1, "{:?}", lab.out);
}

/// The host waits until what has come out is taken.
#[test]
fn what_comes_out_is_to_be_taken() {
    let mut lab = Lab::new(&only_port(Backend::Threads, 1, 1, SLOW));
    lab.machine.arrive(Time::ZERO, 0, dom(0), spec(1500, 1)).expect("taken");
    while lab.machine.step(Time::ZERO + ms(10)) {}
    let now = lab.now();
    assert!(!lab.machine.step(Time::NEVER) && lab.now() == now);
    lab.take();
    assert_eq!(lab.out, [(now, PortEvent::Received { dom: dom(0), token: 1 })]);
    assert!(lab.machine.step(Time::NEVER));
}

/// A process sends in its turn what it is given, 16 packets in a go with one notification; what
/// the stack sends costs the same, but for the switch to the process.
#[test]
fn a_process_sends_in_goes() {
    let c = PRIMES;
    let mut lab = Lab::new(&only_port(Backend::Tasklet, 1, 1, c));
    let start = Time::ZERO + ms(1);
    lab.run(start, |_, _, _| {});
    for token in 0..17 {
        lab.machine.write(start, first(0), NIC, spec(1024, token)).expect("taken");
    }
    lab.run(start + ms(100), |_, _, _| {});
    let front = c.front_packet + c.front_kb;
    let back = c.back_packet + c.back_kb + c.grant_slot;
    let first_go = c.upcall + c.task_switch + front * 16 + c.notify;
    // In batches: the first go leaves in one, which the notification of the second one
    // interrupts, and the last packet by itself.
    let event = c.upcall + c.irq;
    let times = times(&lab);
    for token in 0..16 {
        assert_eq!(times[&token], start + first_go + event * 2 + back * 16, "{token}");
    }
    let second_go = first_go + front + c.notify;
    let behind = (first_go + event * 2 + back * 16).max(second_go);
    assert!((behind..=behind + event + back).contains(&times[&16].since(start)), "{times:?}");
}

/// A full ring stops a process, and room in it starts it again: all leaves, in order.
#[test]
fn a_process_waits_for_room() {
    for backend in BACKENDS {
        let mut lab = Lab::new(&only_port(backend, 1, 1, SLOW));
        lab.run(Time::ZERO + ms(1), |_, _, _| {});
        for token in 0..2_000 {
            let at = Time::ZERO + ms(1);
            lab.machine.write(at, first(0), NIC, spec(1500, token)).expect("taken");
        }
        lab.run(Time::ZERO + ms(500), |_, _, _| {});
        let sent = (0..2_000).map(|token| PortEvent::Transmit { nic: 0, dom: dom(0), token });
        assert!(lab.out.iter().map(|&(_, event)| event).eq(sent), "{backend:?}");
    }
}

/// When the kernel has polled its queue empty, it says so, behind the last packet of it.
#[test]
fn a_queue_that_is_empty_is_told() {
    let mut config = only_port(Backend::Threads, 1, 1, SLOW);
    if let Workload::Net(net) = &mut config.vms[1].workload {
        net.queues = 2;
    }
    let mut host = Host::new(&config, 1).expect("valid");
    let start = Time::ZERO + ms(1);
    while host.step(start) {}
    for token in 0..5 {
        let spec = PacketSpec::new(1500, 1, token).expect("of a length");
        host.arrive(start, 0, dom(0), spec).expect("taken");
    }
    let mut out = Vec::new();
    while host.step(start + ms(20)) {
        out.append(host.handed());
    }
    let (mut tokens, mut waiting) = (0..5, false);
    for event in out {
        match event {
            PortEvent::Received { token, .. } => {
                assert_eq!(Some(token), tokens.next());
                waiting = true;
            }
            event => {
                assert_eq!(event, PortEvent::CaughtUp { dom: dom(0), queue: 1 });
                assert!(std::mem::take(&mut waiting), "nothing has come since");
            }
        }
    }
    assert_eq!((tokens.next(), waiting), (None, false));
}

/// What is known of a token that has gone in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    In { nic: u16, to: Dom, hash: u16 },
    Out { from: Dom, nic: u16, hash: u16 },
    Between { from: Dom, to: Dom, hash: u16 },
    Write { from: Dom, nic: u16, process: u16 },
    Work { at: Dom, process: u16 },
}

/// Processes of a guest.
const PROCESSES: u16 = 3;

/// Random traffic, and what has become of it.
struct Traffic {
    rng: Rng,
    guests: u64,
    nics: u64,
    next: u32,
    /// What has gone in and not come out.
    under_way: BTreeMap<u32, Sent>,
    /// The last token of those that must stay in order among themselves.
    last: BTreeMap<Sent, u32>,
    counts: [u64; 4],
}

impl Traffic {
    fn pick(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn guest(&mut self) -> Dom {
        let guests = self.guests;
        dom(self.pick(guests) as u16)
    }

    fn put(&mut self, sent: Sent) -> PacketSpec {
        let bytes = [40, 52, 576, 1500, 1500, 9000, 65_000][self.pick(7) as usize];
        let token = self.next;
        self.next += 1;
        self.under_way.insert(token, sent);
        let hash = match sent {
            Sent::In { hash, .. } | Sent::Out { hash, .. } | Sent::Between { hash, .. } => hash,
            Sent::Write { process, .. } | Sent::Work { process, .. } => process,
        };
        PacketSpec::new(bytes, hash, token).expect("of a length")
    }

    /// Something of `from`, or for it, goes in.
    fn act(&mut self, machine: &mut Host, now: Time, from: Dom, outside: bool) {
        let (hash, nics) = (self.pick(5) as u16, self.nics);
        let nic = self.pick(nics) as u16;
        let process = self.pick(u64::from(PROCESSES)) as u16;
        match self.pick(if outside { 10 } else { 5 }) {
            0 => {
                // To anybody else.
                let (guests, other) = (self.guests, self.pick(self.guests - 1));
                let to = dom(((u64::from(from.0) + other) % guests) as u16);
                let spec = self.put(Sent::Between { from, to, hash });
                machine.send(now, from, Destination::Dom(to), spec).expect("taken");
            }
            1 => {
                let token = self.put(Sent::Work { at: from, process }).token();
                let span = us(self.pick(200));
                machine.work(now, (from, process), span, token).expect("taken");
            }
            2 => {
                let spec = self.put(Sent::Write { from, nic, process });
                let to = Destination::Nic(nic);
                machine.write(now, (from, process), to, spec).expect("taken");
            }
            3 | 4 => {
                let spec = self.put(Sent::Out { from, nic, hash });
                machine.send(now, from, Destination::Nic(nic), spec).expect("taken");
            }
            _ => {
                let spec = self.put(Sent::In { nic, to: from, hash });
                machine.arrive(now, nic, from, spec).expect("taken");
            }
        }
    }

    /// `handed` came out: as what went in, in its order, and once.
    fn came(&mut self, handed: PortEvent) -> Token {
        let (token, at, how) = match handed {
            PortEvent::Received { dom, token } => (token, dom, 0),
            PortEvent::Transmit { dom, token, .. } => (token, dom, 1),
            PortEvent::Worked { dom, token } => (token, dom, 2),
            PortEvent::Lost { dom, token, .. } => (token, dom, 3),
            PortEvent::CaughtUp { .. } => return Ok(None),
        };
        let Some(sent) = self.under_way.remove(&token) else {
            return Err(format!("{handed:?} came out and was not under way"));
        };
        let fits = match (sent, handed) {
            (Sent::In { to, .. } | Sent::Between { to, .. }, PortEvent::Received { .. }) => {
                to == at
            }
            (
                Sent::Out { from, nic, .. } | Sent::Write { from, nic, .. },
                PortEvent::Transmit { nic: through, .. },
            ) => (from, nic) == (at, through),
            (Sent::Work { at: worker, .. }, PortEvent::Worked { .. }) => worker == at,
            (Sent::In { to: end, .. }, PortEvent::Lost { .. })
            | (
                Sent::Out { from: end, .. }
                | Sent::Between { from: end, .. }
                | Sent::Write { from: end, .. },
                PortEvent::Lost { .. },
            ) => end == at,
            _ => false,
        };
        if !fits {
            return Err(format!("{sent:?} came out as {handed:?}"));
        }
        self.counts[how] += 1;
        // What is lost may be lost sooner than others arrive; and what of a process's go finds no
        // room waits elsewhere, and may be overtaken.
        let ordered = how < 3 && !matches!(sent, Sent::Write { .. });
        if ordered && self.last.insert(sent, token).is_some_and(|last| last > token) {
            return Err(format!("{sent:?}: {token} came out behind a later one"));
        }
        Ok((how == 0 || how == 2).then_some(at))
    }
}

/// The guest that may answer.
type Token = Result<Option<Dom>, String>;

/// A random host.
fn random_config(seed: u64) -> Config {
    let mut rng = Rng::new(seed, "random port");
    let mut config = random_host(&mut rng);
    for nic in &mut config.io.nics {
        nic.piece_bytes = (rng.below(2) == 0).then_some(1500);
        nic.ring = 16 << rng.below(5);
    }
    if rng.below(2) == 0 {
        for vm in &mut config.vms[1..] {
            vm.vcpus = 1 + rng.below(2) as u16;
        }
        if config.scheduler == SchedulerConfig::Null {
            config.pcpus = config.vms.iter().map(|vm| vm.vcpus).sum();
        }
    }
    for vm in &mut config.vms[1..] {
        if let Workload::Net(net) = &mut vm.workload {
            net.processes = PROCESSES;
        }
    }
    // One in three is a KVM host.
    if rng.below(3) == 0 {
        with_vhost(&mut config, 1 + rng.below(2) as u16, 1 << rng.below(10));
    }
    config
}

fn conserves(seed: u64) -> Result<(), String> {
    let config = random_config(seed);
    let mut machine = Host::new(&config, seed).map_err(|e| e.to_string())?;
    let mut traffic = Traffic {
        rng: Rng::new(seed, "traffic"),
        guests: config.vms.len() as u64 - 1,
        nics: config.io.nics.len() as u64,
        next: 0,
        under_way: BTreeMap::new(),
        last: BTreeMap::new(),
        counts: [0; 4],
    };
    let gap = us(20 << traffic.pick(8));
    let burst = 1 << traffic.pick(7);
    let (stop, end) = (Time::ZERO + ms(300), Time::ZERO + ms(60_000));
    let mut arrival = Time::ZERO;
    let mut out = Vec::new();
    loop {
        let next = machine.next_time().unwrap_or(Time::NEVER);
        if arrival < stop && arrival <= next {
            for _ in 0..1 + traffic.pick(burst) {
                let from = traffic.guest();
                traffic.act(&mut machine, arrival, from, true);
            }
            arrival += Duration::from_ps(1 + traffic.pick(2 * gap.as_ps()));
        } else if next > end || (arrival >= stop && traffic.under_way.is_empty()) {
            break;
        } else {
            machine.step(Time::NEVER);
        }
        loop {
            out.append(machine.handed());
            if out.is_empty() {
                break;
            }
            for handed in out.drain(..) {
                let Some(at) = traffic.came(handed)? else { continue };
                let now = machine.now();
                for _ in 0..if now < stop { traffic.pick(3) } else { 0 } {
                    traffic.act(&mut machine, now, at, false);
                }
            }
        }
        machine.check()?;
    }
    if !traffic.under_way.is_empty() {
        return Err(format!("stuck: {:?}, came out {:?}", traffic.under_way, traffic.counts));
    }
    Ok(())
}

/// Whatever goes in comes out, once, in order, as what it is; over all back ends, schedulers,
/// sizes, and loads.
#[test]
fn every_token_comes_out_exactly_once() {
    let only = std::env::var("LOWTAIL_SEED").ok().and_then(|s| s.parse().ok());
    for seed in only.map_or(0..150, |seed| seed..seed + 1) {
        if let Err(error) = conserves(seed) {
            panic!(
                "seed {seed}: {error}\nrepeat: LOWTAIL_SEED={seed} cargo test -p lowtail-host \
                 --test io every_token_comes_out_exactly_once"
            );
        }
    }
}
