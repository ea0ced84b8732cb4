//! Cost files: what things take on a machine, each number with its source.

use std::collections::BTreeMap;

use lowtail_engine::Duration;
use lowtail_host::Costs;
use lowtail_host::io::costs::PathCosts;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::embedded;
use crate::error::{Error, nearest};
use crate::tree;
use crate::value::DurationText;

/// The costs of a machine as a file in `costs/` writes them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsFile {
    /// What machine.
    pub title: String,
    /// Anything that a reader should know.
    #[serde(default)]
    pub notes: String,
    /// See [`Costs::wake_to_tickle`].
    pub wake_to_tickle: CostFile,
    /// See [`Costs::tickle_to_schedule`].
    pub tickle_to_schedule: CostFile,
    /// See [`Costs::tickle_to_schedule_self`].
    pub tickle_to_schedule_self: Option<CostFile>,
    /// See [`Costs::tickle_to_schedule_idle`].
    pub tickle_to_schedule_idle: CostFile,
    /// See [`Costs::schedule`].
    pub schedule: CostFile,
    /// See [`Costs::context_switch`].
    pub context_switch: CostFile,
    /// See [`Costs::context_switch_idle`].
    pub context_switch_idle: Option<CostFile>,
    /// See [`Costs::cold_cache`].
    pub cold_cache: CostFile,
    /// See [`Costs::block`]; nothing if absent.
    pub block: Option<CostFile>,
    /// See [`Costs::wakeup`]; nothing if absent.
    pub wakeup: Option<CostFile>,
    /// See [`Costs::cgroup_enqueue`]; nothing if absent.
    pub cgroup_enqueue: Option<CostFile>,
    /// See [`Costs::cgroup_dequeue`]; as `cgroup_enqueue` if absent.
    pub cgroup_dequeue: Option<CostFile>,
    /// See [`Costs::cgroup_pick`]; nothing if absent.
    pub cgroup_pick: Option<CostFile>,
    /// See [`Costs::cgroup_put`]; nothing if absent.
    pub cgroup_put: Option<CostFile>,
    /// See [`Costs::refused`]; as one that interrupts if absent.
    pub refused: Option<CostFile>,
    /// See [`Costs::retry`]; nothing if absent.
    pub retry: Option<CostFile>,
    /// See [`Costs::tick`]; nothing if absent.
    pub tick: Option<CostFile>,
    /// See [`Costs::tick_period`]; no ticks if absent.
    pub tick_period: Option<CostFile>,
    /// See [`Costs::nohz_tick`]; nothing if absent.
    pub nohz_tick: Option<CostFile>,
    /// See [`Costs::nohz_ticks`]; nothing if absent.
    pub nohz_ticks: Option<CostFile>,
    /// See [`Costs::timer_slop`]; nothing if absent.
    pub timer_slop: Option<CostFile>,
    /// See [`Costs::guest_tick`]; nothing if absent.
    pub guest_tick: Option<CostFile>,
    /// See [`Costs::guest_tick_wakeup`]; nothing if absent.
    pub guest_tick_wakeup: Option<CostFile>,
    /// See [`Costs::guest_tick_restart`]; nothing if absent.
    pub guest_tick_restart: Option<CostFile>,
    /// See [`Costs::guest_tick_period`]; no such ticks if absent.
    pub guest_tick_period: Option<CostFile>,
    /// See [`PathCosts::upcall`]; nothing if absent.
    pub upcall: Option<CostFile>,
    /// See [`PathCosts::irq`]; nothing if absent.
    pub irq: Option<CostFile>,
    /// See [`PathCosts::notify`]; nothing if absent.
    pub notify: Option<CostFile>,
    /// See [`PathCosts::task_switch`]; nothing if absent.
    pub task_switch: Option<CostFile>,
    /// See [`PathCosts::nic_packet`]; nothing if absent.
    pub nic_packet: Option<CostFile>,
    /// See [`PathCosts::back_packet`]; nothing if absent.
    pub back_packet: Option<CostFile>,
    /// See [`PathCosts::grant_slot`]; nothing if absent.
    pub grant_slot: Option<CostFile>,
    /// See [`PathCosts::back_kb`]; nothing if absent.
    pub back_kb: Option<CostFile>,
    /// See [`PathCosts::front_packet`]; nothing if absent.
    pub front_packet: Option<CostFile>,
    /// See [`PathCosts::front_kb`]; nothing if absent.
    pub front_kb: Option<CostFile>,
    /// See [`PathCosts::split_piece`]; nothing if absent.
    pub split_piece: Option<CostFile>,
    /// See [`PathCosts::vhost_kick`]; nothing if absent.
    pub vhost_kick: Option<CostFile>,
    /// See [`PathCosts::vhost_turn`]; nothing if absent.
    pub vhost_turn: Option<CostFile>,
    /// See [`PathCosts::vhost_copy`]; nothing if absent.
    pub vhost_copy: Option<CostFile>,
    /// See [`PathCosts::vhost_send`]; nothing if absent.
    pub vhost_send: Option<CostFile>,
    /// See [`PathCosts::vhost_receive`]; nothing if absent.
    pub vhost_receive: Option<CostFile>,
    /// See [`PathCosts::vhost_kb`]; nothing if absent.
    pub vhost_kb: Option<CostFile>,
}

