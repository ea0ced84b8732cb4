//! A random search for guests that take more than their share, or make others wait.
//!
//! Each run is a random host with a server as the victim, honest CPU loops, and one to three
//! attackers of random kinds, all of the same weight. It is run twice: as it is, and with
//! honest CPU loops of as many vCPUs in the attackers' places, the yardstick. Each run is a
//! scenario, written as a file would be, so that what was found can be run again, looked at
//! and changed.

use std::fmt::Write;

use lowtail_engine::Rng;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::experiment::Experiment;
use crate::figure;
use crate::pool::{self, Progress};
use crate::row::{Row, number};
use crate::run::{KeepOptions, run_case};
use crate::scheduler::{HYPERVISORS, named};

/// Simulated time that the victim's requests take up, in microseconds.
const SPAN_US: u64 = 10_000_000;

/// What to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackOptions {
    /// A scheduler of Xen's or ours, or a kind of them such as `credit2`; all if absent.
    pub scheduler: Option<String>,
    /// What all random choices follow from.
    pub seed: u64,
    /// How many hosts to try.
    pub budget: u32,
    /// How many to run at the same time; 0 counts as 1.
    pub jobs: usize,
}

/// By what an attack is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// An attacker's share of the processors over its entitlement.
    Share,
    /// The largest share that it had in any 100 ms, over its entitlement.
    Window,
    /// Its share over that of an honest loop in its place.
    Gain,
    /// The share of the honest loops in the yardstick over what they have. Attackers ask for no
    /// more than loops in their places would, so that loops which have no more than their due in
    /// the yardstick lose nothing to attackers that are only served.
    Loss,
    /// The victim's 99.9th percentile over that of the yardstick.
    Tail,
}

impl Measure {
    const ALL: [Measure; 5] =
        [Measure::Share, Measure::Window, Measure::Gain, Measure::Loss, Measure::Tail];

    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Share => "share",
            Measure::Window => "window",
            Measure::Gain => "gain",
            Measure::Loss => "loss",
            Measure::Tail => "tail",
        }
    }

    /// What the figure is divided by, in words.
    fn reference(self) -> &'static str {
        match self {
            Measure::Share | Measure::Window => "entitled to",
            Measure::Gain | Measure::Loss | Measure::Tail => "honest",
        }
    }

    fn unit(self) -> &'static str {
        if self == Measure::Tail { "us" } else { "pCPUs" }
    }
}

/// The worst of one measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// By which measure.
    pub measure: Measure,
    /// Which run, from 0.
    pub run: u32,
    /// The scheduler that let it happen.
    pub scheduler: &'static str,
    /// The attacker that took too much; `loop` for [`Measure::Loss`], `victim` for
    /// [`Measure::Tail`].
    pub vm: String,
    /// Its workload.
    pub workload: String,
    /// What it had: a share in pCPUs, or a time in microseconds.
    pub figure: f64,
    /// What it should have had.
    pub reference: f64,
    /// The same figure with honest loops in the attackers' places.
    pub honest: f64,
    /// The scenario, as a file.
    pub scenario: String,
}

impl Finding {
    /// How many times what it should have been; for [`Measure::Loss`], how many times less.
    pub fn ratio(&self) -> f64 {
        match self.measure {
            // A loop that has nothing at all has lost a lot, but not infinitely much.
            Measure::Loss => self.reference / self.figure.max(1e-6),
            _ => self.figure / self.reference,
        }
    }

