//! `lowtail lab sensitivity`: which claims depend on what things cost.

use std::cell::Cell;
use std::process::ExitCode;

use lowtail_lab::figure::optional;
use lowtail_lab::sensitivity::runs;
use lowtail_lab::{Moved, Progress, RunOptions, Sensitivity};
use lowtail_out::line;

use super::args::{LabSensitivity, processors};
use super::catalogue;
use super::failure::failed;
use super::table::table;
use crate::exit::Fail;
use crate::global::Global;
use crate::out;
use crate::progress::Bar;

pub(super) fn run(args: &LabSensitivity, global: &Global) -> Result<ExitCode, Fail> {
    let experiment = catalogue::load(&args.experiment)?;
    let options = RunOptions {
        seed: args.seed,
        seeds: args.seeds,
        jobs: args.jobs.map_or_else(processors, usize::from),
        ..RunOptions::default()
    };
    let total = runs(&experiment, &options) as u64;
    let bar = Bar::new(global, total, "{wide_bar} {pos}/{len} runs, {eta} left");
    let done = Cell::new(0);
    let step = |progress: Progress| {
        // Called once before the first case, too.
        done.set(done.get() + u64::from(progress.done > 0));
        bar.set(done.get(), "");
    };
    let by = f64::from(args.by) / 100.0;
    let moved = lowtail_lab::sensitivity(&experiment, &options, by, &step);
    let moved = moved.map_err(|error| failed(error, &args.experiment, false))?;
    drop(bar);
    if global.json {
        out::json(&moved.json())?;
    } else if !global.quiet {
        out::text(&text(&moved))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(moved: &Sensitivity) -> String {
    let percent = moved.by * 100.0;
    if moved.costs.is_empty() {
        return format!("{}: no costs, nothing to move\n", line(&moved.name));
    }
    let (name, costs) = (line(&moved.name), moved.costs.len());
    let mut text = format!("{name}: each of {costs} costs {percent} % down and up\n\n");
    let head = ["CLAIM", "MEASURED", "LEAST", "MOST", "MOVED MOST BY", "FLIPS WITH"];
    let mut rows = vec![head.map(String::from)];
    rows.extend(moved.claims.iter().map(|claim| cells(moved, claim)));
    text += &table(&rows);
    let still = moved.claims.iter().filter(|claim| claim.flips.is_empty());
    let (still, all) = (still.count(), moved.claims.len());
    let weak = moved.claims.iter().filter(|claim| claim.verdict.is_weak()).count();
    text + &format!(
        "\n{} of {all} claims flip, {still} do not; a trivial model passes {weak}\n",
        all - still
    )
}

fn cells(moved: &Sensitivity, claim: &Moved) -> [String; 6] {
    let range = claim.range();
    let most = claim.most().map_or_else(
        || "–".to_string(),
        |(cost, part)| format!("{}, {:.0} %", moved.costs[cost], part * 100.0),
    );
    let flips =
        claim.flips.iter().map(|(cost, up)| format!("{cost} {}", if *up { "up" } else { "down" }));
    [
        line(&claim.verdict.id).into_owned(),
        optional(claim.verdict.measured),
        optional(range.map(|range| range.0)),
        optional(range.map(|range| range.1)),
        most,
        flips.collect::<Vec<_>>().join(", "),
    ]
}