/// One cost.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostFile {
    /// How long it takes.
    pub value: DurationText,
    /// Where that comes from.
    pub source: String,
    /// Whether it was chosen so that results fit a measurement.
    #[serde(default)]
    pub fitted: bool,
}

/// Costs in a scenario: which file, and which of its numbers to replace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostsChoice {
    /// Name of a file in `costs/`, or a path ending in `.toml` relative to the scenario.
    pub file: Option<String>,
    /// Replaces the file's number.
    pub wake_to_tickle: Option<DurationText>,
    /// Replaces the file's number.
    pub tickle_to_schedule: Option<DurationText>,
    /// Replaces the file's number.
    pub tickle_to_schedule_self: Option<DurationText>,
    /// Replaces the file's number.
    pub tickle_to_schedule_idle: Option<DurationText>,
    /// Replaces the file's number.
    pub schedule: Option<DurationText>,
    /// Replaces the file's number.
    pub context_switch: Option<DurationText>,
    /// Replaces the file's number.
    pub context_switch_idle: Option<DurationText>,
    /// Replaces the file's number.
    pub cold_cache: Option<DurationText>,
    /// Replaces the file's number.
    pub block: Option<DurationText>,
    /// Replaces the file's number.
    pub wakeup: Option<DurationText>,
    /// Replaces the file's number.
    pub cgroup_enqueue: Option<DurationText>,
    /// Replaces the file's number.
    pub cgroup_dequeue: Option<DurationText>,
    /// Replaces the file's number.
    pub cgroup_pick: Option<DurationText>,
    /// Replaces the file's number.
    pub cgroup_put: Option<DurationText>,
    /// Replaces the file's number.
    pub refused: Option<DurationText>,
    /// Replaces the file's number.
    pub retry: Option<DurationText>,
    /// Replaces the file's number.
    pub tick: Option<DurationText>,
    /// Replaces the file's number.
    pub tick_period: Option<DurationText>,
    /// Replaces the file's number.
    pub nohz_tick: Option<DurationText>,
    /// Replaces the file's number.
    pub nohz_ticks: Option<DurationText>,
    /// Replaces the file's number.
    pub timer_slop: Option<DurationText>,
    /// Replaces the file's number.
    pub guest_tick: Option<DurationText>,
    /// Replaces the file's number.
    pub guest_tick_wakeup: Option<DurationText>,
    /// Replaces the file's number.
    pub guest_tick_restart: Option<DurationText>,
    /// Replaces the file's number.
    pub guest_tick_period: Option<DurationText>,
    /// Replaces the file's number.
    pub upcall: Option<DurationText>,
    /// Replaces the file's number.
    pub irq: Option<DurationText>,
    /// Replaces the file's number.
    pub notify: Option<DurationText>,
    /// Replaces the file's number.
    pub task_switch: Option<DurationText>,
    /// Replaces the file's number.
    pub nic_packet: Option<DurationText>,
    /// Replaces the file's number.
    pub back_packet: Option<DurationText>,
    /// Replaces the file's number.
    pub grant_slot: Option<DurationText>,
    /// Replaces the file's number.
    pub back_kb: Option<DurationText>,
    /// Replaces the file's number.
    pub front_packet: Option<DurationText>,
    /// Replaces the file's number.
    pub front_kb: Option<DurationText>,
    /// Replaces the file's number.
    pub split_piece: Option<DurationText>,
    /// Replaces the file's number.
    pub vhost_kick: Option<DurationText>,
    /// Replaces the file's number.
    pub vhost_turn: Option<DurationText>,
    /// Replaces the file's number.
    pub vhost_copy: Option<DurationText>,
    /// Replaces the file's number.
    pub vhost_send: Option<DurationText>,
    /// Replaces the file's number.
    pub vhost_receive: Option<DurationText>,
    /// Replaces the file's number.
    pub vhost_kb: Option<DurationText>,
}