    /// A name for the file with the scenario: one for each run of a seed.
    pub fn file_name(&self, seed: u64) -> String {
        format!("attack-{seed}-{}.toml", self.run)
    }
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Attacks {
    /// What was searched.
    pub options: AttackOptions,
    /// The command that does it again.
    pub command: String,
    /// The worst of each measure.
    pub worst: Vec<Finding>,
}

/// Those called `wanted`, or of that kind; all of Xen's and ours if nobody is.
fn choose(wanted: Option<&str>) -> Result<Vec<(&'static str, &'static str)>, Error> {
    wanted.map_or_else(|| Ok(HYPERVISORS.to_vec()), |wanted| named(wanted, HYPERVISORS))
}

/// Searches; what it finds follows from scheduler, seed and budget alone. `progress` is called
/// on the calling thread, once before the first run and after each.
///
/// # Errors
/// If there is no such scheduler, or a check inside the simulator failed.
pub fn attack(options: &AttackOptions, progress: &dyn Fn(Progress)) -> Result<Attacks, Error> {
    let schedulers = choose(options.scheduler.as_deref())?;
    let command = options.command();
    let seed = options.seed;
    let piece = |run: usize| Setup::random(seed, run as u32, &schedulers, &command).judge();
    let results = pool::run(options.budget as usize, options.jobs, progress, piece);
    let results = results.map_err(|(run, message)| {
        let (experiment, case) = ("lab attack".to_string(), format!("run {run}"));
        Error::Simulator { experiment, case, seed, message }
    })?;
    let found: Vec<Finding> = results.into_iter().flatten().collect();
    let worst = Measure::ALL.into_iter().filter_map(|measure| {
        let of = found.iter().filter(|finding| finding.measure == measure);
        // The first of equals.
        of.reduce(|worst, other| if other.ratio() > worst.ratio() { other } else { worst })
    });
    let worst = worst.cloned().collect();
    Ok(Attacks { options: options.clone(), command, worst })
}

impl AttackOptions {
    /// The command that searches the same again.
    pub fn command(&self) -> String {
        let scheduler = self.scheduler.as_ref().map(|name| format!(" --scheduler {name}"));
        let (scheduler, seed, budget) = (scheduler.unwrap_or_default(), self.seed, self.budget);
        format!("lowtail lab attack{scheduler} --seed {seed} --budget {budget}")
    }
}

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
struct Setup {
    run: u32,
    scheduler: &'static str,
    pcpus: u64,
    attackers: Vec<Attacker>,
    scenario: String,
}

/// A span over `octaves` octaves from `low_us` on, each octave as likely as the others, and
/// uniform within: as good as log-uniform, and in whole numbers.
fn span(rng: &mut Rng, low_us: u64, octaves: u64) -> String {
    let octave = low_us << rng.below(octaves);
    format!("\"{}us\"", octave + rng.below(octave))
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

impl Setup {
    fn random(
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
        let (requests, service) = (SPAN_US / gap_us, span(rng, 20, 3));
        let show = attackers.iter().flat_map(|a| {
            ["cpu_share", "window_share"].map(|stem| format!("\"{stem}.{}\", ", a.name))
        });
        let mut text = format!(
            r#"title = "Run {run} of a search for attacks, under {scheduler}"
source = "{command}"
seed = {}
duration = "20s"
show = [{}"cpu_share.loop", "cpu_share.victim"]

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
            show.collect::<String>(),
        );
        let mut honest = String::new();
        for Attacker { name, vcpus, kind, keys } in &attackers {
            let workload = format!("workload = {{ kind = \"{kind}\", {keys} }}");
            let _ = write!(text, "\n[vm.{name}]\nvcpus = {vcpus}\n{workload}\n");
            let _ = writeln!(honest, "\"vm.{name}.workload\" = {{ kind = \"cpu-loop\" }}");
        }
        let cases = "\n[[case]]\nname = \"attack\"\n\n[[case]]\nname = \"honest\"\n[case.set]\n";
        Setup { run, scheduler, pcpus, attackers, scenario: text + cases + &honest }
    }

    /// Runs it with and without attackers and applies all measures.
    ///
    /// # Panics
    /// If the scenario is wrong, which would be a bug of this file.
    fn judge(self) -> Vec<Finding> {
        let experiment = Experiment::parse("attack.toml", &self.scenario, None);
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}\n{}", self.scenario));
        let file = &experiment.file;
        let cases = experiment.cases(false).iter();
        let keep = KeepOptions { windows: true, ..KeepOptions::default() };
        let results = cases.map(|case| run_case(case, file.seed, file.unit, &keep));
        let rows: Vec<Row> = results.flat_map(|result| result.rows).collect();
        let [attack, honest] = &rows[..] else { panic!("two rows, not {}", rows.len()) };
        self.findings(attack, honest)
    }

    fn findings(&self, attack: &Row, honest: &Row) -> Vec<Finding> {
        let pcpus = self.pcpus as f64;
        let mut wants = vec![attack.get("cpu_share.victim").unwrap_or(0.0)];
        wants.extend(self.attackers.iter().map(|a| (a.vcpus as f64).min(pcpus)));
        wants.extend((0..self.pcpus).map(|_| 1.0));
        let entitled = fair_shares(pcpus, &wants);
        let mut found = Vec::new();
        let mut find = |measure, vm: &str, workload: String, metric: &str, reference| {
            // A victim that has answered nothing has let all wait for the whole run.
            let starved = || {
                let s = attack.get("sim_s").filter(|_| measure == Measure::Tail && attack.n == 0);
                s.map(|s| s * 1e6)
            };
            let figure = attack.get(metric).or_else(starved);
            let (Some(figure), Some(honest)) = (figure, honest.get(metric)) else { return };
            let reference: f64 = Option::unwrap_or(reference, honest);
            if reference <= 0.0 {
                return;
            }
            found.push(Finding {
                measure,
                run: self.run,
                scheduler: self.scheduler,
                vm: vm.to_string(),
                workload,
                figure,
                reference,
                honest,
                scenario: self.scenario.clone(),
            });
        };
        for (a, &entitled) in self.attackers.iter().zip(&entitled[1..]) {
            let s = if a.vcpus == 1 { "" } else { "s" };
            let workload = || format!("{}, {} vCPU{s}", a.kind, a.vcpus);
            let share = format!("cpu_share.{}", a.name);
            let window = format!("window_share.{}", a.name);
            find(Measure::Share, &a.name, workload(), &share, Some(entitled));
            find(Measure::Window, &a.name, workload(), &window, Some(entitled));
            find(Measure::Gain, &a.name, workload(), &share, None);
        }
        find(Measure::Loss, "loop", "cpu-loop".to_string(), "cpu_share.loop", None);
        find(Measure::Tail, "victim", "request-server".to_string(), "p99_9", None);
        found
    }
}

/// Max-min fair shares of `capacity` among equals that want so much each: nobody has more than
/// it wants, and nobody has less than another who has more than he.
fn fair_shares(capacity: f64, wants: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by(|&a, &b| wants[a].total_cmp(&wants[b]));
    let mut shares = vec![0.0; wants.len()];
    let mut left = capacity;
    for (served, &i) in order.iter().enumerate() {
        shares[i] = wants[i].min(left / (wants.len() - served) as f64);
        left -= shares[i];
    }
    shares
}

impl Attacks {
    /// For people: the worst of each measure, and the scenarios behind them.
    pub fn text(&self) -> String {
        let AttackOptions { seed, budget, .. } = self.options;
        let mut text = format!("{budget} random hosts, seed {seed}\n\n");
        let widths = (
            self.worst.iter().map(|finding| finding.scheduler.len()).max().unwrap_or(0),
            self.worst.iter().map(|finding| finding.vm.len()).max().unwrap_or(0),
        );
        for finding in &self.worst {
            let Finding { measure, run, scheduler, vm, .. } = finding;
            let (ratio, unit) = (figure::aligned(finding.ratio()), measure.unit());
            let (had, due) = (figure::aligned(finding.figure), figure::aligned(finding.reference));
            let (name, reference) = (measure.name(), measure.reference());
            let _ = write!(
                text,
                "  {name:6}  {ratio:>6} times  {scheduler:0$}  {vm:1$}  {had} {unit}, \
                 {reference} {due}",
                widths.0, widths.1
            );
            if matches!(measure, Measure::Share | Measure::Window) {
                let _ = write!(text, ", honest {}", figure::aligned(finding.honest));
            }
            let _ = writeln!(text, "; run {run}, {}", finding.workload);
        }
        for finding in self.scenarios() {
            let _ = write!(text, "\n# {}\n{}", finding.file_name(seed), finding.scenario);
        }
        let _ = write!(text, "\n  lowtail {}: {}\n", crate::VERSION, self.command);
        text
    }

