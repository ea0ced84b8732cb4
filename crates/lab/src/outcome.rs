//! The outcome of an experiment: rows, verdicts, and what is needed to repeat it.

use lowtail_engine::Time;
use lowtail_host::record::Record;
use lowtail_host::stats::Worst;
use lowtail_net::Shape;
use serde_json::{Map, Value, json};

use crate::costs::CostTable;
use crate::experiment::Experiment;
use crate::metric::TimeUnit;
use crate::row::Row;
use crate::run::RunOptions;
use crate::verdict::{self, Verdict};

/// What an experiment came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The experiment's name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// Its notes.
    pub notes: String,
    /// The seed of the run.
    pub seed: u64,
    /// Whether this is the longer form.
    pub full: bool,
    /// The command that repeats it.
    pub command: String,
    /// Unit of the rows' times.
    pub unit: TimeUnit,
    /// Metrics to show besides latency.
    pub show: Vec<String>,
    /// One row per case, or more.
    pub rows: Vec<Row>,
    /// What the claims come to, and published figures that are not judged.
    pub claims: Vec<Verdict>,
    /// The rest about each case.
    pub cases: Vec<CaseOutcome>,
    /// What things cost, where cases differ more than once.
    pub costs: Vec<CostTable>,
}

impl Outcome {
    pub(crate) fn new(
        experiment: &Experiment,
        options: &RunOptions,
        seed: u64,
        results: Vec<CaseResult>,
    ) -> Self {
        let full = options.full;
        let file = &experiment.file;
        let (mut rows, mut cases) = (Vec::new(), Vec::new());
        for result in results {
            rows.extend(result.rows);
            cases.push(result.case);
        }
        // Of rows that were not to run nothing is known.
        let missing: Vec<Row> = experiment
            .cases(full)
            .iter()
            .filter(|case| !options.chosen(case))
            .flat_map(|case| case.rows.iter().map(|row| Row::empty(row, case, file.unit)))
            .collect();
        let published = file.published.iter().flat_map(|p| {
            let ran = missing.iter().all(|row| row.name != p.case);
            verdict::published(p, &rows, file.unit).into_iter().map(move |v| v.if_ran(ran))
        });
        let claims = file.claim.iter().map(|claim| {
            let ran = !verdict::needs(claim, &missing);
            verdict::judge(claim, &rows, file.unit).if_ran(ran)
        });
        let claims = published.chain(claims).collect();
        let mut costs: Vec<CostTable> = Vec::new();
        for case in experiment.cases(full).iter().filter(|case| options.chosen(case)) {
            if let Some(table) = case.costs.as_ref().filter(|&table| !costs.contains(table)) {
                costs.push(table.clone());
            }
        }
        let names = crate::embedded::experiments().iter().map(|shipped| shipped.name);
        let shipped = names.into_iter().any(|name| name == experiment.name)
            && experiment.path == format!("experiments/{}.toml", experiment.name);
        let what = if shipped { experiment.name.clone() } else { experiment.path.clone() };
        let full_flag = if full { " --full" } else { "" };
        let chosen: String =
            options.cases.iter().map(|case| format!(" --case {}", quoted(case))).collect();
        Outcome {
            name: experiment.name.clone(),
            title: file.title.clone(),
            source: file.source.clone(),
            notes: file.notes.clone(),
            seed,
            full,
            command: format!("lowtail lab run {what} --seed {seed}{full_flag}{chosen}"),
            unit: file.unit,
            show: file.show.clone(),
            rows,
            claims,
            cases,
            costs,
        }
    }

    /// How many claims hold, out of how many that are judged.
    pub fn score(&self) -> (usize, usize) {
        let judged = self.claims.iter().filter_map(|claim| claim.holds);
        judged.fold((0, 0), |(held, all), holds| (held + usize::from(holds), all + 1))
    }

    /// Whether every claim holds.
    pub fn holds(&self) -> bool {
        self.claims.iter().all(|claim| claim.holds != Some(false))
    }

    /// The recordings of the cases, if asked for.
    pub fn recordings(&self) -> impl Iterator<Item = &Recording> {
        self.cases.iter().filter_map(|case| case.recording.as_ref())
    }

