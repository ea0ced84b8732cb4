//! `lowtail lab attack`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use lowtail_lab::{AttackOptions, Attacks, Error, Progress};
use lowtail_out::{Access, Output};

use super::args::{LabAttack, processors};
use super::failure::bug;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;
use crate::progress::Bar;

pub(super) fn run(args: &LabAttack, global: &Global) -> Result<ExitCode, Fail> {
    // A directory that cannot be made is told before the search, not after.
    if let Some(dir) = &args.save {
        fs::create_dir_all(dir)
            .map_err(|e| Fail::Host(format!("{}: {e}", lowtail_out::path(dir))))?;
    }
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
        save(&attacks, dir)?;
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

/// Writes each scenario into a file of its own.
fn save(attacks: &Attacks, dir: &Path) -> Result<(), Fail> {
    for finding in attacks.scenarios() {
        let path = dir.join(finding.file_name(attacks.options.seed));
        let written = Output::create(&path, Access::Usual).and_then(|mut file| {
            file.write_all(finding.scenario.as_bytes())?;
            file.commit()
        });
        written.map_err(|error| Fail::Host(format!("{}: {error}", lowtail_out::path(&path))))?;
    }
    Ok(())
}
