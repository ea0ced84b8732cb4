//! From the cases of a scenario file to hosts that can be run.

use std::ops::Range;

use lowtail_engine::Duration;
use lowtail_host::{Config, ConfigError, CpuSet, Dom, Pcpu, VmConfig, Workload};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::costs::{CostReader, CostTable, CostsError, DEFAULT_COSTS};
use crate::error::{Bad, Error, Fault, nearest};
use crate::file::{CaseFile, PointFile, VmFile};
use crate::row::{Of, RowFile};
use crate::tree::{self, Node, Variable};

/// Most cases of a scenario.
const CASES_MAX: usize = 10_000;
/// Most bytes of scenario file times cases: each case has a copy of the tree.
const CASE_BYTES_MAX: usize = 1 << 28;
/// Longest text of a variable's value.
const VARIABLE_CHARS_MAX: usize = 100;
/// Most vCPUs of a host.
const VCPUS_MAX: u32 = 4096;

/// What a case can change.
const CHANGEABLE: [&str; 5] = ["host", "vm", "nic", "flow", "duration"];

/// VMs of a kind: one table of the scenario file.
#[derive(Debug, Clone)]
pub struct Group {
    /// Their name in the file.
    pub name: String,
    /// Their numbers; none if the case has none of them.
    pub doms: Vec<Dom>,
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
    /// The host.
    pub config: Config,
    /// What things cost there, with sources.
    pub costs: CostTable,
    /// Limit of simulated time.
    pub duration: Duration,
    /// The VMs by kind.
    pub groups: Vec<Group>,
    /// The rows that it yields.
    pub rows: Vec<RowSpec>,
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
    let mut cases: Vec<Case> = Vec::new();
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

/// Every combination of the values of a case's variables, the first varying slowest.
fn combinations<'a>(entry: &Node<'a>) -> Result<Vec<Vec<Variable<'a>>>, Fault> {
    let mut points: Vec<Vec<Variable<'a>>> = vec![Vec::new()];
    let Some(variables) = tree::at(entry, &["for"]).and_then(tree::table) else {
        return Ok(points);
    };
    for (name, values) in variables {
        let elements = tree::elements(Some(values));
        if elements.is_empty() {
            let message = format!("variable `{}`: a list of one or more values", name.get_ref());
            return Err(Fault::new(values.span(), message));
        }
        let good = |node: &&Node<'_>| {
            tree::plain(node.get_ref()).is_none_or(|text| text.chars().count() > VARIABLE_CHARS_MAX)
        };
        if let Some(bad) = elements.iter().find(good) {
            let message =
                format!("numbers, flags, or texts of up to {VARIABLE_CHARS_MAX} characters");
            return Err(Fault::new(bad.span(), message));
        }
        if points.len().saturating_mul(elements.len()) > CASES_MAX {
            let n = points.len() * elements.len();
            let message = format!("{n} combinations and more: at most {CASES_MAX} cases");
            return Err(Fault::new(values.span(), message));
        }
        let with = |point: &Vec<Variable<'a>>, value: &Node<'a>| {
            let mut point = point.clone();
            point.push((name.get_ref().to_string(), value.clone()));
            point
        };
        points = points.iter().flat_map(|p| elements.iter().map(move |v| with(p, v))).collect();
    }
    Ok(points)
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
    let vms = root.get_mut("vm").and_then(tree::table_mut);
    for (_, vm) in vms.into_iter().flatten() {
        if let Some(workload) = tree::table_mut(vm).and_then(|vm| vm.get_mut("workload")) {
            let kinds = "cpu-loop, duty-hog, request-server, timer-sleeper, yielder, \
                         tick-dodger, boost-saver, wake-storm, bucket-surfer, splitter, \
                         edge-burner, driver-domain or net-guest";
            tree::tag(workload, "workload", kinds)?;
        }
    }
    Ok(())
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
        let at = |bad: Bad| {
            let path: Vec<&str> = bad.path.iter().map(String::as_str).collect();
            Fault::new(tree::span_at(&root, &path), bad.message)
        };
        let costs = self.costs(&file, &root)?;
        let (config, groups) = host(&file, &chosen, &costs).map_err(at)?;
        let wanted = case.and_then(|case| case.rows);
        let rows = rows(name, wanted.as_deref(), &groups).map_err(|(i, message)| {
            let span = entry.as_ref().map(|entry| tree::span_at(entry, &["rows", &i.to_string()]));
            Fault::new(span.unwrap_or(0..0), message)
        })?;
        let duration = file.duration.0;
        if duration.is_zero() {
            return Err(at(Bad::new("duration", "no time to run: more than 0us")).into());
        }
        let name = name.to_string();
        Ok(Case { name, variables, config, costs, duration, groups, rows })
    }

    /// Sets each value of the table `set` at its dotted path.
    fn apply(&mut self, root: &mut Node<'a>, set: &Node<'a>) -> Result<(), Fault> {
        let Some(entries) = tree::table(set) else { return Ok(()) };
        for (key, value) in entries {
            let path: Vec<&str> = key.get_ref().split('.').collect();
            let fault = |message| Fault::new(key.span(), message);
            if !CHANGEABLE.contains(&path[0]) {
                let message = "only host, vm, nic, flow and duration can be set";
                return Err(fault(format!("`{}`: {message}", key.get_ref())));
            }
            for (table, what) in [("vm", "VM"), ("nic", "NIC"), ("flow", "flow")] {
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

    fn costs(&mut self, file: &PointFile, root: &Node<'_>) -> Result<CostTable, Trouble> {
        let choice = &file.host.costs;
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
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    format!("no {what} is called `{name}`; {hint}")
}

/// The host's configuration.
fn host(
    file: &PointFile,
    chosen: &[String],
    costs: &CostTable,
) -> Result<(Config, Vec<Group>), Bad> {
    let scheduler = file.host.scheduler.build();
    if !(1..=CpuSet::MAX_PCPUS).contains(&file.host.pcpus) {
        let message = ConfigError::Pcpus(file.host.pcpus).to_string();
        return Err(Bad::new("pcpus", message).under(&["host"]));
    }
    let (mut vms, mut groups, mut vcpus) = (Vec::new(), Vec::new(), 0);
    for name in chosen {
        let vm = &file.vm[name];
        let in_vm = |bad: Bad| bad.under(&["vm", name]);
        vcpus += (0..vm.count).map(|i| u32::from(vm.vcpus.of(i))).sum::<u32>();
        if vm.count > 1024 || vcpus > VCPUS_MAX {
            let message =
                format!("{vcpus} vCPUs by here: at most {VCPUS_MAX} (and 1024 VMs of a kind)");
            return Err(in_vm(Bad::new("count", message)));
        }
        let config = vm_config(name, vm, file.host.pcpus).map_err(in_vm)?;
        let first = vms.len() as u16;
        for i in 0..vm.count {
            let name = if i == 0 { name.clone() } else { format!("{name}-{}", i + 1) };
            vms.push(VmConfig { name, vcpus: vm.vcpus.of(i), ..config.clone() });
        }
        groups.push(Group {
            name: name.clone(),
            doms: (first..first + vm.count).map(Dom).collect(),
            measures: vm.workload.measures(),
            counts_late: vm.workload.counts_late(),
            streams: false,
        });
    }
    let (pcpus, sockets) = (file.host.pcpus, file.host.sockets);
    let is_net = |dom: Dom| matches!(vms[dom.index()].workload, Workload::Net(_));
    let io = crate::traffic::build(file, costs.path(), &mut groups, &is_net)?;
    let tickle = file.host.tickle.build();
    let config =
        Config { sockets, io, tickle, ..Config::new(pcpus, scheduler, costs.costs(), vms) };
    config.facts().map_err(|error| contradiction(&error, file.host.scheduler.kind()))?;
    Ok((config, groups))
}

fn vm_config(name: &str, vm: &VmFile, pcpus: u16) -> Result<VmConfig, Bad> {
    let workload = vm.workload.build().map_err(|bad| bad.under(&["workload"]))?;
    let mut config = VmConfig::new(name, workload);
    (config.vcpus, config.weight, config.cap_percent) = (vm.vcpus.of(0), vm.weight, vm.cap);
    if let Some(pin) = &vm.pin {
        config.hard = cpu_set("pin", pin, pcpus)?;
    }
    if let Some(soft) = &vm.soft {
        config.soft = cpu_set("soft", soft, pcpus)?;
    }
    Ok(config)
}

fn cpu_set(key: &str, list: &[u16], pcpus: u16) -> Result<CpuSet, Bad> {
    if list.is_empty() {
        return Err(Bad::new(key, "an empty list: leave it out to allow all pCPUs"));
    }
    if let Some((i, p)) = list.iter().enumerate().find(|&(_, &p)| p >= pcpus) {
        let message = match pcpus {
            1 => format!("pCPU {p}: the host has only pCPU 0"),
            _ => format!("pCPU {p}: the host has pCPUs 0 to {}", pcpus - 1),
        };
        return Err(Bad::new(&i.to_string(), message).under(&[key]));
    }
    Ok(list.iter().map(|&p| Pcpu(p)).collect())
}

/// Where a contradiction that the host finds is written; `scheduler` is its kind there.
fn contradiction(error: &ConfigError, scheduler: &str) -> Bad {
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
        ConfigError::Sockets { .. } => host("sockets"),
        ConfigError::Pcpus(_) => host("pcpus"),
        ConfigError::Scheduler(message) => {
            // A message begins with the key, or with the key in words.
            let keys = [
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

/// The rows of a case; the error says which wanted row is wrong.
fn rows(
    case: &str,
    wanted: Option<&[RowFile]>,
    groups: &[Group],
) -> Result<Vec<RowSpec>, (usize, String)> {
    let present = |group: &Group| !group.doms.is_empty();
    let names = || groups.iter().map(|group| group.name.clone()).collect::<Vec<_>>();
    let mut found: Vec<(Vec<usize>, Of)> = Vec::new();
    for (i, row) in wanted.unwrap_or_default().iter().enumerate() {
        let mut row_groups = Vec::new();
        for vm in &row.vms {
            let Some(at) = groups.iter().position(|group| group.name == *vm && present(group))
            else {
                return Err((i, unknown_vm(vm, &names())));
            };
            if row.of == Of::Latency && groups[at].measures.is_none() {
                let message = format!("VM `{vm}` measures no latency; give `of = \"wake_to_run\"`");
                return Err((i, message));
            }
            row_groups.push(at);
        }
        found.push((row_groups, row.of));
    }
    if wanted.is_none() {
        let measuring = groups.iter().enumerate();
        let measuring = measuring.filter(|(_, group)| group.measures.is_some() && present(group));
        found = measuring.map(|(i, _)| (vec![i], Of::Latency)).collect();
    }
    if found.len() < 2 {
        let (groups, of) = found.pop().unwrap_or((Vec::new(), Of::Latency));
        return Ok(vec![RowSpec { name: case.to_string(), groups, of }]);
    }
    let name = |row_groups: &[usize], of: Of| {
        let vms: Vec<&str> = row_groups.iter().map(|&i| groups[i].name.as_str()).collect();
        match of {
            Of::Latency => format!("{case}/{}", vms.join("+")),
            of => format!("{case}/{}/{}", vms.join("+"), of.name()),
        }
    };
    let spec = |(groups, of): (Vec<usize>, Of)| {
        let name = name(&groups, of);
        RowSpec { name, groups, of }
    };
    Ok(found.into_iter().map(spec).collect())
}
