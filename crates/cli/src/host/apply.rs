//! `lowtail host apply`: puts a policy in force, and keeps it there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Instant;

use lowtail_control::desired::{self, VcpusBy};
use lowtail_control::manage::{self, Applied, HostLock, OnError, Plan, Refused};
use lowtail_control::policy::Policy;
use lowtail_control::reconcile::{Follower, Next, Notes, Options, Reconciler, Round, Taggers};
use lowtail_discover::{Found, Vm};
use lowtail_kernel::Name;
use lowtail_kernel::signals::Signals;
use serde_json::{Value, json};

use super::dom0::is_dom0;
use super::effect::Look;
use super::guard::{self, GuardArgs, Watching};
use super::log::{Kind, Log};
use super::plan::{self, not_given};
use super::records::Records;
use super::revert;
use super::state::{self, State, host};
use super::wanted::{self, Wanted};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// `lowtail host apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    state: State,
    #[command(flatten)]
    look: Look,
    #[command(flatten)]
    guard: GuardArgs,
    /// Follow VMs that come and go until a signal comes, then restore what was there. The
    /// small-first scheduler (sched_ext) runs only with this
    #[arg(long)]
    watch: bool,
    /// Also change settings that somebody else has changed since
    #[arg(long, conflicts_with_all = ["watch", "guard", "canary"])]
    force: bool,
}

pub(crate) fn run(args: &Apply, global: &Global) -> Result<ExitCode, Fail> {
    let policy = args.wanted.policy()?;
    if is_dom0() && args.guard.is_asked() {
        return Err(Fail::Usage(
            "--guard and --canary are for hosts with KVM; on a host of Xen's `lowtail host status` shows what changes brought: leave it out"
                .to_string(),
        ));
    }
    match args.watch || args.guard.is_asked() {
        true => rounds(args, &policy, global),
        false => once(args, &policy, global),
    }
}

fn once(args: &Apply, policy: &Policy, global: &Global) -> Result<ExitCode, Fail> {
    let dir = args.state.dir();
    let mut hold = HostLock::take(&dir).map_err(host)?;
    state::forget_dead(&dir)?;
    let found = args.wanted.found(policy);
    let mut capabilities = wanted::capabilities(policy, &found, false)?;
    let memory = guard::memory(&args.guard, policy, &dir)?;
    capabilities.held = guard::held(&memory, &desired::machines(policy, &found.vms, &capabilities));
    let settings = wanted::settings(policy, &found, &capabilities)?;
    args.look.before(&dir, &args.wanted.vm)?;
    let plan = hold.plan_wanted(&settings.wanted(), args.force).map_err(host)?;
    let applied = hold.apply(&plan, OnError::Continue, &mut |_| {}).map_err(host)?;
    let recorded = Records::open(&dir).changed(&plan, &applied, &found.vms);
    recorded.iter().for_each(|why| out::note(&format!("error: {why}")));
    let kept = Notes::new(&settings.notes, &refused(&plan, &applied)).save(&dir);
    kept.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))?;
    for trouble in Taggers::default().follow(policy, &found) {
        out::note(&format!("error: {trouble}"));
    }
    if global.json {
        let mut json = plan::as_json(&found, &settings, &plan)?;
        json["applied"] = out::to_json(&applied)?;
        out::json(&json)?;
    } else if !global.quiet {
        out::text(&plan::text(&found, &settings, &plan))?;
        out::text(&done(&applied))?;
        plan::tell(&found, &settings);
        tell(&plan, &applied);
    }
    let short = !applied.failed.is_empty()
        || !plan.foreign.is_empty()
        || !plan.unread.is_empty()
        || !plan.refused.is_empty();
    Ok(if short { exit::SHORT.into() } else { ExitCode::SUCCESS })
}

