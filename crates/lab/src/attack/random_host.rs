//! A random host: its scenario, and what attackers on it get.

use std::fmt::Write;

use lowtail_engine::Rng;

use super::fair_share::fair_shares;
use super::finding::Finding;
use super::judge::{self, Judge};
use super::measure::Measure;
use super::span;
use crate::row::Row;

/// Simulated time that the victim's requests take up, in microseconds.
const SPAN_US: u64 = 10_000_000;
/// How many times as long it is for one that wakes within its share: it has few requests, and
/// their 99.9th percentile is to be more than chance.
const QUIET_SPANS: u64 = 10;

/// A VM of a random host that wants all it can get.
#[derive(Debug)]
struct Attacker {
    name: String,
    vcpus: u64,
    kind: &'static str,
    /// The rest of the workload's table.
    keys: String,
}

/// A random host.
#[derive(Debug)]
pub(super) struct RandomHost {
    run: u32,
    scheduler: &'static str,
    pcpus: u64,
    attackers: Vec<Attacker>,
    /// Mean time between two requests to the victim.
    gap_us: u64,
    scenario: String,
}

/// Kind and keys of a random attacker; a wake-storm has its partner's name to come.
fn workload(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(7) {
        0 => {
            let tick = ["10ms", "10ms", "30ms", "5ms"][rng.below(4) as usize];
            let (margin, after) = (span(rng, 20, 7), span(rng, 5, 6));
            let give_up = ["sleep", "yield"][rng.below(2) as usize];
            let times = format!("tick = \"{tick}\", margin = {margin}, after = {after}");
            ("tick-dodger", format!("{times}, give_up = \"{give_up}\""))
        }
        1 => {
            let (save, burn) = (span(rng, 100, 12), span(rng, 50, 12));
            ("boost-saver", format!("save = {save}, burn = {burn}"))
        }
        2 => ("wake-storm", format!("work = {}", span(rng, 20, 9))),
        3 => {
            let (burst, share) = (span(rng, 20, 11), 1 + rng.below(100));
            ("bucket-surfer", format!("burst = {burst}, share_percent = {share}"))
        }
        4 => ("splitter", format!("turn = {}", span(rng, 50, 9))),
        5 => {
            let (period, low) = [("30ms", 150), ("10ms", 50)][rng.below(2) as usize];
            let (before, after) = (span(rng, low, 6), span(rng, low, 6));
            ("edge-burner", format!("period = \"{period}\", before = {before}, after = {after}"))
        }
        _ => ("yielder", format!("work = {}", span(rng, 10, 9))),
    }
}

/// A VM's part of a pCPU on a host with so many attackers.
fn part(pcpus: u64, attackers: usize) -> f64 {
    (pcpus as f64 / (attackers as f64 + 1.0 + pcpus as f64)).min(1.0)
}

/// Whether one that wakes every `gap_us` needs seven tenths at most of its part of one preemption per millisecond, what
/// `policy/vcpu.h` promises to serve whatever others do.
fn wakes_within_share(gap_us: u64, pcpus: u64, attackers: usize) -> bool {
    1000.0 / gap_us as f64 <= 0.7 * part(pcpus, attackers)
}

/// `wanted` attackers; those that need a partner come in twos.
fn attackers(rng: &mut Rng, wanted: usize) -> Vec<Attacker> {
    let mut attackers: Vec<Attacker> = Vec::new();
    while attackers.len() < wanted {
        let (kind, keys) = workload(rng);
        let vcpus = 1 + rng.below(8);
        let name = |i: usize| format!("a{}", i + 1);
        let first = attackers.len();
        if kind != "wake-storm" {
            attackers.push(Attacker { name: name(first), vcpus, kind, keys });
        } else if first + 2 <= wanted {
            for (own, other) in [(first, first + 1), (first + 1, first)] {
                let keys = format!("partner = \"{}\", {keys}", name(other));
                attackers.push(Attacker { name: name(own), vcpus, kind, keys });
            }
        }
    }
    attackers
}

