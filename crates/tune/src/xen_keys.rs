//! What of a Xen host is searched on a recording: the policy that sets it, and the commands of `xl` that do the same.

use std::fmt::Write as _;

use lowtail_control::policy::fits;
use lowtail_control::xen::nearest;
use lowtail_engine::Duration;
use lowtail_predict::{
    Model, Recording, XenChange, XenTerms, change_xen, xen_scheduler, xen_terms,
};

use crate::levels::{log, whole};
use crate::parameter::Parameter;
use crate::point::Point;
use crate::recorded_parameters::{Group, quoted, together};

/// The pool of a host with one (`xl cpupool-list`): which pools there are is not in a recording.
const POOL: &str = "Pool-0";
/// Weights of a policy above and below its usual 100, each the same step away; 100 are Xen's 256.
const WEIGHTS_ABOVE: [u64; 8] = [125, 160, 250, 400, 800, 1600, 3200, 6400];
const WEIGHTS_BELOW: [u64; 8] = [80, 63, 40, 25, 12, 6, 3, 2];
/// Rate limits that Xen takes, in microseconds, and credit's slices, in milliseconds.
const RATELIMITS_US: [u64; 8] = [0, 100, 200, 500, 1000, 2000, 5000, 10_000];
const SLICES_MS: [u64; 8] = [1, 2, 3, 5, 10, 20, 30, 50];

/// A knob of a Xen host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knob {
    Scheduler,
    Ratelimit,
    Slice,
    Weight(Group),
    Cap,
}

/// The knobs that are searched.
#[derive(Debug, Clone)]
pub(crate) struct XenKeys {
    knobs: Vec<Knob>,
    pub(crate) parameters: Vec<Parameter>,
    /// Domains with goals, and those of the cost: what each is called, and how `xl` is told of it.
    domains: [Vec<(String, String)>; 2],
    /// How the scheduler was set when it was recorded.
    recorded: XenTerms,
}

impl XenKeys {
    /// Those of a host whose scheduler was set so when it was recorded, where the VM of the cost with the most uses so much of a CPU, in percent.
    pub(crate) fn new(
        recording: &Recording,
        recorded: XenTerms,
        patterns: [&[String]; 2],
        most_percent: f64,
    ) -> Self {
        let domains = patterns.map(|patterns| {
            let vms = recording.host.vms.iter();
            let fitting = vms.filter(|vm| patterns.iter().any(|pattern| fits(pattern, vm)));
            fitting.map(|vm| (vm.clone(), called(recording, vm))).collect()
        });
        let mut keys = XenKeys { knobs: Vec::new(), parameters: Vec::new(), domains, recorded };
        let other = if recorded.name == "credit" { "credit2" } else { "credit" };
        keys.add(Knob::Scheduler, Parameter::choice("scheduler", &[other]));
        let spans = RATELIMITS_US.map(|us| format!("{us}us"));
        keys.add(Knob::Ratelimit, Parameter::ordered("rate limit", spans));
        keys.add(Knob::Slice, Parameter::ordered("slice", SLICES_MS.map(|ms| format!("{ms}ms"))));
        let (of_goal, of_cost) =
            (together(patterns[0], "goals' VMs"), together(patterns[1], "other VMs"));
        if !keys.domains[0].is_empty() {
            let weights = WEIGHTS_ABOVE.map(|weight| weight.to_string());
            let name = format!("{of_goal} weight");
            keys.add(Knob::Weight(Group::Goal), Parameter::ordered(&name, weights));
        }
        if !keys.domains[1].is_empty() {
            let weights = WEIGHTS_BELOW.map(|weight| weight.to_string());
            let name = format!("{of_cost} weight");
            keys.add(Knob::Weight(Group::Cost), Parameter::ordered(&name, weights));
            let mut caps = log(1.0, (most_percent * 0.95).max(1.0), 1);
            caps.reverse();
            let caps = caps.into_iter().map(|percent| whole(percent) + "%");
            keys.add(Knob::Cap, Parameter::ordered(&format!("{of_cost} cap"), caps));
        }
        keys
    }

