//! From the cases and variables of a scenario file to points that can be run.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::ExpandError;
use super::host::{CaseParts, make};
use super::normalize::{normalize, normalize_costs};
use super::rows::rows;
use super::spec::Case;
use super::variables::combinations;
use crate::costs::{CostReader, CostTable, CostsError, DEFAULT_COSTS};
use crate::error::{KeyError, SpanError, unknown};
use crate::file::{CaseFile, HostFile, PointFile};
use crate::limits::{self, CASES_MAX, PARTS_MAX, SET_KEYS_MAX};
use crate::tree::{self, Node, Variable};

/// Most bytes of scenario file times cases: each case has a copy of the tree.
const CASE_BYTES_MAX: usize = 1 << 28;

/// What a case can change.
const CHANGEABLE: [&str; 9] =
    ["host", "vm", "cgroup", "nic", "flow", "network", "end", "traffic", "duration"];

/// All points of a scenario whose tree is `root`.
pub(crate) fn expand(
    root: &Node<'_>,
    text_bytes: usize,
    full: bool,
    costs: &mut CostReader,
) -> Result<Vec<Case>, ExpandError> {
    let entries = tree::elements(tree::at(root, &["case"]));
    let mut base = root.clone();
    normalize_costs(&mut base);
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
            return Err(SpanError::new(span, message).into());
        }
        for variables in points {
            let mut point = Point { root: &base, full, costs, overrides: Vec::new() };
            let case = point.build(Some((entry, &variables)))?;
            parts += case.parts();
            if parts > PARTS_MAX {
                let message = format!(
                    "{parts} VMs, vCPUs, hosts, ends and conversations in all cases by here: at most {PARTS_MAX}"
                );
                return Err(SpanError::new(tree::span_at(entry, &["name"]), message).into());
            }
            if !names.insert(case.name.clone()) {
                let message =
                    format!("two cases are called `{}`; use the variables in names", case.name);
                return Err(SpanError::new(tree::span_at(entry, &["name"]), message).into());
            }
            cases.push(case);
        }
    }
    Ok(cases)
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
    fn build(&mut self, entry: Option<(&Node<'a>, &[Variable<'a>])>) -> Result<Case, ExpandError> {
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
                    return Err(SpanError::new(name.span(), message).into());
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
            ExpandError::InScenario(fault)
                if self
                    .overrides
                    .iter()
                    .any(|o| o.start <= fault.span.start && fault.span.start < o.end) =>
            {
                let message = format!("{} (case `{name}`)", fault.message);
                ExpandError::InScenario(SpanError::new(fault.span, message))
            }
            trouble => trouble,
        })
    }

    fn assemble(
        &mut self,
        name: &str,
        entry: Option<Node<'a>>,
        variables: Vec<(String, String)>,
    ) -> Result<Case, ExpandError> {
        let mut root = self.root.clone();
        let case: Option<CaseFile> = entry.clone().map(tree::decode).transpose()?;
        if let Some(set) = entry.as_ref().and_then(|entry| tree::at(entry, &["set"])) {
            self.apply(&mut root, set)?;
        }
        if let Some(set) = tree::at(self.root, &["full", "set"]).filter(|_| self.full) {
            self.apply(&mut root, set)?;
        }
        normalize(&mut root)?;
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
                        return Err(SpanError::new(span, unknown("VM", vm, &order)).into());
                    }
                }
                order.iter().filter(|name| vms.contains(name)).cloned().collect()
            }
            None => order.clone(),
        };
        let at = |bad: KeyError| bad.within(&root);
        let (costs, host) = match &file.host {
            Some(host) => (Some(self.costs(host, &root)?), Some(host)),
            None if file.network.is_some() && file.vm.is_empty() => (None, None),
            None => return Err(SpanError::new(0..0, "`host` is missing").into()),
        };
        let base = self.costs.base.as_deref();
        let made = make(&file, host.zip(costs.as_ref()), &chosen, base).map_err(at)?;
        let wanted = case.and_then(|case| case.rows);
        let rows = rows(name, wanted.as_deref(), &made).map_err(|(i, message)| {
            let span = entry.as_ref().map(|entry| tree::span_at(entry, &["rows", &i.to_string()]));
            SpanError::new(span.unwrap_or(0..0), message)
        })?;
        let duration = file.duration.0;
        if duration.is_zero() {
            return Err(at(KeyError::new("duration", "no time to run: more than 0us")).into());
        }
        let CaseParts { hosts, kinds, network, .. } = made;
        let name = name.to_string();
        Ok(Case { name, variables, hosts, network, costs, duration, kinds, rows })
    }

    /// Sets each value of the table `set` at its dotted path.
    fn apply(&mut self, root: &mut Node<'a>, set: &Node<'a>) -> Result<(), SpanError> {
        let Some(entries) = tree::table(set) else { return Ok(()) };
        for (key, value) in entries {
            let path: Vec<&str> = key.get_ref().split('.').collect();
            let fault = |message| SpanError::new(key.span(), message);
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
            normalize_costs(root);
        }
        Ok(())
    }

    fn costs(&mut self, host: &HostFile, root: &Node<'_>) -> Result<CostTable, ExpandError> {
        let choice = &host.costs;
        let table = self.costs.get(choice.file.as_deref().unwrap_or(DEFAULT_COSTS));
        let table = table.map_err(|error| match error {
            CostsError::File(error) => ExpandError::InOtherFile(error),
            CostsError::Name(message) => {
                SpanError::new(tree::span_at(root, &["host", "costs", "file"]), message).into()
            }
        })?;
        Ok(table.with(choice))
    }
}

fn keys(table: &DeTable<'_>) -> Vec<String> {
    table.keys().map(|key| key.get_ref().to_string()).collect()
}
