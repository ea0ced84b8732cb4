//! No packet is lost without being counted, none is made up, and no window is overrun or
//! left hanging: over all back ends, ways, paces, and schedulers.

use lowtail_engine::{Duration, Rng, Time};
use lowtail_host::guest::Distribution;
use lowtail_host::guest::driver::{Backend, Interrupts};
use lowtail_host::guest::kernel::Rules;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::flow::{Flow, Pace, Way};
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::ports::Order;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, Host, SchedulerConfig};

use crate::host::{BACKENDS, dom, driver, flow, guest, host, ms, nic, us};
use crate::random;

/// A machine of twenty years ago: so that 100 Mbit/s are a load, and few packets make one.
pub(crate) const SLOW: PathCosts = PathCosts {
    upcall: Duration::from_us(2),
    irq: Duration::from_us(3),
    notify: Duration::from_us(3),
    task_switch: Duration::from_us(5),
    nic_packet: Duration::from_us(15),
    back_packet: Duration::from_us(20),
    grant_slot: Duration::from_us(10),
    back_kb: Duration::from_us(2),
    front_packet: Duration::from_us(15),
    front_kb: Duration::from_us(2),
    split_piece: Duration::ZERO,
};

pub(crate) fn schedulers() -> [(&'static str, SchedulerConfig); 4] {
    [
        ("null", SchedulerConfig::Null),
        ("credit 4.8", SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Xen48))),
        ("credit2", SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421))),
        ("small-first", SchedulerConfig::SmallFirst(SmallFirstConfig::default())),
    ]
}

/// Packets that can be under way at once: two rings, a backlog in the back end, a NIC's ring
/// of 256, what is worked on at either end (a poll of 64 and a go of 16), a socket's buffer of
/// 150, what a wire of 100 Mbit/s takes in the 12 ms that may wait for it (103 of these packets, more of short ones),
/// and some on the wire.
fn room(config: &Config) -> u64 {
    let shortest = config.io.flows.iter().map(|f| f.payload_bytes).min().unwrap_or(1400);
    let fastest = config.io.nics.iter().map(|nic| nic.bits_per_s).max().unwrap_or(0);
    let wire_bits = u64::from(shortest + 66) * 8;
    let wire = fastest * 13 / 1000 / wire_bits + 2;
    2 * 256 + 256 + 256 + 64 + 16 + 150 + wire
}

/// Packets of data that have been sent and have neither arrived nor been lost.
fn outstanding(flow: &Flow) -> Result<u64, String> {
    let (sent, arrived) = (flow.packets_sent(), flow.packets_arrived());
    let known = arrived + flow.packets_lost();
    sent.checked_sub(known)
        .ok_or_else(|| format!("{sent} sent, {arrived} arrived, {known} with losses"))
}

