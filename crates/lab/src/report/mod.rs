//! The HTML report: one file that needs nothing else, neither network nor script.

mod blame;
mod cdf;
mod frontier;
pub mod histogram;
mod matrix;
mod network;
mod ranges;
mod strip;
mod style;
pub mod svg;
mod sweep;
pub mod tails;

use std::fmt::Write as _;

use crate::figure::{figure, optional};
use crate::metric;
use crate::outcome::Outcome;
use crate::table::{measured, with_seeds, word};
use histogram::Panel;
pub use style::CSS;
use svg::{escape, label};

/// Most rows whose distribution functions fit into one chart.
const CDF_ROWS_MAX: usize = 8;
/// Most schedules shown for an experiment.
const STRIPS_MAX: usize = 4;

/// The report on `outcomes`.
pub fn html(outcomes: &[Outcome]) -> String {
    let title = match outcomes {
        [one] => format!("lowtail: {}", one.name),
        _ => format!("lowtail: {} experiments", outcomes.len()),
    };
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n",
        escape(&title),
        style::CSS,
        blame::CSS
    );
    out += &summary(outcomes);
    for outcome in outcomes {
        out += &section(outcome);
    }
    let _ = write!(
        out,
        "<footer>lowtail {}. The same file, seed and version give the same figures, bit for \
         bit.</footer>\n</main>\n</body>\n</html>\n",
        crate::VERSION
    );
    out
}

/// The head of the page: what holds and what does not.
fn summary(outcomes: &[Outcome]) -> String {
    let mut out = "<h1>lowtail</h1>\n<p class=\"lead\">Published experiments on tail latency of \
                   virtual machines, repeated on a simulator: their figures beside ours.</p>\n"
        .to_string();
    if outcomes.len() < 2 {
        return out;
    }
    out += "<table class=\"summary\"><thead><tr><th>experiment</th><th></th><th>verdict</th></tr>\
            </thead><tbody>\n";
    for outcome in outcomes {
        let _ = writeln!(
            out,
            "<tr><td><a href=\"#{0}\">{1}</a></td><td>{2}</td><td>{3}</td></tr>",
            anchor(&outcome.name),
            escape(&outcome.name),
            escape(&outcome.title),
            badge(outcome)
        );
    }
    out + "</tbody></table>\n"
}

fn badge(outcome: &Outcome) -> String {
    let class = match outcome.score().all {
        0 if outcome.holds() => "none",
        _ if outcome.holds() => "good",
        _ => "bad",
    };
    format!("<span class=\"badge {class}\">{}</span>", escape(&outcome.verdict_line()))
}

/// A name as it may stand in a link.
fn anchor(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("e-{}", name.chars().map(plain).collect::<String>())
}

/// All about one experiment.
fn section(outcome: &Outcome) -> String {
    let mut out = format!(
        "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"name\"><code>{}</code> {}</p>\n",
        anchor(&outcome.name),
        escape(&outcome.title),
        escape(&outcome.name),
        badge(outcome)
    );
    if !outcome.source.is_empty() {
        let _ = writeln!(out, "<p class=\"source\">Source: {}</p>", escape(&outcome.source));
    }
    out += &charts(outcome);
    out += &claims(outcome);
    out += &rows(outcome);
    out += &network::pictures(outcome);
    out += &matrix::maps(outcome);
    out += &blame::tables(outcome);
    out += &strips(outcome);
    if !outcome.notes.trim().is_empty() {
        out += "<h3>Notes</h3>\n<div class=\"notes\">\n";
        for paragraph in outcome.notes.trim().split("\n\n") {
            let _ = writeln!(out, "<p>{}</p>", escape(paragraph));
        }
        out += "</div>\n";
    }
    out += &parameters(outcome);
    out + "</section>\n"
}

fn charts(outcome: &Outcome) -> String {
    let drawn: Vec<_> = outcome.rows.iter().filter(|row| row.n > 0).collect();
    if drawn.is_empty() {
        return String::new();
    }
    if outcome.frontier.is_some() {
        return frontier::chart(outcome);
    }
    if drawn.len() <= CDF_ROWS_MAX {
        return cdf::chart(outcome, &drawn);
    }
    // Too many for one chart: those with published figures have theirs, the other rows share.
    let published: Vec<_> =
        drawn.iter().copied().filter(|row| has_published(outcome, &row.name)).collect();
    let mut out = String::new();
    if (1..=CDF_ROWS_MAX).contains(&published.len()) {
        out += &cdf::chart(outcome, &published);
    }
    out + &sweep::charts(outcome, &drawn) + &ranges::chart(outcome, &drawn)
}

/// `outcome` in one picture, an SVG document for day and night: latency against cost if it has a `frontier`, else the
/// distributions. `None` if nothing was measured, or in too many rows.
pub fn chart(outcome: &Outcome) -> Option<String> {
    let drawn: Vec<_> = outcome.rows.iter().filter(|row| row.n > 0).collect();
    let style = document_style();
    if outcome.frontier.is_some() {
        return frontier::svg(outcome, &style).map(|svg| svg + "\n");
    }
    let fits = (1..=CDF_ROWS_MAX).contains(&drawn.len());
    fits.then(|| cdf::svg(outcome, &drawn, &style) + "\n")
}

/// Histograms below each other, an SVG document for day and night.
pub fn histograms(title: &str, panels: &[Panel]) -> String {
    histogram::svg(title, panels, &document_style()) + "\n"
}

/// The style of a picture that is a document of its own.
fn document_style() -> String {
    format!("<style>{}\nsvg {{ background: var(--bg); }}</style>\n", style::CSS)
}

/// Whether published figures stand beside the row or case called `name`.
fn has_published(outcome: &Outcome, name: &str) -> bool {
    let mut claims = outcome.claims.iter();
    claims.any(|claim| claim.published.is_some() && claim.case.as_deref() == Some(name))
}

