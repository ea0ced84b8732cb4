//! `lowtail host apply`: puts a policy in force, and keeps it there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Instant;

use lowtail_control::desired::VcpusBy;
use lowtail_control::manage::{Applied, Error, HostLock, OnError, Plan, Refused};
use lowtail_control::policy::Policy;
use lowtail_control::reconcile::{Follower, Notes, Options, Reconciler, Round, Taggers};
use lowtail_discover::Found;
use lowtail_kernel::Name;
use lowtail_kernel::signals::Signals;
use serde_json::{Value, json};

use super::effect::Look;
use super::log::{Kind, Log};
use super::plan::{self, not_given};
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
    /// Follow VMs that come and go until a signal comes, then restore what was there. The
    /// small-first scheduler (sched_ext) runs only with this
    #[arg(long)]
    watch: bool,
    /// Also change settings that somebody else has changed since
    #[arg(long, conflicts_with = "watch")]
    force: bool,
}

pub(crate) fn run(args: &Apply, global: &Global) -> Result<ExitCode, Fail> {
    let policy = args.wanted.policy()?;
    match args.watch {
        true => watch(args, &policy, global),
        false => once(args, &policy, global),
    }
}

fn once(args: &Apply, policy: &Policy, global: &Global) -> Result<ExitCode, Fail> {
    let dir = args.state.dir();
    let mut hold = HostLock::take(&dir).map_err(host)?;
    state::forget_dead(&dir)?;
    let found = args.wanted.found(policy);
    let settings = wanted::settings(policy, &found, &wanted::capabilities(policy, &found, false)?)?;
    args.look.before(&dir, &args.wanted.vm)?;
    let plan = hold.plan_wanted(&settings.wanted(), args.force).map_err(host)?;
    let applied = hold.apply(&plan, OnError::Continue, &mut |_| {}).map_err(host)?;
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

fn watch(args: &Apply, policy: &Policy, global: &Global) -> Result<ExitCode, Fail> {
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    let dir = args.state.dir();
    let mut options = Options::new(&dir);
    options.declared.clone_from(&args.wanted.vm);
    // What cannot be had at all is told before anything is changed.
    let found = args.wanted.found(policy);
    let capabilities = wanted::capabilities(policy, &found, true)?;
    options.users.clone_from(&capabilities.users);
    let settings = wanted::settings(policy, &found, &capabilities)?;
    let mut reconciler = Reconciler::start(options).map_err(host)?;
    state::forget_dead(&dir)?;
    args.look.before(&dir, &args.wanted.vm)?;
    let mut follower = Follower::new(policy, capabilities, &dir);
    if settings.vcpus == VcpusBy::SmallFirst {
        follower.load()?;
    }
    let follower = RefCell::new(follower);
    let log = RefCell::new(Log::new(Instant::now(), global.quiet));
    let mut failed = None;
    let mut vms = Vms::default();
    let mut resolve = |found: &Found| {
        let mut note = |line: String| log.borrow_mut().say(Kind::Note, || line);
        follower.borrow_mut().resolve(found, &mut note)
    };
    reconciler.run(&signals, &mut resolve, &mut |round| {
        let mut log = log.borrow_mut();
        for trouble in follower.borrow_mut().follow(round.as_ref().ok()) {
            log.say(Kind::Error, || format!("error: {trouble}"));
        }
        if let Err(fail) = say(round, &mut vms, &mut log, global) {
            failed = Some(fail);
        }
        log.rest(false);
        follower.borrow_mut().is_due()
    });
    log.borrow_mut().rest(true);
    // Threads have the policy again that they had; the ledger has it, too.
    drop(follower);
    let reverted = reconciler.end().map_err(host)?;
    let code = match reverted {
        Some(reverted) => {
            state::forget(&dir)?;
            revert::say(&reverted, global)?
        }
        None => ExitCode::SUCCESS,
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
    round: Result<Round, Error>,
    vms: &mut Vms,
    log: &mut Log,
    global: &Global,
) -> Result<(), Fail> {
    let round = match round {
        Ok(round) => round,
        // The next one may go well.
        Err(error) => {
            log.say(Kind::Error, || format!("error: {error}"));
            return Ok(());
        }
    };
    if let Some(why) = &round.unknown {
        log.say(Kind::Error, || format!("error: {why}; the settings stay as they are"));
    }
    let moved = round.changed.as_ref().map(|found| vms.look(found)).unwrap_or_default();
    if global.json {
        return say_json(&round, &moved);
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
    for refused in round.refused.iter().flatten().filter(|refused| vms.is_new(refused)) {
        log.say(Kind::Refused, || not_given(refused));
    }
    if let Some(refused) = round.refused {
        vms.refused = refused.into_iter().collect();
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
    refused: BTreeSet<Refused>,
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
