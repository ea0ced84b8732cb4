//! One case by one seed: a pure function of its configuration and the seed.

use lowtail_engine::{Hist, Time};
use lowtail_host::Host;
use lowtail_host::record::Record;
use lowtail_host::stats::Worst;

use crate::case::spec::{Case, HostCase, RowSpec, VmKind};
use crate::figures;
use crate::metric::TimeUnit;
use crate::network::watch::Watch;
use crate::outcome::{CaseOutcome, CaseResult, Recording};
use crate::queue_blame;
use crate::row::{Row, latency_figures, tail};
use crate::row_file::DelayKind;
use crate::simulation::Simulation;
use crate::window::{self, Windows};

/// Records kept to show what led to the longest wait.
const WORST_RECORDS: usize = 4096;
/// Records of a longest wait that are handed out.
const WORST_RECORDS_KEPT: usize = 512;

/// What is kept of a run besides its figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeepOptions<'k> {
    /// How many records of the schedule.
    pub(crate) record: usize,
    /// Figures for which the host is sampled every millisecond.
    pub(crate) windows: bool,
    /// What is seen of a network.
    pub(crate) watch: Option<&'k Watch>,
    /// When transfers of lists were complete.
    pub(crate) completions: bool,
    /// Whose bytes were in front of whose packets.
    pub(crate) blame: bool,
    /// What it is a case of.
    pub(crate) experiment: &'k str,
}

pub(crate) fn run_case(
    case: &Case,
    seed: u64,
    unit: TimeUnit,
    keep: &KeepOptions<'_>,
) -> CaseResult {
    let KeepOptions { record, windows, .. } = *keep;
    let first = case.rows.first().and_then(|row| row.kinds.first().copied());
    let watched = first.and_then(|kind| case.kinds[kind].vms.first().copied());
    // The host about which more is kept than figures.
    let focus = watched.map_or(0, |vm| vm.host);
    let hosts = case.hosts.iter().enumerate().map(|(i, host)| {
        let mut config = host.config.clone();
        if i == focus {
            config.records = record.max(WORST_RECORDS);
            config.watch = watched.map(|vm| vm.dom);
        }
        // Hosts in a network do not roll the same dice.
        let seed = seed.wrapping_add((i as u64) << 32);
        Host::new(&config, seed).expect("checked when it was read")
    });
    let mut hosts: Vec<Host> = hosts.collect();
    let end = Time::ZERO + case.duration;
    if keep.blame {
        queue_blame::ask_hosts(case, &mut hosts);
    }
    let mut shares = Vec::new();
    let simulation = match (&case.network, &mut hosts[..]) {
        (Some(network), _) => {
            let mut world = network.world(hosts, seed);
            if let Some(watch) = keep.watch {
                network.tap(world.net_mut(), watch);
            }
            if keep.blame {
                network.blame(world.net_mut());
            }
            world.run(end);
            let (net, hosts) = world.into_parts();
            Simulation { hosts, net: Some(net) }
        }
        (None, [_]) if !case.hosts[0].links.is_empty() => {
            let mut world = case.hosts[0].links.world(hosts.remove(0), seed);
            if keep.blame {
                let (net, hosts) = world.parts_mut();
                queue_blame::ask_links(case, hosts, net);
            }
            if windows {
                let mut windows = Windows::new(case);
                world.run_watched(end, window::STEP, |host| windows.look(host));
                shares = windows.shares(&world.hosts()[0]);
            } else {
                world.run(end);
            }
            let (net, mut hosts) = world.into_parts();
            // One clock: the host's is where the last packet left it.
            let now = net.now().max(hosts[0].now());
            hosts[0].advance(now).expect("all before has been handled");
            Simulation { hosts, net: Some(net) }
        }
        (None, [host]) if windows => {
            let mut windows = Windows::new(case);
            host.run_watched(end, window::STEP, |host| windows.look(host));
            shares = windows.shares(host);
            Simulation { hosts, net: None }
        }
        (None, _) => {
            for host in &mut hosts {
                host.run(end);
            }
            Simulation { hosts, net: None }
        }
    };
    let shared = figures::shared(case, &simulation, &shares);
    let rows = case.rows.iter().map(|spec| row(case, spec, &simulation, unit, &shared)).collect();
    let host = case.hosts.get(focus);
    let vcpus = host.map_or(Vec::new(), vcpu_names);
    let pcpus = host.map_or(0, |host| host.config.pcpus);
    let simulated = simulation.hosts.get(focus);
    let recording = simulated.filter(|_| record > 0).map(|host| {
        let records: Vec<Record> = host.recorder().iter().copied().collect();
        // More may have been kept for the sake of the longest wait.
        let excess = records.len().saturating_sub(record);
        Recording {
            case: case.name.clone(),
            pcpus,
            vcpus: vcpus.clone(),
            records: records[excess..].to_vec(),
            dropped: host.recorder().dropped() + excess as u64,
        }
    });
    let describe = |kind: &VmKind| {
        let vm = kind.vms.first()?;
        let host = &case.hosts[vm.host];
        let vcpus = host.threads[vm.dom.index()].vcpus;
        let vm = &host.config.vms[vm.dom.index()];
        Some((kind_name(kind), vm_text(vm, vcpus, &host.config.cgroups)))
    };
    let watched = watched.zip(simulated);
    let (mut captured, mut queues, mut outline) = (None, Vec::new(), None);
    let mut completions = Vec::new();
    if let (Some(network), Some(net)) = (&case.network, &simulation.net) {
        let about = format!("{}, case {}, seed {seed}", keep.experiment, case.name);
        captured = network.captured(case, net, &about);
        queues = network.queues(net);
        outline = Some(network.outline(net));
        if keep.completions {
            completions = network.completions(net);
        }
    }
    let outcome = CaseOutcome {
        name: case.name.clone(),
        scheduler: case.describe(),
        vms: case.kinds.iter().filter_map(describe).collect(),
        pcpus,
        vcpus,
        watched: watched.map(|(vm, host)| host.state().doms[vm.dom.index()].vcpus[0].0),
        worst: simulated.and_then(Host::worst).cloned().map(shorten),
        network: outline,
        recording,
        captured,
        queues,
        completions,
        queue_blame: match keep.blame {
            true => queue_blame::gathered(case, &simulation),
            false => Vec::new(),
        },
    };
    CaseResult { rows, case: outcome }
}

