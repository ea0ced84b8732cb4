//! No allocation per event: once a host has warmed up, simulating it allocates nothing.

use lowtail_engine::{Duration, Time};
use lowtail_host::cgroup::{CgroupConfig, Limit, Thread};
use lowtail_host::guest::Distribution;
use lowtail_host::guest::driver::{Backend, DriverConfig, Interrupts, Process};
use lowtail_host::guest::duty_hog::DutyHogConfig;
use lowtail_host::guest::net::NetGuestConfig;
use lowtail_host::guest::request_server::{Load, Path, RequestServerConfig};
use lowtail_host::guest::yielder::YielderConfig;
use lowtail_host::io::IoConfig;
use lowtail_host::io::lock::GrantLock;
use lowtail_host::io::nic::NicConfig;
use lowtail_host::io::port::{Destination, PacketSpec, PortEvent};
use lowtail_host::sched::credit::{CreditConfig, CreditVersion};
use lowtail_host::sched::credit2::{Credit2Config, Credit2Version, RunqueueScope};
use lowtail_host::sched::fair::{FairConfig, FairVersion};
use lowtail_host::sched::small_first::SmallFirstConfig;
use lowtail_host::{
    Cgroup, Config, Costs, Dom, Host, SchedulerConfig, Topology, VmConfig, Workload,
};
use lowtail_testkit::allocations::{self, Counting};
use lowtail_testkit::netback;

#[global_allocator]
static COUNTING: Counting = Counting;

fn host(scheduler: SchedulerConfig) -> Config {
    let us = Duration::from_us;
    let server = RequestServerConfig {
        load: Load::Open(Distribution::Exponential(us(500))),
        service: Distribution::Fixed(us(8)),
        path: Path::fixed(us(50)),
        tx_completion: Some(Distribution::Fixed(us(40))),
        client: None,
        network_work: Duration::ZERO,
        after_reply: Distribution::ZERO,
        tx_completion_percent: 100,
        tx_completion_work: us(3),
        requests: Some(1 << 40),
        warmup: 0,
        half: true,
    };
    let hog = Workload::DutyHog(DutyHogConfig::busy(Distribution::Exponential(us(3000)), 60));
    let mut vms = vec![VmConfig::new("io", Workload::RequestServer(server))];
    vms.extend((0..4).map(|i| VmConfig::new(&format!("hog{i}"), hog.clone())));
    vms.push(VmConfig::new("yielder", Workload::Yielder(YielderConfig { work: us(200) })));
    vms.push(VmConfig { vcpus: 3, ..VmConfig::new("loop", Workload::CpuLoop) });
    Config {
        topology: Some(Topology::even(4, 2, 1).expect("even")),
        records: 1024,
        ..Config::new(4, scheduler, Costs::FREE, vms)
    }
}

/// The same guests, each in a group with a limit that it meets now and then.
fn grouped(version: FairVersion) -> Config {
    let mut config = host(SchedulerConfig::Fair(FairConfig::new(version)));
    for (i, vm) in config.vms.iter_mut().enumerate() {
        let ms = Duration::from_ms;
        let limit = Limit { quota: ms(4), period: ms(10), burst: ms(2) };
        config
            .cgroups
            .push(CgroupConfig { limit: Some(limit), ..CgroupConfig::new(&vm.name, None) });
        vm.threads = vec![Thread { cgroup: Some(Cgroup(i as u16)), ..Thread::default() }];
    }
    config
}

/// Ten guests behind a driver domain with `backend`, on four NICs.
fn ported(backend: Backend) -> Config {
    let us = Duration::from_us;
    let costs = netback::coinciding_costs();
    let driver = DriverConfig {
        interrupts: Interrupts::Balanced,
        grant_lock: GrantLock::PerDomain,
        processes: vec![Process::LOOP, Process::sleeper(us(10_000), us(100))],
        ..DriverConfig::new(backend)
    };
    let net = NetGuestConfig { queues: 2, computes: true, ..NetGuestConfig::PLAIN };
    let net = Workload::Net(net);
    let mut vms = vec![VmConfig { vcpus: 3, ..VmConfig::new("dom0", Workload::Driver(driver)) }];
    vms.extend((0..10).map(|i| VmConfig::new(&format!("guest{i}"), net.clone())));
    let nic = NicConfig { moderation: us(50), ring: 256, piece_bytes: Some(1500) };
    let io = IoConfig { nics: vec![nic; 4], costs, ..Default::default() };
    Config { io, ..Config::new(13, SchedulerConfig::Null, Costs::FREE, vms) }
}

