//! A snapshot for tests of what shows one.

use lowtail_discover::{Kind, Origin, Role, Tap};
use lowtail_kernel::Histogram;
use lowtail_kernel::Name;
use lowtail_observe::{
    Blame, Drop, Network, QueueBlame, Runner, Sender, Sent, Snapshot, ThreadSnapshot, Throttled,
    Unseen, Uplink, VmSnapshot,
};

/// Waits of so many microseconds, so many times.
pub(crate) fn waits(us: &[(u64, u64)]) -> Histogram {
    let mut all = Histogram::default();
    for &(wait_us, count) in us {
        (0..count).for_each(|_| all.record(wait_us * 1_000));
    }
    all
}

/// Bytes of a VM and of one of the host's services.
fn senders(batch: u64, backup: u64) -> Vec<Sent> {
    let backup_service = Sender::Group(Name::new("system.slice/backup.service"));
    vec![
        Sent { sender: Sender::Vm(Name::new("batch"), 77), bytes: batch },
        Sent { sender: backup_service, bytes: backup },
    ]
}

/// Bytes that came in by the uplink.
fn from_outside(bytes: u64) -> Vec<Sent> {
    vec![Sent { sender: Sender::Interface(Name::new("eth0")), bytes }]
}

/// A second of a server that waits for another VM, and of that one. The server's name wants to clear the screen.
pub(crate) fn snapshot() -> Snapshot {
    let thread = |tid, role, wakeup_latency, blame| ThreadSnapshot {
        tid,
        role,
        comm: Name::new("CPU 0/KVM"),
        run_time_ns: 200_000_000,
        ready_after_wakeup_ns: 400_000_000,
        ready_after_preemption_ns: 0,
        wakeup_latency,
        preemption_latency: Histogram::default(),
        current_wait_ns: 0,
        blame,
    };
    let blame = vec![Blame {
        runner: Runner::Vm(Name::new("batch"), 77),
        ready_ns: 400_000_000,
        reason: None,
    }];
    let vm = |name: &str, pid, thread| VmSnapshot {
        name: Name::new(name),
        kind: Kind::Qemu,
        origin: Origin::declared(),
        pid,
        started_ticks: 5,
        ended: false,
        threads: vec![thread],
        throttled: Vec::new(),
        network: None,
        unseen_threads: Unseen::default(),
    };
    let late = waits(&[(3, 100), (4_000, 100)]);
    let mut web = vm("web\x1b[2J", 10, thread(11, Role::Vcpu(0), late, blame));
    web.throttled.push(Throttled {
        group: Name::new("all"),
        periods: 10,
        throttled_periods: 1,
        throttled_ns: 2_000_000,
    });
    web.network = Some(Network {
        taps: vec![Tap { ifindex: 3, name: Name::new("tap0"), netns: None }],
        transmitted_packets: 10,
        transmitted_bytes: 15_000,
        queueing_delay: waits(&[(50, 10)]),
        drops: vec![Drop { reason: "QDISC_DROP".to_string(), packets: 2 }],
        round_trip: waits(&[(300, 10)]),
        queue_blame: QueueBlame {
            sampled_packets: 4,
            sampled_delay_ns: 200_000,
            bytes_ahead: 50_000,
            senders: senders(45_000, 5_000),
        },
        received_packets: 20,
        received_bytes: 30_000,
        received_senders: from_outside(30_000),
        receive_queueing_delay: waits(&[(20, 20)]),
        receive_queue_blame: QueueBlame {
            sampled_packets: 2,
            sampled_delay_ns: 30_000,
            bytes_ahead: 3_000,
            senders: from_outside(3_000),
        },
    });
    let uplinks = vec![Uplink {
        name: Name::new("eth0"),
        transmitted_bytes: 1_000_000,
        senders: senders(900_000, 100_000),
    }];
    let batch = vm("batch", 77, thread(78, Role::Vcpu(0), Histogram::default(), Vec::new()));
    Snapshot { interval_ms: 1000.0, vms: vec![batch, web], uplinks, ..Snapshot::default() }
}