/// Round after round: until a signal comes, or, without `--watch`, until the guard has judged all.
fn rounds(args: &Apply, policy: &Policy, global: &Global) -> Result<ExitCode, Fail> {
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    let dir = args.state.dir();
    let on_xen = is_dom0();
    let mut options = if on_xen { Options::on_xen(&dir) } else { Options::new(&dir) };
    options.declared.clone_from(&args.wanted.vm);
    options.leave = !args.watch;
    // What cannot be had at all is told before anything is changed.
    let found = args.wanted.found(policy);
    let mut capabilities = wanted::capabilities(policy, &found, args.watch)?;
    options.users.clone_from(&capabilities.users);
    let settings = wanted::settings(policy, &found, &capabilities)?;
    let mut reconciler = Reconciler::start(options).map_err(host)?;
    state::forget_dead(&dir)?;
    let memory = guard::memory(&args.guard, policy, &dir)?;
    capabilities.ask_libvirt(policy, &found);
    let machines = desired::machines(policy, &found.vms, &capabilities);
    let watching = match !on_xen && args.guard.is_on(args.watch, args.look.no_look) {
        true => {
            let (memory, predicted) = (memory.clone(), plan::kept(policy, args.watch, &dir));
            let vms = &args.wanted.vm;
            Watching::begin(&args.guard, &dir, vms, memory, predicted, machines, &signals)?
        }
        false => None,
    };
    if watching.is_none() {
        args.look.before(&dir, &args.wanted.vm)?;
    }
    let mut follower = Follower::new(policy, capabilities, &dir);
    if settings.vcpus == VcpusBy::SmallFirst {
        follower.load()?;
    }
    let follower = RefCell::new(follower);
    let log = RefCell::new(Log::new(Instant::now(), global.quiet));
    let watching = RefCell::new(watching);
    let mut records = Records::open(&dir);
    let mut failed = None;
    let mut vms = Vms::default();
    let mut resolve = |found: &Found| {
        let mut note = |line: String| log.borrow_mut().say(Kind::Note, || line);
        let mut follower = follower.borrow_mut();
        let machines = follower.machines(found);
        let held = match &mut *watching.borrow_mut() {
            Some(watching) => {
                watching.machines(machines);
                watching.waiting()
            }
            None => guard::held(&memory, &machines),
        };
        follower.hold(held);
        follower.resolve(found, &mut note)
    };
    reconciler.run(&signals, &mut resolve, &mut |round| {
        let mut log = log.borrow_mut();
        for trouble in follower.borrow_mut().follow(round.as_ref().ok()) {
            log.say(Kind::Error, || format!("error: {trouble}"));
        }
        let round = round.map_err(|error| log.say(Kind::Error, || format!("error: {error}")));
        // The next one may go well.
        let mut due = follower.borrow_mut().is_due();
        let Ok(round) = round else { return if due { Next::Due } else { Next::Wait } };
        let moved = round.changed.as_ref().map(|found| vms.look(found)).unwrap_or_default();
        if let (Some(plan), Some(applied)) = (&round.plan, &round.applied) {
            let wrong = records.changed(plan, applied, &vms.found);
            wrong.iter().for_each(|why| log.say(Kind::Error, || format!("error: {why}")));
        }
        let mut watching = watching.borrow_mut();
        let said = say(&round, &moved, &mut vms, &mut log, global).and_then(|()| {
            let Some(watching) = watching.as_mut() else { return Ok(false) };
            watching.round(&round, &vms.found, &mut records, &mut log, global)
        });
        match said {
            Ok(decided) => due |= decided,
            Err(fail) => failed = Some(fail),
        }
        log.rest(false);
        let is_done = watching.as_ref().is_none_or(Watching::is_done);
        match due {
            true => Next::Due,
            false if !args.watch && is_done => Next::End,
            false => Next::Wait,
        }
    });
    let mut log = log.into_inner();
    log.rest(true);
    // Threads have the policy again that they had; the ledger has it, too.
    drop(follower);
    let watching = watching.into_inner();
    let reverts = watching.as_ref().is_some_and(Watching::has_reverted);
    if args.watch {
        let written = manage::status(&dir).map_err(host)?;
        let wrong = records.restored(&written, &vms.found);
        wrong.iter().for_each(|why| out::note(&format!("error: {why}")));
    }
    let code = match reconciler.end().map_err(host)? {
        Some(reverted) => {
            state::forget(&dir)?;
            revert::say(&reverted, global)?
        }
        None => {
            watching.into_iter().for_each(|watching| watching.leave(&mut log));
            let short = reverts || vms.foreign || !vms.refused.is_empty();
            if short { exit::SHORT.into() } else { ExitCode::SUCCESS }
        }
    };
    failed.map_or(Ok(code), Err)
}

/// What places were not given: of themselves, or by the kernel.
fn refused(plan: &Plan, applied: &Applied) -> Vec<Refused> {
    let failed = applied.failed.iter().cloned().map(|failed| Refused {
        knob: failed.knob,
        wanted: failed.to,
        why: failed.why,
    });
    plan.refused.iter().cloned().chain(failed).collect()
}