/// Puts a packet into `host` each 200 us until `end`, or more than the guests can take (`flood`);
/// each is answered and worked for, and has a neighbour told.
fn network(host: &mut Host, out: &mut Vec<PortEvent>, end: Time, flood: bool) {
    let gap = Duration::from_us(if flood { 20 } else { 200 });
    let mut arrival = host.now();
    let mut token = 0;
    let spec = |bytes, token: u32| PacketSpec::new(bytes, token as u16, token).expect("fits");
    while arrival < end {
        if host.next_time().is_none_or(|next| next >= arrival) {
            let (nic, dom) = ((token % 4) as u16, Dom(1 + (token % 10) as u16));
            host.arrive(arrival, nic, dom, spec(1500, token)).expect("taken");
            (arrival, token) = (arrival + gap, token + 1);
        } else {
            host.step(end);
        }
        out.append(host.handed());
        for event in out.drain(..) {
            let PortEvent::Received { dom, token } = event else { continue };
            let (now, to) = (host.now(), Dom(1 + dom.0 % 10));
            let taken = match token % 8 {
                0 => host.send(now, dom, Destination::Nic(1), spec(30_000, token)),
                1 => host.send(now, dom, Destination::Dom(to), spec(1500, 3)),
                2 => host.work(now, (dom, 0), Duration::from_us(20), token),
                3 => Ok(()),
                // What a process has to send is for the network to limit.
                4 if !flood => host.write(now, (dom, 0), Destination::Nic(3), spec(1500, token)),
                _ => host.send(now, dom, Destination::Nic(2), spec(52, token)),
            };
            taken.expect("taken");
        }
        // What is lost on the way out at once.
        host.handed().clear();
    }
}

/// Runs `config` for 20 s, and counts allocations in the 10 s after that: none.
fn allocates_nothing(name: &str, config: &Config) {
    let mut host = Host::new(config, 1).expect("valid");
    host.run_to(Time::ZERO + Duration::from_s(20));
    let (events, before) = (host.events(), allocations::allocations());
    host.run_to(Time::ZERO + Duration::from_s(30));
    let allocations = allocations::allocations() - before;
    let events = host.events() - events;
    assert!(events > 50_000, "{name}: only {events} events");
    assert_eq!(allocations, 0, "{name}: in {events} events");
}

/// One test, because the counter is one for the whole process.
#[test]
fn a_warm_host_allocates_nothing() {
    let credit = |version| SchedulerConfig::Credit(CreditConfig::new(version));
    let credit2 = |version| {
        let config = Credit2Config { runqueue: RunqueueScope::Core, ..Credit2Config::new(version) };
        SchedulerConfig::Credit2(config)
    };
    for scheduler in [
        credit(CreditVersion::Xen2007),
        credit(CreditVersion::Xen48),
        credit(CreditVersion::Today),
        credit2(Credit2Version::Xen481),
        credit2(Credit2Version::Xen410),
        credit(CreditVersion::Mended),
        credit2(Credit2Version::Xen421),
        credit2(Credit2Version::Mended),
        SchedulerConfig::SmallFirst(SmallFirstConfig::default()),
    ] {
        allocates_nothing(&format!("{scheduler:?}"), &host(scheduler.clone()));
    }
    for version in [
        FairVersion::Linux2639,
        FairVersion::Linux418,
        FairVersion::Linux54,
        FairVersion::Linux66,
        FairVersion::Linux61,
        FairVersion::Linux612,
        FairVersion::Linux618,
    ] {
        let scheduler = SchedulerConfig::Fair(FairConfig::new(version));
        allocates_nothing(&format!("{version:?}"), &host(scheduler));
        allocates_nothing(&format!("{version:?} with limits"), &grouped(version));
    }
    let mut hosts: Vec<(String, Config)> =
        [Backend::Tasklet, Backend::Tasklets, Backend::Threads, Backend::Napi, Backend::SmallFirst]
            .map(|backend| (format!("{backend:?}"), ported(backend)))
            .into();
    let mut kvm = ported(Backend::Napi);
    netback::with_vhost(&mut kvm, 1, 1000);
    hosts.push(("vhost".to_string(), kvm));
    for (name, config) in hosts {
        for flood in [false, true] {
            let mut host = Host::new(&config, 1).expect("valid");
            let mut out = Vec::with_capacity(4096);
            network(&mut host, &mut out, Time::ZERO + Duration::from_s(2), flood);
            let (events, before) = (host.events(), allocations::allocations());
            network(&mut host, &mut out, Time::ZERO + Duration::from_s(4), flood);
            let allocations = allocations::allocations() - before;
            let events = host.events() - events;
            assert!(events > 20_000, "port, {name}: only {events} events");
            assert_eq!(allocations, 0, "port, {name}: in {events} events, flood: {flood}");
        }
    }
}