    /// The row called `name`.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// For `--json`. Published figures that are not judged stand apart from the claims.
    pub fn json(&self) -> Value {
        let select = |judged: bool| -> Vec<Value> {
            let chosen = self.claims.iter().filter(|claim| claim.holds.is_some() == judged);
            chosen.map(Verdict::json).collect()
        };
        let mut map = Map::new();
        map.insert("name".into(), self.name.clone().into());
        map.insert("title".into(), self.title.clone().into());
        map.insert("seed".into(), self.seed.into());
        map.insert("version".into(), crate::VERSION.into());
        map.insert("full".into(), self.full.into());
        map.insert("command".into(), self.command.clone().into());
        map.insert("claims".into(), select(true).into());
        map.insert("out_of_scope".into(), select(false).into());
        map.insert("rows".into(), self.rows.iter().map(Row::json).collect::<Vec<_>>().into());
        Value::Object(map)
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What `lowtail lab run --json` prints.
pub fn json(outcomes: &[Outcome]) -> Value {
    json!({ "experiments": outcomes.iter().map(Outcome::json).collect::<Vec<_>>() })
}

/// The schedule of a case, its last records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The case.
    pub case: String,
    /// Number of pCPUs.
    pub pcpus: u16,
    /// Names of the vCPUs, by their numbers.
    pub vcpus: Vec<String>,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// How many older ones had to make room.
    pub dropped: u64,
}

/// The frames of some links of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// In pcapng.
    pub file: Vec<u8>,
    /// Names of the links.
    pub links: Vec<String>,
    /// How many frames are in it.
    pub frames: u64,
    /// How many later ones there was no room for.
    pub more: u64,
}

/// What has waited at a port of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTrack {
    /// The name of its link, and which of its queues, if it has two.
    pub name: String,
    /// From when on how many bytes, in order of time.
    pub samples: Vec<(Time, u64)>,
    /// Earlier samples that had to make room.
    pub cut: u64,
}

/// What a network looks like, and who has sent to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkOutcome {
    /// Its shape.
    pub shape: Shape,
    /// Names of the machines; none if there are many.
    pub machines: Vec<String>,
    /// The rate of links to machines, in words; and of those between switches.
    pub link: String,
    /// See `link`.
    pub fabric: String,
    /// Payload delivered.
    pub matrix: Matrix,
}

impl NetworkOutcome {
    /// Whether it has the same machines, switches and rates.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        let own = (self.shape, &self.machines, &self.link, &self.fabric);
        own == (other.shape, &other.machines, &other.link, &other.fabric)
    }
}

/// Payload delivered from machine to machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    /// Rows, and columns.
    pub side: u32,
    /// Machines that one of them stands for.
    pub per: u32,
    /// From, to, and Mbit/s, of those between which anything was.
    pub cells: Vec<(u32, u32, f64)>,
}

/// What a case came to, besides its rows.
#[derive(Debug, Clone)]
pub struct CaseOutcome {
    /// Its name.
    pub name: String,
    /// One line about its scheduler.
    pub scheduler: String,
    /// VMs: name and one line about each.
    pub vms: Vec<(String, String)>,
    /// Number of pCPUs.
    pub pcpus: u16,
    /// Names of the vCPUs, by their numbers.
    pub vcpus: Vec<String>,
    /// The first vCPU of the first row's VM, whose longest wait is kept.
    pub watched: Option<u16>,
    /// That wait, and what led to it.
    pub worst: Option<Worst>,
    /// Its network, if it has one.
    pub network: Option<NetworkOutcome>,
    /// The recording, if asked for.
    pub recording: Option<Recording>,
    /// The frames of links, if asked for.
    pub captured: Option<Captured>,
    /// What has waited in a network, if asked for.
    pub queues: Vec<QueueTrack>,
}

/// Rows and the rest of one case.
#[derive(Debug)]
pub(crate) struct CaseResult {
    pub(crate) rows: Vec<Row>,
    pub(crate) case: CaseOutcome,
}
