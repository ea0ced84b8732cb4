//! The port: what goes in comes out once, after what it costs, whoever schedules.

use std::collections::BTreeMap;

use lowtail_engine::{Duration, Rng, Time};
use lowtail_host::guest::driver::Backend;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::flow::{Pace, Way};
use lowtail_host::io::nic::{External, NicConfig};
use lowtail_host::io::port::{Handed, LostAt, Parcel, To};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::{Config, Dom, Host, SchedulerConfig};

use crate::conserve::{SLOW, schedulers};
use crate::host::{BACKENDS, dom, driver, flow, guest, host, ms, nic, us};
use crate::random;

/// A NIC whose wire belongs to the test.
fn external() -> NicConfig {
    NicConfig { external: Some(External::default()), ..nic(1) }
}

fn parcel(bytes: u32, token: u32) -> Parcel {
    Parcel { bytes, hash: 0, token }
}

/// Guests without flows behind a driver domain with `backend`, on external NICs.
fn only_port(backend: Backend, guests: usize, nics: usize, costs: PathCosts) -> Config {
    host(&driver(backend), 1, &vec![guest(); guests], vec![external(); nics], Vec::new(), costs)
}

/// A machine, what has come out of it, and when.
struct Lab {
    machine: Host,
    out: Vec<(Time, Handed)>,
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
        self.out.extend(self.machine.handed().map(|handed| (now, handed)));
    }

    /// Runs until `end`, and calls `answer` with all that comes out.
    fn run(&mut self, end: Time, mut answer: impl FnMut(&mut Host, Time, Handed)) {
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
            config.costs = random::COSTS;
            let mut lab = Lab::new(&config);
            let start = Time::ZERO + us(500);
            // Boots first.
            lab.run(start, |_, _, _| {});
            lab.machine.arrive(start, 0, dom(0), parcel(1500, 1));
            lab.run(start + ms(50), |machine, now, handed| match handed {
                Handed::Received { dom: at, token: 1 } => {
                    assert_eq!(at, dom(0));
                    machine.send(now, at, To::Nic(0), parcel(52, 2));
                    machine.work(now, at, us(100), 3);
                }
                Handed::Worked { dom: at, token: 3 } => {
                    machine.send(now, at, To::Dom(dom(1)), parcel(60_000, 4));
                }
                Handed::Received { dom: at, token: 4 } => {
                    assert_eq!(at, dom(1));
                    machine.send(now, at, To::Nic(0), parcel(52, 5));
                }
                _ => {}
            });
            let mut out: Vec<Handed> = lab.out.iter().map(|&(_, handed)| handed).collect();
            // The acknowledgement and the work race.
            out.sort_by_key(|handed| match *handed {
                Handed::Received { token, .. }
                | Handed::Transmit { token, .. }
                | Handed::Worked { token, .. }
                | Handed::Lost { token, .. } => token,
            });
            let expected = [
                Handed::Received { dom: dom(0), token: 1 },
                Handed::Transmit { nic: 0, dom: dom(0), token: 2 },
                Handed::Worked { dom: dom(0), token: 3 },
                Handed::Received { dom: dom(1), token: 4 },
                Handed::Transmit { nic: 0, dom: dom(1), token: 5 },
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
};

/// When each token came out.
fn times(lab: &Lab) -> BTreeMap<u32, Time> {
    let token = |handed| match handed {
        Handed::Received { token, .. }
        | Handed::Transmit { token, .. }
        | Handed::Worked { token, .. }
        | Handed::Lost { token, .. } => token,
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
    lab.machine.arrive(start, 0, dom(0), parcel(2048, 1));
    lab.run(start + ms(5), |machine, now, handed| {
        if handed == (Handed::Received { dom: dom(0), token: 1 }) {
            machine.send(now, dom(0), To::Nic(0), parcel(1024, 2));
        }
    });
    // Nobody asks: the stack's own timer.
    let again = start + ms(5);
    lab.machine.send(again, dom(0), To::Nic(0), parcel(1024, 3));
    lab.run(start + ms(10), |_, _, _| {});
    lab.machine.work(start + ms(10), dom(0), us(50), 4);
    lab.run(start + ms(20), |machine, now, handed| {
        if handed == (Handed::Worked { dom: dom(0), token: 4 }) {
            machine.send(now, dom(0), To::Nic(0), parcel(1024, 5));
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
        config.io.nics[0].external = Some(External { pieces });
        let mut lab = Lab::new(&config);
        lab.run(Time::ZERO, |_, _, _| {});
        lab.machine.send(Time::ZERO, dom(0), To::Nic(0), parcel(bytes, 1));
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
    config.costs = random::COSTS;
    config.scheduler = SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Today));
    config.vms.push(lowtail_host::VmConfig::new("loop", lowtail_host::Workload::CpuLoop));
    let pcpu = |n| [lowtail_host::Pcpu(n)].into_iter().collect();
    for (i, vm) in config.vms.iter_mut().enumerate() {
        vm.hard = pcpu(u16::from(i > 0));
    }
    if let lowtail_host::Workload::Net(net) = &mut config.vms[1].workload {
        net.computes = computes;
    }
    let mut lab = Lab::new(&config);
    let at = |i| Time::ZERO + us(10_123) * (u64::from(i) + 1);
    for i in 0..200 {
        lab.run(at(i), |_, _, _| {});
        lab.machine.arrive(at(i), 0, dom(0), parcel(1500, i));
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
        lab.machine.arrive(Time::ZERO, 0, dom(0), parcel(1500, token));
    }
    lab.run(Time::ZERO + ms(100), |_, _, _| {});
    let lost = |lab: &Lab, from: u32, wanted| {
        let lost = |handed: &Handed| matches!(*handed, Handed::Lost { token, at, .. } if token >= from && at == wanted);
        lab.out.iter().filter(|(_, handed)| lost(handed)).count()
    };
    assert_eq!((lab.out.len(), lost(&lab, 0, LostAt::Nic)), (100, 84));

    // 1000 may wait for room in the ring.
    let now = lab.now() + ms(100);
    lab.run(now, |_, _, _| {});
    for token in 100..1200 {
        lab.machine.send(now, dom(0), To::Dom(dom(1)), parcel(1500, token));
    }
    lab.run(now + ms(500), |_, _, _| {});
    assert_eq!(lab.out.len(), 1200);
    assert_eq!(lost(&lab, 100, LostAt::Guest), 100);
}

/// Half of the vCPU for the loop, half for the process.
#[test]
fn work_shares_its_vcpu_with_a_loop() {
    let mut config = only_port(Backend::Threads, 1, 0, PathCosts::default());
    if let lowtail_host::Workload::Net(net) = &mut config.vms[1].workload {
        net.computes = true;
    }
    let mut lab = Lab::new(&config);
    let start = Time::ZERO + ms(10);
    lab.run(start, |_, _, _| {});
    for token in 0..4 {
        lab.machine.work(start, dom(0), ms(25), token);
    }
    lab.run(start + ms(400), |_, _, _| {});
    let times = times(&lab);
    assert!(times.values().is_sorted(), "first come first served: {times:?}");
    let span = times[&3].since(start);
    assert!((ms(190)..ms(210)).contains(&span), "{span:?}");
}

#[test]
#[should_panic(expected = "handed in at")]
fn nothing_comes_in_from_the_past() {
    let mut lab = Lab::new(&only_port(Backend::Threads, 1, 1, SLOW));
    lab.run(Time::ZERO + ms(1), |_, _, _| {});
    lab.machine.arrive(Time::ZERO + ms(2), 0, dom(0), parcel(1500, 1));
    lab.machine.arrive(Time::ZERO + ms(1), 0, dom(0), parcel(1500, 2));
}

#[test]
#[should_panic(expected = "behind an event")]
fn nothing_comes_in_ahead_of_an_event() {
    let mut lab = Lab::new(&only_port(Backend::Threads, 1, 1, SLOW));
    lab.machine.arrive(Time::ZERO, 0, dom(0), parcel(1500, 1));
    lab.machine.arrive(Time::ZERO + ms(2), 0, dom(0), parcel(1500, 2));
}

#[test]
#[should_panic(expected = "has not been taken")]
fn what_comes_out_is_to_be_taken() {
    let mut lab = Lab::new(&only_port(Backend::Threads, 1, 1, SLOW));
    lab.machine.arrive(Time::ZERO, 0, dom(0), parcel(1500, 1));
    while lab.machine.step(Time::ZERO + ms(10)) {}
}

#[test]
#[should_panic(expected = "a wire of its own")]
fn a_wire_has_one_owner() {
    let config = host(&driver(Backend::Threads), 1, &[guest()], vec![nic(100)], vec![], SLOW);
    Lab::new(&config).machine.arrive(Time::ZERO, 0, dom(0), parcel(1500, 1));
}

#[test]
fn flows_keep_off_wires_of_others() {
    let mut config = only_port(Backend::Threads, 1, 1, SLOW);
    config.io.flows = vec![flow(0, Way::In { nic: 0 }, Pace::Window(4))];
    assert!(Host::new(&config, 1).is_err());
}

/// What is known of a token that has gone in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    In { nic: u16, to: Dom, hash: u16 },
    Out { from: Dom, nic: u16, hash: u16 },
    Between { from: Dom, to: Dom, hash: u16 },
    Work { at: Dom },
}

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

    fn put(&mut self, sent: Sent) -> Parcel {
        let bytes = [40, 52, 576, 1500, 1500, 9000, 65_000][self.pick(7) as usize];
        let token = self.next;
        self.next += 1;
        self.under_way.insert(token, sent);
        let hash = match sent {
            Sent::In { hash, .. } | Sent::Out { hash, .. } | Sent::Between { hash, .. } => hash,
            Sent::Work { .. } => 0,
        };
        Parcel { bytes, hash, token }
    }

    /// Something of `from`, or for it, goes in.
    fn act(&mut self, machine: &mut Host, now: Time, from: Dom, outside: bool) {
        let (hash, nics) = (self.pick(5) as u16, self.nics);
        let nic = self.pick(nics) as u16;
        match self.pick(if outside { 8 } else { 4 }) {
            0 => {
                // To anybody else.
                let (guests, other) = (self.guests, self.pick(self.guests - 1));
                let to = dom(((u64::from(from.0) + other) % guests) as u16);
                let parcel = self.put(Sent::Between { from, to, hash });
                machine.send(now, from, To::Dom(to), parcel);
            }
            1 => {
                let token = self.put(Sent::Work { at: from }).token;
                let span = us(self.pick(200));
                machine.work(now, from, span, token);
            }
            2 | 3 => {
                let parcel = self.put(Sent::Out { from, nic, hash });
                machine.send(now, from, To::Nic(nic), parcel);
            }
            _ => {
                let parcel = self.put(Sent::In { nic, to: from, hash });
                machine.arrive(now, nic, from, parcel);
            }
        }
    }

    /// `handed` came out: as what went in, in its order, and once.
    fn came(&mut self, handed: Handed) -> Token {
        let (token, at, how) = match handed {
            Handed::Received { dom, token } => (token, dom, 0),
            Handed::Transmit { dom, token, .. } => (token, dom, 1),
            Handed::Worked { dom, token } => (token, dom, 2),
            Handed::Lost { dom, token, .. } => (token, dom, 3),
        };
        let Some(sent) = self.under_way.remove(&token) else {
            return Err(format!("{handed:?} came out and was not under way"));
        };
        let fits = match (sent, handed) {
            (Sent::In { to, .. } | Sent::Between { to, .. }, Handed::Received { .. }) => to == at,
            (Sent::Out { from, nic, .. }, Handed::Transmit { nic: through, .. }) => {
                (from, nic) == (at, through)
            }
            (Sent::Work { at: worker }, Handed::Worked { .. }) => worker == at,
            (Sent::In { to: end, .. }, Handed::Lost { .. })
            | (
                Sent::Out { from: end, .. } | Sent::Between { from: end, .. },
                Handed::Lost { .. },
            ) => end == at,
            _ => false,
        };
        if !fits {
            return Err(format!("{sent:?} came out as {handed:?}"));
        }
        self.counts[how] += 1;
        // What is lost may be lost sooner than others arrive.
        if how < 3 && self.last.insert(sent, token).is_some_and(|last| last > token) {
            return Err(format!("{sent:?}: {token} came out behind a later one"));
        }
        Ok((how == 0 || how == 2).then_some(at))
    }
}

/// The guest that may answer.
type Token = Result<Option<Dom>, String>;

/// A random host with external NICs, beside some that have flows.
fn random_config(seed: u64) -> (Config, u64) {
    let mut config = crate::conserve::random_host(seed);
    let mut rng = Rng::new(seed, "random port");
    let own = config.io.nics.len();
    if rng.below(2) == 0 {
        config.io.flows.clear();
    }
    let nics = 1 + rng.below(3);
    let mut all: Vec<NicConfig> = Vec::new();
    for _ in 0..nics {
        let pieces = (rng.below(2) == 0).then_some(1500);
        let ring = 16 << rng.below(5);
        let moderation = us(rng.below(3) * 60);
        all.push(NicConfig { ring, moderation, external: Some(External { pieces }), ..nic(1) });
    }
    // External ones first: flows move up.
    all.extend(config.io.nics.drain(..own));
    config.io.nics = all;
    for flow in &mut config.io.flows {
        if let Way::In { nic } | Way::Out { nic } = &mut flow.way {
            *nic += nics as u16;
        }
        flow.until = ms(300);
    }
    if rng.below(2) == 0 {
        for vm in &mut config.vms[1..] {
            vm.vcpus = 1 + rng.below(2) as u16;
        }
        if config.scheduler == SchedulerConfig::Null {
            config.pcpus = config.vms.iter().map(|vm| vm.vcpus).sum();
        }
    }
    (config, nics)
}

fn conserves(seed: u64) -> Result<(), String> {
    let (config, nics) = random_config(seed);
    let mut machine = Host::new(&config, seed).map_err(|e| e.to_string())?;
    let mut traffic = Traffic {
        rng: Rng::new(seed, "traffic"),
        guests: config.vms.len() as u64 - 1,
        nics,
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
            out.extend(machine.handed());
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
    random::for_seeds("io", "every_token_comes_out_exactly_once", 150, conserves);
}
