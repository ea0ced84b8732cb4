//! The port: what goes in comes out once, after what it costs, whoever schedules.

use std::collections::BTreeMap;

use lowtail_engine::{Duration, Stream, Time};
use lowtail_host::guest::driver::Backend;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::flow::{Pace, Way};
use lowtail_host::io::nic::{External, NicConfig};
use lowtail_host::io::port::{Handed, LostAt, Parcel, To};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::{Config, Dom, Machine, SchedulerConfig};

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
    machine: Machine,
    out: Vec<(Time, Handed)>,
}

impl Lab {
    fn new(config: &Config) -> Self {
        Lab { machine: Machine::new(config, 1).expect("valid"), out: Vec::new() }
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
    fn run(&mut self, end: Time, mut answer: impl FnMut(&mut Machine, Time, Handed)) {
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
