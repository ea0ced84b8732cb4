//! No packet is lost without being counted, none is made up, and no window is overrun or
//! left hanging: over all back ends, ways, paces, and schedulers.

use lowtail_engine::{Distribution, Rng, Time};
use lowtail_host::SchedulerConfig;
use lowtail_host::guest::driver::Backend;
use lowtail_lab::network::links::Way;
use lowtail_lab::network::world::World;
use lowtail_net::DatagramFlow;
use lowtail_net::datagram::Pace;
use lowtail_testkit::netback::{COSTS, SLOW, random_host, schedulers};

use crate::bed::{
    BACKENDS, Bed, Wire, dom, driver, flow, for_seeds, guest, host, links, ms, nic, us,
};

/// Packets that can be under way at once: two rings, a backlog in the back end, a NIC's ring
/// of 256, what is worked on at either end (a poll of 64 and a go of 16), a socket's buffer of
/// 150, what a wire of 100 Mbit/s takes in the 12 ms that may wait for it (103 of these packets, more of short ones),
/// and some on the wire.
fn room(bed: &Bed) -> u64 {
    let shortest = bed.links.flows.iter().map(|f| f.payload_bytes).min().unwrap_or(1400);
    let fastest = bed.links.links.iter().map(|link| link.rate.bits_per_s()).max().unwrap_or(0);
    let wire_bits = u64::from(shortest + 66) * 8;
    let wire = fastest * 13 / 1000 / wire_bits + 2;
    2 * 256 + 256 + 256 + 64 + 16 + 150 + wire
}

/// Packets of data that have been sent and have neither arrived nor been lost.
fn outstanding(flow: &DatagramFlow) -> Result<u64, String> {
    let (sent, arrived) = (flow.packets_sent(), flow.packets_arrived());
    let known = arrived + flow.packets_lost();
    sent.checked_sub(known)
        .ok_or_else(|| format!("{sent} sent, {arrived} arrived, {known} with losses"))
}

/// What must hold between any two events.
fn check(world: &World, room: u64) -> Result<(), String> {
    for (i, flow) in world.net().datagrams().iter().enumerate() {
        let somewhere = match flow.config.pace {
            Pace::Requests(_) => continue,
            _ => outstanding(flow).map_err(|e| format!("flow {i}: {e}"))?,
        };
        let in_flight = u64::from(flow.packets_in_flight());
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
fn survives(bed: &Bed, seed: u64, each_event: bool) -> Result<(), String> {
    let mut world = bed.world(seed);
    let room = room(bed);
    let mut before = vec![0; bed.links.flows.len()];
    let windows = bed.links.flows.iter().any(|flow| matches!(flow.pace, Pace::Window(_)));
    for piece in 1..=if windows { 6 } else { 2 } {
        let end = Time::ZERO + ms(500 * piece);
        let mut events = 0;
        while world.step(end) {
            events += 1;
            if each_event || events % 64 == 0 {
                check(&world, room)?;
            }
            if each_event {
                world.hosts()[0].check()?;
            }
        }
        for (i, flow) in world.net().datagrams().iter().enumerate() {
            let arrived = flow.packets_arrived();
            let window = matches!(flow.config.pace, Pace::Window(_));
            if window && arrived == before[i] {
                return Err(format!(
                    "flow {i} stalls in piece {piece}: {} sent, {arrived} arrived, {} lost, {} in flight",
                    flow.packets_sent(),
                    flow.packets_lost(),
                    flow.packets_in_flight()
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
                        let mut bed = host(&driver, dom0_vcpus, &[guest(); 3], nics, flows, SLOW);
                        bed.config.costs = COSTS;
                        if scheduler != SchedulerConfig::Null {
                            bed.config.pcpus = 2;
                        }
                        bed.config.scheduler = scheduler;
                        survives(&bed, 1, false).unwrap_or_else(|e| {
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
fn random_bed(seed: u64) -> Bed {
    let mut stream = Rng::new(seed, "random io");
    let config = random_host(&mut stream);
    let wires: Vec<Wire> =
        config.io.nics.iter().map(|&own| Wire { nic: own, ..nic(100) }).collect();
    let guests = config.vms.len() as u16 - 1;
    let mut pick = |n: u64| stream.below(n);
    let flows = (0..1 + pick(6)).map(|_| {
        let from = pick(u64::from(guests)) as u16;
        let at = pick(wires.len() as u64) as u16;
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
    Bed { config, links: links(&wires, flows) }
}

/// Random hosts: no packet vanishes and no window is overrun, and the books of the scheduler
/// are right after each event. Streams may starve here: loops, floods, and events in the
/// order of bits are among the guests.
#[test]
fn books_of_random_hosts() {
    for_seeds("books_of_random_hosts", 60, |seed| {
        let bed = random_bed(seed);
        let room = room(&bed);
        let mut world = bed.world(seed);
        for _ in 0..20_000 {
            if !world.step(Time::ZERO + ms(1000)) {
                break;
            }
            let books = world.hosts()[0].check().and_then(|()| check(&world, room));
            books.map_err(|e| format!("{e}\n{bed:#?}"))?;
        }
        Ok(())
    });
}

/// A single stream among nothing goes on, whatever the host is like.
#[test]
fn a_lone_window_goes_on() {
    for_seeds("a_lone_window_goes_on", 60, |seed| {
        let mut bed = random_bed(seed);
        bed.links.flows.truncate(1);
        bed.links.flows[0].pace = Pace::Window(1 + seed as u16 % 70);
        survives(&bed, seed, seed % 4 == 0).map_err(|e| format!("{e}\n{bed:#?}"))
    });
}

/// Every back end is among those above: a new one is to be added there.
#[test]
fn all_back_ends() {
    for backend in BACKENDS {
        match backend {
            Backend::Tasklet | Backend::Tasklets | Backend::Threads => {}
            Backend::Napi | Backend::SmallFirst => {}
        }
    }
}
