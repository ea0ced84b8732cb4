//! Runs: each case is a pure function of its configuration and the seed.

use lowtail_engine::{Hist, Time};
use lowtail_host::Host;
use lowtail_host::record::Record;
use lowtail_host::stats::{VcpuStats, Worst};
use lowtail_net::Net;

use crate::case::{Case, Group, HostCase, RowSpec, VmRef};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::figures;
use crate::metric::TimeUnit;
use crate::network::watch::Watch;
use crate::network::world::World;
use crate::outcome::{CaseOutcome, CaseResult, Outcome, Recording};
use crate::pool;
use crate::row::{Of, Row, latency_figures, tail};
use crate::window::{self, Windows};

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// In place of the experiment's own seed.
    pub seed: Option<u64>,
    /// How many cases to run at the same time; 0 counts as 1.
    pub jobs: usize,
    /// The longer form.
    pub full: bool,
    /// How many records of each case's schedule to keep; 0 for none.
    pub record: usize,
    /// Names of the cases to run; all if there are none.
    pub cases: Vec<String>,
    /// What to look at in networks.
    pub watch: Watch,
}

impl RunOptions {
    /// Whether `case` is to run.
    pub fn chosen(&self, case: &Case) -> bool {
        self.cases.is_empty() || self.cases.contains(&case.name)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            seed: None,
            jobs: 1,
            full: false,
            record: 0,
            cases: Vec::new(),
            watch: Watch::default(),
        }
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Cases done.
    pub done: usize,
    /// Cases in all.
    pub total: usize,
}

/// Records kept to show what led to the longest wait.
const WORST_RECORDS: usize = 4096;
/// Records of a longest wait that are handed out.
const WORST_RECORDS_KEPT: usize = 512;

/// Runs all cases of an experiment and judges its claims. `progress` is called on the
/// calling thread, once before the first case and after each.
///
/// # Errors
/// If there is no case or link of a name that `options` has, or a check inside the simulator
/// failed.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    progress: &dyn Fn(Progress),
) -> Result<Outcome, Error> {
    let cases = experiment.chosen(options)?;
    let seed = options.seed.unwrap_or(experiment.file.seed);
    let unit = experiment.file.unit;
    let windows = experiment.file.uses("window_share");
    let keep = Keep {
        record: options.record,
        windows,
        watch: Some(&options.watch),
        experiment: &experiment.name,
    };
    let case = |i: usize| run_case(cases[i], seed, unit, &keep);
    let results = pool::run(cases.len(), options.jobs, progress, case);
    let results = results.map_err(|(i, message)| {
        let (experiment, case) = (experiment.name.clone(), cases[i].name.clone());
        Error::Simulator { experiment, case, seed, message }
    })?;
    Ok(Outcome::new(experiment, options, seed, results))
}

/// What has been run.
pub(crate) struct Ran {
    /// The hosts, in the order of [`Case::hosts`].
    pub(crate) hosts: Vec<Host>,
    /// The network between them.
    pub(crate) net: Option<Net>,
}

impl Ran {
    /// When it ended.
    pub(crate) fn now(&self) -> Time {
        let hosts = self.hosts.iter().map(Host::now);
        hosts.chain(self.net.iter().map(Net::now)).max().unwrap_or(Time::ZERO)
    }

    /// The statistics of all vCPUs of `vms`.
    pub(crate) fn vcpus<'r>(&'r self, vms: &'r [VmRef]) -> impl Iterator<Item = &'r VcpuStats> {
        vms.iter().flat_map(|vm| {
            let host = &self.hosts[vm.host];
            host.facts().doms[vm.dom.index()].vcpus.iter().map(|&v| host.vcpu_stats(v))
        })
    }
}

/// What of a run is kept besides its figures.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keep<'k> {
    /// How many records of the schedule.
    pub(crate) record: usize,
    /// Figures that need the machine looked at every millisecond.
    pub(crate) windows: bool,
    /// What is seen of a network.
    pub(crate) watch: Option<&'k Watch>,
    /// What it is a case of.
    pub(crate) experiment: &'k str,
}

