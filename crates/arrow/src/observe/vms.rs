//! VMs.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use lowtail_discover::Role;
use lowtail_observe::{Histogram, Network, Snapshot, ThreadSnapshot, VmSnapshot};
use lowtail_out::seconds::{of_ms, of_ns};

use super::histogram::{histogram, whose};
use super::word::{kind, known_by, named_by};
use crate::column::{Column, Get};
use crate::table::{Once, batch};

/// A VM in an interval, with sums over its threads.
struct Row<'a> {
    snapshot: &'a Snapshot,
    vm: &'a VmSnapshot,
    vcpus: Threads,
    backend: Threads,
    workers: Threads,
    /// Periods, those throttled, and for how long.
    throttled: (u64, u64, u64),
}

/// What several threads have done together.
#[derive(Default)]
struct Threads {
    count: u64,
    run_time_ns: u64,
    ready_ns: u64,
    wakeup_latency: Histogram,
    preemption_latency: Histogram,
}

impl Threads {
    fn add(&mut self, thread: &ThreadSnapshot) {
        self.count += 1;
        self.run_time_ns += thread.run_time_ns;
        self.ready_ns += thread.ready_ns();
        self.wakeup_latency.merge(&thread.wakeup_latency);
        self.preemption_latency.merge(&thread.preemption_latency);
    }
}

impl<'a> Row<'a> {
    fn new(snapshot: &'a Snapshot, vm: &'a VmSnapshot) -> Self {
        let [mut vcpus, mut backend, mut workers] = [(); 3].map(|()| Threads::default());
        for thread in &vm.threads {
            match thread.role {
                Role::Vcpu(_) => vcpus.add(thread),
                Role::Vhost(_) | Role::IoThread(_) | Role::Emulator => backend.add(thread),
                Role::Worker => workers.add(thread),
            }
        }
        let throttled = vm.throttled.iter().fold((0, 0, 0), |sum, group| {
            (sum.0 + group.periods, sum.1 + group.throttled_periods, sum.2 + group.throttled_ns)
        });
        Row { snapshot, vm, vcpus, backend, workers, throttled }
    }