/// The file that holds when a scenario names none.
pub const DEFAULT_COSTS: &str = "xen-2017";

/// One cost with its origin, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostLine {
    /// Its name, as in [`Costs`].
    pub name: &'static str,
    /// How long it takes.
    pub value: Duration,
    /// Where that comes from.
    pub source: String,
    /// Whether it was fitted.
    pub fitted: bool,
}

/// All costs of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostTable {
    /// The file that they come from.
    pub file: String,
    /// What machine that is.
    pub title: String,
    /// The costs.
    pub lines: Vec<CostLine>,
}

impl CostTable {
    /// Whether its file is one that every lowtail has, and not one of the user's.
    pub fn is_shipped(&self) -> bool {
        embedded::costs().iter().any(|costs| self.file == format!("costs/{}.toml", costs.name))
    }

    /// The cost called `name`; nothing if there is none.
    fn value(&self, name: &str) -> Duration {
        self.find(name).unwrap_or(Duration::ZERO)
    }

    fn find(&self, name: &str) -> Option<Duration> {
        let line = self.lines.iter().find(|line| line.name == name);
        line.map(|line| line.value)
    }

    /// As the host takes them.
    pub fn costs(&self) -> Costs {
        let get = |name| self.value(name);
        Costs {
            wake_to_tickle: get("wake_to_tickle"),
            tickle_to_schedule: get("tickle_to_schedule"),
            tickle_to_schedule_self: self.find("tickle_to_schedule_self"),
            tickle_to_schedule_idle: get("tickle_to_schedule_idle"),
            schedule: get("schedule"),
            context_switch: get("context_switch"),
            context_switch_idle: self.find("context_switch_idle"),
            cold_cache: get("cold_cache"),
            block: get("block"),
            wakeup: get("wakeup"),
            cgroup_enqueue: get("cgroup_enqueue"),
            cgroup_dequeue: self.find("cgroup_dequeue").unwrap_or_else(|| get("cgroup_enqueue")),
            cgroup_pick: get("cgroup_pick"),
            cgroup_put: get("cgroup_put"),
            refused: self.find("refused"),
            retry: get("retry"),
            tick: get("tick"),
            tick_period: get("tick_period"),
            nohz_tick: get("nohz_tick"),
            nohz_ticks: get("nohz_ticks"),
            timer_slop: get("timer_slop"),
            guest_tick: get("guest_tick"),
            guest_tick_wakeup: get("guest_tick_wakeup"),
            guest_tick_restart: get("guest_tick_restart"),
            guest_tick_period: get("guest_tick_period"),
        }
    }

