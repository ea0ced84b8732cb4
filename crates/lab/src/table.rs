//! Outcomes as aligned text.

use lowtail_out::line;

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

/// A wider table has its columns closer together.
const TERMINAL_CHARS: usize = 120;

/// A table in the making: the first columns are flush left, the others right.
pub(crate) struct Table {
    pub(crate) header: Vec<String>,
    /// Cells, and the colour of the first text column.
    pub(crate) rows: Vec<(Vec<String>, &'static str)>,
    /// How many columns at the left are text.
    pub(crate) text_until: usize,
    /// From this column on it is text, flush left again.
    pub(crate) text_from: usize,
}

impl Table {
    /// Its lines; a wide one has its columns closer together.
    pub(crate) fn text(&self, color: bool) -> String {
        let shown = |cells: &Vec<String>| -> Vec<String> {
            cells.iter().map(|cell| lowtail_out::line(cell).into_owned()).collect()
        };
        let header = shown(&self.header);
        let rows: Vec<_> = self.rows.iter().map(|(cells, style)| (shown(cells), style)).collect();
        let all = || std::iter::once(&header).chain(rows.iter().map(|(cells, _)| cells));
        let width = |i: usize| {
            all().filter_map(|cells| cells.get(i)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..header.len()).map_while(width).collect();
        let wide = widths.iter().map(|width| width + 2).sum::<usize>() > TERMINAL_CHARS;
        let gap = if wide { " " } else { "  " };
        let dim = |line: String| if color { format!("{DIM}{line}{PLAIN}") } else { line };
        let mut out = dim(self.line(&header, &widths, gap, "")) + "\n";
        for (cells, style) in &rows {
            out += &self.line(cells, &widths, gap, if color { style } else { "" });
            out += "\n";
        }
        out
    }

    fn line(&self, cells: &[String], widths: &[usize], gap: &str, style: &str) -> String {
        let mut out = String::from(" ");
        for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            out += if i == 0 { " " } else { gap };
            let pad = " ".repeat(width - cell.chars().count());
            out += &match i {
                _ if i == self.text_from && !style.is_empty() => {
                    format!("{style}{cell}{PLAIN}{pad}")
                }
                _ if i < self.text_until || i >= self.text_from => format!("{cell}{pad}"),
                _ => format!("{pad}{cell}"),
            };
        }
        out.truncate(out.trim_end().len());
        out
    }
}

impl Outcome {
    /// Claims with published figures, ours, their ratio and the verdict; then the rows.
    pub fn table(&self, color: bool) -> String {
        let bold =
            |text: &str| if color { format!("{BOLD}{text}{PLAIN}") } else { text.to_string() };
        let mut out = format!("{}  {}\n", bold(&line(&self.name)), line(&self.title));
        if !self.claims.is_empty() {
            out += "\n";
            out += &self.claim_table().text(color);
        }
        for (id, why) in self.missed() {
            out += &format!("\n  missed, {}: {}\n", line(id), line(why));
        }
        out += "\n";
        out += &self.row_table().text(color);
        if let Some(means) = self.means() {
            out += &format!("\n  {means}; --json has 95 % confidence intervals\n");
        }
        let unfinished: Vec<&str> =
            self.rows.iter().filter(|row| !row.complete).map(|row| row.name.as_str()).collect();
        if !unfinished.is_empty() {
            let few = unfinished.iter().take(5).copied().collect::<Vec<_>>().join(", ");
            let more = if unfinished.len() > 5 { ", …" } else { "" };
            let few = line(&few);
            out += &format!("\n  ended at `duration` before all was measured: {few}{more}\n");
        }
        out += &format!(
            "\n  {}\n  lowtail {}: {}\n",
            self.verdict_line(),
            crate::VERSION,
            line(&self.command)
        );
        out
    }

    /// One line that sums up the verdicts.
    pub fn verdict_line(&self) -> String {
        if self.claims.is_empty() {
            return "no claims: predictions".to_string();
        }
        self.score().line()
    }

    pub(crate) fn claim_table(&self) -> Table {
        let header =
            ["claim", "unit", "published", "trivial", "measured", "ratio", "verdict", "wanted"];
        let row = |claim: &Verdict| {
            let (word, style) = word(claim);
            let cells = vec![
                claim.id.clone(),
                claim.unit.clone(),
                optional(claim.published),
                optional(claim.trivial_figure()),
                measured(claim),
                claim.ratio().map_or_else(|| "–".to_string(), |ratio| format!("{ratio:.3}")),
                with_seeds(word, claim),
                claim.wanted(),
            ];
            (cells, style)
        };
        Table {
            header: header.map(str::to_string).to_vec(),
            rows: self.claims.iter().map(row).collect(),
            text_until: 1,
            text_from: 6,
        }
    }

    pub(crate) fn row_table(&self) -> Table {
        // Without any latency the columns for it would be empty.
        let measured = self.rows.iter().any(|row| row.n > 0);
        let latencies: &[&str] = if measured { metric::COLUMNS } else { &[] };
        let mut header = match measured {
            true => vec![format!("case [{}]", self.unit.name()), "count".to_string()],
            false => vec!["case".to_string()],
        };
        header.extend(latencies.iter().map(ToString::to_string));
        header.extend(self.show.iter().map(|name| name.replace("_per_second", "/s")));
        let cells = |row: &Row| {
            let mut cells = vec![row.name.clone()];
            cells.extend(measured.then(|| row.n.to_string()));
            let latency = |name: &&str| row.get(name).map_or_else(|| "–".to_string(), aligned);
            cells.extend(latencies.iter().map(latency));
            cells.extend(self.show.iter().map(|name| optional(row.get(name))));
            (cells, "")
        };
        let text_from = header.len();
        Table { header, rows: self.rows.iter().map(cells).collect(), text_until: 1, text_from }
    }
}

/// What was measured, and over several seeds how far it may be off.
pub(crate) fn measured(claim: &Verdict) -> String {
    let half_width = claim.seeds.and_then(|seeds| seeds.half_width);
    match (claim.measured, half_width) {
        (Some(_), Some(half_width)) => {
            format!("{} ±{}", optional(claim.measured), crate::figure::figure(half_width))
        }
        _ => optional(claim.measured),
    }
}

/// The verdict's `word`, and in how many of several seeds the claim holds.
pub(crate) fn with_seeds(word: &str, claim: &Verdict) -> String {
    match claim.seeds {
        Some(seeds) => format!("{word} ({} of {})", seeds.held, seeds.all),
        None => word.to_string(),
    }
}

/// The verdict in a word, and its colour.
pub(crate) fn word(claim: &Verdict) -> (&'static str, &'static str) {
    match claim.holds {
        Some(true) if claim.fitted => ("fitted", DIM),
        Some(true) if claim.is_weak() => ("weak", DIM),
        Some(true) => ("holds", GREEN),
        Some(false) if claim.is_missed() => ("missed", DIM),
        Some(false) => ("falls short", RED),
        None => ("not judged", DIM),
    }
}
