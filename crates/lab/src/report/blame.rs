//! Whose bytes were in front of whose packets at the queues of networks: a table for each case, darker where more were.

use std::fmt::Write as _;

use super::svg::escape;
use crate::blame_table::{QUEUES_MAX, percent};
use crate::network::blame::{BlamedQueue, QueueBlame};
use crate::outcome::Outcome;

/// How the tables look.
pub(super) const CSS: &str = "
table.blame td { padding: 3px 8px 3px 0; }
table.blame .n { padding-left: 8px; }
table.blame .share { background: color-mix(in srgb, var(--s1) calc(var(--share) * 60%), transparent); }
";

/// Most cases whose tables are shown.
const CASES_MAX: usize = 24;

/// The tables of all cases for which that was kept.
pub(super) fn tables(outcome: &Outcome) -> String {
    let all = outcome.cases.iter().map(|case| {
        let waited = case.queue_blame.iter().filter(|blame| !blame.queues.is_empty());
        (&case.name, waited.collect::<Vec<_>>())
    });
    let all: Vec<_> = all.filter(|(_, blame)| !blame.is_empty()).collect();
    if all.is_empty() {
        return String::new();
    }
    let mut out = "<h3>Whose bytes were in front of whose packets</h3>\n<p class=\"source\">The queues at which packets waited \
                   longest, with the first seed. Each line is a traffic whose packets waited; the columns at the right say \
                   whose the bytes were that were sent (at back ends: taken) meanwhile.</p>\n"
        .to_string();
    for (i, (name, blame)) in all.iter().take(CASES_MAX).enumerate() {
        let open = if i == 0 { " open=\"open\"" } else { "" };
        let _ = writeln!(
            out,
            "<details{open}><summary>{}</summary>\n<div class=\"scroll\">{}</div></details>",
            escape(name),
            blame.iter().map(|&blame| table(blame)).collect::<String>()
        );
    }
    if all.len() > CASES_MAX {
        let _ = writeln!(out, "<p class=\"source\">And {} more cases.</p>", all.len() - CASES_MAX);
    }
    out
}

fn table(blame: &QueueBlame) -> String {
    let shown = &blame.queues[..blame.queues.len().min(QUEUES_MAX)];
    // Whoever has no bytes in front of anybody has no column.
    let owners: Vec<usize> = (0..blame.traffic.len())
        .filter(|&owner| shown.iter().any(|queue| queue.in_front.iter().any(|row| row[owner] > 0)))
        .collect();
    let mut out = "<table class=\"blame\"><thead><tr><th>queue</th><th>who waits</th>\
                   <th class=\"n\">packets</th><th class=\"n\">mean wait<br/>us</th>\
                   <th class=\"n\">mean in front<br/>bytes</th><th class=\"n\">sent<br/>Mbit/s</th>"
        .to_string();
    for &owner in &owners {
        let _ = write!(out, "<th class=\"n\">{}</th>", escape(&blame.traffic[owner]));
    }
    out += "</tr></thead><tbody>\n";
    shown.iter().for_each(|queue| rows(&mut out, blame, queue, &owners));
    out += "</tbody></table>\n";
    if blame.queues.len() > shown.len() {
        let more = blame.queues.len() - shown.len();
        let _ = writeln!(out, "<p class=\"source\">And {more} more queues.</p>");
    }
    out
}

fn rows(out: &mut String, blame: &QueueBlame, queue: &BlamedQueue, owners: &[usize]) {
    for (nth, (i, waiter)) in queue.present().enumerate() {
        let name = if nth == 0 { queue.name.as_str() } else { "" };
        let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(name), escape(&blame.traffic[i]));
        for figure in blame.figures(queue, i, waiter) {
            let _ = write!(out, "<td class=\"n\">{}</td>", escape(&figure));
        }
        let all = queue.bytes(i) as f64;
        for &owner in owners {
            let bytes = queue.in_front[i][owner];
            if bytes == 0 {
                *out += "<td class=\"n\">–</td>";
                continue;
            }
            let ratio = bytes as f64 / all;
            let _ = write!(
                out,
                "<td class=\"n share\" style=\"--share: {ratio:.3}\" title=\"{bytes} bytes of {} in front of {}\">{}</td>",
                escape(&blame.traffic[owner]),
                escape(&blame.traffic[i]),
                escape(&percent(ratio))
            );
        }
        *out += "</tr>\n";
    }
}