    /// As the way of a packet takes them.
    pub fn path(&self) -> PathCosts {
        let get = |name| self.value(name);
        PathCosts {
            upcall: get("upcall"),
            irq: get("irq"),
            notify: get("notify"),
            task_switch: get("task_switch"),
            nic_packet: get("nic_packet"),
            back_packet: get("back_packet"),
            grant_slot: get("grant_slot"),
            back_kb: get("back_kb"),
            front_packet: get("front_packet"),
            front_kb: get("front_kb"),
            split_piece: get("split_piece"),
            vhost_kick: get("vhost_kick"),
            vhost_turn: get("vhost_turn"),
            vhost_copy: get("vhost_copy"),
            vhost_send: get("vhost_send"),
            vhost_receive: get("vhost_receive"),
            vhost_kb: get("vhost_kb"),
        }
    }

    fn new(file: &str, costs: CostsFile) -> Self {
        let line = |name, cost: CostFile| {
            let CostFile { value, source, fitted } = cost;
            CostLine { name, value: value.0, source, fitted }
        };
        let mut lines = vec![
            line("wake_to_tickle", costs.wake_to_tickle),
            line("tickle_to_schedule", costs.tickle_to_schedule),
            line("tickle_to_schedule_idle", costs.tickle_to_schedule_idle),
            line("schedule", costs.schedule),
            line("context_switch", costs.context_switch),
            line("cold_cache", costs.cold_cache),
        ];
        let more = [
            ("tickle_to_schedule_self", costs.tickle_to_schedule_self),
            ("context_switch_idle", costs.context_switch_idle),
            ("block", costs.block),
            ("wakeup", costs.wakeup),
            ("cgroup_enqueue", costs.cgroup_enqueue),
            ("cgroup_dequeue", costs.cgroup_dequeue),
            ("cgroup_pick", costs.cgroup_pick),
            ("cgroup_put", costs.cgroup_put),
            ("refused", costs.refused),
            ("retry", costs.retry),
            ("tick", costs.tick),
            ("tick_period", costs.tick_period),
            ("nohz_tick", costs.nohz_tick),
            ("nohz_ticks", costs.nohz_ticks),
            ("timer_slop", costs.timer_slop),
            ("guest_tick", costs.guest_tick),
            ("guest_tick_wakeup", costs.guest_tick_wakeup),
            ("guest_tick_restart", costs.guest_tick_restart),
            ("guest_tick_period", costs.guest_tick_period),
            ("upcall", costs.upcall),
            ("irq", costs.irq),
            ("notify", costs.notify),
            ("task_switch", costs.task_switch),
            ("nic_packet", costs.nic_packet),
            ("back_packet", costs.back_packet),
            ("grant_slot", costs.grant_slot),
            ("back_kb", costs.back_kb),
            ("front_packet", costs.front_packet),
            ("front_kb", costs.front_kb),
            ("split_piece", costs.split_piece),
            ("vhost_kick", costs.vhost_kick),
            ("vhost_turn", costs.vhost_turn),
            ("vhost_copy", costs.vhost_copy),
            ("vhost_send", costs.vhost_send),
            ("vhost_receive", costs.vhost_receive),
            ("vhost_kb", costs.vhost_kb),
        ];
        lines.extend(more.into_iter().filter_map(|(name, cost)| Some(line(name, cost?))));
        CostTable { file: file.to_string(), title: costs.title, lines }
    }

