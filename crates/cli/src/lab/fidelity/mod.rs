//! `lowtail lab fidelity`: reports of checks as a page, with goals, pictures and causes.

mod data;
mod page;
mod picture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lowtail_lab::Error;
use lowtail_play::Report;
use lowtail_play::fidelity::causes::Error as CausesError;
use lowtail_play::fidelity::{Causes, Judged};

use super::args::LabFidelity;
use super::saved;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;

pub(super) fn run(args: &LabFidelity, global: &Global) -> Result<ExitCode, Fail> {
    let all = judged(&args.reports)?;
    let causes = match &args.causes {
        Some(path) => Causes::read(path, &all).map_err(|error| match error {
            CausesError::File(error) => Fail::from(Error::File(error)),
            CausesError::At(error) => Fail::from(Error::At(error)),
        })?,
        None => Causes::default(),
    };
    if let Some(dir) = &args.pictures {
        saved::prepare(Some(dir))?;
        for judged in &all {
            saved::write(dir, &picture::file_name(judged), &picture::svg(judged))?;
        }
    }
    if global.json {
        out::json(&data::json(&all, &causes))?;
    } else if !global.quiet {
        out::data(&page::markdown(&all, &causes, args.pictures.as_deref()), global)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads and judges all reports, of which there is one of each system; whatever their order, Linux comes first.
fn judged(paths: &[PathBuf]) -> Result<Vec<Judged>, Fail> {
    let mut all: Vec<Judged> = Vec::new();
    for path in paths {
        let report = Report::read(path).map_err(|error| Fail::from(Error::File(error)))?;
        let judged = Judged::new(report).map_err(|why| wrong(path, &why))?;
        if let Some(other) = all.iter().position(|other| other.system == judged.system) {
            let (system, other) = (judged.system, lowtail_out::path(&paths[other]));
            return Err(wrong(path, &format!("{system} again, after {other}: give one")));
        }
        all.push(judged);
    }
    all.sort_by_key(|judged| judged.system);
    Ok(all)
}

fn wrong(path: &Path, why: &str) -> Fail {
    Fail::Input(format!("{}: {}", lowtail_out::path(path), lowtail_out::line(why)))
}
