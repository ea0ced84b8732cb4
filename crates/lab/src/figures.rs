//! Figures of a case as a whole, which all its rows have in common.

use lowtail_engine::{Duration, Time};
use lowtail_host::Pcpu;
use lowtail_net::Net;

use crate::case::spec::{Case, VmKind};
use crate::network::build::NetworkCase;
use crate::simulation::Simulation;

/// All of them; `windows` are each kind's largest shares, if wanted.
pub(crate) fn shared(case: &Case, simulation: &Simulation, windows: &[f64]) -> Vec<(String, f64)> {
    let simulated_seconds = simulation.now().since(Time::ZERO).as_s_f64();
    let per_s = |x: f64| if simulated_seconds > 0.0 { x / simulated_seconds } else { 0.0 };
    let (mut switches, mut schedules, mut busy_s) = (0, 0, 0.0);
    let mut events = simulation.net.as_ref().map_or(0, Net::events);
    for (host_case, host) in case.hosts.iter().zip(&simulation.hosts) {
        events += host.events();
        for stats in (0..host_case.config.pcpus).map(|p| host.pcpu_stats(Pcpu(p))) {
            switches += stats.switches;
            schedules += stats.schedules;
            busy_s += stats.busy.as_s_f64();
        }
    }
    let mut figures = vec![
        ("switches_per_second".to_string(), per_s(switches as f64)),
        ("schedules_per_second".to_string(), per_s(schedules as f64)),
        ("busy_cpus".to_string(), per_s(busy_s)),
        ("simulated_seconds".to_string(), simulated_seconds),
        ("events".to_string(), events as f64),
    ];
    let pcpus: u32 = case.hosts.iter().map(|host| u32::from(host.config.pcpus)).sum();
    if pcpus > 0 {
        let busy = per_s(busy_s) * 100.0 / f64::from(pcpus);
        figures.push(("guest_percent".to_string(), busy));
        figures.push(("idle_percent".to_string(), 100.0 - busy));
    }
    let kinds = || case.kinds.iter().filter(|kind| !kind.vms.is_empty());
    let times: Vec<(f64, f64)> = kinds().map(|kind| cpu_and_work_s(kind, simulation)).collect();
    for (kind, (cpu_s, work_s)) in kinds().zip(&times) {
        let others_s: f64 = times.iter().map(|(cpu_s, _)| cpu_s).sum::<f64>() - cpu_s;
        let left_s = busy_s - others_s;
        if left_s > 0.0 {
            let lost = 100.0 * (1.0 - work_s / left_s);
            figures.push((format!("lost_percent.{}", kind.name), lost));
        }
    }
    for (i, kind) in case.kinds.iter().enumerate().filter(|(_, kind)| !kind.vms.is_empty()) {
        figures.extend(of_vms(case, kind, simulation, &per_s));
        figures.extend(crate::kvm::figures::of_vms(case, kind, simulation));
        figures.extend(windows.get(i).map(|&s| (format!("cpus_used_in_window.{}", kind.name), s)));
    }
    if let (Some(network), Some(net)) = (&case.network, &simulation.net) {
        figures.extend(of_traffic(network, net));
    }
    figures
}

/// CPU time that the VMs of a kind were charged, with the switches to them and what cold caches cost them, and the work that
/// they got done in it.
fn cpu_and_work_s(kind: &VmKind, simulation: &Simulation) -> (f64, f64) {
    let (mut cpu_s, mut work_s) = (0.0, 0.0);
    for vm in &kind.vms {
        let host = &simulation.hosts[vm.host];
        for &v in &host.state().doms[vm.dom.index()].vcpus {
            let (cpu, work) = host.vcpu_time(v);
            cpu_s += cpu.as_s_f64();
            work_s += work.as_s_f64();
        }
    }
    (cpu_s, work_s)
}