    /// With the numbers of the scenario in place of the file's.
    pub(crate) fn with(mut self, choice: &CostsChoice) -> Self {
        let replaced = [
            ("wake_to_tickle", choice.wake_to_tickle),
            ("tickle_to_schedule", choice.tickle_to_schedule),
            ("tickle_to_schedule_self", choice.tickle_to_schedule_self),
            ("tickle_to_schedule_idle", choice.tickle_to_schedule_idle),
            ("schedule", choice.schedule),
            ("context_switch", choice.context_switch),
            ("context_switch_idle", choice.context_switch_idle),
            ("cold_cache", choice.cold_cache),
            ("block", choice.block),
            ("wakeup", choice.wakeup),
            ("cgroup_enqueue", choice.cgroup_enqueue),
            ("cgroup_dequeue", choice.cgroup_dequeue),
            ("cgroup_pick", choice.cgroup_pick),
            ("cgroup_put", choice.cgroup_put),
            ("refused", choice.refused),
            ("retry", choice.retry),
            ("tick", choice.tick),
            ("tick_period", choice.tick_period),
            ("nohz_tick", choice.nohz_tick),
            ("nohz_ticks", choice.nohz_ticks),
            ("timer_slop", choice.timer_slop),
            ("guest_tick", choice.guest_tick),
            ("guest_tick_wakeup", choice.guest_tick_wakeup),
            ("guest_tick_restart", choice.guest_tick_restart),
            ("guest_tick_period", choice.guest_tick_period),
            ("upcall", choice.upcall),
            ("irq", choice.irq),
            ("notify", choice.notify),
            ("task_switch", choice.task_switch),
            ("nic_packet", choice.nic_packet),
            ("back_packet", choice.back_packet),
            ("grant_slot", choice.grant_slot),
            ("back_kb", choice.back_kb),
            ("front_packet", choice.front_packet),
            ("front_kb", choice.front_kb),
            ("split_piece", choice.split_piece),
            ("vhost_kick", choice.vhost_kick),
            ("vhost_turn", choice.vhost_turn),
            ("vhost_copy", choice.vhost_copy),
            ("vhost_send", choice.vhost_send),
            ("vhost_receive", choice.vhost_receive),
            ("vhost_kb", choice.vhost_kb),
        ];
        for (name, span) in replaced {
            let Some(DurationText(value)) = span else { continue };
            let source = "set in the scenario".to_string();
            let set = CostLine { name, value, source, fitted: false };
            match self.lines.iter_mut().find(|line| line.name == name) {
                Some(line) => *line = set,
                None => self.lines.push(set),
            }
        }
        self
    }
}

/// Reads cost files, each once.
#[derive(Debug, Default)]
pub(crate) struct CostReader {
    /// Where relative paths start from; `None` if there are no files to look for.
    pub(crate) base: Option<std::path::PathBuf>,
    read: BTreeMap<String, CostTable>,
}

/// What a cost file in a scenario can be wrong about: its name, or its content.
#[derive(Debug)]
pub(crate) enum CostsError {
    /// The name that the scenario gives.
    Name(String),
    /// The file itself.
    File(Error),
}

impl CostReader {
    pub(crate) fn new(base: Option<std::path::PathBuf>) -> Self {
        CostReader { base, read: BTreeMap::new() }
    }

    /// The costs called `name`.
    pub(crate) fn get(&mut self, name: &str) -> Result<CostTable, CostsError> {
        if let Some(table) = self.read.get(name) {
            return Ok(table.clone());
        }
        let (file, text) = self.find(name)?;
        let costs: CostsFile = tree::parse(&text)
            .and_then(tree::decode)
            .map_err(|fault| CostsError::File(fault.locate(&file, &text).into()))?;
        let table = CostTable::new(&file, costs);
        self.read.insert(name.to_string(), table.clone());
        Ok(table)
    }

    fn find(&self, name: &str) -> Result<(String, String), CostsError> {
        if let Some(shipped) = embedded::costs().iter().find(|costs| costs.name == name) {
            return Ok((format!("costs/{name}.toml"), shipped.text.to_string()));
        }
        if let (Some(base), true) = (&self.base, name.ends_with(".toml")) {
            let path = base.join(name);
            let text = embedded::read(&path).map_err(CostsError::File)?;
            return Ok((path.display().to_string(), text));
        }
        let names: Vec<&str> = embedded::costs().iter().map(|costs| costs.name).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}, or give a path that ends in .toml", names.join(", ")),
        };
        Err(CostsError::Name(format!("no costs are called `{name}`; {hint}")))
    }
}
