//! A scenario as a tree of TOML, in which the classifier of flows is changed.

use std::fmt::Write as _;

use lowtail_config_text::scalar::Scalar;
use lowtail_config_text::{BytesText, RateText};
use lowtail_engine::Duration;
use toml::{Table, Value};

use crate::levels::trimmed;

/// What is judged of a scenario, or makes it longer: nothing that is needed for a run.
const NEEDLESS: [&str; 7] = ["claim", "published", "full", "frontier", "base", "show", "seeds"];
/// Traffic that begins then is not there.
const NEVER: &str = "80000s";
/// What a classifier has that says nothing: the rate and burst of the paper, and ten pairs for a VM (docs/reference/scenario.md).
const USUAL: [&str; 3] = ["10Mbit/s", "30KB", "10"];
/// Most that the rule for flows can have: line time of 2^30 ns, 128 Gbit/s (policy/flow.h).
const MOST: (u64, u64) = (128_000_000_000, (1 << 30) / 8);

/// A scenario as a tree.
#[derive(Debug, Clone)]
pub(crate) struct ScenarioText {
    root: Table,
    traffic: Vec<String>,
    duration: Duration,
    case: String,
}

/// What a classifier has by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Classifier {
    pub(crate) rate: String,
    pub(crate) burst: String,
    pub(crate) pairs: String,
}

impl Classifier {
    /// The classifier that the table of a queue is.
    fn of(table: &Table) -> Self {
        let own = |key: &str| match table.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            _ => None,
        };
        // The paper's has no bucket for all of a VM's pairs.
        let is_papers = own("by").is_some_and(|by| by == "paper");
        let pairs =
            own("pairs").unwrap_or_else(|| if is_papers { "1000" } else { USUAL[2] }.to_owned());
        let shaped = if is_papers { None } else { table.get("queue").and_then(shaped) };
        // A twentieth of the rate of a shaper within, 1 to 10 Mbit/s.
        let of_shaper =
            shaped.map(|bits| format!("{}Mbit/s", trimmed((bits / 20e6).clamp(1.0, 10.0))));
        Classifier {
            rate: own("rate").or(of_shaper).unwrap_or_else(|| USUAL[0].to_owned()),
            burst: own("burst").unwrap_or_else(|| USUAL[1].to_owned()),
            pairs,
        }
    }

    /// The policy file of these values: `lowtail host` has the same rule.
    pub(crate) fn policy(&self, [rate, burst, pairs]: &[String; 3]) -> String {
        let pairs: u64 = pairs.parse().unwrap_or(10);
        let bits = RateText::from_text(rate).map_or(10_000_000, |rate| rate.0);
        let bytes = BytesText::from_text(burst).map_or(30_000, |bytes| bytes.0);
        let vm_rate = bits.saturating_mul(pairs).min(MOST.0);
        let vm_burst = bytes.saturating_mul(pairs).min(MOST.1);
        let mut text = "[flow]\n".to_owned();
        let _ = writeln!(text, "rate = \"{rate}\"\nburst = \"{burst}\"");
        let _ = writeln!(text, "vm_rate = \"{}kbit/s\"\nvm_burst = {vm_burst}", vm_rate / 1000);
        text
    }
}

/// The rate of the first shaper in a queue, bit/s.
fn shaped(queue: &Value) -> Option<f64> {
    let table = queue.as_table()?;
    let kind = table.get("kind")?.as_str()?;
    let rate = table.get("rate").and_then(Value::as_str);
    match rate.and_then(|rate| RateText::from_text(rate).ok()) {
        Some(rate) if ["tbf", "cake", "small-first"].contains(&kind) => Some(rate.0 as f64),
        _ => table.get("queue").and_then(shaped),
    }
}

impl ScenarioText {
    /// Of the scenario `root`, which lasts so long, with this traffic and case.
    pub(crate) fn new(
        mut root: Table,
        traffic: Vec<String>,
        duration: Duration,
        case: &str,
    ) -> Self {
        NEEDLESS.iter().for_each(|key| {
            root.remove(*key);
        });
        ScenarioText { root, traffic, duration, case: case.to_owned() }
    }

    /// The names of its traffic, in the order of rows.
    pub(crate) fn traffic(&self) -> &[String] {
        &self.traffic
    }

    /// The first classifier of the network of a case.
    pub(crate) fn classifier(&self) -> Option<Classifier> {
        let cases = self.root.get("case").and_then(Value::as_array);
        let named = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(&self.case);
        let entry = cases.and_then(|cases| cases.iter().find(named));
        let set = entry.and_then(|entry| entry.get("set")).and_then(Value::as_table);
        if let Some(found) = set.and_then(|set| set.values().find_map(tag)) {
            return Some(found);
        }
        // One whose name has variables is not found: all of the file counts then.
        let network = self.root.get("network")?.as_table()?;
        let replaced =
            |key: &str| set.is_some_and(|set| set.contains_key(&format!("network.{key}")));
        let base =
            network.iter().filter(|(key, _)| !replaced(key)).find_map(|(_, value)| tag(value));
        let anywhere = || cases.filter(|_| entry.is_none())?.iter().find_map(tag);
        base.or_else(anywhere)
    }

    /// The text with other rate, burst and pairs of all classifiers, a part of the time, and without traffic that is `absent`.
    pub(crate) fn with(
        &self,
        values: Option<&[String; 3]>,
        part: Option<f64>,
        absent: &[String],
    ) -> String {
        let mut root = self.root.clone();
        if let Some(values) = values {
            root.iter_mut().for_each(|(_, value)| set_tags(value, values));
        }
        if let Some(part) = part {
            let us = (self.duration.as_us_f64() * part).round();
            root.insert("duration".to_owned(), Value::String(format!("{us}us")));
        }
        let rows = Value::Array(self.traffic.iter().cloned().map(Value::String).collect());
        let cases = root.entry("case").or_insert_with(|| {
            let only = Table::from_iter([("name".to_owned(), Value::String(self.case.clone()))]);
            Value::Array(vec![Value::Table(only)])
        });
        for case in cases.as_array_mut().into_iter().flatten().filter_map(Value::as_table_mut) {
            case.insert("rows".to_owned(), rows.clone());
        }
        if let Some(traffic) = root.get_mut("traffic").and_then(Value::as_table_mut) {
            for name in absent {
                if let Some(traffic) = traffic.get_mut(name).and_then(Value::as_table_mut) {
                    traffic.insert("start".to_owned(), Value::String(NEVER.to_owned()));
                }
            }
        }
        toml::to_string(&root).unwrap_or_default()
    }
}

/// The first classifier in a value.
fn tag(value: &Value) -> Option<Classifier> {
    match value {
        Value::Table(table) if table.get("kind").and_then(Value::as_str) == Some("tag") => {
            Some(Classifier::of(table))
        }
        Value::Table(table) => table.values().find_map(tag),
        Value::Array(all) => all.iter().find_map(tag),
        _ => None,
    }
}

fn set_tags(value: &mut Value, values: &[String; 3]) {
    match value {
        Value::Table(table) => {
            if table.get("kind").and_then(Value::as_str) == Some("tag") {
                let [rate, burst, pairs] = values;
                table.insert("rate".to_owned(), Value::String(rate.clone()));
                table.insert("burst".to_owned(), Value::String(burst.clone()));
                if let Ok(pairs) = pairs.parse() {
                    table.insert("pairs".to_owned(), Value::Integer(pairs));
                }
            }
            table.iter_mut().for_each(|(_, value)| set_tags(value, values));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| set_tags(value, values)),
        _ => {}
    }
}