fn claims(outcome: &Outcome) -> String {
    if outcome.claims.is_empty() {
        return String::new();
    }
    let mut out = "<h3>Claims</h3>\n<div class=\"scroll\"><table class=\"claims\"><thead><tr>\
                   <th>claim</th><th>unit</th><th class=\"n\">published</th>\
                   <th class=\"n\">trivial</th><th class=\"n\">ours</th><th class=\"n\">ratio</th><th>wanted</th>\
                   <th>verdict</th></tr></thead><tbody>\n"
        .to_string();
    for claim in &outcome.claims {
        let class = match claim.holds {
            Some(true) if !claim.fitted && !claim.is_weak() => "good",
            _ if claim.falls_short() => "bad",
            _ => "none",
        };
        let mark = match claim.holds {
            Some(true) => "✓ ",
            Some(false) => "✗ ",
            None => "",
        };
        let _ = writeln!(
            out,
            "<tr class=\"{class}\"><td>{}</td><td>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td>\
             <td class=\"v\">{mark}{}</td></tr>",
            escape(&claim.id),
            escape(&claim.unit),
            optional(claim.published),
            optional(claim.trivial_figure()),
            escape(&measured(claim)),
            claim.ratio().map_or_else(|| "–".to_string(), |ratio| format!("{ratio:.3}")),
            escape(&claim.wanted()),
            with_seeds(word(claim).0, claim),
        );
    }
    out += "</tbody></table></div>\n";
    for (id, why) in outcome.missed() {
        let _ = writeln!(out, "<p>Missed, {}: {}</p>", escape(id), escape(why));
    }
    out
}

fn rows(outcome: &Outcome) -> String {
    let mut out = "<h3>Rows</h3>\n<div class=\"scroll\"><table><thead><tr><th>case</th>\
                   <th class=\"n\">n</th>"
        .to_string();
    for name in metric::COLUMNS {
        let _ = write!(out, "<th class=\"n\">{}<br/>{}</th>", label(name), outcome.unit.name());
    }
    for name in &outcome.show {
        let unit = metric::unit(name, outcome.unit);
        let _ = write!(out, "<th class=\"n\">{}<br/>{}</th>", escape(name), escape(unit));
    }
    out += "</tr></thead><tbody>\n";
    for row in &outcome.rows {
        let mark = if row.complete { "" } else { " <em>(ended early)</em>" };
        let _ =
            write!(out, "<tr><td>{}{mark}</td><td class=\"n\">{}</td>", escape(&row.name), row.n);
        let names = metric::COLUMNS.iter().copied().chain(outcome.show.iter().map(String::as_str));
        for name in names {
            let _ = write!(out, "<td class=\"n\">{}</td>", optional(row.get(name)));
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    if let Some(means) = outcome.means() {
        let _ = writeln!(out, "<p class=\"source\">Figures are {means}.</p>");
    }
    out
}

/// The schedules around the longest waits; of many cases those with published figures, or
/// only the longest of all.
fn strips(outcome: &Outcome) -> String {
    let mut cases: Vec<_> = outcome.cases.iter().filter(|case| case.worst.is_some()).collect();
    let mut title = "The longest wait of each case";
    if cases.len() > STRIPS_MAX {
        let published: Vec<_> =
            cases.iter().copied().filter(|case| has_published(outcome, &case.name)).collect();
        if (1..=STRIPS_MAX).contains(&published.len()) {
            title = "The longest wait of each case with published figures";
            cases = published;
        } else {
            let wait = |case: &&crate::outcome::CaseOutcome| {
                case.worst.as_ref().map(|worst| worst.ran.since(worst.woke))
            };
            title = "The longest wait of all cases";
            cases = cases.into_iter().max_by_key(wait).into_iter().collect();
        }
    }
    if cases.is_empty() {
        return String::new();
    }
    let strips: String = cases.into_iter().map(strip::chart).collect();
    format!("<h3>{title}</h3>\n{strips}")
}

fn parameters(outcome: &Outcome) -> String {
    let mut out = format!(
        "<h3>Parameters</h3>\n<p>Repeat with <code>{}</code> (version {}, seed {}).</p>\n",
        escape(&outcome.command),
        crate::VERSION,
        outcome.seed
    );
    out += "<details><summary>Host and VMs of each case</summary><div class=\"scroll\"><table>\
            <thead><tr><th>case</th><th>scheduler</th><th>VMs</th></tr></thead><tbody>\n";
    for case in &outcome.cases {
        let vms: Vec<String> = case
            .vms
            .iter()
            .map(|(name, text)| format!("<b>{}</b>: {}", escape(name), escape(text)))
            .collect();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}; {} pCPU{}</td><td>{}</td></tr>",
            escape(&case.name),
            escape(&case.scheduler),
            case.pcpus,
            if case.pcpus == 1 { "" } else { "s" },
            vms.join("<br/>")
        );
    }
    out += "</tbody></table></div></details>\n";
    for table in &outcome.costs {
        let _ = writeln!(
            out,
            "<details open=\"open\"><summary>Costs: {} (<code>{}</code>)</summary>\
             <div class=\"scroll\"><table><thead><tr><th>cost</th><th class=\"n\">us</th>\
             <th>source</th></tr></thead><tbody>",
            escape(&table.title),
            escape(&table.file)
        );
        for line in &table.lines {
            let fitted = if line.fitted { " <span class=\"badge none\">fitted</span>" } else { "" };
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td class=\"n\">{}</td><td>{}{fitted}</td></tr>",
                escape(line.name),
                figure(line.value.as_us_f64()),
                escape(&line.source)
            );
        }
        out += "</tbody></table></div></details>\n";
    }
    out
}