    fn add(&mut self, knob: Knob, parameter: Parameter) {
        self.knobs.push(knob);
        self.parameters.push(parameter);
    }

    fn value<'a>(&'a self, point: &Point, knob: Knob) -> Option<&'a str> {
        let number = self.knobs.iter().position(|&of| of == knob)?;
        point.level(&self.parameters, number)
    }

    /// How the scheduler of a point is set, but for its own rate limit and slice.
    fn terms(&self, point: &Point) -> XenTerms {
        let other = self.value(point, Knob::Scheduler).and_then(xen_scheduler);
        other.and_then(|other| xen_terms(&other)).unwrap_or(self.recorded)
    }

    fn span(&self, point: &Point, knob: Knob) -> Option<Duration> {
        self.value(point, knob)?.parse().ok()
    }

    /// The same point without values that make no difference in it. Credit alone has a slice.
    pub(crate) fn canonical(&self, mut point: Point) -> Point {
        let terms = self.terms(&point);
        for (number, &knob) in self.knobs.iter().enumerate() {
            let counts = match knob {
                Knob::Slice => {
                    terms.slice.is_some() && self.span(&point, Knob::Slice) != terms.slice
                }
                Knob::Ratelimit => self.span(&point, Knob::Ratelimit) != Some(terms.ratelimit),
                Knob::Scheduler | Knob::Weight(_) | Knob::Cap => true,
            };
            if !counts {
                point.0[number] = None;
            }
        }
        point
    }

    /// Puts a point in force. `false`: it is no choice that one could make.
    pub(crate) fn apply(&self, point: &Point, model: &mut Model, recording: &Recording) -> bool {
        let number = |text: &str| text.trim_end_matches('%').parse::<u16>().ok();
        let weight_of = |text: &str| Some(nearest::weight(text.parse().ok()?));
        let mut change = XenChange {
            scheduler: self.value(point, Knob::Scheduler).map(str::to_owned),
            ratelimit: self.span(point, Knob::Ratelimit),
            slice: self.span(point, Knob::Slice),
            domains: Vec::new(),
        };
        for (group, domains) in [Group::Goal, Group::Cost].into_iter().zip(&self.domains) {
            let weight = self.value(point, Knob::Weight(group)).and_then(weight_of);
            let cap = self.value(point, Knob::Cap).filter(|_| group == Group::Cost);
            let cap = cap.and_then(number);
            let entries = domains.iter().map(|(vm, _)| (vm.clone(), weight, cap));
            change.domains.extend(entries);
        }
        change_xen(model, recording, &change).is_ok()
    }

    /// The policy file of a point, with the commands of `xl` that do the same as comments.
    pub(crate) fn text(&self, point: &Point) -> String {
        if point.keys() == 0 {
            return "scheduler = \"none\"\n".to_owned();
        }
        let (mut pools, mut entries, mut commands) = (String::new(), String::new(), String::new());
        let command = format!("xl sched-{}", self.terms(point).name);
        let (limit, slice) = (self.value(point, Knob::Ratelimit), self.value(point, Knob::Slice));
        if limit.is_some() || slice.is_some() {
            let _ = writeln!(pools, "\n[xen]");
            let _ = write!(commands, "#   {command} -s -p {POOL}");
        }
        if let Some(slice) = slice {
            let _ = writeln!(pools, "slice = \"{slice}\"");
            let _ = write!(commands, " -t {}", slice.trim_end_matches("ms"));
        }
        if let Some(limit) = limit {
            let _ = writeln!(pools, "ratelimit = \"{limit}\"");
            let _ = write!(commands, " -r {}", limit.trim_end_matches("us"));
        }
        if !pools.is_empty() {
            commands.push('\n');
        }
        for (group, domains) in [Group::Goal, Group::Cost].into_iter().zip(&self.domains) {
            let weight = self.value(point, Knob::Weight(group));
            let cap = self.value(point, Knob::Cap).filter(|_| group == Group::Cost);
            if weight.is_none() && cap.is_none() {
                continue;
            }
            let names: Vec<String> = domains.iter().map(|(vm, _)| quoted(vm)).collect();
            let _ = writeln!(entries, "\n[[vm]]\nname = [{}]", names.join(", "));
            let _ = writeln!(entries, "weight = {}", weight.unwrap_or("\"keep\""));
            if let Some(cap) = cap {
                let _ = writeln!(entries, "cap = \"{cap}\"");
            }
            for (_, domain) in domains {
                let _ = write!(commands, "#   {command} -d {domain}");
                if let Some(weight) = weight.and_then(|text| text.parse().ok()) {
                    let _ = write!(commands, " -w {}", nearest::weight(weight));
                }
                if let Some(cap) = cap {
                    let _ = write!(commands, " -c {}", cap.trim_end_matches('%'));
                }
                commands.push('\n');
            }
        }
        // Else all VMs without an entry would get a weight.
        let others = if entries.is_empty() { "others = \"keep\"\n" } else { "" };
        let mut text = format!("scheduler = \"fair\"\n{others}{pools}{entries}");
        if let Some(scheduler) = self.value(point, Knob::Scheduler) {
            let _ = writeln!(
                text,
                "\n# First boot Xen with sched={scheduler}, or make a pool with it: a policy does neither."
            );
        }
        if !commands.is_empty() {
            let _ = write!(text, "\n# The same by hand:\n{commands}");
        }
        text
    }

    /// Points to begin with: each knob alone at some of its values, and pairs that are known to help.
    pub(crate) fn starts(&self) -> Vec<Point> {
        let none = Point::empty(&self.parameters);
        let at = |knob: Knob| self.knobs.iter().position(|&of| of == knob);
        let part = |number: usize, part: f64| {
            Some(((self.parameters[number].levels.len() - 1) as f64 * part).round() as u16)
        };
        let mut bases = vec![none.clone()];
        bases.extend(at(Knob::Scheduler).map(|number| none.with(number, Some(0))));
        let mut all: Vec<Point> = bases.clone();
        for base in &bases {
            for (number, knob) in self.knobs.iter().enumerate() {
                let parts: &[f64] = match knob {
                    Knob::Scheduler => &[],
                    // The usual ways out: no limit, the least one, and a short slice.
                    Knob::Ratelimit => &[0.0, 0.15, 0.4],
                    Knob::Slice => &[0.0, 0.4],
                    Knob::Weight(_) | Knob::Cap => &[0.2, 0.6, 1.0],
                };
                all.extend(parts.iter().map(|&of| base.with(number, part(number, of))));
            }
            // All means at once: where even that is not enough, no part of it is.
            for of in [0.5, 1.0] {
                let means = [
                    (Knob::Ratelimit, 0.0),
                    (Knob::Slice, 0.0),
                    (Knob::Weight(Group::Goal), of),
                    (Knob::Weight(Group::Cost), of),
                ];
                let set = |point: Point, (knob, of): (Knob, f64)| match at(knob) {
                    Some(number) => point.with(number, part(number, of)),
                    None => point,
                };
                let point = means.into_iter().fold(base.clone(), set);
                all.push(set(point.clone(), (Knob::Cap, of)));
                all.push(point);
            }
        }
        let canonical = |point: Point| self.canonical(point);
        let mut all: Vec<Point> = all.into_iter().map(canonical).collect();
        all.sort();
        all.dedup();
        all.retain(|point| point.keys() > 0);
        all
    }
}

/// How `xl` is told of a domain: by its number, or by its name where that was said.
fn called(recording: &Recording, vm: &str) -> String {
    let number = recording.domain(vm);
    match number {
        Some(number) if vm == format!("d{number}") => number.to_string(),
        // A name is the operator's own word; the shell shall take it for nothing else, and it ends no comment.
        _ => format!("'{}'", vm.replace('\'', "'\\''").replace(char::is_control, "?")),
    }
}
