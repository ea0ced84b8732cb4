//! The order in which a kernel serves its events, and that the same seed is the same history.

use lowtail_engine::Distribution;
use lowtail_host::Dom;
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts, Process};
use lowtail_host::guest::kernel::Softirqs;
use lowtail_host::io::ports::Order;
use lowtail_lab::network::links::{HostFlow, Way};
use lowtail_net::datagram::Pace;

use crate::bed::{BACKENDS, costs, driver, flow, guest, host, mbit, ms, nic, run, us};

/// Eight guests that send as fast as they can; what the first and the last get.
fn first_and_last(order: Order) -> (f64, f64) {
    let softirqs = Softirqs::AfterEach;
    let driver =
        DriverConfig { interrupts: Interrupts::Fixed, softirqs, ..driver(Backend::Tasklet) };
    let flows = (0..8).map(|i| flow(i, Way::Out { nic: 0 }, Pace::Window(16))).collect();
    let mut config = host(&driver, 1, &[guest(); 8], vec![nic(10_000)], flows, costs());
    config.config.io.order = order;
    let shares = mbit(&run(&config, 1, ms(1100)));
    (shares[0], shares[7])
}

/// With the lowest bit first and softirqs after each event, who notifies again before all
/// have been served keeps the last ones out. In turn all get the same, within a tenth.
#[test]
fn low_ports_starve_high_ones_only_in_the_order_of_bits() {
    let (first, last) = first_and_last(Order::Bits);
    assert!(last < first / 10.0, "{first} and {last} Mbit/s");
    for order in [Order::RoundRobin, Order::Fifo] {
        let (first, last) = first_and_last(order);
        assert!(last > first * 0.9, "{order:?}: {first} and {last} Mbit/s");
    }
}

/// All that a history comes to.
fn history(backend: Backend, seed: u64) -> (u64, Vec<[u64; 3]>, Vec<u64>, u64) {
    let mut flows: Vec<_> = (0..3)
        .map(|i| {
            let gap = Some(Distribution::Exponential(us(30)));
            flow(i, Way::In { nic: i }, if i == 0 { Pace::Open(gap) } else { Pace::Window(20) })
        })
        .collect();
    flows.push(HostFlow {
        service: us(20),
        ..flow(2, Way::In { nic: 0 }, Pace::Requests(Distribution::Exponential(us(500))))
    });
    let processes = vec![Process::sleeper(ms(1), us(50))];
    let driver = DriverConfig { processes, ..driver(backend) };
    let config = host(&driver, 2, &[guest(); 3], vec![nic(1000); 3], flows, costs());
    let machine = run(&config, seed, ms(300));
    let flows = machine.flows().iter();
    let flows = flows.map(|f| [f.delivered_bytes(), f.lost(), f.latency().n()]).collect();
    let times = (0..5).map(|v| machine.vcpu_time(v).as_ps()).collect();
    let waits = machine.host.outcome(Dom(0)).latency.expect("a sleeper is measured");
    (machine.events, flows, times, waits.max().as_ps())
}

#[test]
fn the_same_seed_is_the_same_history() {
    for backend in BACKENDS {
        assert_eq!(history(backend, 1), history(backend, 1), "{backend:?}");
        // Gaps are drawn, so another seed is another history.
        assert_ne!(history(backend, 1), history(backend, 2), "{backend:?}");
    }
}
