//! From the cases of a scenario file to hosts that can be run.

mod host;
mod rows;
mod variables;

use std::ops::Range;

use lowtail_engine::Duration;
use lowtail_host::cgroup::CgroupConfig;
use lowtail_host::{Config, ConfigError, Dom};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::costs::{CostReader, CostTable, CostsError, DEFAULT_COSTS};
use crate::error::{Bad, Error, Fault, hint};
use crate::file::{CaseFile, HostFile, PointFile};
use crate::limits::{self, PARTS_MAX, SET_KEYS_MAX};
use crate::network::build::NetworkCase;
use crate::row::Of;
use crate::tree::{self, Node, Variable};

pub(crate) use host::cpu_set;
use host::{Made, make};
use rows::rows;
use variables::combinations;

/// Most cases of a scenario.
const CASES_MAX: usize = 10_000;
/// Most bytes of scenario file times cases: each case has a copy of the tree.
const CASE_BYTES_MAX: usize = 1 << 28;

/// What a case can change.
const CHANGEABLE: [&str; 9] =
    ["host", "vm", "cgroup", "nic", "flow", "network", "end", "traffic", "duration"];

/// A VM of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmRef {
    /// Number of its host among [`Case::hosts`].
    pub host: usize,
    /// Its number there.
    pub dom: Dom,
}

/// A simulated host.
#[derive(Debug, Clone)]
pub struct HostCase {
    /// Its name in the network; empty if there is none.
    pub name: String,
    /// What it is made of.
    pub config: Config,
    /// The threads of each VM, by its number.
    pub threads: Vec<Threads>,
}

/// What the vCPUs of a [`VmConfig`](lowtail_host::VmConfig) are: a KVM host schedules all threads of a machine alike.
#[derive(Debug, Clone)]
pub struct Threads {
    /// The first so many are vCPUs.
    pub vcpus: u16,
    /// What the others are called: `emulator`, `iothread1`, `vhost0`.
    pub others: Vec<String>,
}

/// VMs of a kind: one table of the scenario file.
#[derive(Debug, Clone)]
pub struct Group {
    /// Their name in the file.
    pub name: String,
    /// Where they are; none if the case has none of them.
    pub vms: Vec<VmRef>,
    /// How many values each of them measures, if it does.
    pub measures: Option<u64>,
    /// Whether it counts late wake-ups.
    pub counts_late: bool,
    /// Whether flows end or begin in them.
    pub streams: bool,
}

/// A row that a case yields.
#[derive(Debug, Clone)]
pub struct RowSpec {
    /// Its name.
    pub name: String,
    /// Whose figures, together: indices into [`Case::groups`].
    pub groups: Vec<usize>,
    /// Or of which traffic, by number, and of which of its sizes.
    pub traffic: Option<(usize, Option<usize>)>,
    /// Which distribution.
    pub of: Of,
}

/// One point to run.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Variables and their values.
    pub variables: Vec<(String, String)>,
    /// The hosts; one if there is no network.
    pub hosts: Vec<HostCase>,
    /// The network between them.
    pub network: Option<NetworkCase>,
    /// What things cost on hosts, with sources; none if there are no hosts.
    pub costs: Option<CostTable>,
    /// Limit of simulated time.
    pub duration: Duration,
    /// The VMs by kind.
    pub groups: Vec<Group>,
    /// The rows that it yields.
    pub rows: Vec<RowSpec>,
}

impl Case {
    /// How many things it is made of.
    fn parts(&self) -> usize {
        let host = |host: &HostCase| {
            let vcpus = host.config.vms.iter().map(|vm| 1 + usize::from(vm.vcpus));
            host.config.cgroups.len() + vcpus.sum::<usize>()
        };
        let network = self.network.as_ref().map_or(0, NetworkCase::parts);
        network + self.hosts.iter().map(host).sum::<usize>()
    }

