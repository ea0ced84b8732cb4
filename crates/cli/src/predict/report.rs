//! `predict --report`: the prediction as one HTML file that needs nothing else. Guests choose names in it: all text is escaped.

use std::fmt::Write as _;

use lowtail_lab::report::CSS;
use lowtail_lab::report::svg::escape;
use lowtail_predict::{
    Letter, Prediction, VmPrediction, Waited, blame_shown, causes_shown, figure_cells, time,
};

use super::chart;

/// Charts of so many VMs at most.
const CHARTS_MAX: usize = 48;
/// How the rest of it looks.
const OWN_CSS: &str = "
tr.vm td { border-top: 2px solid var(--line); }
td.share { padding-left: 12px; background: color-mix(in srgb, var(--s1) calc(var(--share) * 60%), transparent); }
section h3 { margin-top: 16px; }
";

/// What the report says beside the prediction.
pub(super) struct About<'a> {
    /// The recording's file.
    pub(super) file: &'a str,
    /// The command that repeats it.
    pub(super) command: &'a str,
    /// Runs.
    pub(super) seeds: u64,
}

/// The report.
pub(super) fn html(prediction: &Prediction, about: &About<'_>) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>lowtail predict: {0}</title>\n<style>{CSS}{OWN_CSS}</style>\n</head>\n<body>\n<main>\n\
         <h1>lowtail predict</h1>\n<p class=\"lead\">{0}: as it was recorded, as the simulator replays it, and as it \
         would be after a change.</p>\n<p><code>{1}</code></p>\n",
        escape(about.file),
        escape(about.command)
    );
    let class = match prediction.grade.grade {
        Letter::Good => "good",
        Letter::Fair => "none",
        Letter::Poor => "bad",
    };
    let (letter, grade) = (prediction.grade.grade, prediction.grade.to_string());
    let errors = grade.strip_prefix(&format!("{letter}; ")).unwrap_or(&grade);
    let _ = writeln!(
        out,
        "<p>Replay of the recording: <span class=\"badge {class}\">{letter}</span> {}</p>",
        escape(errors)
    );
    for worse in &prediction.worse {
        let _ = writeln!(out, "<p><span class=\"badge bad\">worse</span> {}</p>", escape(worse));
    }
    for note in &prediction.notes {
        let _ = writeln!(out, "<p><span class=\"badge none\">note</span> {}</p>", escape(note));
    }
    out += &figures(prediction, about.seeds);
    for vm in prediction.vms.iter().take(CHARTS_MAX) {
        out += &section(vm);
    }
    if prediction.vms.len() > CHARTS_MAX {
        let more = prediction.vms.len() - CHARTS_MAX;
        let _ = writeln!(out, "<p class=\"source\">And {more} more VMs, which have no charts.</p>");
    }
    out += &causes(prediction);
    let _ = write!(
        out,
        "<footer>lowtail {}. The same recording, seeds and version give the same figures.</footer>\n\
         </main>\n</body>\n</html>\n",
        lowtail_lab::VERSION
    );
    out
}

/// All VMs, three rows each.
fn figures(prediction: &Prediction, seeds: u64) -> String {
    let mut out = "<section><h2>VMs</h2>\n<div class=\"scroll\"><table><thead><tr><th>VM</th><th></th>\
                   <th class=\"n\">wake-up p50</th><th class=\"n\">wake-up p99</th><th class=\"n\">CPU</th>\
                   </tr></thead><tbody>\n"
        .to_owned();
    for vm in &prediction.vms {
        let mut name = vm.name.as_str();
        let mut class = " class=\"vm\"";
        for (kind, cells) in figure_cells(vm) {
            let _ = write!(out, "<tr{class}><td>{}</td><td>{kind}</td>", escape(name));
            for cell in cells {
                let _ = write!(out, "<td class=\"n\">{}</td>", escape(&cell));
            }
            out += "</tr>\n";
            (name, class) = ("", "");
        }
    }
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<p class=\"source\">The middle of {seeds} runs; in parentheses the least and the greatest. \
         A median needs 20 wake-ups, a 99th percentile 500.</p></section>"
    );
    out
}

/// A VM: its distribution, and whom it waited for.
fn section(vm: &VmPrediction) -> String {
    let mut out = format!("<section><h2>{}</h2>\n", escape(&vm.name));
    match chart::chart(vm) {
        Some(chart) => {
            let _ = writeln!(
                out,
                "<figure>{chart}<figcaption>Share of wake-ups up to each latency; every further nine has the same height. \
                 Lines are the middle of all runs, areas reach from the least to the greatest.</figcaption></figure>"
            );
        }
        None => out += "<p class=\"source\">Its vCPUs were hardly ever woken.</p>\n",
    }
    let rows = blame_shown(&vm.waited);
    if rows.is_empty() {
        return out + "<p class=\"source\">Its vCPUs never waited.</p></section>\n";
    }
    out += "<h3>Who ran while its vCPUs waited</h3>\n<div class=\"scroll\"><table><thead><tr><th></th>\
            <th class=\"n\">recorded</th><th class=\"n\">replayed</th><th class=\"n\">predicted</th></tr></thead><tbody>\n";
    let most =
        vm.waited.iter().flat_map(Waited::all_us).flatten().fold(f64::MIN_POSITIVE, f64::max);
    for row in rows {
        let _ = write!(out, "<tr><td>{}</td>", escape(row.ahead.words(&vm.name)));
        for us in row.all_us() {
            let _ = match us {
                Some(us) => write!(
                    out,
                    "<td class=\"n share\" style=\"--share: {:.3}\">{}</td>",
                    us / most,
                    escape(&time(us))
                ),
                None => write!(out, "<td class=\"n\">–</td>"),
            };
        }
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    if vm.waited.len() > rows.len() {
        let more = vm.waited.len() - rows.len();
        let _ = writeln!(out, "<p class=\"source\">And {more} more.</p>");
    }
    out + "</section>\n"
}

/// What woke whom.
fn causes(prediction: &Prediction) -> String {
    let (shown, more) = causes_shown(&prediction.causes);
    let mut out = "<section><h2>What woke the threads</h2>\n<div class=\"scroll\"><table><thead><tr><th>thread</th>\
                   <th>mostly by</th><th class=\"n\">by threads</th><th class=\"n\">timer</th>\
                   <th class=\"n\">arrivals</th><th>decided by</th></tr></thead><tbody>\n"
        .to_owned();
    for of in shown {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td>",
            escape(&of.thread),
            escape(of.mostly_by.as_deref().unwrap_or_default())
        );
        for count in [of.by_threads, of.by_timer, of.by_arrivals] {
            let _ = write!(out, "<td class=\"n\">{count}</td>");
        }
        let _ = writeln!(out, "<td>{}</td></tr>", escape(&of.why()));
    }
    out += "</tbody></table></div>\n";
    if more > 0 {
        let _ = writeln!(out, "<p class=\"source\">And {more} more threads.</p>");
    }
    out + "<p class=\"source\">Interrupts wake a thread by its own timer, or as something arrives from outside. A timer follows \
           the thread under a change; what arrives comes when it comes. Where lowtail guesses wrong, say \
           <code>--timer THREAD</code> or <code>--arrivals THREAD</code>.</p></section>\n"
}
