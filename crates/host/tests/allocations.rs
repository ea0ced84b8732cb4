//! No allocation per event: once a host has warmed up, simulating it allocates nothing.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use lowtail_engine::{Duration, Time};
use lowtail_host::guest::Spread;
use lowtail_host::guest::request_server::{Config as Server, Load, Path};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version, Runqueue};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, Machine, SchedulerConfig, VmConfig, Workload};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `alloc` above, that is from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn host(scheduler: SchedulerConfig) -> Config {
    let us = Duration::from_us;
    let server = Server {
        load: Load::Open(Spread::Exponential(us(500))),
        service: Spread::Fixed(us(8)),
        path: Path::fixed(us(50)),
        tx_completion: Some(Spread::Fixed(us(40))),
        tx_completion_work: us(3),
        requests: 1 << 40,
        warmup: 0,
        half: true,
    };
    let hog = Workload::DutyHog { burst: Spread::Exponential(us(3000)), busy_percent: 60 };
    let mut vms = vec![VmConfig::new("io", Workload::RequestServer(server))];
    vms.extend((0..4).map(|i| VmConfig::new(&format!("hog{i}"), hog.clone())));
    vms.push(VmConfig::new("yielder", Workload::Yielder { work: us(200) }));
    vms.push(VmConfig { vcpus: 3, ..VmConfig::new("loop", Workload::CpuLoop) });
    Config { sockets: 2, records: 1024, ..Config::new(4, scheduler, Costs::FREE, vms) }
}

/// One test, because the counter is one for the whole process.
#[test]
fn a_warm_host_allocates_nothing() {
    let credit = |version| SchedulerConfig::Credit(CreditConfig::new(version));
    let credit2 = |version| {
        let config = Credit2Config { runqueue: Runqueue::Core, ..Credit2Config::new(version) };
        SchedulerConfig::Credit2(config)
    };
    for scheduler in [
        credit(CreditVersion::Xen2007),
        credit(CreditVersion::Xen48),
        credit(CreditVersion::Today),
        credit2(Credit2Version::Xen481),
        credit2(Credit2Version::Xen410),
        credit2(Credit2Version::Xen421),
        SchedulerConfig::SmallFirst(SmallFirstConfig::default()),
    ] {
        let mut machine = Machine::new(&host(scheduler.clone()), 1).expect("valid");
        machine.run_to(Time::ZERO + Duration::from_s(5));
        let (events, before) = (machine.events(), ALLOCATIONS.load(Ordering::Relaxed));
        machine.run_to(Time::ZERO + Duration::from_s(15));
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let events = machine.events() - events;
        assert!(events > 50_000, "{scheduler:?}: only {events} events");
        assert_eq!(allocations, 0, "{scheduler:?}: in {events} events");
    }
}
