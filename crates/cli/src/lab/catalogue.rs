//! `lowtail lab list`, and experiments by name or path.

use std::path::Path;

use lowtail_lab::{Experiment, Override};
use serde_json::{Value, json};

use crate::exit::Fail;
use crate::global::Global;
use crate::out;

/// The experiment at a path, or of this name.
pub(super) fn load(name: &str) -> Result<Experiment, Fail> {
    load_with(name, &[])
}

/// The same with other values in place of some of the file's.
pub(super) fn load_with(name: &str, overrides: &[Override]) -> Result<Experiment, Fail> {
    if lowtail_lab::is_path(name) {
        return Ok(lowtail_lab::load_with(Path::new(name), overrides)?);
    }
    Ok(lowtail_lab::find(name)?.load_with(overrides)?)
}

/// Prints the experiments.
pub(super) fn list(global: &Global) -> Result<(), Fail> {
    let mut rows = Vec::new();
    for embedded in lowtail_lab::catalogue() {
        let experiment = embedded.load()?;
        let cases = experiment.cases(false).len();
        rows.push((embedded.name, cases, experiment.file.title.clone()));
    }
    if global.json {
        let entry = |(name, cases, title): &(&str, usize, String)| -> Value {
            json!({ "name": name, "cases": cases, "title": title })
        };
        out::json(&json!({ "experiments": rows.iter().map(entry).collect::<Vec<_>>() }))?;
    } else if !global.quiet {
        let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let mut text = format!("{:width$}  {:>5}  TITLE\n", "NAME", "CASES");
        for (name, cases, title) in rows {
            text += &format!("{name:width$}  {cases:>5}  {title}\n");
        }
        out::text(&text)?;
    }
    Ok(())
}
