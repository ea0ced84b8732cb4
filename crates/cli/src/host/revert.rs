//! `lowtail host revert`: restores what was there.

use std::process::ExitCode;

use lowtail_control::manage::{self, HostLock, Reverted};

use super::records::Records;
use super::state::{State, forget, host};
use crate::exit::{self, Fail};
use crate::global::Global;
use crate::out;

/// `lowtail host revert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Revert {
    #[command(flatten)]
    state: State,
    /// Also restore settings that somebody else has changed since
    #[arg(long, conflicts_with = "forget")]
    force: bool,
    /// Forget the originals of settings that somebody else has changed since; they keep what they have
    #[arg(long)]
    forget: bool,
}

pub(crate) fn run(args: &Revert, global: &Global) -> Result<ExitCode, Fail> {
    let dir = args.state.dir();
    let mut hold = HostLock::take(&dir).map_err(host)?;
    let written = manage::status(&dir).map_err(host)?;
    if let Some(why) = Records::open(&dir).restored(&written, &[]) {
        out::note(&format!("error: {why}"));
    }
    let reverted = hold.revert(args.force, &mut |_| {}).map_err(host)?;
    forget(&dir)?;
    if !args.forget {
        return say(&reverted, global);
    }
    hold.forget(&reverted.foreign).map_err(host)?;
    if !global.json && !global.quiet {
        for foreign in &reverted.foreign {
            let knob = &foreign.knob;
            let was = knob.in_words(&foreign.was);
            out::note(&format!("note: {knob} stays as somebody else has set it; it was {was}"));
        }
    }
    say(&Reverted { foreign: Vec::new(), ..reverted }, global)
}

/// What was restored and what not; the exit code says whether it was all.
pub(crate) fn say(reverted: &Reverted, global: &Global) -> Result<ExitCode, Fail> {
    if global.json {
        out::json_line(&out::to_json(reverted)?)?;
    } else if !global.quiet {
        out::text(&text(reverted))?;
        for foreign in &reverted.foreign {
            let (knob, ours) = (&foreign.knob, foreign.knob.in_words(&foreign.ours));
            out::note(&format!(
                "note: {knob} is no longer {ours}: somebody else has changed it; left alone. `revert --force` \
                 restores it, `revert --forget` keeps it"
            ));
        }
        for failed in &reverted.failed {
            out::note(&format!(
                "refused: {}: {}: {}",
                failed.knob,
                failed.knob.in_words(&failed.to),
                failed.why
            ));
        }
    }
    let all = reverted.failed.is_empty() && reverted.foreign.is_empty() && reverted.damaged == 0;
    Ok(if all { ExitCode::SUCCESS } else { exit::SHORT.into() })
}

fn text(reverted: &Reverted) -> String {
    let parts = [
        (reverted.already, "had it already"),
        (reverted.gone, "gone"),
        (reverted.stale, "of an earlier boot"),
        (reverted.foreign.len(), "left as somebody else has set them"),
        (reverted.failed.len(), "refused by the kernel"),
        (reverted.damaged, "lines of the ledger that cannot be read"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let parts: String = parts.map(|(n, what)| format!(", {n} {what}")).collect();
    format!("{} restored{parts}\n", reverted.restored)
}
