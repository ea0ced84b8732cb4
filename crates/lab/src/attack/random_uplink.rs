//! A random host whose VMs send: its scenario, and what senders at its uplink get.

use std::fmt::Write;

use lowtail_engine::Rng;

use super::finding::Finding;
use super::judge::{self, Judge};
use super::measure::Measure;
use super::span;

/// Queueing disciplines of an uplink by name, and how scenario files write them.
pub(super) const QUEUES: &[(&str, &str)] = &[
    ("fifo", r#"kind = "fifo", packets = 1000"#),
    ("fq-codel", r#"kind = "fq-codel""#),
    ("cake", r#"kind = "cake", rate = "1Gbit/s""#),
    (
        "small-first",
        r#"kind = "tag", queue = { kind = "split", queue = { kind = "small-first" } }"#,
    ),
];

/// Hosts to which senders send.
const RECEIVERS: u64 = 16;

/// A VM that wants all it can get of the uplink, or wants others to wait.
#[derive(Debug)]
struct Sender {
    name: String,
    receivers: u64,
    /// What it sends, in words, and as the scenario has it.
    what: &'static str,
    pattern: String,
}

/// A random host.
#[derive(Debug)]
pub(super) struct RandomUplink {
    run: u32,
    queue: &'static str,
    senders: Vec<Sender>,
    scenario: String,
}

/// What a random sender sends.
fn pattern(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(4) {
        0 => ("streams", r#"kind = "bulk""#.to_string()),
        1 => {
            // A share of 10 Mbit/s, what a flow may send and be small: 800 ns a byte.
            let bytes = (200 << rng.below(9)) + rng.below(200);
            let gap_us = (bytes * 4 / 5 * (1 + rng.below(8)) / 4).max(10);
            let gap = [format!("\"{gap_us}us\""), format!("{{ exponential = \"{gap_us}us\" }}")];
            let gap = &gap[rng.below(2) as usize];
            ("messages", format!("kind = \"messages\", bytes = {bytes}, gap = {gap}"))
        }
        2 => {
            let (bytes, gap) = (64 + rng.below(1400), span(rng, 10, 5));
            ("datagrams", format!("kind = \"datagrams\", bytes = {bytes}, gap = {gap}"))
        }
        _ => {
            let (bytes, gap) = (10_000 << rng.below(8), span(rng, 1000, 7));
            ("bursts", format!("kind = \"messages\", bytes = {bytes}, gap = {gap}"))
        }
    }
}

impl RandomUplink {
    pub(super) fn random(
        seed: u64,
        run: u32,
        queues: &[(&'static str, &'static str)],
        command: &str,
    ) -> Self {
        let rng = &mut Rng::new(seed, &format!("attack uplink {run}"));
        let (queue, keys) = queues[rng.below(queues.len() as u64) as usize];
        let senders: Vec<Sender> = (0..1 + rng.below(4))
            .map(|i| {
                let (what, pattern) = pattern(rng);
                let (name, receivers) = (format!("a{}", i + 1), 1 + rng.below(RECEIVERS));
                Sender { name, receivers, what, pattern }
            })
            .collect();
        let show = senders.iter().map(|sender| format!("\"mbit_per_second.{}\", ", sender.name));
        let hosts = (0..RECEIVERS).map(|i| format!("\"C{i}\", "));
        let mut text = format!(
            r#"title = "Run {run} of a search for hostile flows, at an uplink with {queue}"
source = "{command}"
seed = {}
duration = "5s"
show = [{}"mbit_per_second.bulk"]

[network]
topology = {{ kind = "star", hosts = [{}"A", "B", "V"] }}
link = {{ rate = "1Gbit/s", delay = "20us", buffer = "1MB" }}
queue = {{ {keys} }}

[end.victim]
on = "A"

[end.loop]
on = "A"

[traffic.victim]
from = "victim"
to = "V"
pattern = {{ kind = "messages", bytes = 1000, gap = {{ exponential = "1ms" }} }}
warmup = "200ms"

[traffic.bulk]
from = "loop"
to = "B"
pattern = {{ kind = "bulk" }}
tcp = {{ segment = "64KiB" }}
warmup = "200ms"
"#,
            rng.below(1 << 32),
            show.collect::<String>(),
            hosts.collect::<String>(),
        );
        let mut honest = String::new();
        for Sender { name, receivers, pattern, .. } in &senders {
            let to: Vec<String> = (0..*receivers).map(|i| format!("\"C{i}\"")).collect();
            let _ = write!(
                text,
                "\n[end.{name}]\non = \"A\"\n\n[traffic.{name}]\nfrom = \"{name}\"\nto = [{}]\npairs = \"all\"\n\
                 pattern = {{ {pattern} }}\nwarmup = \"200ms\"\n",
                to.join(", ")
            );
            let _ = writeln!(
                honest,
                "\"traffic.{name}.pattern\" = {{ kind = \"bulk\" }}\n\"traffic.{name}.to\" = [\"C0\"]"
            );
        }
        let cases = "\n[[case]]\nname = \"attack\"\nrows = [\"victim\"]\n\n[[case]]\nname = \"honest\"\nrows = [\"victim\"]\n[case.set]\n";
        RandomUplink { run, queue, senders, scenario: text + cases + &honest }
    }

    /// Runs it with the senders and with honest ones, and applies all measures.
    ///
    /// # Panics
    /// If the scenario is wrong, which would be a bug of this file.
    pub(super) fn judge(self) -> Vec<Finding> {
        let rows = judge::rows(&self.scenario, 0..2);
        let [attack, honest] = &rows[..] else { panic!("not two rows: {rows:?}") };
        let Self { run, queue: target, ref scenario, .. } = self;
        let judge = Judge { run, target, scenario, attack, honest };
        let mut found = Vec::new();
        for Sender { name, receivers, what, .. } in &self.senders {
            let s = if *receivers == 1 { "" } else { "s" };
            let sender = (name.as_str(), format!("{what} to {receivers} host{s}"));
            let rate = format!("mbit_per_second.{name}");
            found.extend(judge.find(Measure::RateGain, sender, &rate, None));
        }
        let stream = ("bulk", "stream".to_string());
        found.extend(judge.find(Measure::RateLoss, stream, "mbit_per_second.bulk", None));
        let victim = ("victim", "messages of 1 KB".to_string());
        found.extend(judge.find(Measure::FlowTail, victim, "p99_9", None));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    /// Any draw makes a scenario that the reader accepts; all patterns and disciplines come.
    #[test]
    fn every_random_uplink_is_valid() {
        let (mut whats, mut queues) =
            (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        for run in 0..200 {
            let uplink = RandomUplink::random(7, run, QUEUES, "x");
            let experiment = Experiment::parse("attack.toml", &uplink.scenario, None);
            let experiment = experiment.unwrap_or_else(|e| panic!("run {run}: {e}\n{uplink:#?}"));
            assert_eq!(experiment.cases(false).len(), 2);
            whats.extend(uplink.senders.iter().map(|sender| sender.what));
            queues.insert(uplink.queue);
        }
        assert_eq!((whats.len(), queues.len()), (4, QUEUES.len()), "{whats:?} {queues:?}");
    }

    /// The known attack is found: at a fifo, a stream makes a message of 1 KB wait for a whole queue.
    #[test]
    fn a_flood_at_a_fifo_is_caught() {
        let found: Vec<Finding> = (0..6)
            .flat_map(|run| RandomUplink::random(1, run, &QUEUES[..1], "x").judge())
            .collect();
        let tails = found.iter().filter(|finding| finding.measure == Measure::FlowTail);
        assert!(tails.map(|finding| finding.figure).fold(0.0, f64::max) > 1000.0, "{found:#?}");
    }

    /// A victim none of whose messages arrive has waited for the whole run, 5 s: it is not left out. These
    /// datagrams alone are more than the uplink carries.
    #[test]
    fn a_victim_that_starves_is_the_worst() {
        let found = RandomUplink::random(2, 0, &QUEUES[..1], "x").judge();
        let mut tails = found.iter().filter(|finding| finding.measure == Measure::FlowTail);
        assert!(tails.next().is_some_and(|tail| tail.figure > 4.9e6), "{found:#?}");
    }
}
