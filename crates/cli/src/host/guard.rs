//! `apply --guard`: measures VMs round by round, has the guard judge them, and writes down what it decides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration as Wall, Instant};

use lowtail_control::guard::{self, Decision, Guard, Id, Line, Machine, Memory, Owners, Predicted};
use lowtail_control::manage::{self, Knob};
use lowtail_control::policy::Policy;
use lowtail_control::reconcile::{Effect, Round};
use lowtail_discover::{Declared, Vm};
use lowtail_engine::Duration;
use lowtail_kernel::Name;
use lowtail_kernel::signals::Signals;
use lowtail_observe::{Observer, Options};
use serde_json::json;

use super::log::{Kind, Log};
use super::records::Records;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;
use crate::span::{of_wall, span};

/// From one look at signals to the next.
const LOOK: Wall = Wall::from_millis(50);
/// Rounds after which `status` is told again how VMs do.
const TELL: u32 = 5;

/// Whether goals are watched.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// Watch the goals of VMs after each change, and revert what breaks one; the default with --watch.
    /// Without --watch: for some seconds after the last change
    #[arg(long, conflicts_with_all = ["no_guard", "no_look"])]
    guard: bool,
    /// Do not watch goals
    #[arg(long)]
    no_guard: bool,
    /// How long to measure the VMs before anything is changed
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "3s")]
    baseline: Duration,
    /// Change N VMs at a time; the next ones only if all keep their goals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(conflicts_with_all = ["no_guard", "no_look"])]
    canary: Option<u16>,
    /// Try again what the guard has reverted
    #[arg(long)]
    retry: bool,
}

/// What is remembered of this policy; all is forgotten if it is to be tried again.
pub(crate) fn memory(args: &GuardArgs, policy: &Policy, dir: &Path) -> Result<Memory, Fail> {
    let failed = |error| Fail::Host(format!("{}: {error}", dir.display()));
    let memory = Memory::of(policy, dir).map_err(failed)?;
    if memory.reverted.is_empty() {
        // What another policy had brought about is nobody's matter any more.
        Memory::forget(dir).map_err(failed)?;
    }
    if !args.retry || memory.reverted.is_empty() {
        return Ok(memory);
    }
    let names = memory.reverted.iter().map(|of| Name::new(&of.vm).to_string());
    let reason = format!("try again: {}", names.collect::<Vec<_>>().join(", "));
    Records::open(dir).add(&[Line::told("retry", &reason)]);
    let memory = Memory::new(policy);
    memory.save(dir).map_err(failed)?;
    Ok(memory)
}

/// Which of these are not tried again, and why.
pub(crate) fn held(memory: &Memory, machines: &[Machine]) -> BTreeMap<Id, String> {
    let why = |machine: &Machine| {
        let why = memory.why_held(machine)?;
        let again = "`apply --retry` and another policy try again";
        Some((machine.id, format!("the guard has reverted its changes ({why}); {again}")))
    };
    machines.iter().filter_map(why).collect()
}

/// The guard, what it sees, and what it writes.
pub(crate) struct Watching<'a> {
    dir: &'a Path,
    guard: Guard,
    observer: Option<Observer>,
    memory: Memory,
    predicted: Predicted,
    /// What is changed, and the VMs that have changes, in the order in which those were made.
    knobs: Vec<Knob>,
    in_force: Vec<Id>,
    rounds: u32,
    /// Whether something was reverted since the start.
    reverted: bool,
}

impl GuardArgs {
    /// Whether goals are watched, if that can be done.
    pub(crate) fn is_on(&self, watch: bool, no_look: bool) -> bool {
        self.is_asked() || watch && !self.no_guard && !no_look
    }

    /// Whether they are to be, be it the default or not.
    pub(crate) fn is_asked(&self) -> bool {
        self.guard || self.canary.is_some()
    }
}

impl<'a> Watching<'a> {
    /// Measures VMs before anything is changed. `None` if the default is to watch and that cannot be done here: that is told.
    pub(crate) fn begin(
        args: &GuardArgs,
        dir: &'a Path,
        declared: &[Declared],
        memory: Memory,
        predicted: Predicted,
        machines: Vec<Machine>,
        signals: &Signals,
    ) -> Result<Option<Self>, Fail> {
        let options = Options { declared: declared.to_vec(), network: false, ..Options::default() };
        let observer = match Observer::start(options) {
            Ok(observer) => observer,
            Err(error) if args.is_asked() => {
                return Err(Fail::Host(format!("goals cannot be watched: {error}")));
            }
            Err(error) => {
                out::note(&format!("note: goals are not watched: {error}"));
                return Ok(None);
            }
        };
        let guard = Guard::new(guard::Options { canary: args.canary.map(usize::from) });
        let mut watching = Watching {
            dir,
            guard,
            observer: Some(observer),
            memory,
            predicted,
            knobs: Vec::new(),
            in_force: Vec::new(),
            rounds: 0,
            reverted: false,
        };
        watching.machines(machines);
        watching.before(of_wall(args.baseline), signals)?;
        Ok(Some(watching))
    }

