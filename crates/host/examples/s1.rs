//! x
use lowtail_engine::{Duration, Time};
use lowtail_host::config::*;
use lowtail_host::guest::driver::{self, Backend, Interrupts};
use lowtail_host::guest::kernel::Rules;
use lowtail_host::guest::{Spread, net};
use lowtail_host::io::IoConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::flow::*;
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::io::ports::Order;
use lowtail_host::sched::credit::*;
use lowtail_host::*;

fn us(x: f64) -> Duration {
    Duration::from_ns((x * 1000.0) as u64)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let f = |i: usize, d: f64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(d);
    let ping_ms = f(1, 1000.0);
    let window = f(2, 44.0) as u16;
    let nic_p = f(3, 3.0);
    let back = f(4, 3.0);
    let front = f(5, 3.0);
    let costs = PathCosts {
        upcall: us(0.5),
        irq: us(1.0),
        notify: us(0.7),
        task_switch: us(2.0),
        nic_packet: us(nic_p),
        back_packet: us(back / 2.0),
        grant_packet: us(back / 2.0),
        grant_kb: us(0.0),
        front_packet: us(front),
        front_kb: us(0.0),
    };
    for load in ["compute", "stream"] {
        for (name, order, boost, tickle, each) in [
            ("as found", Order::Bits, false, Tickle::Each, true),
            ("rr", Order::RoundRobin, false, Tickle::Each, true),
            ("as found boost", Order::Bits, true, Tickle::Each, true),
            ("rr boost/tickle", Order::RoundRobin, true, Tickle::Each, true),
            ("rr boost/after", Order::RoundRobin, true, Tickle::After, true),
            ("rr boost/never", Order::RoundRobin, true, Tickle::Never, true),
        ] {
            let rules = Rules { soft_each: each, polite: false };
            let mut vms = vec![VmConfig::new(
                "dom0",
                Workload::Driver(driver::Config {
                    backend: Backend::Tasklet,
                    interrupts: Interrupts::Fixed,
                    lock: GrantLock::None,
                    suppress: true,
                    queue_packets: 32,
                    rules,
                    users: vec![],
                }),
            )];
            for i in 0..8 {
                vms.push(VmConfig::new(
                    &format!("g{i}"),
                    Workload::Net(net::Config {
                        queues: 1,
                        rules,
                        computes: load == "compute" && i < 7,
                    }),
                ));
            }
            let flow = |i: u16, pace| FlowConfig {
                dom: Dom(1 + i),
                way: Way::In { nic: 0 },
                pace,
                payload_bytes: 1460,
                reply_bytes: 56,
                service: Duration::ZERO,
                requests: u64::MAX / 2,
                warmup: Duration::from_ms(1000),
            };
            let mut flows = vec![];
            if load == "stream" {
                for i in 0..7 {
                    flows.push(flow(i, Pace::Window(window)));
                }
            }
            flows.push(FlowConfig {
                payload_bytes: 56,
                ..flow(
                    7,
                    Pace::Requests(Spread::Uniform(us(ping_ms * 500.0), us(ping_ms * 1500.0))),
                )
            });
            let nics = vec![NicConfig {
                bits_per_s: 1_000_000_000,
                latency: us(20.0),
                moderation: us(125.0),
                ring: 256,
            }];
            let sched = SchedulerConfig::Credit(CreditConfig {
                boost,
                ..CreditConfig::new(CreditVersion::Xen2007)
            });
            let mut host = lowtail_host::Costs::FREE;
            host.context_switch = us(3.0);
            host.schedule = us(1.0);
            host.cold_cache = us(5.0);
            let config = Config {
                tickle,
                io: IoConfig { nics, flows, order, costs },
                ..Config::new(1, sched, host, vms)
            };
            let mut m = Machine::new(&config, 1).unwrap();
            let t0 = std::time::Instant::now();
            let secs = if load == "compute" { 300 } else { 20 };
            m.run_to(Time::ZERO + Duration::from_ms(secs * 1000));
            let wall = t0.elapsed();
            let span = m.now().since(Time::ZERO).as_s_f64();
            let shares: Vec<u32> = (0..9)
                .map(|v| (m.vcpu_time(Vcpu(v)).0.as_s_f64() / span * 1000.0) as u32)
                .collect();
            let ping = m.io().flows.last().unwrap();
            let h = ping.latency();
            let mbit: Vec<u64> = m
                .io()
                .flows
                .iter()
                .map(|f| (f.delivered_bytes() as f64 * 8.0 / (secs as f64 - 1.0) / 1e6) as u64)
                .collect();
            let ms = |d: Duration| d.as_ns() as f64 / 1e6;
            if h.n() == 0 {
                println!(
                    "{load} {name:16} no ping answered, lost {}  {shares:?} {mbit:?} {wall:?}",
                    ping.lost()
                );
                continue;
            }
            println!(
                "{load} {name:16} ping mean {:9.3} p50 {:9.3} p99 {:9.3} max {:9.3} ms n {} lost {} shares {shares:?} Mbit {mbit:?} {wall:?}",
                ms(h.mean()),
                ms(h.quantile(0.5)),
                ms(h.quantile(0.99)),
                ms(h.max()),
                h.n(),
                ping.lost()
            );
        }
    }
}