impl RandomHost {
    pub(super) fn random(
        seed: u64,
        run: u32,
        schedulers: &[(&'static str, &'static str)],
        command: &str,
    ) -> Self {
        let rng = &mut Rng::new(seed, &format!("attack {run}"));
        let (scheduler, keys) = schedulers[rng.below(schedulers.len() as u64) as usize];
        let pcpus = 1 + rng.below(2);
        let wanted = 1 + rng.below(3) as usize;
        let attackers = attackers(rng, wanted);
        let gap_us = (500 << rng.below(4)) + rng.below(500);
        let spans =
            if wakes_within_share(gap_us, pcpus, attackers.len()) { QUIET_SPANS } else { 1 };
        let (requests, service) = (spans * SPAN_US / gap_us, span(rng, 20, 3));
        let show = attackers.iter().flat_map(|a| {
            ["cpus_used", "cpus_used_in_window"].map(|stem| format!("\"{stem}.{}\", ", a.name))
        });
        let mut text = format!(
            r#"title = "Run {run} of a search for attacks, under {scheduler}"
source = "{command}"
seed = {}
duration = "{}s"
show = [{}"cpus_used.loop", "cpus_used.victim"]

[host]
pcpus = {pcpus}
scheduler = {{ {keys} }}

[vm.victim]

[vm.victim.workload]
kind = "request-server"
load = {{ open = {{ exponential = "{gap_us}us" }} }}
service = {{ exponential = {service} }}
tx_completion = "50us"
requests = {requests}

[vm.loop]
count = {pcpus}
workload = {{ kind = "cpu-loop" }}
"#,
            rng.below(1 << 32),
            20 * spans,
            show.collect::<String>(),
        );
        let mut honest = String::new();
        for Attacker { name, vcpus, kind, keys } in &attackers {
            let workload = format!("workload = {{ kind = \"{kind}\", {keys} }}");
            let _ = write!(text, "\n[vm.{name}]\nvcpus = {vcpus}\n{workload}\n");
            let _ = writeln!(honest, "\"vm.{name}.workload\" = {{ kind = \"cpu-loop\" }}");
        }
        let cases = "\n[[case]]\nname = \"attack\"\n\n[[case]]\nname = \"honest\"\n[case.set]\n";
        RandomHost { run, scheduler, pcpus, attackers, gap_us, scenario: text + cases + &honest }
    }

    /// Runs it with and without attackers and applies all measures.
    ///
    /// # Panics
    /// If the scenario is wrong, which would be a bug of this file.
    pub(super) fn judge(mut self) -> Vec<Finding> {
        let mut rows = judge::rows(&self.scenario, 0..2);
        self.scenario += &self.same_use(&rows[0]);
        rows.append(&mut judge::rows(&self.scenario, 2..3));
        let [attack, honest, same_use] = &rows[..] else { panic!("not three rows: {rows:?}") };
        self.findings(attack, honest, same_use)
    }

    /// A case with neighbours in the attackers' places that use as much of the pCPUs, in bursts of 10 ms.
    fn same_use(&self, attack: &Row) -> String {
        let mut case = "\n[[case]]\nname = \"same use\"\n[case.set]\n".to_string();
        for Attacker { name, vcpus, .. } in &self.attackers {
            let used = attack.get(&format!("cpus_used.{name}")).unwrap_or(0.0);
            let percent = (used * 100.0 / *vcpus as f64).round().clamp(1.0, 99.0);
            let _ = writeln!(
                case,
                "\"vm.{name}.workload\" = {{ kind = \"duty-hog\", burst = {{ exponential = \"10ms\" }}, \
                 busy_percent = {percent} }}"
            );
        }
        case
    }

    /// Whether a victim that `used` so much keeps well within its share.
    fn is_quiet(&self, used: f64) -> bool {
        let attackers = self.attackers.len();
        used <= 0.5 * part(self.pcpus, attackers)
            && wakes_within_share(self.gap_us, self.pcpus, attackers)
    }

