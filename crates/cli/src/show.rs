//! `lowtail lab show`: what an experiment is about, before it is run.

use lowtail_lab::Experiment;
use serde_json::{Value, json};

/// For people.
pub(crate) fn text(experiment: &Experiment) -> String {
    let file = &experiment.file;
    let mut text = format!("{}: {}\n", experiment.name, file.title);
    if !file.source.is_empty() {
        text += &format!("source: {}\n", file.source);
    }
    if !file.notes.is_empty() {
        text += &format!("\n{}\n", file.notes.trim());
    }
    let cases = experiment.cases(false);
    let longer = if experiment.has_full() { "; --full takes more samples" } else { "" };
    text += &format!("\n{} cases, seed {}{longer}:\n", cases.len(), file.seed);
    let width = cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
    for case in cases {
        let scheduler = lowtail_lab::scheduler::describe(&case.config.scheduler);
        text += &format!("  {:width$}  {scheduler}\n", case.name);
    }
    text
}

/// For programs.
pub(crate) fn json(experiment: &Experiment) -> Value {
    let file = &experiment.file;
    let case = |case: &lowtail_lab::case::Case| {
        let scheduler = lowtail_lab::scheduler::describe(&case.config.scheduler);
        json!({ "case": case.name, "scheduler": scheduler })
    };
    json!({
        "name": experiment.name,
        "title": file.title,
        "source": file.source,
        "notes": file.notes,
        "seed": file.seed,
        "full": experiment.has_full(),
        "cases": experiment.cases(false).iter().map(case).collect::<Vec<Value>>(),
    })
}
