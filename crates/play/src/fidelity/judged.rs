//! A report, judged.

use super::goal::Goal;
use super::system::System;
use crate::figure::{Figure, Kind};
use crate::report::Report;
use crate::tally::Tally;

/// So many of the worst figures are shown.
const WORST: usize = 10;

/// A report beside the goals for its system.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The system.
    pub system: System,
    /// The report.
    pub report: Report,
    /// Each kind of figure that there is or that there is a goal for.
    pub kinds: Vec<JudgedKind>,
}

/// The figures of a kind.
#[derive(Debug, Clone)]
pub struct JudgedKind {
    /// How many are how near.
    pub tally: Tally,
    /// What is wanted of them.
    pub goal: Option<Goal>,
    /// Whether it is met; `None` without a goal, and without figures.
    pub met: Option<bool>,
}

impl Judged {
    /// Judges `report`.
    ///
    /// # Errors
    /// If it says nothing of the simulator, or of no system that is known; in words.
    pub fn new(report: Report) -> Result<Self, String> {
        let on = &report.settings.on;
        let Some(system) = System::of(&report) else {
            return Err(format!("on `{on}`: no place where `lowtail lab check` plays scenarios"));
        };
        if report.settings.twice {
            return Err("it is of --twice, without the simulator".to_string());
        }
        let tallies = report.tallies();
        let kinds = Kind::ALL.into_iter().filter_map(|figure| {
            let goal = Goal::of(system.kind, figure);
            let tally = tallies.iter().find(|tally| tally.figure == figure).cloned();
            if tally.is_none() && goal.is_none() {
                return None;
            }
            let met = goal.zip(tally.as_ref()).map(|(goal, tally)| goal.is_met(tally));
            let tally = tally.unwrap_or_else(|| Tally::none(figure));
            Some(JudgedKind { tally, goal, met })
        });
        let kinds = kinds.collect();
        Ok(Judged { system, report, kinds })
    }

    /// The worst figures, each with the number of its scenario, the worst first.
    pub fn worst(&self) -> Vec<(u32, &Figure)> {
        self.report.worst().into_iter().take(WORST).collect()
    }

    /// How many of its goals are met, and how many there are.
    pub fn goals(&self) -> (usize, usize) {
        let goals = self.kinds.iter().filter(|kind| kind.goal.is_some());
        (goals.clone().filter(|kind| kind.met == Some(true)).count(), goals.count())
    }
}
