//! What was found, for people.

use std::fmt::Write as _;

use lowtail_out::align;

use crate::tuned::{GoalOutcome, Tuned, TunedPoint};

impl Tuned {
    /// What was found as text: a row for each point, then what to know of it.
    pub fn table(&self) -> String {
        let mut out = String::new();
        if let Some(grade) = &self.grade {
            let _ = writeln!(out, "replay of the recording: {grade}");
        }
        let mut head = vec!["point".to_owned()];
        head.extend(self.goals.iter().map(ToString::to_string));
        let lost = if self.cost.ends_with(" work") { "work lost" } else { "longer by" };
        head.extend([lost.to_owned(), "changes".to_owned()]);
        let mut rows = vec![head, self.row("as it is", &self.before)];
        for (number, point) in (1..).zip(&self.points) {
            let chosen = if self.chosen == Some(number) { "*" } else { "" };
            rows.push(self.row(&format!("{number}{chosen}"), point));
        }
        let columns = format!("l{}l", "r".repeat(rows[0].len() - 2));
        align(&mut out, &columns, &rows);
        for (number, point) in (1..).zip(&self.points) {
            for worse in &point.worse {
                let _ = writeln!(out, "worse at {number}: {worse}");
            }
        }
        let _ = writeln!(out, "{}", self.verdict());
        for limit in &self.limits {
            let _ = writeln!(out, "limit: {limit}");
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        if self.stopped {
            let _ = writeln!(
                out,
                "note: time ran out before the search was done; the points depend on this machine's speed"
            );
        }
        if let Some(point) = self.chosen.and_then(|number| self.points.get(number.checked_sub(1)?))
        {
            let _ = write!(out, "\n{}", point.policy);
        }
        out
    }

    /// The result in a line.
    fn verdict(&self) -> String {
        let goals = if self.goals.len() == 1 { "the goal" } else { "all goals" };
        match self.chosen {
            Some(0) => format!("{goals} reached as it is: nothing has to be changed"),
            Some(number) => {
                let lost = self.points[number - 1].lost.median;
                format!(
                    "point {number} reaches {goals} and loses least of `{}`: {}",
                    self.cost,
                    percent(lost)
                )
            }
            None => format!("no point reaches {goals}"),
        }
    }

    fn row(&self, name: &str, point: &TunedPoint) -> Vec<String> {
        let mut row = vec![name.to_owned()];
        row.extend(point.figures.iter().map(figure));
        row.push(point.lost.text(percent));
        row.push(point.changes.clone());
        row
    }
}

fn figure(outcome: &GoalOutcome) -> String {
    let missed = if outcome.strain <= 1.0 { "" } else { " !" };
    let text = |value: f64| {
        if outcome.is_latency { time(value) } else { format!("{value:.1} %") }
    };
    format!("{}{missed}", outcome.figure.text(text))
}

fn percent(part: f64) -> String {
    // No minus before a zero.
    format!("{:.1} %", if part.abs() < 0.0005 { 0.0 } else { 100.0 * part })
}

/// A time for people.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us.is_infinite() => "-".to_owned(),
        us if us < 100.0 => format!("{us:.1} us"),
        us if us < 1000.0 => format!("{us:.0} us"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us => format!("{:.1} ms", us / 1e3),
    }
}
