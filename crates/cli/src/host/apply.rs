//! `lowtail host apply`: puts a policy in force, and keeps it there.

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;

use lowtail_live::discover::{Found, Name};
use lowtail_live::keep::{self, Keep, Options, Round, Taggers, forget_scheduler};
use lowtail_live::manage::{Applied, Error, Hold, OnError, Plan};
use lowtail_live::policy::Policy;
use lowtail_live::signals::Signals;
use lowtail_live::want::VcpusBy;
use serde_json::{Value, json};

use super::effect::Look;
use super::follow::Follower;
use super::plan::{self, State, Wanted, host};
use super::revert;
use crate::args::Global;
use crate::exit::{self, Fail};
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
    /// Follow machines that come and go, until a signal comes; then restore what was there. Only so can the scheduler
    /// small-first be had, where the kernel has sched_ext
    #[arg(long)]
    watch: bool,
    /// Change what somebody else has changed since, too
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
    let mut hold = Hold::take(&dir).map_err(host)?;
    forget_dead(&dir)?;
    let found = args.wanted.found();
    let settings = plan::settings(policy, &found, &plan::facts(policy, &found, false)?)?;
    args.look.before(&dir, &args.wanted.vm)?;
    let plan = hold.plan(&settings.settings, args.force).map_err(host)?;
    let applied = hold.apply(&plan, OnError::GoOn, &mut |_| {}).map_err(host)?;
    let kept = keep::save_notes(&dir, &settings.notes);
    kept.map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))?;
    for trouble in Taggers::default().follow(policy, &found) {
        out::note(&format!("error: {trouble}"));
    }
    if global.json {
        let mut json = plan::as_json(&found, &settings, &plan)?;
        json["applied"] = to_json(&applied)?;
        out::json(&json)?;
    } else if !global.quiet {
        out::text(&plan::text(&found, &settings, &plan))?;
        out::text(&done(&applied))?;
        plan::tell(&found, &settings);
        tell(&applied);
    }
    let short = !applied.failed.is_empty() || !plan.foreign.is_empty() || !plan.unread.is_empty();
    Ok(if short { exit::SHORT.into() } else { ExitCode::SUCCESS })
}

fn watch(args: &Apply, policy: &Policy, global: &Global) -> Result<ExitCode, Fail> {
    let signals = Signals::new().map_err(|error| Fail::Host(format!("signals: {error}")))?;
    let dir = args.state.dir();
    let mut options = Options::new(&dir);
    options.declared.clone_from(&args.wanted.vm);
    // What cannot be had at all is told before anything is changed.
    let found = args.wanted.found();
    let facts = plan::facts(policy, &found, true)?;
    let settings = plan::settings(policy, &found, &facts)?;
    let mut keep = Keep::start(options).map_err(host)?;
    forget_dead(&dir)?;
    args.look.before(&dir, &args.wanted.vm)?;
    let mut follower = Follower::new(policy, facts, &dir);
    if settings.vcpus == VcpusBy::SmallFirst {
        follower.load()?;
    }
    let follower = RefCell::new(follower);
    let mut failed = None;
    let mut want = |found: &Found| follower.borrow_mut().want(found, global);
    keep.run(&signals, &mut want, &mut |round| {
        follower.borrow_mut().follow(global);
        if let Err(fail) = say(round, global) {
            failed = Some(fail);
        }
    });
    // Threads have the policy again that they had; the ledger has it, too.
    drop(follower);
    let reverted = keep.end().map_err(host)?;
    let code = match reverted {
        Some(reverted) => {
            revert::forget(&dir)?;
            revert::say(&reverted, global)?
        }
        None => ExitCode::SUCCESS,
    };
    failed.map_or(Ok(code), Err)
}

/// Nobody has a scheduler of ours while this process holds the host and has none; `status` shall not tell of one that was killed.
fn forget_dead(dir: &Path) -> Result<(), Fail> {
    forget_scheduler(dir).map_err(|error| Fail::Host(format!("{}: {error}", dir.display())))
}

/// A round in which something happened.
fn say(round: Result<Round, Error>, global: &Global) -> Result<(), Fail> {
    let round = match round {
        Ok(round) => round,
        // The next one may go well.
        Err(error) => {
            out::note(&format!("error: {error}"));
            return Ok(());
        }
    };
    if global.json {
        let (plan, applied) = (round.plan.as_ref(), round.applied.as_ref());
        let changes = plan.map(changes).transpose()?;
        if changes.is_some() || !round.foreign.is_empty() {
            let line = json!({
                "changes": changes,
                "applied": applied.map(to_json).transpose()?,
                "foreign": to_json(&round.foreign)?,
            });
            out::json_line(&line)?;
        }
        return Ok(());
    }
    if global.quiet {
        return Ok(());
    }
    for change in round.plan.iter().flat_map(|plan| &plan.changes) {
        let [now, to, why] = [&change.now, &change.to, &change.why].map(Name::new);
        out::text(&format!("{}: {now} -> {to} ({why})\n", change.place))?;
    }
    for foreign in &round.foreign {
        out::note(&format!("note: {} was changed by somebody else; left alone", foreign.place));
    }
    round.applied.iter().for_each(tell);
    Ok(())
}

fn changes(plan: &Plan) -> Result<Value, Fail> {
    to_json(&plan.changes)
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Result<Value, Fail> {
    serde_json::to_value(value).map_err(|error| Fail::Bug(format!("JSON: {error}")))
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

fn tell(applied: &Applied) {
    for failed in &applied.failed {
        out::note(&format!("refused: {}: {}: {}", failed.place, failed.to, failed.why));
    }
}
