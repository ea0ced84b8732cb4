//! `lowtail lab show`: what an experiment is about, before it is run.

use std::fs;
use std::process::ExitCode;

use lowtail_lab::Experiment;
use lowtail_lab::case::Case;
use lowtail_lab::claim::{ClaimFile, PublishedFile};
use lowtail_out::line;
use serde_json::{Value, json};

use super::catalogue;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;

/// Prints what the experiment `name` is about, or its file.
pub(super) fn run(name: &str, toml: bool, global: &Global) -> Result<ExitCode, Fail> {
    let experiment = catalogue::load(name)?;
    if toml {
        let text = match lowtail_lab::find(name) {
            Ok(embedded) => embedded.text.to_string(),
            Err(_) => fs::read_to_string(name).map_err(|e| Fail::Input(format!("{name}: {e}")))?,
        };
        out::data(&text, global)?;
    } else if global.json {
        out::json(&self::json(&experiment))?;
    } else if !global.quiet {
        out::text(&text(&experiment))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// For people.
fn text(experiment: &Experiment) -> String {
    let file = &experiment.file;
    let mut text = format!("{}: {}\n", line(&experiment.name), line(&file.title));
    if !file.source.is_empty() {
        text += &format!("source: {}\n", line(&file.source));
    }
    if !file.notes.is_empty() {
        text += &format!("\n{}\n", file.notes.trim());
    }
    text + &cases(experiment) + &claims(experiment)
}

fn scheduler(case: &Case) -> String {
    case.describe()
}

/// The cases, each with its scheduler if they differ in that.
fn cases(experiment: &Experiment) -> String {
    let cases = experiment.cases(false);
    let longer = if experiment.has_full() { "; --full takes more samples" } else { "" };
    let s = if cases.len() == 1 { "" } else { "s" };
    let mut text = format!("\n{} case{s}, seed {}{longer}\n", cases.len(), experiment.file.seed);
    let common = cases.first().map(scheduler);
    let common = common.filter(|first| cases.iter().all(|case| scheduler(case) == *first));
    if let Some(scheduler) = &common {
        text += &format!("scheduler: {}\n", line(scheduler));
    }
    let names: Vec<_> = cases.iter().map(|case| line(&case.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (case, name) in cases.iter().zip(&names) {
        let scheduler = if common.is_some() { String::new() } else { scheduler(case) };
        let line = format!("  {name:width$}  {}", line(&scheduler));
        text += &format!("{}\n", line.trim_end());
    }
    text
}

fn claims(experiment: &Experiment) -> String {
    let file = &experiment.file;
    if file.published.is_empty() && file.claim.is_empty() {
        return "\nno claims: predictions\n".to_string();
    }
    let mut text = "\nclaims\n".to_string();
    for published in &file.published {
        let figures: Vec<&str> = figures(published).collect();
        let (case, tolerance) = (line(&published.case), published.tolerance);
        text += &format!("  {case}: {} within {tolerance} of published\n", figures.join(", "));
    }
    for claim in &file.claim {
        text += &format!("  {}\n", line(&claim.name()));
    }
    text
}

/// The names of the figures that are judged.
fn figures(published: &PublishedFile) -> impl Iterator<Item = &'static str> {
    let all = [
        ("avg", published.avg),
        ("min", published.min),
        ("p25", published.p25),
        ("p50", published.p50),
        ("p75", published.p75),
        ("p90", published.p90),
        ("p99", published.p99),
        ("p99_9", published.p99_9),
        ("max", published.max),
        ("std_dev", published.std_dev),
    ];
    all.into_iter().filter(|(_, figure)| figure.is_some()).map(|(name, _)| name)
}

/// For programs.
fn json(experiment: &Experiment) -> Value {
    let file = &experiment.file;
    let case = |case: &Case| json!({ "case": case.name, "scheduler": scheduler(case) });
    let published = file.published.iter().flat_map(|published| {
        figures(published).map(move |figure| format!("{}/{figure}", published.case))
    });
    let claims: Vec<String> = published.chain(file.claim.iter().map(ClaimFile::name)).collect();
    json!({
        "name": experiment.name,
        "title": file.title,
        "source": file.source,
        "notes": file.notes,
        "seed": file.seed,
        "full": experiment.has_full(),
        "cases": experiment.cases(false).iter().map(case).collect::<Vec<Value>>(),
        "claims": claims,
    })
}