    /// How VMs do before the first change. Where a killed process has left changes, what it has kept.
    fn before(&mut self, baseline: Wall, signals: &Signals) -> Result<(), Fail> {
        let failed = |error| Fail::Host(format!("{}: {error}", self.dir.display()));
        let kept = Effect::load(self.dir).map_err(failed)?;
        if !manage::status(self.dir).map_err(super::state::host)?.rows.is_empty() {
            self.guard.kept(&kept.unwrap_or_default().before);
            return Ok(());
        }
        let end = Instant::now() + baseline;
        while signals.caught().is_none() && Instant::now() < end {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        let Some(observer) = &mut self.observer else { return Ok(()) };
        let snapshot = observer.snapshot()?;
        self.guard.before(&snapshot.samples());
        Effect { before: snapshot.effects(), after: Vec::new() }.save(self.dir).map_err(failed)
    }

    /// The VMs that there are now.
    pub(crate) fn machines(&mut self, machines: Vec<Machine>) {
        let held = held(&self.memory, &machines);
        self.guard.machines(machines, held);
    }

    /// Those that are not to be touched, and why.
    pub(crate) fn waiting(&self) -> BTreeMap<Id, String> {
        self.guard.waiting()
    }

    /// What a round has come to. Whether something else is wanted from now on.
    pub(crate) fn round(
        &mut self,
        round: &Round,
        vms: &[Vm],
        records: &mut Records,
        log: &mut Log,
        global: &Global,
    ) -> Result<bool, Fail> {
        let samples = match self.observer.as_mut().map(Observer::snapshot) {
            Some(Ok(snapshot)) => snapshot.samples(),
            Some(Err(error)) => {
                log.say(Kind::Error, || format!("error: goals are not watched any more: {error}"));
                self.observer = None;
                return Ok(false);
            }
            None => return Ok(false),
        };
        if let Some(knobs) = &round.in_force {
            self.knobs.clone_from(knobs);
        }
        if round.in_force.is_some() || round.changed.is_some() {
            self.in_force = changed(vms, &self.knobs);
        }
        let touched = round.applied.as_ref().is_some_and(|applied| applied.changed > 0);
        let before = self.guard.waiting();
        let decisions = self.guard.round(&self.in_force, touched, samples, Instant::now());
        let lines: Vec<Line> = decisions.iter().map(Line::decided).collect();
        if let Some(why) = records.add(&lines) {
            log.say(Kind::Error, || format!("error: {why}"));
        }
        for decision in &decisions {
            self.reverted |= decision.kind == guard::Kind::Keep;
            if !global.json {
                log.say(Kind::Guard, || in_words(decision));
            }
        }
        if global.json && !decisions.is_empty() {
            out::json_line(&json!({ "guard": out::to_json(&decisions)? }))?;
        }
        self.remember(!decisions.is_empty(), log);
        self.rounds = self.rounds.wrapping_add(1);
        Ok(before != self.guard.waiting())
    }

    /// Keeps for the next one and for `status` what there is to know.
    fn remember(&mut self, decided: bool, log: &mut Log) {
        if !decided && !self.rounds.is_multiple_of(TELL) {
            return;
        }
        for (machine, why) in self.guard.reverted() {
            self.memory.remember(machine, why);
        }
        self.memory.goals = self.guard.states();
        self.predicted.put(&mut self.memory.goals);
        if let Err(error) = self.memory.save(self.dir) {
            log.say(Kind::Error, || format!("error: {}: {error}", self.dir.display()));
        }
    }

    /// It is over, and what was changed stays: `status` is told how VMs do.
    pub(crate) fn leave(mut self, log: &mut Log) {
        self.remember(true, log);
    }

    /// Whether all is judged.
    pub(crate) fn is_done(&self) -> bool {
        self.observer.is_none() || self.guard.is_done()
    }

    /// Whether changes were reverted for good.
    pub(crate) fn has_reverted(&self) -> bool {
        self.reverted
    }
}

/// The VMs with changes in force, in the order in which those were made.
fn changed(vms: &[Vm], knobs: &[Knob]) -> Vec<Id> {
    let owners = Owners::new(vms);
    let ids = knobs.iter().filter_map(|knob| owners.of(knob)).map(|vm| (vm.pid, vm.started_ticks));
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}

fn in_words(decision: &Decision) -> String {
    let Decision { kind, vm, reason, .. } = decision;
    let what = match kind {
        guard::Kind::Revert => "its changes are reverted",
        guard::Kind::Keep => "its changes stay reverted until `apply --retry` or another policy",
        guard::Kind::PutBack => "its changes come back",
        guard::Kind::Missed => "it misses its goal",
        guard::Kind::Step => "the next VMs get their changes",
        guard::Kind::Stop => "no other VMs get their changes",
    };
    let vm = vm.as_ref().map(|vm| format!("{}: ", Name::new(vm))).unwrap_or_default();
    // Names in it are written as people see them.
    format!("guard: {vm}{what}: {}", lowtail_out::line(reason))
}