    fn network(&self) -> Option<&Network> {
        self.vm.network.as_ref()
    }
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    let number =
        |name, meaning, get: fn(&Row<'a>) -> u64| Column::new(name, "", meaning, Get::U64(get));
    let seconds =
        |name, meaning, get: fn(&Row<'a>) -> f64| Column::new(name, "s", meaning, Get::F64(get));
    let mut columns: Vec<Column<Row<'a>>> = whose!(Row<'_>).into();
    columns.extend([
        seconds("interval_seconds", "How long the interval was.", |row| {
            of_ms(row.snapshot.interval_ms)
        }),
        Column::new("kind", "", "Who runs it: `libvirt`, `qemu`, `firecracker`, `cloud-hypervisor`, `kvm`, `declared` or `xen`.", Get::Text(|row| kind(row.vm.kind))),
        Column::new(
            "found_by",
            "",
            "How it is known that it is a VM: `libvirt`, `kvm`, `program`, `declared` or `xen`.",
            Get::Text(|row| known_by(row.vm.origin.known_by)),
        ),
        Column::new(
            "named_by",
            "",
            "Who chose its name: `libvirt`, `declared`, `root`, `cgroup`, `user` or `unknown`.",
            Get::Text(|row| named_by(row.vm.origin.named_by).0),
        ),
        Column::new(
            "named_by_uid",
            "",
            "Which user, if it was one.",
            Get::SomeU32(|row| named_by(row.vm.origin.named_by).1),
        ),
        Column::new("uid", "", "The user that runs its process, if that is known.", Get::SomeU32(|row| row.vm.origin.uid)),
        Column::new(
            "root_cgroup",
            "",
            "Whether root alone puts processes into its control group.",
            Get::Bool(|row| row.vm.origin.root_cgroup),
        ),
        Column::new("ended", "", "It ended within the interval.", Get::Bool(|row| row.vm.ended)),
        number("vcpus", "Its vCPUs that are in the figures.", |row| row.vcpus.count),
        number("backend", "Threads that serve its devices: emulator, I/O threads, vhost.", |row| {
            row.backend.count
        }),
        number("workers", "Its other threads.", |row| row.workers.count),
        number("unseen_vcpus", "vCPUs that are in no figure.", |row| row.vm.unseen_threads.vcpus),
        number("unseen_backend", "Threads that serve its devices and are in no figure.", |row| {
            row.vm.unseen_threads.backend
        }),
        number("unseen_workers", "Other threads that are in no figure.", |row| {
            row.vm.unseen_threads.workers
        }),
        number("unseen_started", "Threads that found no room when they began.", |row| {
            row.vm.unseen_threads.started
        }),
        seconds("vcpu_run_time_seconds", "Run time of its vCPUs.", |row| {
            of_ns(row.vcpus.run_time_ns)
        }),
        seconds("vcpu_ready_seconds", "Ready time of its vCPUs.", |row| of_ns(row.vcpus.ready_ns)),
        Column::new(
            "ready_ratio",
            "ratio",
            "Its part of run and ready time; null if they wanted to run at no time.",
            Get::SomeF64(|row| row.vm.ready_ratio()),
        ),
    ]);
    columns.extend(histogram!(
        Row<'a>,
        "vcpu_wakeup_latency",
        "Wake-up latency of its vCPUs",
        |row| Some(&row.vcpus.wakeup_latency)
    ));
    columns.extend(histogram!(
        Row<'a>,
        "vcpu_preemption_latency",
        "Preemption latency of its vCPUs",
        |row| Some(&row.vcpus.preemption_latency)
    ));
    columns.push(seconds("backend_run_time_seconds", "Run time of its back end.", |row| {
        of_ns(row.backend.run_time_ns)
    }));
    columns.extend(histogram!(
        Row<'a>,
        "backend_latency",
        "Wake-up latency of its back end",
        |row| Some(&row.backend.wakeup_latency)
    ));
    columns.push(seconds("worker_run_time_seconds", "Run time of its other threads.", |row| {
        of_ns(row.workers.run_time_ns)
    }));
    columns.extend([
        number("periods", "Periods of CPU quotas in which its groups wanted to run.", |row| {
            row.throttled.0
        }),
        number("throttled_periods", "Those in which a quota ran out.", |row| row.throttled.1),
        seconds(
            "throttled_seconds",
            "For how long its groups were held up, in all CPUs together.",
            |row| of_ns(row.throttled.2),
        ),
    ]);
    columns.extend(network());
    columns
}

/// What is null of VMs without interfaces.
fn network<'a>() -> Vec<Column<Row<'a>>> {
    let number = |name, unit, meaning, get: fn(&Row<'a>) -> Option<u64>| {
        Column::new(name, unit, meaning, Get::SomeU64(get))
    };
    let seconds = |name, meaning, get: fn(&Row<'a>) -> Option<f64>| {
        Column::new(name, "s", meaning, Get::SomeF64(get))
    };
    let mut columns: Vec<Column<Row<'a>>> = vec![
        number(
            "transmitted_packets",
            "packets",
            "Packets that it sent, as the uplinks' queues saw them. Like the next ones null if it has no interfaces.",
            |row| Some(row.network()?.transmitted_packets),
        ),
        number("transmitted_bytes", "bytes", "Bytes of those.", |row| {
            Some(row.network()?.transmitted_bytes)
        }),
    ];
    columns.extend(histogram!(
        Row<'a>,
        "queueing_delay",
        "Time of its packets in uplinks' queues",
        |row| Some(&row.network()?.queueing_delay)
    ));
    columns.push(number(
        "dropped_packets",
        "packets",
        "Its packets that the host dropped.",
        |row| Some(row.network()?.drops.iter().map(|drop| drop.packets).sum()),
    ));
    columns.extend(histogram!(Row<'a>, "round_trip", "Round trip beyond the uplink", |row| Some(
        &row.network()?.round_trip
    )));
    columns.extend([
        number(
            "sampled_packets",
            "packets",
            "Its packets that were followed through uplinks' queues.",
            |row| Some(row.network()?.queue_blame.sampled_packets),
        ),
        seconds("sampled_delay_seconds", "How long they waited, together.", |row| {
            Some(of_ns(row.network()?.queue_blame.sampled_delay_ns))
        }),
        number("bytes_ahead", "bytes", "Bytes that left meanwhile, of all senders.", |row| {
            Some(row.network()?.queue_blame.bytes_ahead)
        }),
        number(
            "received_packets",
            "packets",
            "Packets that its back end took from its taps.",
            |row| Some(row.network()?.received_packets),
        ),
        number("received_bytes", "bytes", "Bytes of those.", |row| {
            Some(row.network()?.received_bytes)
        }),
    ]);
    columns.extend(histogram!(
        Row<'a>,
        "receive_queueing_delay",
        "Time of packets to it in its taps",
        |row| Some(&row.network()?.receive_queueing_delay)
    ));
    columns.extend([
        number(
            "receive_sampled_packets",
            "packets",
            "Packets to it that were followed through its taps.",
            |row| Some(row.network()?.receive_queue_blame.sampled_packets),
        ),
        seconds("receive_sampled_delay_seconds", "How long they waited, together.", |row| {
            Some(of_ns(row.network()?.receive_queue_blame.sampled_delay_ns))
        }),
        number(
            "receive_bytes_ahead",
            "bytes",
            "Bytes that were taken meanwhile, of all senders.",
            |row| Some(row.network()?.receive_queue_blame.bytes_ahead),
        ),
    ]);
    columns
}

/// The schema of [`vms`].
pub fn vms_schema() -> SchemaRef {
    static SCHEMA: Once = Once::new();
    SCHEMA.of(&columns())
}

/// The VMs of each interval, with sums over their threads.
pub fn vms(snapshots: &[Snapshot]) -> RecordBatch {
    let of = |snapshot| move |vm| Row::new(snapshot, vm);
    let rows: Vec<Row<'_>> =
        snapshots.iter().flat_map(|snapshot| snapshot.vms.iter().map(of(snapshot))).collect();
    batch(vms_schema(), &columns(), &rows)
}