/// Of the VMs of a kind.
fn of_vms(
    case: &Case,
    kind: &VmKind,
    simulation: &Simulation,
    per_s: &dyn Fn(f64) -> f64,
) -> Vec<(String, f64)> {
    let (cpu_s, work_s) = cpu_and_work_s(kind, simulation);
    let wakes: u64 = simulation.vcpus(&kind.vms).map(|stats| stats.wakes).sum();
    let preempted: u64 = simulation.vcpus(&kind.vms).map(|stats| stats.preempted).sum();
    let name = &kind.name;
    let mut figures = vec![
        (format!("cpus_used.{name}"), per_s(cpu_s)),
        (format!("work_cpus.{name}"), per_s(work_s)),
        (format!("wakeups_per_second.{name}"), per_s(wakes as f64)),
        (format!("preemptions_per_second.{name}"), per_s(preempted as f64)),
    ];
    if let Some(backend_s) = backend_s(case, kind, simulation) {
        figures.push((format!("backend_cpus.{name}"), per_s(backend_s)));
    }
    if kind.streams {
        figures.extend(of_streams(case, kind, simulation));
    }
    let counters =
        kind.vms.iter().flat_map(|vm| simulation.hosts[vm.host].outcome(vm.dom).counters);
    for (counter, ns) in counters {
        let stem = match counter {
            "lock_held_ns" => "lock_held_ratio",
            "process_ns" => "process_cpus",
            "lock_waited_ns" => "lock_wait_cpus",
            _ => continue,
        };
        let (figure, share) = (format!("{stem}.{name}"), per_s(ns as f64 / 1e9));
        match figures.iter_mut().find(|known| known.0 == figure) {
            Some(known) => known.1 += share,
            None => figures.push((figure, share)),
        }
    }
    figures
}

/// CPU time of the threads besides vCPUs of the VMs of a kind, if they serve interfaces.
fn backend_s(case: &Case, kind: &VmKind, simulation: &Simulation) -> Option<f64> {
    let mut sum = None;
    for vm in &kind.vms {
        let host = &simulation.hosts[vm.host];
        if host.io().tap_waits(vm.dom).is_none() {
            continue;
        }
        let own = case.hosts[vm.host].threads[vm.dom.index()].vcpus;
        let threads = host.state().doms[vm.dom.index()].vcpus.iter().skip(usize::from(own));
        let spans = threads.map(|&v| host.vcpu_time(v).0.as_s_f64());
        sum = Some(sum.unwrap_or(0.0) + spans.sum::<f64>());
    }
    sum
}

/// Jain's index of fairness: 1 if all get the same, 1/n if one gets everything.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 }
}

/// Figures of the flows of a kind of VM.
fn of_streams(case: &Case, kind: &VmKind, simulation: &Simulation) -> [(String, f64); 3] {
    let end = simulation.now();
    let simulated_seconds = end.since(Time::ZERO).as_s_f64();
    let mut lost = 0;
    let rates = kind.vms.iter().map(|vm| {
        simulation.flows_of(case, *vm).fold(0.0, |sum, flow| {
            lost += flow.lost();
            let sent = end.since(Time::ZERO).min(flow.config.until);
            sum + mbit_per_second(flow.delivered_bytes(), sent.saturating_sub(flow.config.warmup))
        })
    });
    let rates: Vec<f64> = rates.collect();
    let name = &kind.name;
    let per_s = if simulated_seconds > 0.0 { lost as f64 / simulated_seconds } else { 0.0 };
    [
        (format!("mbit_per_second.{name}"), rates.iter().sum()),
        (format!("lost_per_second.{name}"), per_s),
        (format!("jain.{name}"), jain(&rates)),
    ]
}

/// Figures of the traffic of a network.
fn of_traffic(network: &NetworkCase, net: &Net) -> Vec<(String, f64)> {
    let end = net.now().since(Time::ZERO);
    let kinds = network.config().traffic.iter().zip(net.stats()).enumerate();
    let figures = kinds.flat_map(|(i, (config, stats))| {
        let span = config.counted(end);
        let rates: Vec<f64> = net.delivered(i).map(|bytes| mbit_per_second(bytes, span)).collect();
        let whole = end.as_s_f64();
        let lost = if whole > 0.0 { stats.dropped as f64 / whole } else { 0.0 };
        let name = &config.name;
        [
            (format!("mbit_per_second.{name}"), mbit_per_second(stats.delivered_bytes, span)),
            (format!("lost_per_second.{name}"), lost),
            (format!("jain.{name}"), jain(&rates)),
        ]
    });
    figures.collect()
}

/// Megabits per second; none if there was no time.
fn mbit_per_second(bytes: u64, span: Duration) -> f64 {
    if span.is_zero() { 0.0 } else { bytes as f64 * 8.0 / span.as_s_f64() / 1e6 }
}
