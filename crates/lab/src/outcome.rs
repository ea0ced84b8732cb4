//! The outcome of an experiment: rows, verdicts, and what is needed to repeat it.

use lowtail_host::record::Record;
use lowtail_host::stats::Worst;
use serde_json::{Map, Value, json};

use crate::case::spec::RowSpec;
use crate::costs::CostTable;
use crate::experiment::Experiment;
use crate::file::FrontierFile;
use crate::judge;
use crate::metric::TimeUnit;
use crate::network::blame::QueueBlame;
use crate::network::outcome::{Captured, Completion, NetworkOutcome, QueueTrack};
use crate::options::RunOptions;
use crate::overrides::as_options;
use crate::quoted::quoted;
use crate::row::Row;
use crate::score::Score;
use crate::verdict::Verdict;

/// Results of an experiment.
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
    /// How many runs each case was, with seeds from that on.
    pub seeds: u16,
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
    /// Claims with their verdicts, and published figures that are not judged.
    pub claims: Vec<Verdict>,
    /// The rest about each case.
    pub cases: Vec<CaseOutcome>,
    /// What things cost, where cases differ more than once.
    pub costs: Vec<CostTable>,
    /// The picture of latency against cost, if it has one.
    pub frontier: Option<FrontierFile>,
}

impl Outcome {
    /// `each` has the rows of each seed.
    pub(crate) fn new(
        experiment: &Experiment,
        options: &RunOptions,
        seed: u64,
        results: Vec<CaseResult>,
        each: &[Vec<Row>],
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
            .flat_map(|case| {
                let row =
                    |row: &RowSpec| Row::empty(row.name.clone(), case.variables.clone(), file.unit);
                case.rows.iter().map(row)
            })
            .collect();
        let judge = |rows: &[Row]| -> Vec<Verdict> {
            let published = file.published.iter().flat_map(|p| {
                let ran = missing.iter().all(|row| row.name != p.case);
                judge::published(p, rows, file).into_iter().map(move |v| v.if_ran(ran))
            });
            let claims = file.claim.iter().map(|claim| {
                let ran = !judge::needs(claim, &missing);
                judge::judge(claim, rows, file).if_ran(ran)
            });
            published.chain(claims).collect()
        };
        let mut claims = judge(&rows);
        if each.len() > 1 {
            let each: Vec<Vec<Verdict>> = each.iter().map(|rows| judge(rows)).collect();
            // Who is never inside of others is so by the intervals of all seeds.
            let by_intervals = |verdict: &Verdict| {
                file.claim.iter().any(|c| c.never_inside.is_some() && c.name() == verdict.id)
            };
            let over = |(i, verdict): (usize, Verdict)| match by_intervals(&verdict) {
                true => verdict,
                false => verdict.over(&each.iter().map(|own| &own[i]).collect::<Vec<_>>()),
            };
            claims = claims.into_iter().enumerate().map(over).collect();
        }
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
        let overrides = as_options(&experiment.overrides);
        let seeds = options.seeds.unwrap_or(file.seeds);
        let seeds_flag = options.seeds.map(|n| format!(" --seeds {n}")).unwrap_or_default();
        Outcome {
            name: experiment.name.clone(),
            title: file.title.clone(),
            source: file.source.clone(),
            notes: file.notes.clone(),
            seed,
            seeds,
            full,
            frontier: file.frontier.clone(),
            command: format!(
                "lowtail lab run {what} --seed {seed}{seeds_flag}{full_flag}{overrides}{chosen}"
            ),
            unit: file.unit,
            show: file.show.clone(),
            rows,
            claims,
            cases,
            costs,
        }
    }

    /// How many claims hold, and of how many that count.
    pub fn score(&self) -> Score {
        Score::of(self.claims.iter())
    }

    /// Whether every claim holds, but those that are known to be missed.
    pub fn holds(&self) -> bool {
        !self.claims.iter().any(Verdict::falls_short)
    }

    /// The claims that do not hold and are known not to: what they are called, and why.
    pub fn missed(&self) -> impl Iterator<Item = (&str, &str)> {
        let missed = self.claims.iter().filter(|claim| claim.is_missed());
        missed.filter_map(|claim| Some((claim.id.as_str(), claim.missed.as_deref()?)))
    }

    /// What the figures are means of, if cases ran more than once.
    pub(crate) fn means(&self) -> Option<String> {
        let last = self.seed.wrapping_add(u64::from(self.seeds) - 1);
        (self.seeds > 1)
            .then(|| format!("means of {} runs, seeds {} to {last}", self.seeds, self.seed))
    }

    /// The recordings of the cases, if asked for.
    pub fn recordings(&self) -> impl Iterator<Item = &Recording> {
        self.cases.iter().filter_map(|case| case.recording.as_ref())
    }

    /// Lets go of what cases have recorded, schedules and queues: whoever wants them has them by now.
    pub fn forget_recordings(&mut self) {
        for case in &mut self.cases {
            case.recording = None;
            case.queues = Vec::new();
        }
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
        if self.seeds > 1 {
            map.insert("seeds".into(), self.seeds.into());
        }
        map.insert("full".into(), self.full.into());
        map.insert("command".into(), self.command.clone().into());
        map.insert("claims".into(), select(true).into());
        map.insert("out_of_scope".into(), select(false).into());
        if self.cases.iter().any(|case| !case.queue_blame.is_empty()) {
            let of = |case: &CaseOutcome| -> Vec<Value> {
                case.queue_blame.iter().flat_map(|blame| blame.json(&case.name)).collect()
            };
            let queues: Vec<Value> = self.cases.iter().flat_map(of).collect();
            map.insert("queue_blame".into(), queues.into());
        }
        map.insert("rows".into(), self.rows.iter().map(Row::json).collect::<Vec<_>>().into());
        Value::Object(map)
    }
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

/// Results of a case, besides its rows.
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
    /// How the transfers of lists went, of the first seed, if that was to be kept.
    pub completions: Vec<Completion>,
    /// What has waited in a network, if asked for.
    pub queues: Vec<QueueTrack>,
    /// Whose bytes were in front of whose packets, of the first seed, if asked for: in its network, at links of a lone host, at back ends.
    pub queue_blame: Vec<QueueBlame>,
}

/// Rows and the rest of one case.
#[derive(Debug)]
pub(crate) struct CaseResult {
    pub(crate) rows: Vec<Row>,
    pub(crate) case: CaseOutcome,
}
