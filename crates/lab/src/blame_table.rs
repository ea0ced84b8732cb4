//! Blame for queues as aligned text.

use lowtail_net::Waiter;
use lowtail_out::line;

use crate::figure::{aligned, figure};
use crate::network::blame::{BlamedQueue, QueueBlame};
use crate::outcome::Outcome;
use crate::table::Table;

/// Most queues of a case that are shown.
pub(crate) const QUEUES_MAX: usize = 8;
/// Most owners that are named.
const OWNERS_MAX: usize = 3;
/// A smaller part of the bytes is not worth its room.
const RATIO_MIN: f64 = 0.02;

impl Outcome {
    /// For each case with a network: whose bytes were in front of whose packets, at the queues with the longest waits. Empty if that
    /// was not asked for.
    pub fn blame_table(&self, color: bool) -> String {
        let cases = self.cases.iter().filter(|case| !case.queue_blame.is_empty());
        cases.map(|case| text(&case.name, &case.queue_blame, color)).collect()
    }
}

fn text(case: &str, blame: &[QueueBlame], color: bool) -> String {
    let mut out = format!("\nqueues of case {}\n", line(case));
    let waited = || blame.iter().filter(|blame| !blame.queues.is_empty());
    if waited().next().is_none() {
        return out + "\n  no packet has waited\n";
    }
    for blame in waited() {
        out += "\n";
        out += &blame.table().text(color);
        if blame.queues.len() > QUEUES_MAX {
            out += &format!("  and {} more; --json has all\n", blame.queues.len() - QUEUES_MAX);
        }
    }
    out
}

impl QueueBlame {
    fn table(&self) -> Table {
        let header =
            ["queue", "who waits", "packets", "wait us", "in front B", "Mbit/s", "whose bytes"];
        let queues = self.queues.iter().take(QUEUES_MAX);
        let rows = queues.flat_map(|queue| {
            queue.present().enumerate().map(|(nth, (i, waiter))| {
                let name = if nth == 0 { queue.name.clone() } else { String::new() };
                let mut cells = vec![name, self.traffic[i].clone()];
                cells.extend(self.figures(queue, i, waiter));
                cells.push(self.owners(queue, i));
                (cells, "")
            })
        });
        Table {
            header: header.map(str::to_string).to_vec(),
            rows: rows.collect(),
            text_until: 2,
            text_from: 6,
        }
    }

    /// Packets, their mean wait, the mean of the bytes in front of them, and the rate at which they were sent.
    pub(crate) fn figures(&self, queue: &BlamedQueue, i: usize, waiter: &Waiter) -> [String; 4] {
        let mean = |sum: f64| sum / waiter.packets as f64;
        [
            waiter.packets.to_string(),
            wait(mean(waiter.waited.as_us_f64())),
            format!("{:.0}", mean(queue.bytes(i) as f64)),
            aligned(self.bits_per_second(waiter) / 1e6),
        ]
    }

    /// Those who had most of the bytes in front of traffic number `waiter`.
    fn owners(&self, queue: &BlamedQueue, waiter: usize) -> String {
        let shares = queue.shares(waiter);
        let large = shares.iter().filter(|share| share.ratio >= RATIO_MIN).count();
        // For one only, a name is as short as a number.
        let named = if large == OWNERS_MAX + 1 { large } else { large.min(OWNERS_MAX) };
        let (first, rest) = shares.split_at(named);
        let mut all: Vec<String> = first
            .iter()
            .map(|share| format!("{} {}", self.traffic[share.owner], percent(share.ratio)))
            .collect();
        let ratio: f64 = rest.iter().map(|share| share.ratio).sum();
        if ratio >= RATIO_MIN {
            all.push(format!("{} more {}", rest.len(), percent(ratio)));
        }
        if all.is_empty() { "–".to_string() } else { all.join(", ") }
    }
}

/// A mean wait; digits below a nanosecond are none that a queue has made.
fn wait(us: f64) -> String {
    if us > 0.0 && us < 0.001 { "<0.001".to_string() } else { aligned(us) }
}

/// A share in whole percent; what is less is not nothing.
pub(crate) fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        percent if percent > 0.0 && percent < 0.5 => "<1 %".to_string(),
        percent => format!("{} %", figure(percent.round())),
    }
}
