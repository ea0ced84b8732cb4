//! How fast columns are built, and written.
//!
//! Budget, on one core of a 2020s server: schedules and distributions become columns at 20 million lines a second, so that 10 million lines take
//! half a second; into a Parquet file they go at 3 million a second. An interval of 100 VMs with 8 threads each becomes its ten tables in 5 ms:
//! half a percent of a second's interval.
//!
//! Compare within one run: `copy` is what it takes to copy as many records once.
//!
//! `cargo bench -p lowtail-arrow`

use divan::{Bencher, counter::ItemsCount};
use lowtail_arrow::{ParquetFile, RecordBatch, lab, observe};
use lowtail_discover::{Kind, Origin, Role};
use lowtail_engine::Time;
use lowtail_host::record::{Note, Record, What};
use lowtail_host::{Pcpu, Vcpu};
use lowtail_kernel::Name;
use lowtail_lab::{Experiment, Outcome, Recording, RunOptions};
use lowtail_observe::{Blame, Histogram, Runner, Snapshot, ThreadSnapshot, Unseen, VmSnapshot};
use lowtail_out::Access;

/// Lines of the long tables.
const LINES: usize = 1_000_000;

fn main() {
    divan::main();
}

/// An outcome with a long schedule and a long distribution.
fn outcome() -> Outcome {
    let text = "title = 'A loop'\nduration = '1ms'\n[host]\nscheduler = { kind = 'null' }\n\
                [vm.a]\nworkload = { kind = 'cpu-loop' }\n[[case]]\nname = 'one'\n";
    let experiment = Experiment::parse("loop.toml", text, None).expect("a scenario");
    let outcome = lowtail_lab::run(&experiment, &RunOptions::default(), &|_| ());
    let mut outcome = outcome.expect("it runs");
    let kinds = [What::Wake, What::Run, What::Note(Note::RateLimited), What::Preempt];
    let record = |n: usize| Record {
        time: Time::from_ps(n as u64 * 1_234_567),
        pcpu: Pcpu((n % 16) as u16),
        vcpu: Vcpu((n % 64) as u16),
        what: kinds[n % 4],
    };
    outcome.cases[0].recording = Some(Recording {
        case: "one".to_owned(),
        pcpus: 16,
        vcpus: (0..64).map(|n| format!("vm{n}")).collect(),
        records: (0..LINES).map(record).collect(),
        dropped: 0,
    });
    let point = |n: usize| (n as f64 * 0.001, 1.0 - n as f64 / LINES as f64);
    outcome.rows[0].tail = (0..LINES).map(point).collect();
    outcome
}

/// An interval of a host with 100 VMs.
fn snapshot() -> Snapshot {
    let mut latency = Histogram::default();
    (0..1000).for_each(|n| latency.record(n * 997));
    let thread = |n: u16| ThreadSnapshot {
        tid: n.into(),
        role: if n < 4 { Role::Vcpu(n) } else { Role::Worker },
        comm: Name::new("CPU 0/KVM"),
        run_time_ns: 1,
        ready_after_wakeup_ns: 2,
        ready_after_preemption_ns: 3,
        wakeup_latency: latency.clone(),
        preemption_latency: latency.clone(),
        current_wait_ns: 0,
        blame: (0..4)
            .map(|n| Blame { runner: Runner::Vm(Name::new("other"), n), ready_ns: 5, reason: None })
            .collect(),
    };
    let vm = |n: u32| VmSnapshot {
        name: Name::new(format!("vm{n}")),
        kind: Kind::Libvirt,
        origin: Origin::libvirt(),
        pid: n,
        started_ticks: n.into(),
        ended: false,
        threads: (0..8).map(thread).collect(),
        throttled: Vec::new(),
        network: None,
        unseen_threads: Unseen::default(),
    };
    Snapshot {
        unix_ms: 1,
        interval_ms: 1000.0,
        vms: (0..100).map(vm).collect(),
        ..Snapshot::default()
    }
}

#[divan::bench]
fn copy(bencher: Bencher<'_, '_>) {
    let outcome = outcome();
    let records = &outcome.cases[0].recording.as_ref().expect("a schedule").records;
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| records.clone());
}

#[divan::bench]
fn schedules(bencher: Bencher<'_, '_>) {
    let outcome = [outcome()];
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| lab::schedules(&outcome));
}

#[divan::bench]
fn distributions(bencher: Bencher<'_, '_>) {
    let outcome = [outcome()];
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| lab::distributions(&outcome));
}

#[divan::bench]
fn schedules_into_a_file(bencher: Bencher<'_, '_>) {
    let batch: RecordBatch = lab::schedules(&[outcome()]);
    bencher.counter(ItemsCount::new(LINES)).bench_local(|| {
        let path = std::path::Path::new("/dev/null");
        let file = ParquetFile::create(path, batch.schema(), Access::Usual);
        let mut file = file.expect("a device");
        file.write(&batch).and_then(|()| file.finish()).expect("written");
    });
}

#[divan::bench]
fn interval_of_100_vms(bencher: Bencher<'_, '_>) {
    let snapshot = snapshot();
    bencher.bench_local(|| observe::batches(&snapshot, &[]));
}
