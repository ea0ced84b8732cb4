//! The policy's keys that are searched on a recording, and their text.

use std::fmt::Write as _;

use crate::levels::{log, span, whole};
use crate::parameter::Parameter;
use crate::point::Point;

/// VMs that have an entry `[[vm]]` together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Those that are to answer sooner.
    Goal,
    /// Those whose work is the cost.
    Cost,
}

/// A key of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Scheduler,
    Weight(Group),
    Slice(Group),
    /// Limit of each VM of the cost, and its period.
    Cap,
    CapPeriod,
    SmallFirst(&'static str),
}

/// The keys that are searched, of VMs with these patterns.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) keys: Vec<Key>,
    pub(crate) parameters: Vec<Parameter>,
    goal: Vec<String>,
    cost: Vec<String>,
}

impl Keys {
    /// All keys, where the VM of the cost with the most uses so much of a CPU, in percent.
    pub(crate) fn new(goal: Vec<String>, cost: Vec<String>, most_percent: f64) -> Self {
        let (of_goal, of_cost) = (together(&goal, "goals' VMs"), together(&cost, "other VMs"));
        let down = |mut levels: Vec<f64>| {
            levels.reverse();
            levels
        };
        let caps = down(log(1.0, (most_percent * 0.95).max(1.0), 1));
        let mut keys = Keys { keys: Vec::new(), parameters: Vec::new(), goal, cost };
        keys.add(Key::Scheduler, Parameter::choice("scheduler", &["sched-ext"]));
        if !keys.goal.is_empty() {
            let weights = log(160.0, 6_300.0, 2).into_iter().map(whole);
            keys.add(
                Key::Weight(Group::Goal),
                Parameter::ordered(&format!("{of_goal} weight"), weights),
            );
            let slices = log(100.0, 3200.0, 2).into_iter().map(span);
            keys.add(
                Key::Slice(Group::Goal),
                Parameter::ordered(&format!("{of_goal} slice"), slices),
            );
        }
        if !keys.cost.is_empty() {
            let weights = down(log(1.0, 63.0, 2)).into_iter().map(whole);
            keys.add(
                Key::Weight(Group::Cost),
                Parameter::ordered(&format!("{of_cost} weight"), weights),
            );
            let slices = log(100.0, 100_000.0, 2).into_iter().map(span);
            keys.add(
                Key::Slice(Group::Cost),
                Parameter::ordered(&format!("{of_cost} slice"), slices),
            );
            let caps = caps.into_iter().map(|percent| whole(percent) + "%");
            keys.add(Key::Cap, Parameter::ordered(&format!("{of_cost} cap"), caps));
            let periods = [4_000.0, 10_000.0, 25_000.0].map(span);
            keys.add(Key::CapPeriod, Parameter::ordered(&format!("{of_cost} cap period"), periods));
        }
        let small_first: [(&str, Vec<String>); 5] = [
            ("burst", log(1_000.0, 63_000.0, 2).into_iter().map(span).collect()),
            ("grant", log(125.0, 4_000.0, 2).into_iter().map(span).collect()),
            ("slice", log(1_000.0, 25_000.0, 2).into_iter().map(span).collect()),
            ("preempt", log(160.0, 4_000.0, 2).into_iter().map(span).collect()),
            ("preempt_burst", log(16.0, 1_000.0, 2).into_iter().map(whole).collect()),
        ];
        for (key, levels) in small_first {
            keys.add(Key::SmallFirst(key), Parameter::ordered(key, levels));
        }
        keys
    }

    fn add(&mut self, key: Key, parameter: Parameter) {
        if !parameter.levels.is_empty() {
            self.keys.push(key);
            self.parameters.push(parameter);
        }
    }