    /// The findings without those whose scenario another one has already.
    pub fn scenarios(&self) -> impl Iterator<Item = &Finding> {
        let first = |run| self.worst.iter().position(|finding| finding.run == run);
        let worst = self.worst.iter().enumerate();
        worst.filter(move |(i, finding)| first(finding.run) == Some(*i)).map(|(_, finding)| finding)
    }

    /// For `--json`.
    pub fn json(&self) -> Value {
        let seed = self.options.seed;
        let finding = |finding: &Finding| -> Value {
            let mut map = Map::new();
            map.insert("measure".into(), finding.measure.name().into());
            map.insert("ratio".into(), number(Some(finding.ratio())));
            map.insert("figure".into(), number(Some(finding.figure)));
            map.insert("reference".into(), number(Some(finding.reference)));
            map.insert("honest".into(), number(Some(finding.honest)));
            map.insert("unit".into(), finding.measure.unit().into());
            map.insert("run".into(), finding.run.into());
            map.insert("scheduler".into(), finding.scheduler.into());
            map.insert("vm".into(), finding.vm.clone().into());
            map.insert("workload".into(), finding.workload.clone().into());
            map.insert("file".into(), finding.file_name(seed).into());
            map.insert("scenario".into(), finding.scenario.clone().into());
            Value::Object(map)
        };
        let mut map = Map::new();
        map.insert("seed".into(), seed.into());
        map.insert("budget".into(), self.options.budget.into());
        map.insert("version".into(), crate::VERSION.into());
        map.insert("command".into(), self.command.clone().into());
        map.insert("worst".into(), self.worst.iter().map(finding).collect::<Vec<_>>().into());
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand.
    #[test]
    fn fair_shares_are_max_min() {
        for (capacity, wants, fair) in [
            (1.0, vec![0.1, 1.0, 1.0], vec![0.1, 0.45, 0.45]),
            (2.0, vec![1.0, 0.25, 1.0, 2.0, 0.5], vec![0.4375, 0.25, 0.4375, 0.4375, 0.4375]),
            (2.0, vec![0.5, 1.0], vec![0.5, 1.0]),
            (2.0, vec![2.0, 1.0, 0.5], vec![0.75, 0.75, 0.5]),
        ] {
            let shares = fair_shares(capacity, &wants);
            let near = shares.iter().zip(&fair).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(near, "{capacity} among {wants:?}: {shares:?}, not {fair:?}");
        }
    }

    /// Any draw makes a scenario that the reader accepts, with a schedulable host.
    #[test]
    fn every_random_host_is_valid() {
        let mut kinds = std::collections::BTreeSet::new();
        for run in 0..500 {
            let setup = Setup::random(7, run, HYPERVISORS, "x");
            let experiment = Experiment::parse("attack.toml", &setup.scenario, None);
            let experiment = experiment.unwrap_or_else(|e| panic!("run {run}: {e}\n{setup:#?}"));
            assert_eq!(experiment.cases(false).len(), 2);
            kinds.extend(setup.attackers.iter().map(|a| a.kind));
        }
        assert_eq!(kinds.len(), 7, "{kinds:?}");
    }

    #[test]
    fn schedulers_by_name_and_by_kind() {
        let names = |wanted| -> Vec<&str> {
            choose(Some(wanted)).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("credit"), ["credit-2007", "credit-4.8", "credit-today"]);
        assert_eq!(names("credit2-4.10"), ["credit2-4.10"]);
        assert_eq!(choose(None).unwrap().len(), HYPERVISORS.len());
        let error = choose(Some("credit2-4.12")).unwrap_err().to_string();
        assert!(error.contains("did you mean `credit2-4.10`?"), "{error}");
    }

    /// The known attack is found: under credit of 2007 the sleeping tick dodger has far more
    /// than its share and than an honest loop would have.
    #[test]
    fn the_tick_dodger_is_caught() {
        let keys = r#"tick = "10ms", margin = "500us", give_up = "sleep""#.to_string();
        let dodger = Attacker { name: "a1".to_string(), vcpus: 1, kind: "tick-dodger", keys };
        let mut setup = Setup::random(1, 0, &HYPERVISORS[..1], "x");
        let victim = "[vm.victim]\nworkload = { kind = \"request-server\", service = \"20us\", \
                      load = { open = \"5ms\" }, requests = 1000 }\n";
        setup.scenario = format!(
            "title = \"x\"\nshow = [\"window_share.a1\"]\n[host]\nscheduler = {{ {} }}\n{victim}\
             [vm.loop]\nworkload = {{ kind = \"cpu-loop\" }}\n[vm.a1]\nworkload = {{ kind = \
             \"tick-dodger\", {} }}\n[[case]]\nname = \"attack\"\n[[case]]\nname = \"honest\"\n\
             set = {{ \"vm.a1.workload\" = {{ kind = \"cpu-loop\" }} }}\n",
            HYPERVISORS[0].1, dodger.keys,
        );
        (setup.pcpus, setup.attackers) = (1, vec![dodger]);
        let found = setup.judge();
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

    #[test]
    fn the_same_for_any_number_of_threads() {
        let attacks = |jobs| {
            let scheduler = Some("credit2-4.21".to_string());
            let options = AttackOptions { scheduler, seed: 3, budget: 3, jobs };
            attack(&options, &|_| ()).unwrap().json()
        };
        assert_eq!(attacks(1), attacks(2));
    }
}