fn kind_name(kind: &VmKind) -> String {
    match kind.vms.len() {
        1 => kind.name.clone(),
        n => format!("{} ({n} VMs)", kind.name),
    }
}

fn vm_text(
    vm: &lowtail_host::VmConfig,
    vcpus: u16,
    cgroups: &[lowtail_host::cgroup::CgroupConfig],
) -> String {
    let mut text = crate::workload::describe(&vm.workload);
    if vcpus != 1 {
        text += &format!("; {vcpus} vCPUs");
    }
    if vm.weight != 256 {
        text += &format!("; weight {}", vm.weight);
    }
    if vm.cap_percent != 0 {
        text += &format!("; cap {} %", vm.cap_percent);
    }
    text += &crate::kvm::vm::describe(vm, cgroups);
    text
}

/// The last records before the end of the wait.
fn shorten(mut worst: Worst) -> Worst {
    let excess = worst.records.len().saturating_sub(WORST_RECORDS_KEPT);
    worst.records.drain(..excess);
    worst
}

fn vcpu_names(host: &HostCase) -> Vec<String> {
    let vms = host.config.vms.iter().zip(&host.threads);
    let names = vms.flat_map(|(vm, threads)| {
        let vcpus = (0..threads.vcpus).map(move |i| match vm.vcpus {
            1 => vm.name.clone(),
            _ => format!("{}.{i}", vm.name),
        });
        vcpus.chain(threads.helpers.iter().map(move |other| format!("{}.{other}", vm.name)))
    });
    names.collect()
}

fn row(
    case: &Case,
    spec: &RowSpec,
    simulation: &Simulation,
    unit: TimeUnit,
    shared: &[(String, f64)],
) -> Row {
    let mut hist = Hist::new();
    let (mut late, mut complete) = (0, true);
    let kinds = || spec.kinds.iter().map(|&kind| &case.kinds[kind]);
    for vm in kinds().flat_map(|kind| &kind.vms) {
        let outcome = simulation.hosts[vm.host].outcome(vm.dom);
        late += outcome.counters.iter().find(|(name, _)| *name == "late").map_or(0, |(_, n)| *n);
        let vcpus = || simulation.vcpus(std::slice::from_ref(vm));
        match (spec.of, simulation.latency(case, *vm)) {
            (DelayKind::Latency, Some(latency)) => hist.merge(&latency),
            (DelayKind::Latency, None) => {}
            (DelayKind::WakeupLatency, _) => {
                vcpus().for_each(|stats| hist.merge(&stats.wakeup_latency));
            }
            (DelayKind::PreemptionLatency, _) => {
                vcpus().for_each(|stats| hist.merge(&stats.preemption_latency));
            }
            (DelayKind::BackendWakeupLatency, _) => {
                let own = case.hosts[vm.host].threads[vm.dom.index()].vcpus;
                let others = vcpus().skip(usize::from(own));
                others.for_each(|stats| hist.merge(&stats.wakeup_latency));
            }
            (DelayKind::TapWait, _) => {
                let waits = simulation.hosts[vm.host].io().tap_waits(vm.dom);
                waits.iter().for_each(|waits| hist.merge(waits));
            }
        }
    }
    if let (Some((traffic, size)), Some(net)) = (spec.traffic, &simulation.net) {
        let stats = &net.stats()[traffic];
        hist.merge(size.map_or(&stats.latency, |size| &stats.bins[size]));
        let wanted =
            case.network.as_ref().map_or(0, |network| network.config().traffic[traffic].count);
        complete = stats.latency.n() >= wanted;
    }
    let mut figures = latency_figures(&hist, unit);
    if spec.of == DelayKind::Latency && spec.traffic.is_none() {
        let wanted = |kind: &VmKind| kind.measures.unwrap_or(0) * kind.vms.len() as u64;
        complete = hist.n() >= kinds().map(wanted).sum();
        if kinds().any(|kind| kind.counts_late) && hist.n() > 0 {
            let per_600k = late as f64 * 600_000.0 / hist.n() as f64;
            figures.push(("late".to_string(), late as f64));
            figures.push(("late_per_600k".to_string(), per_600k));
        }
    }
    figures.extend(shared.iter().cloned());
    let (name, n) = (spec.name.clone(), hist.n());
    let tail = if n == 0 { Vec::new() } else { tail(&hist, unit) };
    let (intervals, variables) = (Vec::new(), case.variables.clone());
    Row { name, n, unit, figures, intervals, tail, variables, complete }
}
