//! Runs: each case is a pure function of its configuration and the seed.

use lowtail_engine::{Hist, Time};
use lowtail_host::machine::Machine;
use lowtail_host::record::Record;
use lowtail_host::stats::{VcpuStats, Worst};
use lowtail_host::{Dom, Pcpu};

use crate::case::{Case, Group, RowSpec};
use crate::error::Error;
use crate::experiment::Experiment;
use crate::metric::TimeUnit;
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
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { seed: None, jobs: 1, full: false, record: 0 }
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
/// If a check inside the simulator failed.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    progress: &dyn Fn(Progress),
) -> Result<Outcome, Error> {
    let cases = experiment.cases(options.full);
    let seed = options.seed.unwrap_or(experiment.file.seed);
    let unit = experiment.file.unit;
    let windows = experiment.file.uses("window_share");
    let case = |i: usize| run_case(&cases[i], seed, unit, options.record, windows);
    let results = pool::run(cases.len(), options.jobs, progress, case);
    let results = results.map_err(|(i, message)| {
        let (experiment, case) = (experiment.name.clone(), cases[i].name.clone());
        Error::Simulator { experiment, case, seed, message }
    })?;
    Ok(Outcome::new(experiment, options.full, seed, results))
}

/// `windows` asks for the figures that need the machine looked at every millisecond.
pub(crate) fn run_case(
    case: &Case,
    seed: u64,
    unit: TimeUnit,
    record: usize,
    windows: bool,
) -> CaseResult {
    let mut config = case.config.clone();
    config.records = record.max(WORST_RECORDS);
    let first = case.rows.first().and_then(|row| row.groups.first().copied());
    config.watch = first.and_then(|group| case.groups[group].doms.first().copied());
    let mut machine = Machine::new(&config, seed).expect("checked when it was read");
    let end = Time::ZERO + case.duration;
    let shared = if windows {
        let mut windows = Windows::new(case);
        machine.run_watched(end, window::STEP, |machine| windows.look(machine));
        shared_figures(case, &machine, &windows.shares(&machine))
    } else {
        machine.run(end);
        shared_figures(case, &machine, &[])
    };
    let rows = case.rows.iter().map(|spec| row(case, spec, &machine, unit, &shared)).collect();
    let vcpus = vcpu_names(case);
    let recording = (record > 0).then(|| {
        let records: Vec<Record> = machine.recorder().iter().copied().collect();
        // More may have been kept for the sake of the longest wait.
        let excess = records.len().saturating_sub(record);
        Recording {
            case: case.name.clone(),
            pcpus: config.pcpus,
            vcpus: vcpus.clone(),
            records: records[excess..].to_vec(),
            dropped: machine.recorder().dropped() + excess as u64,
        }
    });
    let describe = |group: &Group| {
        let dom = group.doms.first()?;
        let vm = &case.config.vms[usize::from(dom.0)];
        Some((group_name(group), vm_text(vm)))
    };
    let outcome = CaseOutcome {
        name: case.name.clone(),
        scheduler: crate::scheduler::describe(&config.scheduler),
        vms: case.groups.iter().filter_map(describe).collect(),
        pcpus: config.pcpus,
        vcpus,
        watched: config.watch.map(|dom| machine.facts().doms[dom.index()].vcpus[0].0),
        worst: machine.worst().cloned().map(shorten),
        recording,
    };
    CaseResult { rows, case: outcome }
}

fn group_name(group: &Group) -> String {
    match group.doms.len() {
        1 => group.name.clone(),
        n => format!("{} ({n} VMs)", group.name),
    }
}

fn vm_text(vm: &lowtail_host::VmConfig) -> String {
    let mut text = crate::workload::describe(&vm.workload);
    if vm.vcpus != 1 {
        text += &format!("; {} vCPUs", vm.vcpus);
    }
    if vm.weight != 256 {
        text += &format!("; weight {}", vm.weight);
    }
    if vm.cap_percent != 0 {
        text += &format!("; cap {} %", vm.cap_percent);
    }
    text
}

/// The last records before the end of the wait.
fn shorten(mut worst: Worst) -> Worst {
    let excess = worst.records.len().saturating_sub(WORST_RECORDS_KEPT);
    worst.records.drain(..excess);
    worst
}

fn vcpu_names(case: &Case) -> Vec<String> {
    let names = case.config.vms.iter().flat_map(|vm| {
        (0..vm.vcpus).map(move |i| match vm.vcpus {
            1 => vm.name.clone(),
            _ => format!("{}.{i}", vm.name),
        })
    });
    names.collect()
}

/// The statistics of all vCPUs of `doms`.
fn vcpus_of<'m>(machine: &'m Machine, doms: &'m [Dom]) -> impl Iterator<Item = &'m VcpuStats> {
    let vcpus = doms.iter().flat_map(|dom| &machine.facts().doms[dom.index()].vcpus);
    vcpus.map(|&v| machine.vcpu_stats(v))
}