    /// One line about the scheduler of its hosts, and its network.
    pub fn describe(&self) -> String {
        let host = self.hosts.first();
        let scheduler = host.map(|host| crate::scheduler::describe(&host.config.scheduler));
        let network = self.network.as_ref().map(NetworkCase::describe);
        let parts: Vec<String> = scheduler.into_iter().chain(network).collect();
        parts.join("; ")
    }
}

/// What can be wrong: something in the scenario, or a file that it names.
#[derive(Debug)]
pub(crate) enum Trouble {
    Here(Fault),
    Elsewhere(Error),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Trouble::Here(fault)
    }
}

/// All points of a scenario whose tree is `root`.
pub(crate) fn expand(
    root: &Node<'_>,
    text_bytes: usize,
    full: bool,
    costs: &mut CostReader,
) -> Result<Vec<Case>, Trouble> {
    let entries = tree::elements(tree::at(root, &["case"]));
    let mut base = root.clone();
    normalise_costs(&mut base);
    if entries.is_empty() {
        return Ok(vec![Point { root: &base, full, costs, overrides: Vec::new() }.build(None)?]);
    }
    let (mut cases, mut parts): (Vec<Case>, usize) = (Vec::new(), 0);
    let mut names = std::collections::BTreeSet::new();
    for entry in entries {
        let points = combinations(entry)?;
        let n = cases.len() + points.len();
        if n > CASES_MAX || n.saturating_mul(text_bytes) > CASE_BYTES_MAX {
            let span = tree::span_at(entry, &["for"]);
            let message =
                format!("{n} cases by here: at most {CASES_MAX}, fewer if the file is large");
            return Err(Fault::new(span, message).into());
        }
        for variables in points {
            let mut point = Point { root: &base, full, costs, overrides: Vec::new() };
            let case = point.build(Some((entry, &variables)))?;
            parts += case.parts();
            if parts > PARTS_MAX {
                let message = format!(
                    "{parts} VMs, vCPUs, machines, ends and conversations in all cases by here: at most {PARTS_MAX}"
                );
                return Err(Fault::new(tree::span_at(entry, &["name"]), message).into());
            }
            if !names.insert(case.name.clone()) {
                let message =
                    format!("two cases are called `{}`; use the variables in names", case.name);
                return Err(Fault::new(tree::span_at(entry, &["name"]), message).into());
            }
            cases.push(case);
        }
    }
    Ok(cases)
}

/// `costs = "name"` becomes `costs = { file = "name" }`, so that single costs can be set.
fn normalise_costs(root: &mut Node<'_>) {
    let Some(host) = tree::table_mut(root).and_then(|root| root.get_mut("host")) else { return };
    let Some(costs) = tree::table_mut(host).and_then(|host| host.get_mut("costs")) else { return };
    if costs.get_ref().is_str() {
        let span = costs.span();
        let name = std::mem::replace(costs, Spanned::new(span.clone(), DeValue::Boolean(false)));
        let mut file = DeTable::new();
        file.insert(Spanned::new(span.clone(), "file".into()), name);
        *costs = Spanned::new(span, DeValue::Table(file));
    }
}

/// Brings a tree into the form that serde reads.
pub(crate) fn normalise(root: &mut Node<'_>) -> Result<(), Fault> {
    normalise_costs(root);
    let Some(root) = tree::table_mut(root) else { return Ok(()) };
    let host = root.get_mut("host").and_then(tree::table_mut);
    if let Some(scheduler) = host.and_then(|host| host.get_mut("scheduler")) {
        tree::tag(scheduler, "scheduler", "credit, credit2, null or small-first")?;
    }
    if let Some(network) = root.get_mut("network").and_then(tree::table_mut) {
        if let Some(topology) = network.get_mut("topology") {
            tree::tag(topology, "topology", "star, dumbbell, fat-tree or tree")?;
        }
        for key in ["queue", "switch"] {
            network.get_mut(key).map_or(Ok(()), normalise_queue)?;
        }
    }
    let traffic = root.get_mut("traffic").and_then(tree::table_mut);
    for (_, kind) in traffic.into_iter().flatten() {
        if let Some(pattern) = tree::table_mut(kind).and_then(|kind| kind.get_mut("pattern")) {
            let kinds = "bulk, transfer, messages, requests, ping or datagrams";
            tree::tag(pattern, "pattern", kinds)?;
        }
    }
    let vms = root.get_mut("vm").and_then(tree::table_mut);
    for (_, vm) in vms.into_iter().flatten() {
        normalise_workload(vm)?;
        let Some(vm) = tree::table_mut(vm) else { continue };
        for key in ["emulator", "iothreads", "vhost"] {
            vm.get_mut(key).map_or(Ok(()), normalise_workload)?;
        }
        if let Some(DeValue::Array(threads)) = vm.get_mut("iothread").map(Spanned::get_mut) {
            threads.iter_mut().try_for_each(normalise_workload)?;
        }
    }
    Ok(())
}

