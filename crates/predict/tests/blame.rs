//! Whom VMs waited for is counted as `lowtail trace latency` counts it, in a recording and in a simulated schedule.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use lowtail_predict::{Ahead, Change, Recording, Setup, predict, recorded_scheduler, simulated};
use lowtail_trace::{Options, Role, VcpuLatency, latency};

/// Waits of each VM's vCPUs in microseconds, by VM and who ran, from the analysis of `lowtail trace latency`.
fn by_trace(bytes: &[u8]) -> BTreeMap<(String, Ahead), f64> {
    let latency = latency(bytes, &Options::default()).unwrap();
    let vm = |vcpu: &VcpuLatency| match &vcpu.thread {
        Some(thread) => thread.vm.clone(),
        // Of Xen: d1v0 is of d1.
        None => vcpu.vcpu.split_once('v').map(|(domain, _)| domain.to_owned()),
    };
    let vms: HashMap<&str, Option<String>> =
        latency.vcpus.iter().map(|vcpu| (vcpu.vcpu.as_str(), vm(vcpu))).collect();
    let mut all = BTreeMap::new();
    for vcpu in &latency.vcpus {
        let role = vcpu.thread.as_ref().map_or(Some(Role::Vcpu(0)), |thread| thread.role);
        let (Some(vm), Some(Role::Vcpu(_))) = (vm(vcpu), role) else { continue };
        for blame in &vcpu.blame {
            let ahead = match (blame.vcpu.as_str(), vms.get(blame.vcpu.as_str())) {
                (_, Some(Some(vm))) => Ahead::Vm(vm.clone()),
                (_, Some(None)) => Ahead::Host,
                ("unknown", _) => Ahead::Unknown,
                _ => Ahead::Nobody,
            };
            *all.entry((vm.clone(), ahead)).or_insert(0.0) += blame.waited_us;
        }
    }
    all
}

#[test]
fn waits_are_counted_as_trace_counts_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/web-batch.ltr");
    let bytes = std::fs::read(path).unwrap();
    let recording = Recording::read(&bytes[..], &Options::default()).unwrap();
    let setup = Setup::new(recorded_scheduler(&recording.host, None).unwrap());
    let prediction = predict(&recording, &setup, &Change::default(), 1, false).unwrap();
    let replay = simulated(&recording, &setup, None, Vec::new()).unwrap();
    let (recorded, replayed) = (by_trace(&bytes), by_trace(&replay));
    let mut seen = 0;
    for vm in &prediction.vms {
        for row in &vm.waited {
            let key = (vm.name.clone(), row.ahead.clone());
            for (ours, theirs) in [(row.recorded_us, &recorded), (row.replayed_us, &replayed)] {
                let theirs = theirs.get(&key).copied().unwrap_or(0.0);
                let ours = ours.unwrap();
                // Races, where a thread is woken while it is switched out, begin a moment earlier there.
                let near = (ours - theirs).abs() <= 200.0 + 0.002 * theirs;
                assert!(near, "{key:?}: {ours} us, by trace {theirs} us");
                seen += usize::from(theirs > 10_000.0);
            }
            assert!(row.predicted_us.is_none(), "nothing was changed: {row:?}");
        }
        let ours: f64 = vm.waited.iter().filter_map(|row| row.recorded_us).sum();
        let theirs = recorded.iter().filter(|((of, _), _)| *of == vm.name).map(|of| of.1);
        assert!((ours - theirs.sum::<f64>()).abs() <= 1_000.0, "{}: {ours}", vm.name);
    }
    assert!(seen >= 10, "few waits were compared: {seen}");
}

/// A recording of Xen tells the same as a Linux host's events as `trace latency` says of its own records.
#[test]
fn waits_in_xen_are_counted_as_trace_counts_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../trace/data/credit2-4.20-ratelimit1000.bin");
    let bytes = std::fs::read(path).unwrap();
    let recording = Recording::read(&bytes[..], &Options::default()).unwrap();
    assert_eq!(recording.host.vms, ["d0", "d2", "d1"], "in the order in which they appear");
    let setup = Setup::new(recorded_scheduler(&recording.host, None).unwrap());
    let prediction = predict(&recording, &setup, &Change::default(), 1, false).unwrap();
    let recorded = by_trace(&bytes);
    let ours = |vm: &str, ahead: &str| {
        let of = prediction.vms.iter().find(|of| of.name == vm).unwrap();
        let row = of.waited.iter().find(|row| row.ahead == Ahead::Vm(ahead.to_owned())).unwrap();
        (row.recorded_us.unwrap(), row.replayed_us.unwrap())
    };
    for (vm, ahead) in [("d1", "d2"), ("d2", "d1")] {
        let theirs = recorded[&(vm.to_owned(), Ahead::Vm(ahead.to_owned()))];
        let (ours, replayed) = ours(vm, ahead);
        // A switch takes 10 us, which some of 165 waits have at their beginning in one way of counting and not in the other.
        let near = |us: f64| (us - theirs).abs() <= 3_000.0 + 0.01 * theirs;
        assert!(near(ours) && near(replayed), "{vm} behind {ahead}: {ours} {replayed}, {theirs}");
    }
    assert!(recorded[&("d1".to_owned(), Ahead::Vm("d2".to_owned()))] > 1e6, "{recorded:?}");
}