/// A round in which something happened: for programs one line, for people a bounded number.
fn say(
    round: &Round,
    moved: &Moved,
    vms: &mut Vms,
    log: &mut Log,
    global: &Global,
) -> Result<(), Fail> {
    if let Some(why) = &round.unknown {
        log.say(Kind::Error, || format!("error: {why}; the settings stay as they are"));
    }
    vms.foreign |= !round.foreign.is_empty();
    let refused = round.refused.iter().flatten();
    let new: Vec<&Refused> = refused.filter(|refused| vms.is_new(refused)).collect();
    if !global.json {
        new.into_iter().for_each(|refused| log.say(Kind::Refused, || not_given(refused)));
    }
    if let Some(refused) = &round.refused {
        vms.refused = refused.iter().cloned().collect();
    }
    if global.json {
        return say_json(round, moved);
    }
    for line in moved.lines() {
        log.say(Kind::Vm, || line);
    }
    for change in round.plan.iter().flat_map(|plan| &plan.changes) {
        log.say(Kind::Change, || {
            let [now, to] = [&change.now, &change.to].map(|value| change.knob.in_words(value));
            let why = Name::new(&change.why);
            format!("{}: {now} -> {to} ({why})", change.knob)
        });
    }
    for foreign in &round.foreign {
        log.say(Kind::Note, || {
            format!("note: {} was changed by somebody else; left alone", foreign.knob)
        });
    }
    Ok(())
}

fn say_json(round: &Round, moved: &Moved) -> Result<(), Fail> {
    let (plan, applied) = (round.plan.as_ref(), round.applied.as_ref());
    let changes = plan.map(changes).transpose()?;
    let happened = changes.is_some()
        || !round.foreign.is_empty()
        || round.refused.is_some()
        || round.unknown.is_some()
        || !moved.is_empty();
    if happened {
        let line = json!({
            "changes": changes,
            "applied": applied.map(out::to_json).transpose()?,
            "foreign": out::to_json(&round.foreign)?,
            "refused": out::to_json(&round.refused)?,
            "incomplete_reason": round.unknown,
            "added": moved.came,
            "removed": moved.gone,
        });
        out::json_line(&line)?;
    }
    Ok(())
}

/// The VMs that there were, and what places were not given.
#[derive(Debug, Default)]
struct Vms {
    /// By process and when that began.
    names: BTreeMap<(u32, u64), String>,
    found: Vec<Vm>,
    refused: BTreeSet<Refused>,
    /// Somebody else has changed something.
    foreign: bool,
}

/// Names of VMs that have come and gone, safe for a terminal.
#[derive(Debug, Default)]
struct Moved {
    came: Vec<String>,
    gone: Vec<String>,
}

impl Vms {
    fn look(&mut self, found: &Found) -> Moved {
        let now: BTreeMap<(u32, u64), String> =
            found.vms.iter().map(|vm| ((vm.pid, vm.started_ticks), vm.name.to_string())).collect();
        let less = |all: &BTreeMap<(u32, u64), String>, other: &BTreeMap<(u32, u64), String>| {
            let only = all.iter().filter(|(id, _)| !other.contains_key(*id));
            only.map(|(_, name)| name.clone()).collect()
        };
        let moved = Moved { came: less(&now, &self.names), gone: less(&self.names, &now) };
        self.names = now;
        self.found.clone_from(&found.vms);
        moved
    }

    fn is_new(&self, refused: &Refused) -> bool {
        !self.refused.contains(refused)
    }
}

impl Moved {
    fn is_empty(&self) -> bool {
        self.came.is_empty() && self.gone.is_empty()
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let came = self.came.iter().map(|name| format!("VM {name} has come"));
        came.chain(self.gone.iter().map(|name| format!("VM {name} has gone")))
    }
}

fn changes(plan: &Plan) -> Result<Value, Fail> {
    out::to_json(&plan.changes)
}

fn done(applied: &Applied) -> String {
    let Applied { changed, gone, failed, .. } = applied;
    let mut text = format!("{changed} changed");
    if *gone > 0 {
        text += &format!(", {gone} gone before they could");
    }
    if !failed.is_empty() {
        text += &format!(", {} refused by the kernel", failed.len());
    }
    text + "; `lowtail host revert` restores what was there\n"
}

fn tell(plan: &Plan, applied: &Applied) {
    for refused in refused(plan, applied) {
        out::note(&not_given(&refused));
    }
}