/// What a VM, or a thread, does.
fn normalise_workload(node: &mut Node<'_>) -> Result<(), Fault> {
    let workload = tree::table_mut(node).and_then(|table| table.get_mut("workload"));
    workload.map_or(Ok(()), |workload| {
        let kinds = "cpu-loop, duty-hog, request-server, timer-sleeper, yielder, tick-dodger, \
                     boost-saver, wake-storm, bucket-surfer, splitter, edge-burner, \
                     driver-domain or net-guest";
        tree::tag(workload, "workload", kinds)
    })
}

/// A discipline, and those within it.
fn normalise_queue(node: &mut Node<'_>) -> Result<(), Fault> {
    if let Some(inner) = tree::table_mut(node).and_then(|queue| queue.get_mut("queue")) {
        normalise_queue(inner)?;
    }
    tree::tag(node, "queue", crate::network::queue::KINDS)
}

/// A point in the making.
struct Point<'p, 'a> {
    root: &'p Node<'a>,
    full: bool,
    costs: &'p mut CostReader,
    /// Where the values stand that the case has set.
    overrides: Vec<Range<usize>>,
}

impl<'a> Point<'_, 'a> {
    /// Builds the point, and names the case in faults that lie in what it sets.
    fn build(&mut self, entry: Option<(&Node<'a>, &[Variable<'a>])>) -> Result<Case, Trouble> {
        let mut entry_node = None;
        let mut variables = Vec::new();
        if let Some((node, values)) = entry {
            let mut node = node.clone();
            if let Some(table) = tree::table_mut(&mut node) {
                table.remove("for");
            }
            tree::substitute(&mut node, values);
            // A name that is nothing but a number is a name all the same.
            if let Some(name) = tree::table_mut(&mut node).and_then(|case| case.get_mut("name"))
                && let Some(text) = tree::plain(name.get_ref())
            {
                if let Some(message) = limits::long_name(&text) {
                    return Err(Fault::new(name.span(), message).into());
                }
                *name.get_mut() = DeValue::String(text.into());
            }
            let text = |node: &Node<'_>| tree::plain(node.get_ref()).unwrap_or_default();
            variables = values.iter().map(|(name, value)| (name.clone(), text(value))).collect();
            entry_node = Some(node);
        }
        let name =
            entry_node.as_ref().and_then(|node| tree::at(node, &["name"])?.get_ref().as_str());
        let name = name.unwrap_or("run").to_string();
        self.assemble(&name, entry_node, variables).map_err(|trouble| match trouble {
            Trouble::Here(fault)
                if self
                    .overrides
                    .iter()
                    .any(|o| o.start <= fault.span.start && fault.span.start < o.end) =>
            {
                let message = format!("{} (case `{name}`)", fault.message);
                Trouble::Here(Fault::new(fault.span, message))
            }
            trouble => trouble,
        })
    }

    fn assemble(
        &mut self,
        name: &str,
        entry: Option<Node<'a>>,
        variables: Vec<(String, String)>,
    ) -> Result<Case, Trouble> {
        let mut root = self.root.clone();
        let case: Option<CaseFile> = entry.clone().map(tree::decode).transpose()?;
        if let Some(set) = entry.as_ref().and_then(|entry| tree::at(entry, &["set"])) {
            self.apply(&mut root, set)?;
        }
        if let Some(set) = tree::at(self.root, &["full", "set"]).filter(|_| self.full) {
            self.apply(&mut root, set)?;
        }
        normalise(&mut root)?;
        let order = tree::at(&root, &["vm"]).and_then(tree::table).map_or(Vec::new(), keys);
        let mut part = root.clone();
        if let Some(table) = tree::table_mut(&mut part) {
            for key in keys(table) {
                if !CHANGEABLE.contains(&key.as_str()) {
                    table.remove(key.as_str());
                }
            }
        }
        let file: PointFile = tree::decode(part)?;
        let chosen = match case.as_ref().and_then(|case| case.vms.as_ref()) {
            Some(vms) => {
                for (i, vm) in vms.iter().enumerate() {
                    if !file.vm.contains_key(vm) {
                        let span = entry
                            .as_ref()
                            .map_or(0..0, |entry| tree::span_at(entry, &["vms", &i.to_string()]));
                        return Err(Fault::new(span, unknown_vm(vm, &order)).into());
                    }
                }
                order.iter().filter(|name| vms.contains(name)).cloned().collect()
            }
            None => order.clone(),
        };
        let at = |bad: Bad| bad.within(&root);
        let (costs, host) = match &file.host {
            Some(host) => (Some(self.costs(host, &root)?), Some(host)),
            None if file.network.is_some() && file.vm.is_empty() => (None, None),
            None => return Err(Fault::new(0..0, "`host` is missing").into()),
        };
        let made = make(&file, host.zip(costs.as_ref()), &chosen).map_err(at)?;
        let wanted = case.and_then(|case| case.rows);
        let rows = rows(name, wanted.as_deref(), &made).map_err(|(i, message)| {
            let span = entry.as_ref().map(|entry| tree::span_at(entry, &["rows", &i.to_string()]));
            Fault::new(span.unwrap_or(0..0), message)
        })?;
        let duration = file.duration.0;
        if duration.is_zero() {
            return Err(at(Bad::new("duration", "no time to run: more than 0us")).into());
        }
        let Made { hosts, groups, network, .. } = made;
        let name = name.to_string();
        Ok(Case { name, variables, hosts, network, costs, duration, groups, rows })
    }

    /// Sets each value of the table `set` at its dotted path.
    fn apply(&mut self, root: &mut Node<'a>, set: &Node<'a>) -> Result<(), Fault> {
        let Some(entries) = tree::table(set) else { return Ok(()) };
        for (key, value) in entries {
            let path: Vec<&str> = key.get_ref().split('.').collect();
            let fault = |message| Fault::new(key.span(), message);
            if path.len() > SET_KEYS_MAX {
                let message = format!("{} keys on the way: at most {SET_KEYS_MAX}", path.len());
                return Err(fault(message));
            }
            if !CHANGEABLE.contains(&path[0]) {
                let message = "only host, vm, cgroup, nic, flow, network, end, traffic and duration can be set";
                return Err(fault(format!("`{}`: {message}", key.get_ref())));
            }
            let tables = [
                ("vm", "VM"),
                ("nic", "NIC"),
                ("flow", "flow"),
                ("end", "end"),
                ("traffic", "traffic"),
            ];
            for (table, what) in tables {
                let Some(name) = path.get(1).filter(|_| path[0] == table) else { continue };
                let known = tree::at(root, &[table]).and_then(tree::table).map_or(Vec::new(), keys);
                if !known.iter().any(|other| other == name) {
                    return Err(fault(unknown(what, name, &known)));
                }
            }
            self.overrides.extend([key.span(), value.span()]);
            tree::set(root, &path, value.clone())?;
            normalise_costs(root);
        }
        Ok(())
    }

    fn costs(&mut self, host: &HostFile, root: &Node<'_>) -> Result<CostTable, Trouble> {
        let choice = &host.costs;
        let table = self.costs.get(choice.file.as_deref().unwrap_or(DEFAULT_COSTS));
        let table = table.map_err(|error| match error {
            CostsError::File(error) => Trouble::Elsewhere(error),
            CostsError::Name(message) => {
                Fault::new(tree::span_at(root, &["host", "costs", "file"]), message).into()
            }
        })?;
        Ok(table.with(choice))
    }
}

