//! Hosts with a driver domain, for tests of packets: what hosts alone and hosts with a network
//! have in common.

use lowtail_engine::{Duration, Rng};
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts};
use lowtail_host::guest::kernel::Softirqs;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::guest::vhost::VhostConfig;
use lowtail_host::io::IoConfig;
use lowtail_host::io::costs::PathCosts;
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::io::ports::Order;
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{Config, Costs, Dom, SchedulerConfig, VmConfig, Workload};

const fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// Costs of switching that are neither nothing nor those of a machine.
pub const COSTS: Costs = Costs {
    wake_to_tickle: Duration::from_ns(900),
    tickle_to_schedule: Duration::from_ns(3_860),
    tickle_to_schedule_idle: Duration::from_ns(2_100),
    schedule: Duration::from_ns(1_000),
    context_switch: Duration::from_ns(2_000),
    cold_cache: Duration::from_ns(5_000),
    ..Costs::FREE
};

/// The same with all that a kernel's threads cost besides: their way into the scheduler and out of it, the rest of an
/// interrupt, a switch from the idle thread, ticks.
pub const KERNEL_COSTS: Costs = Costs {
    tickle_to_schedule_self: Some(Duration::from_ns(2_500)),
    context_switch_idle: Some(Duration::from_ns(3_100)),
    block: Duration::from_ns(2_700),
    wakeup: Duration::from_ns(800),
    cgroup_enqueue: Duration::from_ns(700),
    cgroup_pick: Duration::from_ns(400),
    cgroup_put: Duration::from_ns(300),
    tick: Duration::from_ns(6_300),
    tick_period: Duration::from_ms(4),
    ..COSTS
};

/// Packets on a machine of twenty years ago: so that 100 Mbit/s are a load, and few packets make
/// one.
pub const SLOW: PathCosts = PathCosts {
    upcall: us(2),
    irq: us(3),
    notify: us(3),
    task_switch: us(5),
    nic_packet: us(15),
    back_packet: us(20),
    grant_slot: us(10),
    back_kb: us(2),
    front_packet: us(15),
    front_kb: us(2),
    split_piece: Duration::ZERO,
    vhost_kick: us(4),
    vhost_turn: us(25),
    vhost_copy: us(10),
    vhost_send: us(20),
    vhost_receive: us(25),
    vhost_kb: us(2),
};

/// Costs of packets in whole microseconds, so that much falls on the same instant; all others are zero.
pub fn coinciding_costs() -> PathCosts {
    PathCosts {
        nic_packet: us(15),
        back_packet: us(20),
        grant_slot: us(10),
        front_packet: us(10),
        notify: us(3),
        ..Default::default()
    }
}

/// Costs of packets of a few microseconds each.
pub fn costs() -> PathCosts {
    PathCosts {
        upcall: us(1),
        irq: us(1),
        notify: us(1),
        task_switch: us(2),
        nic_packet: us(2),
        back_packet: us(3),
        grant_slot: us(2),
        front_packet: us(1),
        ..Default::default()
    }
}

/// All back ends.
pub const BACKENDS: [Backend; 5] =
    [Backend::Tasklet, Backend::Tasklets, Backend::Threads, Backend::Napi, Backend::SmallFirst];

const SOFTIRQS: [Softirqs; 3] = [Softirqs::AfterEach, Softirqs::AfterAll, Softirqs::Polite];