/// Figures that all rows of a case have in common; `windows` are each group's, if wanted.
fn shared_figures(case: &Case, machine: &Machine, windows: &[f64]) -> Vec<(String, f64)> {
    let sim_s = machine.now().since(Time::ZERO).as_s_f64();
    let per_s = |x: f64| if sim_s > 0.0 { x / sim_s } else { 0.0 };
    let pcpus = (0..case.config.pcpus).map(|p| machine.pcpu_stats(Pcpu(p)));
    let (mut switches, mut schedules, mut busy_s) = (0, 0, 0.0);
    for stats in pcpus {
        switches += stats.switches;
        schedules += stats.schedules;
        busy_s += stats.busy.as_s_f64();
    }
    let mut figures = vec![
        ("switches_per_s".to_string(), per_s(switches as f64)),
        ("schedules_per_s".to_string(), per_s(schedules as f64)),
        ("busy_share".to_string(), per_s(busy_s)),
        ("sim_s".to_string(), sim_s),
        ("events".to_string(), machine.events() as f64),
    ];
    for (i, group) in case.groups.iter().enumerate().filter(|(_, group)| !group.doms.is_empty()) {
        let (mut cpu_s, mut work_s) = (0.0, 0.0);
        for &v in group.doms.iter().flat_map(|dom| &machine.facts().doms[dom.index()].vcpus) {
            let (cpu, work) = machine.vcpu_time(v);
            cpu_s += cpu.as_s_f64();
            work_s += work.as_s_f64();
        }
        let wakes: u64 = vcpus_of(machine, &group.doms).map(|stats| stats.wakes).sum();
        let preempted: u64 = vcpus_of(machine, &group.doms).map(|stats| stats.preempted).sum();
        let name = &group.name;
        figures.extend([
            (format!("cpu_share.{name}"), per_s(cpu_s)),
            (format!("work_share.{name}"), per_s(work_s)),
            (format!("wakes_per_s.{name}"), per_s(wakes as f64)),
            (format!("preempted_per_s.{name}"), per_s(preempted as f64)),
        ]);
        figures.extend(windows.get(i).map(|&share| (format!("window_share.{name}"), share)));
        if group.streams {
            figures.extend(stream_figures(group, machine));
        }
        let counters = group.doms.iter().flat_map(|&dom| machine.outcome(dom).counters);
        for (counter, ns) in counters {
            let share = per_s(ns as f64 / 1e9);
            match counter {
                "lock_held_ns" => figures.push((format!("lock_held.{name}"), share)),
                "process_ns" => figures.push((format!("process_share.{name}"), share)),
                "lock_waited_ns" => figures.push((format!("lock_wait.{name}"), share)),
                _ => {}
            }
        }
    }
    figures
}

/// What the flows of a kind of VM have come to.
fn stream_figures(group: &Group, machine: &Machine) -> [(String, f64); 3] {
    let end = machine.now();
    let sim_s = end.since(Time::ZERO).as_s_f64();
    let mut lost = 0;
    let rates = group.doms.iter().map(|&dom| {
        let flows = machine.io().flows_of(dom);
        flows.fold(0.0, |sum, flow| {
            lost += flow.lost();
            let sent = end.since(Time::ZERO).min(flow.config.until);
            let span = sent.saturating_sub(flow.config.warmup).as_s_f64();
            let bits = flow.delivered_bytes() as f64 * 8.0;
            sum + if span > 0.0 { bits / span / 1e6 } else { 0.0 }
        })
    });
    let rates: Vec<f64> = rates.collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let jain = if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 };
    let name = &group.name;
    let per_s = if sim_s > 0.0 { lost as f64 / sim_s } else { 0.0 };
    [
        (format!("mbit_s.{name}"), sum),
        (format!("lost_per_s.{name}"), per_s),
        (format!("jain.{name}"), jain),
    ]
}

fn row(
    case: &Case,
    spec: &RowSpec,
    machine: &Machine,
    unit: TimeUnit,
    shared: &[(String, f64)],
) -> Row {
    let mut hist = Hist::new();
    let (mut late, mut complete) = (0, true);
    let groups = || spec.groups.iter().map(|&group| &case.groups[group]);
    for &dom in groups().flat_map(|group| &group.doms) {
        let outcome = machine.outcome(dom);
        late += outcome.counters.iter().find(|(name, _)| *name == "late").map_or(0, |(_, n)| *n);
        match (spec.of, outcome.latency) {
            (Of::Latency, Some(latency)) => hist.merge(&latency),
            (Of::Latency, None) => {}
            (Of::WakeToRun, _) => {
                vcpus_of(machine, &[dom]).for_each(|stats| hist.merge(&stats.wake_to_run));
            }
            (Of::PreemptedToRun, _) => {
                vcpus_of(machine, &[dom]).for_each(|stats| hist.merge(&stats.preempted_to_run));
            }
        }
    }
    let mut figures = latency_figures(&hist, unit);
    if spec.of == Of::Latency {
        let wanted = |group: &Group| group.measures.unwrap_or(0) * group.doms.len() as u64;
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