fn keys(table: &DeTable<'_>) -> Vec<String> {
    table.keys().map(|key| key.get_ref().to_string()).collect()
}

fn unknown_vm(vm: &str, vms: &[String]) -> String {
    unknown("VM", vm, vms)
}

/// Says that no `what` is called `name`, and what there is instead.
fn unknown(what: &str, name: &str, known: &[String]) -> String {
    format!("no {what} is called `{name}`; {}", hint(name, known.iter().map(String::as_str)))
}

/// Where a contradiction that the host finds is written; `scheduler` is its kind there.
/// `cgroups` are the groups and their places.
fn contradiction(
    error: &ConfigError,
    scheduler: &str,
    cgroups: (&[CgroupConfig], &[Vec<String>]),
) -> Bad {
    // A VM beyond the first of its kind is written where the first is.
    let vm = |name: &str, key: &str| {
        let kind = name.rsplit_once('-').filter(|(_, n)| n.parse::<u16>().is_ok());
        let kind = kind.map_or(name, |(kind, _)| kind);
        Bad::new(key, error.to_string()).under(&["vm", kind])
    };
    let host = |key: &str| Bad::new(key, error.to_string()).under(&["host"]);
    match error {
        ConfigError::Vcpus(name) | ConfigError::OneVcpu(name) => vm(name, "vcpus"),
        ConfigError::Weight(name) => vm(name, "weight"),
        ConfigError::Cap { name, .. } | ConfigError::NoCaps(name) => vm(name, "cap"),
        ConfigError::Pinned { name, .. } => vm(name, "pin"),
        ConfigError::Partner { name, .. } => {
            let mut bad = vm(name, "partner");
            bad.path.splice(2..2, ["workload", "wake-storm"].map(str::to_string));
            bad
        }
        ConfigError::Driver(message) => Bad::new("vm", message.clone()),
        ConfigError::Cgroup(message) => {
            // A message begins with the name of the group.
            let said = message.strip_prefix("cgroup `").and_then(|rest| rest.split_once('`'));
            let place = said.and_then(|(name, _)| {
                let at = cgroups.0.iter().position(|group| group.name == name)?;
                cgroups.1.get(at)
            });
            match place {
                Some(place) => Bad { path: place.clone(), message: message.clone() },
                None => host("layout"),
            }
        }
        ConfigError::Sockets { .. } => host("sockets"),
        ConfigError::Pcpus(_) => host("pcpus"),
        ConfigError::Scheduler(message) => {
            // A message begins with the key, or with the key in words.
            let keys = [
                "hz",
                "latency",
                "min_granularity",
                "wakeup_granularity",
                "base_slice",
                "bandwidth_slice",
                "ratelimit",
                "timeslice",
                "migration_delay",
                "migrate_resist",
                "cap_period",
                "burst",
                "grant",
                "grain",
                "slice",
                "wait_turns",
                "guard",
                "margin",
                "follow_wait",
                "follow",
                "preempt_burst",
                "preempt_reserve",
                "preempt_own",
                "preempt",
            ];
            let letters = |text: &str| text.replace([' ', '_'], "");
            let key = keys.iter().find(|key| letters(message).starts_with(&letters(key)));
            Bad::new(key.unwrap_or(&""), message).under(&["host", "scheduler", scheduler])
        }
        // What the host comes to refuse later still gets a place near by.
        _ => host("scheduler"),
    }
}
