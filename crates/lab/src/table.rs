//! Outcomes as aligned text.

use crate::figure::{aligned, optional};
use crate::metric;
use crate::outcome::Outcome;
use crate::row::Row;
use crate::verdict::Verdict;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[1;31m";
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// A table in the making: the first column is flush left, the others right.
struct Table {
    header: Vec<String>,
    /// Cells, and the colour of the last one.
    rows: Vec<(Vec<String>, &'static str)>,
}

impl Table {
    fn text(&self, color: bool) -> String {
        let all = || std::iter::once(&self.header).chain(self.rows.iter().map(|(cells, _)| cells));
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let width = |i: usize| {
            all().filter_map(|cells| cells.get(i)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|i| width(i).unwrap_or(0)).collect();
        let mut out = line(&self.header, &widths, if color { DIM } else { "" }, "");
        for (cells, last) in &self.rows {
            out += &line(cells, &widths, "", if color { last } else { "" });
        }
        out
    }
}

fn line(cells: &[String], widths: &[usize], style: &str, last_style: &str) -> String {
    let mut out = style.to_string();
    for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        let last = i + 1 == cells.len();
        let pad = " ".repeat(width - cell.chars().count());
        match i {
            0 => out += &format!("  {cell}{pad}"),
            _ if last && !last_style.is_empty() => {
                out += &format!("  {pad}{last_style}{cell}{PLAIN}");
            }
            _ => out += &format!("  {pad}{cell}"),
        }
    }
    let trimmed = out.trim_end().len();
    out.truncate(trimmed);
    out + if style.is_empty() { "\n" } else { "\x1b[0m\n" }
}

impl Outcome {
    /// Claims with published figures, ours, their ratio and the verdict; then the rows.
    pub fn table(&self, color: bool) -> String {
        let bold =
            |text: &str| if color { format!("{BOLD}{text}{PLAIN}") } else { text.to_string() };
        let mut out = format!("{}  {}\n", bold(&self.name), self.title);
        if !self.claims.is_empty() {
            out += "\n";
            out += &self.claim_table().text(color);
        }
        out += "\n";
        out += &self.row_table().text(color);
        let unfinished: Vec<&str> =
            self.rows.iter().filter(|row| !row.complete).map(|row| row.name.as_str()).collect();
        if !unfinished.is_empty() {
            let few = unfinished.iter().take(5).copied().collect::<Vec<_>>().join(", ");
            let more = if unfinished.len() > 5 { ", …" } else { "" };
            out += &format!("\n  the limit of simulated time ended early: {few}{more}\n");
        }
        out += &format!(
            "\n  {}\n  lowtail {}: {}\n",
            self.verdict_line(),
            crate::VERSION,
            self.command
        );
        out
    }

    /// One line that sums up the verdicts.
    pub fn verdict_line(&self) -> String {
        match self.score() {
            (_, 0) => "no claims: predictions".to_string(),
            (1, 1) => "its one claim holds".to_string(),
            (held, all) if held == all => format!("all {all} claims hold"),
            (held, all) => format!("{held} of {all} claims hold, {} fall short", all - held),
        }
    }

    fn claim_table(&self) -> Table {
        let header = ["claim", "unit", "published", "ours", "ratio", "wanted", "verdict"];
        let row = |claim: &Verdict| {
            let (word, style) = word(claim);
            let cells = vec![
                claim.id.clone(),
                claim.unit.clone(),
                optional(claim.published),
                optional(claim.measured),
                claim.ratio().map_or_else(|| "–".to_string(), |ratio| format!("{ratio:.3}")),
                claim.wanted(),
                word.to_string(),
            ];
            (cells, style)
        };
        Table {
            header: header.map(str::to_string).to_vec(),
            rows: self.claims.iter().map(row).collect(),
        }
    }

    fn row_table(&self) -> Table {
        let mut header = vec![format!("case [{}]", self.unit.name()), "n".to_string()];
        header.extend(metric::LATENCY.map(str::to_string));
        header.extend(self.show.iter().map(|name| name.replace("_per_s", "/s")));
        let cells = |row: &Row| {
            let mut cells = vec![row.name.clone(), row.n.to_string()];
            let latency = |name: &&str| row.get(name).map_or_else(|| "–".to_string(), aligned);
            cells.extend(metric::LATENCY.iter().map(latency));
            cells.extend(self.show.iter().map(|name| optional(row.get(name))));
            (cells, "")
        };
        Table { header, rows: self.rows.iter().map(cells).collect() }
    }
}

/// The verdict in a word, and its colour.
pub(crate) fn word(claim: &Verdict) -> (&'static str, &'static str) {
    match claim.holds {
        Some(true) => ("holds", GREEN),
        Some(false) => ("falls short", RED),
        None => ("not judged", DIM),
    }
}