    /// Without those for which `keep` is false.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        let kept: Vec<bool> = self.keys.iter().map(keep).collect();
        let mut at = kept.iter();
        self.parameters.retain(|_| *at.next().unwrap_or(&true));
        let mut at = kept.iter();
        self.keys.retain(|_| *at.next().unwrap_or(&true));
    }

    /// The value of a key as it is written.
    fn value<'a>(&'a self, point: &Point, key: Key) -> Option<&'a str> {
        let number = self.keys.iter().position(|&of| of == key)?;
        point.level(&self.parameters, number)
    }

    /// The same point without values that make no difference in it.
    pub(crate) fn canonical(&self, mut point: Point) -> Point {
        let small_first = self.value(&point, Key::Scheduler).is_some();
        let capped = self.value(&point, Key::Cap).is_some();
        for (level, key) in point.0.iter_mut().zip(&self.keys) {
            let counts = match key {
                Key::Scheduler | Key::Weight(_) | Key::Cap => true,
                // Slices are of the fair class.
                Key::Slice(_) => !small_first,
                Key::CapPeriod => capped,
                Key::SmallFirst(_) => small_first,
            };
            if !counts {
                *level = None;
            }
        }
        point
    }

    /// The policy file of a point.
    pub(crate) fn text(&self, point: &Point) -> String {
        if point.keys() == 0 {
            return "scheduler = \"none\"\n".to_owned();
        }
        let mut text = String::new();
        let scheduler = self.value(point, Key::Scheduler).unwrap_or("fair");
        let _ = writeln!(text, "scheduler = \"{scheduler}\"");
        let mut entries = String::new();
        for (group, patterns) in [(Group::Goal, &self.goal), (Group::Cost, &self.cost)] {
            let weight = self.value(point, Key::Weight(group));
            let slice = self.value(point, Key::Slice(group));
            let cap = self.value(point, Key::Cap).filter(|_| group == Group::Cost);
            if weight.is_none() && slice.is_none() && cap.is_none() {
                continue;
            }
            let names: Vec<String> = patterns.iter().map(|name| quoted(name)).collect();
            let names = if let [one] = &names[..] {
                one.clone()
            } else {
                format!("[{}]", names.join(", "))
            };
            let _ = writeln!(entries, "\n[[vm]]\nname = {names}");
            let _ = writeln!(entries, "weight = {}", weight.unwrap_or("\"keep\""));
            if let Some(slice) = slice {
                let _ = writeln!(entries, "slice = \"{slice}\"");
            }
            if let Some(cap) = cap {
                let _ = writeln!(entries, "cap = {}", self.cap(point, cap));
            }
        }
        if entries.is_empty() {
            // Else all VMs without an entry would get a weight.
            text.push_str("others = \"keep\"\n");
        }
        text.push_str(&entries);
        let small_first: Vec<(&str, &str)> = self
            .keys
            .iter()
            .filter_map(|&key| match key {
                Key::SmallFirst(name) => Some((name, self.value(point, key)?)),
                _ => None,
            })
            .collect();
        if !small_first.is_empty() {
            text.push_str("\n[small_first]\n");
        }
        for (name, value) in small_first {
            let quote = if value.bytes().all(|byte| byte.is_ascii_digit()) { "" } else { "\"" };
            let _ = writeln!(text, "{name} = {quote}{value}{quote}");
        }
        text
    }

    /// A limit in percent as the file has it.
    fn cap(&self, point: &Point, percent: &str) -> String {
        let Some(period) = self.value(point, Key::CapPeriod) else {
            return format!("\"{percent}\"");
        };
        let number = |text: &str, end: &str| text.trim_end_matches(end).parse().unwrap_or(0.0);
        let period_ms: f64 = number(period, "ms");
        let quota_us: f64 = number(percent, "%") * period_ms * 10.0;
        format!("{{ quota = \"{quota_us}us\", period = \"{period}\" }}")
    }

    /// Points to begin with: each key alone at three of its values, and pairs that are known to help.
    pub(crate) fn starts(&self) -> Vec<Point> {
        let none = Point::empty(&self.parameters);
        let at = |key: Key| self.keys.iter().position(|&of| of == key);
        let part = |number: usize, part: f64| {
            Some(((self.parameters[number].levels.len() - 1) as f64 * part).round() as u16)
        };
        let mut all = Vec::new();
        let small_first = at(Key::Scheduler).map(|number| none.with(number, Some(0)));
        all.extend(small_first.clone());
        for (number, key) in self.keys.iter().enumerate() {
            let parts: &[f64] = match key {
                Key::Scheduler | Key::CapPeriod => &[],
                Key::SmallFirst(_) => &[0.2, 0.8],
                _ => &[0.15, 0.5, 1.0],
            };
            let from =
                if matches!(key, Key::SmallFirst(_)) { small_first.as_ref() } else { Some(&none) };
            let points = parts.iter().filter_map(|&of| Some(from?.with(number, part(number, of))));
            all.extend(points);
        }
        // A short period keeps the pauses short that a limit makes.
        if let (Some(cap), Some(period)) = (at(Key::Cap), at(Key::CapPeriod)) {
            all.extend(
                [0.2, 0.5, 0.7]
                    .map(|of| none.with(cap, part(cap, of)).with(period, part(period, 0.5))),
            );
        }
        // All means at once: where even that is not enough, no part of it is.
        for of in [0.5, 1.0] {
            // The least limit is the kernel's least quota, in the longest period.
            let period = (of < 1.0).then_some((Key::CapPeriod, 0.5));
            let means = [
                (Key::Weight(Group::Goal), 1.0),
                (Key::Weight(Group::Cost), 1.0),
                (Key::Slice(Group::Goal), 0.0),
                (Key::Cap, of),
            ];
            let means = means.into_iter().chain(period);
            let all_means = means.filter_map(|(key, of)| Some((at(key)?, of)));
            let point = all_means
                .fold(none.clone(), |point, (number, of)| point.with(number, part(number, of)));
            if let Some(scheduler) = at(Key::Scheduler) {
                all.push(point.with(scheduler, Some(0)));
            }
            all.push(point);
        }
        let both = [Key::Weight(Group::Goal), Key::Weight(Group::Cost)].map(at);
        if let [Some(goal), Some(cost)] = both {
            for of in [0.3, 0.7, 1.0] {
                let point = none.with(goal, part(goal, of)).with(cost, part(cost, of));
                if let Some(slice) = at(Key::Slice(Group::Goal)) {
                    all.push(point.with(slice, part(slice, 0.3)));
                }
                if let Some(scheduler) = at(Key::Scheduler) {
                    all.push(point.with(scheduler, Some(0)));
                }
                all.push(point);
            }
        }
        all
    }
}

/// What VMs with these patterns are called together: the one that there is, or `all`.
pub(crate) fn together(patterns: &[String], all: &str) -> String {
    match patterns {
        [one] => lowtail_out::name(one).into_owned(),
        _ => all.to_owned(),
    }
}

/// A text of TOML.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