    fn findings(&self, attack: &Row, honest: &Row, same_use: &Row) -> Vec<Finding> {
        let pcpus = self.pcpus as f64;
        let mut wants = vec![attack.get("cpus_used.victim").unwrap_or(0.0)];
        wants.extend(self.attackers.iter().map(|a| (a.vcpus as f64).min(pcpus)));
        wants.extend((0..self.pcpus).map(|_| 1.0));
        let entitled = fair_shares(pcpus, &wants);
        let Self { run, scheduler: target, ref scenario, .. } = *self;
        let judge = Judge { run, target, scenario, attack, honest };
        let mut found = Vec::new();
        for (a, &entitled) in self.attackers.iter().zip(&entitled[1..]) {
            let s = if a.vcpus == 1 { "" } else { "s" };
            let who = || (a.name.as_str(), format!("{}, {} vCPU{s}", a.kind, a.vcpus));
            let share = format!("cpus_used.{}", a.name);
            let window = format!("cpus_used_in_window.{}", a.name);
            found.extend(judge.find(Measure::Share, who(), &share, Some(entitled)));
            found.extend(judge.find(Measure::Window, who(), &window, Some(entitled)));
            found.extend(judge.find(Measure::Gain, who(), &share, None));
        }
        let honest_loop = ("loop", "cpu-loop".to_string());
        found.extend(judge.find(Measure::Loss, honest_loop, "cpus_used.loop", None));
        let quiet = self.is_quiet(attack.get("cpus_used.victim").unwrap_or(0.0));
        let tails = [Measure::Tail, Measure::QuietTail];
        for measure in tails.into_iter().filter(|measure| quiet || *measure == Measure::Tail) {
            let victim = ("victim", "request-server".to_string());
            found.extend(judge.find(measure, victim, "p99_9", same_use.get("p99_9")));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::scheduler::HYPERVISORS;

    /// Any draw makes a scenario that the reader accepts, with a schedulable host.
    #[test]
    fn every_random_host_is_valid() {
        let mut kinds = std::collections::BTreeSet::new();
        for run in 0..500 {
            let host = RandomHost::random(7, run, HYPERVISORS, "x");
            let experiment = Experiment::parse("attack.toml", &host.scenario, None);
            let experiment = experiment.unwrap_or_else(|e| panic!("run {run}: {e}\n{host:#?}"));
            assert_eq!(experiment.cases(false).len(), 2);
            kinds.extend(host.attackers.iter().map(|a| a.kind));
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }

    /// The known attack is found: under credit of 2007 the sleeping tick dodger has far more
    /// than its share and than an honest loop would have.
    #[test]
    fn the_tick_dodger_is_caught() {
        let keys = r#"tick = "10ms", margin = "500us", give_up = "sleep""#.to_string();
        let dodger = Attacker { name: "a1".to_string(), vcpus: 1, kind: "tick-dodger", keys };
        let mut host = RandomHost::random(1, 0, &HYPERVISORS[..1], "x");
        let victim = "[vm.victim]\nworkload = { kind = \"request-server\", service = \"20us\", \
                      load = { open = \"5ms\" }, requests = 1000 }\n";
        host.scenario = format!(
            "title = \"x\"\nshow = [\"cpus_used_in_window.a1\"]\n[host]\nscheduler = {{ {} }}\n{victim}\
             [vm.loop]\nworkload = {{ kind = \"cpu-loop\" }}\n[vm.a1]\nworkload = {{ kind = \
             \"tick-dodger\", {} }}\n[[case]]\nname = \"attack\"\n[[case]]\nname = \"honest\"\n\
             set = {{ \"vm.a1.workload\" = {{ kind = \"cpu-loop\" }} }}\n",
            HYPERVISORS[0].1, dodger.keys,
        );
        (host.pcpus, host.attackers) = (1, vec![dodger]);
        let found = host.judge();
        let ratio = |measure| {
            let mut of = found.iter().filter(|finding| finding.measure == measure);
            of.next().map_or(0.0, Finding::ratio)
        };
        assert!(ratio(Measure::Share) > 1.5 && ratio(Measure::Gain) > 1.5, "{found:#?}");
        // The loop is left with some 5 % instead of 50.
        assert!((5.0..20.0).contains(&ratio(Measure::Loss)), "{found:#?}");
        // No window of 100 ms can hold more than a pCPU, and half of one is its due.
        assert!((1.5..2.1).contains(&ratio(Measure::Window)), "{found:#?}");
    }
}
