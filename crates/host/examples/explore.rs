use lowtail_engine::{Duration, Time};
use lowtail_host::config::*;
use lowtail_host::guest::driver::{self, Backend, Interrupts, User};
use lowtail_host::guest::kernel::Rules;
use lowtail_host::guest::net;
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
    let (nic_p, back_p, grant, front) = (f(1, 2.4), f(2, 0.6), f(3, 2.0), f(4, 2.6));
    let costs = PathCosts {
        upcall: us(0.5),
        irq: us(1.0),
        notify: us(0.7),
        task_switch: us(2.0),
        nic_packet: us(nic_p),
        back_packet: us(back_p),
        grant_packet: us(grant),
        grant_kb: us(0.0),
        front_packet: us(front),
        front_kb: us(0.0),
    };
    let n = 10u16;
    for (name, backend, lock, window, cpus) in [
        ("tasklet", Backend::Tasklet, GrantLock::None, false, 10),
        ("tasklets", Backend::Tasklets(0), GrantLock::None, false, 10),
        ("tasklets+lock", Backend::Tasklets(0), GrantLock::Global, false, 10),
        ("threads", Backend::Threads, GrantLock::None, false, 10),
        ("napi", Backend::Napi, GrantLock::None, false, 10),
        ("small", Backend::SmallFirst, GrantLock::None, false, 10),
        ("tasklet w", Backend::Tasklet, GrantLock::None, true, 10),
        ("tasklets w", Backend::Tasklets(0), GrantLock::None, true, 10),
        ("threads w", Backend::Threads, GrantLock::None, true, 10),
        ("napi w", Backend::Napi, GrantLock::None, true, 10),
        ("small w", Backend::SmallFirst, GrantLock::None, true, 10),
        ("tasklet w 1", Backend::Tasklet, GrantLock::None, true, 1),
        ("threads w 1", Backend::Threads, GrantLock::None, true, 1),
        ("napi w 1", Backend::Napi, GrantLock::None, true, 1),
        ("small w 1", Backend::SmallFirst, GrantLock::None, true, 1),
    ] {
        let mut vms = vec![VmConfig {
            vcpus: cpus,
            ..VmConfig::new(
                "dom0",
                Workload::Driver(driver::Config {
                    backend,
                    interrupts: Interrupts::Spread,
                    lock,
                    suppress: true,
                    queue_packets: 32,
                    rules: Rules::default(),
                    users: vec![User::Sleeper { sleep: Duration::from_ms(100), work: us(200.0) }],
                }),
            )
        }];
        for i in 0..n {
            vms.push(VmConfig::new(
                &format!("g{i}"),
                Workload::Net(net::Config { queues: 1, rules: Rules::default(), computes: false }),
            ));
        }
        let pace = if window { Pace::Window(64) } else { Pace::Open(None) };
        let flows = (0..n)
            .map(|i| FlowConfig {
                dom: Dom(1 + i),
                way: Way::In { nic: i },
                pace,
                payload_bytes: 1400,
                reply_bytes: 56,
                service: Duration::ZERO,
                requests: 0,
                warmup: Duration::from_ms(100),
            })
            .collect();
        let nics = vec![
            NicConfig {
                bits_per_s: 1_000_000_000,
                latency: us(20.0),
                moderation: us(125.0),
                ring: 256
            };
            n as usize
        ];
        let sched = SchedulerConfig::Null;
        let mut host = lowtail_host::Costs::FREE;
        host.context_switch = us(1.0);
        let config = Config {
            io: IoConfig { nics, flows, order: Order::Fifo, costs },
            ..Config::new(cpus + n, sched, host, vms)
        };
        let mut m = Machine::new(&config, 1).unwrap();
        let t0 = std::time::Instant::now();
        m.run_to(Time::ZERO + Duration::from_ms(1100));
        let wall = t0.elapsed();
        let span = m.now().since(Time::ZERO).as_s_f64();
        let mut dom0 = 0.0;
        let mut guests = 0.0;
        let mut per = vec![];
        for (v, st) in m.facts().vcpus.iter().enumerate() {
            let (cpu, _) = m.vcpu_time(Vcpu(v as u16));
            if st.dom == Dom(0) {
                dom0 += cpu.as_s_f64() / span;
                per.push((cpu.as_s_f64() / span * 100.0) as u32)
            } else {
                guests += cpu.as_s_f64() / span;
            }
        }
        let mbit: f64 =
            m.io().flows.iter().map(|f| f.delivered_bytes() as f64 * 8.0 / 1.0 / 1e6).sum();
        let o = m.outcome(Dom(0));
        let lat = o.latency.unwrap();
        println!(
            "{name:14} {mbit:7.0} Mbit/s dom0 {:5.0} % guests {:4.0} % events {} wall {:?} {:?} delay p50 {} max {} n {} {per:?}",
            dom0 * 100.0,
            guests * 100.0,
            m.events(),
            wall,
            o.counters,
            if lat.n() > 0 { lat.quantile(0.5).to_string() } else { "-".into() },
            if lat.n() > 0 { lat.max().to_string() } else { "-".into() },
            lat.n()
        );
    }
}