/// A scheduler of each kind that has no control groups of its own.
pub fn schedulers() -> [(&'static str, SchedulerConfig); 4] {
    [
        ("null", SchedulerConfig::Null),
        ("credit 4.8", SchedulerConfig::Credit(CreditConfig::new(CreditVersion::Xen48))),
        ("credit2", SchedulerConfig::Credit2(Credit2Config::new(Credit2Version::Xen421))),
        ("small-first", SchedulerConfig::SmallFirst(SmallFirstConfig::default())),
    ]
}

/// A driver domain without locks, drops late, interrupts spread.
pub fn driver(backend: Backend) -> DriverConfig {
    DriverConfig::new(backend)
}

/// A guest with one queue and one process.
pub fn guest() -> NetGuestConfig {
    NetGuestConfig::PLAIN
}

/// A NIC without moderation.
pub fn nic() -> NicConfig {
    NicConfig { moderation: us(0), ring: 256, piece_bytes: None }
}

/// The domain of guest number `guest`; the driver domain is number 0.
pub fn dom(guest: u16) -> Dom {
    Dom(1 + guest)
}

/// A host whose vCPUs have a pCPU each and switch for nothing.
pub fn host(
    driver: &DriverConfig,
    dom0_vcpus: u16,
    guests: &[NetGuestConfig],
    nics: Vec<NicConfig>,
    costs: PathCosts,
) -> Config {
    let dom0 = Workload::Driver(driver.clone());
    let mut vms = vec![VmConfig { vcpus: dom0_vcpus, ..VmConfig::new("dom0", dom0) }];
    let guests = guests.iter().enumerate();
    vms.extend(guests.map(|(i, &net)| VmConfig::new(&format!("guest{i}"), Workload::Net(net))));
    let pcpus = vms.iter().map(|vm| vm.vcpus).sum();
    let io = IoConfig { nics, order: Order::Fifo, costs };
    Config { io, ..Config::new(pcpus, SchedulerConfig::Null, Costs::FREE, vms) }
}

/// `config`, whose first VM is a driver domain, as a KVM host: that VM computes instead, and so many `workers` of vhost serve each
/// interface, by taps with room for `queue_packets`.
pub fn with_vhost(config: &mut Config, workers: u16, queue_packets: u16) {
    for (i, vm) in config.vms.iter_mut().enumerate() {
        if i == 0 {
            (vm.workload, vm.vcpus) = (Workload::CpuLoop, 1);
            continue;
        }
        let net = std::mem::replace(&mut vm.workload, Workload::CpuLoop);
        let worker = (1, Workload::Vhost(VhostConfig { queue_packets }));
        let workers = std::iter::repeat_n(worker, usize::from(workers));
        vm.workload =
            Workload::Mix(std::iter::once((vm.vcpus, net)).chain(workers.clone()).collect());
        vm.vcpus += workers.len() as u16;
    }
    if config.scheduler == SchedulerConfig::Null {
        config.pcpus = config.vms.iter().map(|vm| vm.vcpus).sum();
    }
}

/// A host with random back end, two to four guests, one to three NICs, and scheduler, on a slow
/// machine.
pub fn random_host(stream: &mut Rng) -> Config {
    let mut pick = |n: u64| stream.below(n);
    let mut driver = driver(BACKENDS[pick(5) as usize]);
    driver.interrupts =
        [Interrupts::Fixed, Interrupts::Spread, Interrupts::Balanced][pick(3) as usize];
    if driver.backend == Backend::Tasklets {
        driver.groups = [None, Some(1), Some(2), Some(3)][pick(4) as usize];
    }
    driver.grant_lock =
        [GrantLock::None, GrantLock::Global, GrantLock::PerDomain][pick(3) as usize];
    driver.suppress = pick(3) > 0;
    driver.queue_packets = 1 << pick(8);
    driver.softirqs = SOFTIRQS[pick(3) as usize];
    let mut nets = Vec::new();
    for _ in 0..2 + pick(3) {
        let mut net = guest();
        net.queues = 1 + pick(3) as u16;
        net.computes = pick(4) == 0;
        net.softirqs = SOFTIRQS[pick(3) as usize];
        nets.push(net);
    }
    let nics = (0..1 + pick(3)).map(|_| {
        let moderation = us(pick(3) * 60);
        NicConfig { moderation, ring: 32 << pick(4), ..nic() }
    });
    let nics = nics.collect();
    let mut config = host(&driver, 1 + pick(4) as u16, &nets, nics, SLOW);
    // Without costs of the host, much comes to pass at the same instant.
    config.costs = if pick(2) == 0 { COSTS } else { Costs::FREE };
    config.io.order = [Order::Bits, Order::RoundRobin, Order::Fifo][pick(3) as usize];
    config.scheduler = schedulers()[pick(4) as usize].1.clone();
    if config.scheduler != SchedulerConfig::Null {
        config.pcpus = 1 + pick(4) as u16;
    }
    config
}
