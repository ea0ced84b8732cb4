//! Tasks of a kernel: who runs when several are awake.

use lowtail_engine::{Duration, Time};
use lowtail_host::guest::driver::{Backend, DriverConfig, Process};
use lowtail_host::{Dom, Host};
use lowtail_testkit::netback::{costs, driver, host};

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_ms(n)
}

/// The delays of processes of a driver domain with so many vCPUs, after `span`.
fn waits(processes: Vec<Process>, vcpus: u16, span: Duration) -> lowtail_engine::Hist {
    let driver = DriverConfig { processes, ..driver(Backend::Tasklet) };
    let config = host(&driver, vcpus, &[], Vec::new(), costs());
    let mut host = Host::new(&config, 1).expect("valid");
    host.run_to(Time::ZERO + span);
    host.outcome(Dom(0)).latency.expect("sleepers are measured")
}

/// A process that sleeps goes before one that loops: it has run less. With two of them a
/// turn is 3 ms, and the loop is ahead by more than the granularity nearly always.
#[test]
fn a_sleeper_waits_less_than_a_turn() {
    let users = vec![Process::LOOP, Process::sleeper(ms(10), us(100))];
    let waits = waits(users, 1, ms(3000));
    // 3000 / 10.1, and a little for waits.
    assert!(waits.n() >= 280, "{}", waits.n());
    assert!(waits.max() < ms(3), "{}", waits.max());
    // From interrupt to process: an upcall, and a switch between tasks.
    assert!(waits.min() >= us(2) && waits.min() <= us(4), "{}", waits.min());
}

/// A sleeper beside a sleeper and a loop on two vCPUs moves to where there is room, and is not
/// behind there for what it has done elsewhere.
#[test]
fn who_moves_waits_no_longer() {
    let users = vec![
        Process::LOOP,
        Process::sleeper(ms(3), ms(2)),
        Process::sleeper(ms(5), ms(2)),
        Process::sleeper(ms(7), ms(1)),
    ];
    let waits = waits(users, 2, ms(10_000));
    // Nobody waits for longer than the period in which each runnable task has its turn.
    assert!(waits.max() < ms(6), "{}", waits.max());
    // Alone they would wake 10000 / 5, 10000 / 7, and 10000 / 8 times.
    assert!(waits.n() > 3500, "{}", waits.n());
}
