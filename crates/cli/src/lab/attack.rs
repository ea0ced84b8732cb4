//! `lowtail lab attack`.

use std::process::ExitCode;

use lowtail_lab::{AttackOptions, Error, Progress};

use super::args::{LabAttack, processors};
use super::failure::bug;
use super::saved;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;
use crate::progress::Bar;

pub(super) fn run(args: &LabAttack, global: &Global) -> Result<ExitCode, Fail> {
    saved::prepare(args.save.as_deref())?;
    let options = AttackOptions {
        scheduler: args.scheduler.clone(),
        queue: args.queue.clone(),
        seed: args.seed,
        budget: args.budget,
        jobs: args.jobs.map_or_else(processors, usize::from),
    };
    let bar = Bar::new(global, args.budget.into(), "{wide_bar} {pos}/{len} runs, {eta} left");
    let progress = |progress: Progress| bar.set(progress.done as u64, "");
    let attacks = lowtail_lab::attack(&options, &progress).map_err(|error| match error {
        Error::Simulator { .. } => bug(&error, &options.command()),
        error => error.into(),
    })?;
    drop(bar);
    if let Some(dir) = &args.save {
        for finding in attacks.scenarios() {
            let name = finding.file_name(attacks.options.seed);
            saved::write(dir, &name, &finding.scenario)?;
        }
    }
    if global.json {
        out::json(&attacks.json())?;
    } else if !global.quiet {
        out::text(&attacks.text())?;
    }
    if let Some(dir) = &args.save {
        out::remark(global, &format!("scenarios: {}", lowtail_out::path(dir)));
    }
    Ok(ExitCode::SUCCESS)
}
