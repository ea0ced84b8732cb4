//! Outcomes as Markdown.

use crate::outcome::Outcome;
use crate::score::Score;
use crate::table::Table;

/// A document with a chapter for each of `outcomes`, and `command`, which writes it.
pub fn document(outcomes: &[Outcome], command: &str) -> String {
    let score = Score::of(outcomes.iter().flat_map(|outcome| &outcome.claims));
    let mut out = format!(
        "# Results\n\nWritten by `{}`. Each chapter is an experiment: its claims, with the published figure beside ours where \
         there is one, then the figures of each case. Units and metrics: [scenario files](reference/scenario.md). What an experiment assumes: \
         `lowtail lab show NAME`.\n\n{}\n\n| experiment | | |\n|---|---|---|\n",
        plain(command),
        counts(&score)
    );
    for outcome in outcomes {
        let (name, title) = (plain(&outcome.name), plain(&outcome.title));
        out += &format!("| [{name}](#{name}) | {title} | {} |\n", outcome.verdict_line());
    }
    for outcome in outcomes {
        out += &format!("\n{}", outcome.markdown());
    }
    out
}

/// A document with the claims of `outcomes` that have some, and `command`, which writes it.
pub fn claims(outcomes: &[Outcome], command: &str) -> String {
    let score = Score::of(outcomes.iter().flat_map(|outcome| &outcome.claims));
    let mut out = format!(
        "# Claims\n\nWritten by `{}`. Each chapter is an experiment: its claims, with the published figure and that of a trivial model beside \
         ours where there are such. Over several seeds a figure is a mean with its 95 % confidence interval, and the verdict is on the mean; \
         beside it stands in how many of them the claim holds. Figures of each case with one seed: [results](results.md).\n\n{}\n",
        plain(command),
        counts(&score)
    );
    for outcome in outcomes.iter().filter(|outcome| !outcome.claims.is_empty()) {
        let (name, title) = (plain(&outcome.name), plain(&outcome.title));
        out += &format!("\n## {name}\n\n{title}: {}.\n\n", outcome.verdict_line());
        out += &outcome.claims_markdown();
        if let Some(means) = outcome.means() {
            out += &format!("\nFigures are {means}.\n");
        }
    }
    out
}

/// How many claims there are, by what their verdicts are worth.
fn counts(score: &Score) -> String {
    let Score { all, held, missed, alone, fitted, weak, short } = score;
    let mut text = format!("Of {all} claims that count, {held} hold and {missed} are missed");
    if *short > 0 {
        text += &format!("; {short} fall short");
    }
    text += ".";
    if *alone > 0 {
        text += &format!(" {alone} of these have no trivial model beside them.");
    }
    text + &format!(
        " {fitted} more were fitted, and {weak} more are weak: a trivial model passes them as well, or is nearer to what was published \
         ([scenario files](reference/scenario.md#weak-claims))."
    )
}

impl Outcome {
    /// A chapter with its tables.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "## {}\n\n{}: {}.\n\n```sh slow\n{}\n```\n",
            plain(&self.name),
            plain(&self.title),
            self.verdict_line(),
            lowtail_out::line(&self.command)
        );
        if !self.claims.is_empty() {
            out += &format!("\n{}", self.claims_markdown());
        }
        out += &format!("\n{}", markdown(&self.row_table()));
        if let Some(means) = self.means() {
            out += &format!("\nFigures are {means}.\n");
        }
        out
    }

    /// Its claims, and why some are missed.
    fn claims_markdown(&self) -> String {
        let mut out = markdown(&self.claim_table());
        for (id, why) in self.missed() {
            out += &format!("\nMissed, {}: {}\n", plain(id), plain(why));
        }
        out
    }
}

/// A table of text: columns from number `text_from` on are flush left, and the first one. Code between backticks stays code.
pub fn table(header: &[&str], rows: Vec<Vec<String>>, text_from: usize) -> String {
    let header = header.iter().map(ToString::to_string).collect();
    let rows = rows.into_iter().map(|cells| (cells, "")).collect();
    markdown(&Table { header, rows, text_until: 1, text_from })
}

fn markdown(table: &Table) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let marks = (0..table.header.len()).map(|i| {
        let text = i < table.text_until || i >= table.text_from;
        if text { "---" } else { "---:" }
    });
    let marks = format!("|{}|\n", marks.collect::<Vec<_>>().join("|"));
    let rows = table.rows.iter().map(|(cells, _)| row(cells));
    row(&table.header) + &marks + &rows.collect::<String>()
}

/// `text` on one line, without what Markdown or HTML would take for more than text.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    for character in lowtail_out::line(text).chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '|' | '*' | '_' | '[' | ']' | '\\' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_text_and_figures_flush_right() {
        let text = |cells: [&str; 3]| cells.map(str::to_string).to_vec();
        let rows = vec![(text(["a|b <i>", "1.5", "at *most* 2"]), "")];
        let table =
            Table { header: text(["case", "us", "wanted"]), rows, text_until: 1, text_from: 2 };
        let lines =
            "| case | us | wanted |\n|---|---:|---|\n| a\\|b &lt;i> | 1.5 | at \\*most\\* 2 |\n";
        assert_eq!(markdown(&table), lines);
    }
}