/// What must hold between any two events.
fn check(machine: &Host, room: u64) -> Result<(), String> {
    for (i, flow) in machine.io().flows.iter().enumerate() {
        let somewhere = match flow.config.pace {
            Pace::Requests(_) => continue,
            _ => outstanding(flow).map_err(|e| format!("flow {i}: {e}"))?,
        };
        let in_flight = u64::from(flow.in_flight);
        match flow.config.pace {
            Pace::Window(window) if in_flight > u64::from(window) => {
                return Err(format!("flow {i}: {in_flight} in flight, window {window}"));
            }
            // What is under way is in flight: an acknowledgement counts once.
            Pace::Window(_) if somewhere > in_flight => {
                return Err(format!("flow {i}: {somewhere} under way, {in_flight} in flight"));
            }
            Pace::Open(_) if somewhere > room => {
                return Err(format!("flow {i}: {somewhere} under way, room for {room}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs 3 s in pieces; streams with a window go on in each of them. If there are none, 1 s.
fn survives(config: &Config, seed: u64, each_event: bool) -> Result<(), String> {
    let mut machine = Host::new(config, seed).map_err(|e| e.to_string())?;
    let room = room(config);
    let mut before = vec![0; config.io.flows.len()];
    let windows = config.io.flows.iter().any(|flow| matches!(flow.pace, Pace::Window(_)));
    for piece in 1..=if windows { 6 } else { 2 } {
        let end = Time::ZERO + ms(500 * piece);
        let mut events = 0;
        while machine.step(end) {
            events += 1;
            if each_event || events % 64 == 0 {
                check(&machine, room)?;
            }
            if each_event {
                machine.check()?;
            }
        }
        for (i, flow) in machine.io().flows.iter().enumerate() {
            let arrived = flow.packets_arrived();
            let window = matches!(flow.config.pace, Pace::Window(_));
            if window && arrived == before[i] {
                return Err(format!(
                    "flow {i} stalls in piece {piece}: {} sent, {arrived} arrived, {} lost, {} in flight",
                    flow.packets_sent(),
                    flow.packets_lost(),
                    flow.in_flight
                ));
            }
            before[i] = arrived;
        }
    }
    Ok(())
}

fn ways() -> [fn(u16) -> Way; 3] {
    [|nic| Way::In { nic }, |nic| Way::Out { nic }, |i| Way::Between { to: dom((i + 1) % 3) }]
}

#[test]
fn no_packet_vanishes_and_no_window_hangs() {
    for backend in BACKENDS {
        for pace in [Pace::Open(None), Pace::Window(16)] {
            for way in ways() {
                for dom0_vcpus in [1, 3] {
                    for (name, scheduler) in schedulers() {
                        let flows = (0..3).map(|i| flow(i, way(i), pace)).collect();
                        let nics = vec![nic(100); 3];
                        let driver = driver(backend);
                        let mut config =
                            host(&driver, dom0_vcpus, &[guest(); 3], nics, flows, SLOW);
                        config.costs = random::COSTS;
                        if scheduler != SchedulerConfig::Null {
                            config.pcpus = 2;
                        }
                        config.scheduler = scheduler;
                        survives(&config, 1, false).unwrap_or_else(|e| {
                            let way = way(0);
                            panic!("{backend:?}, {pace:?}, {way:?}, {dom0_vcpus}, {name}: {e}")
                        });
                    }
                }
            }
        }
    }
}

/// A host with random back end, guests, NICs, and flows.
pub(crate) fn random_host(seed: u64) -> Config {
    let mut rng = Rng::new(seed, "random io");
    let mut pick = |n: u64| rng.below(n);
    let mut driver = driver(BACKENDS[pick(6) as usize]);
    driver.interrupts =
        [Interrupts::Fixed, Interrupts::Spread, Interrupts::Balanced][pick(3) as usize];
    driver.lock = [GrantLock::None, GrantLock::Global, GrantLock::PerDomain][pick(3) as usize];
    driver.suppress = pick(3) > 0;
    driver.queue_packets = 1 << pick(8);
    driver.rules = Rules { soft_each: pick(2) == 0, polite: pick(2) == 0 };
    let guests = 2 + pick(3) as u16;
    let mut nets = Vec::new();
    for _ in 0..guests {
        let mut net = guest();
        net.queues = 1 + pick(3) as u16;
        net.computes = pick(4) == 0;
        net.rules = Rules { soft_each: pick(2) == 0, polite: pick(2) == 0 };
        nets.push(net);
    }
    let nics: Vec<_> = (0..1 + pick(3))
        .map(|_| {
            let moderation = us(pick(3) * 60);
            lowtail_host::io::nic::NicConfig { moderation, ring: 32 << pick(4), ..nic(100) }
        })
        .collect();
    let flows = (0..1 + pick(6)).map(|_| {
        let from = pick(u64::from(guests)) as u16;
        let at = pick(nics.len() as u64) as u16;
        let way = match pick(3) {
            0 => Way::In { nic: at },
            1 => Way::Out { nic: at },
            _ => Way::Between { to: dom((from + 1) % guests) },
        };
        let pace = match pick(3) {
            0 if matches!(way, Way::In { .. }) => {
                Pace::Requests(Distribution::Exponential(us(100 << pick(6))))
            }
            0 => Pace::Open(Some(Distribution::Exponential(us(100 << pick(6))))),
            1 => Pace::Open(None),
            _ => Pace::Window(1 + pick(100) as u16),
        };
        let mut flow = flow(from, way, pace);
        flow.payload_bytes = [56, 1400, 1472, 9000, 65_000][pick(5) as usize];
        flow.reply_bytes = [56, 1400, 9000][pick(3) as usize];
        flow.service = us(pick(2) * 50);
        flow
    });
    let flows = flows.collect();
    let dom0_vcpus = 1 + pick(4) as u16;
    let mut config = host(&driver, dom0_vcpus, &nets, nics, flows, SLOW);
    // Without costs of the host, much comes to pass at the same instant.
    config.costs = if pick(2) == 0 { random::COSTS } else { Costs::FREE };
    config.io.order = [Order::Bits, Order::RoundRobin, Order::Fifo][pick(3) as usize];
    config.scheduler = schedulers()[pick(4) as usize].1.clone();
    if config.scheduler != SchedulerConfig::Null {
        config.pcpus = 1 + pick(4) as u16;
    }
    config
}

/// Random hosts: no packet vanishes and no window is overrun, and the books of the scheduler
/// are right after each event. Streams may starve here: loops, floods, and events in the
/// order of bits are among the guests.
#[test]
fn books_of_random_hosts() {
    random::for_seeds("io", "books_of_random_hosts", 60, |seed| {
        let config = random_host(seed);
        let room = room(&config);
        let mut machine = Host::new(&config, seed).map_err(|e| e.to_string())?;
        for _ in 0..20_000 {
            if !machine.step(Time::ZERO + ms(1000)) {
                break;
            }
            let books = machine.check().and_then(|()| check(&machine, room));
            books.map_err(|e| format!("{e}\n{config:#?}"))?;
        }
        Ok(())
    });
}

/// A single stream among nothing goes on, whatever the host is like.
#[test]
fn a_lone_window_goes_on() {
    random::for_seeds("io", "a_lone_window_goes_on", 60, |seed| {
        let mut config = random_host(seed);
        let first = config.io.flows[0].way;
        config.io.flows.truncate(1);
        let window = 1 + seed as u16 % 70;
        config.io.flows[0].pace = Pace::Window(window);
        config.io.flows[0].way = first;
        survives(&config, seed, seed % 4 == 0).map_err(|e| format!("{e}\n{config:#?}"))
    });
}

/// Every back end is among those above: a new one is to be added there.
#[test]
fn all_back_ends() {
    for backend in BACKENDS {
        match backend {
            Backend::Tasklet | Backend::Tasklets(_) | Backend::Threads => {}
            Backend::Napi | Backend::SmallFirst => {}
        }
    }
}