pub(crate) fn run_case(case: &Case, seed: u64, unit: TimeUnit, keep: &Keep<'_>) -> CaseResult {
    let Keep { record, windows, .. } = *keep;
    let first = case.rows.first().and_then(|row| row.groups.first().copied());
    let watched = first.and_then(|group| case.groups[group].vms.first().copied());
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
    let mut shares = Vec::new();
    let ran = match (&case.network, &mut hosts[..]) {
        (Some(network), _) => {
            let mut world = World::new(network, hosts, seed);
            if let Some(watch) = keep.watch {
                network.tap(world.net_mut(), watch);
            }
            world.run(end);
            let (net, hosts) = world.into_parts();
            Ran { hosts, net: Some(net) }
        }
        (None, [host]) if windows => {
            let mut windows = Windows::new(case);
            host.run_watched(end, window::STEP, |host| windows.look(host));
            shares = windows.shares(host);
            Ran { hosts, net: None }
        }
        (None, _) => {
            for host in &mut hosts {
                host.run(end);
            }
            Ran { hosts, net: None }
        }
    };
    let shared = figures::shared(case, &ran, &shares);
    let rows = case.rows.iter().map(|spec| row(case, spec, &ran, unit, &shared)).collect();
    let host = case.hosts.get(focus);
    let vcpus = host.map_or(Vec::new(), vcpu_names);
    let pcpus = host.map_or(0, |host| host.config.pcpus);
    let machine = ran.hosts.get(focus);
    let recording = machine.filter(|_| record > 0).map(|machine| {
        let records: Vec<Record> = machine.recorder().iter().copied().collect();
        // More may have been kept for the sake of the longest wait.
        let excess = records.len().saturating_sub(record);
        Recording {
            case: case.name.clone(),
            pcpus,
            vcpus: vcpus.clone(),
            records: records[excess..].to_vec(),
            dropped: machine.recorder().dropped() + excess as u64,
        }
    });
    let describe = |group: &Group| {
        let vm = group.vms.first()?;
        let host = &case.hosts[vm.host];
        let vcpus = host.threads[vm.dom.index()].vcpus;
        let vm = &host.config.vms[vm.dom.index()];
        Some((group_name(group), vm_text(vm, vcpus, &host.config.cgroups)))
    };
    let watched = watched.zip(machine);
    let (mut captured, mut queues, mut outline) = (None, Vec::new(), None);
    if let (Some(network), Some(net)) = (&case.network, &ran.net) {
        let about = format!("{}, case {}, seed {seed}", keep.experiment, case.name);
        captured = network.captured(case, net, &about);
        queues = network.queues(net);
        outline = Some(network.outline(net));
    }
    let outcome = CaseOutcome {
        name: case.name.clone(),
        scheduler: case.describe(),
        vms: case.groups.iter().filter_map(describe).collect(),
        pcpus,
        vcpus,
        watched: watched.map(|(vm, machine)| machine.facts().doms[vm.dom.index()].vcpus[0].0),
        worst: machine.and_then(Host::worst).cloned().map(shorten),
        network: outline,
        recording,
        captured,
        queues,
    };
    CaseResult { rows, case: outcome }
}

fn group_name(group: &Group) -> String {
    match group.vms.len() {
        1 => group.name.clone(),
        n => format!("{} ({n} VMs)", group.name),
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
    text += &crate::kvm::machine::describe(vm, cgroups);
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
        vcpus.chain(threads.others.iter().map(move |other| format!("{}.{other}", vm.name)))
    });
    names.collect()
}

fn row(case: &Case, spec: &RowSpec, ran: &Ran, unit: TimeUnit, shared: &[(String, f64)]) -> Row {
    let mut hist = Hist::new();
    let (mut late, mut complete) = (0, true);
    let groups = || spec.groups.iter().map(|&group| &case.groups[group]);
    for vm in groups().flat_map(|group| &group.vms) {
        let outcome = ran.hosts[vm.host].outcome(vm.dom);
        late += outcome.counters.iter().find(|(name, _)| *name == "late").map_or(0, |(_, n)| *n);
        let vcpus = || ran.vcpus(std::slice::from_ref(vm));
        match (spec.of, outcome.latency) {
            (Of::Latency, Some(latency)) => hist.merge(&latency),
            (Of::Latency, None) => {}
            (Of::WakeToRun, _) => vcpus().for_each(|stats| hist.merge(&stats.wake_to_run)),
            (Of::PreemptedToRun, _) => {
                vcpus().for_each(|stats| hist.merge(&stats.preempted_to_run));
            }
        }
    }
    if let (Some((traffic, size)), Some(net)) = (spec.traffic, &ran.net) {
        let stats = &net.stats()[traffic];
        hist.merge(size.map_or(&stats.latency, |size| &stats.bins[size]));
        let wanted =
            case.network.as_ref().map_or(0, |network| network.config().traffic[traffic].count);
        complete = stats.latency.n() >= wanted;
    }
    let mut figures = latency_figures(&hist, unit);
    if spec.of == Of::Latency && spec.traffic.is_none() {
        let wanted = |group: &Group| group.measures.unwrap_or(0) * group.vms.len() as u64;
        complete = hist.n() >= groups().map(wanted).sum();
        if groups().any(|group| group.counts_late) && hist.n() > 0 {
            let per_600k = late as f64 * 600_000.0 / hist.n() as f64;
            figures.push(("late".to_string(), late as f64));
            figures.push(("late_per_600k".to_string(), per_600k));
        }
    }
    figures.extend(shared.iter().cloned());
    let (name, n) = (spec.name.clone(), hist.n());
    let tail = if n == 0 { Vec::new() } else { tail(&hist, unit) };
    Row { name, n, unit, figures, tail, variables: case.variables.clone(), complete }
}
