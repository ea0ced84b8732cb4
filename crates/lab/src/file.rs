//! A scenario file as it is written.
//!
//! These types are what serde reads and what the JSON Schema is made of; [`crate::case`]
//! and [`crate::claim`] turn them into runs and verdicts.

use std::collections::BTreeMap;

use lowtail_host::config::{Pause, Tickle};
use lowtail_host::io::ports::Order;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::claim::{ClaimFile, PublishedFile};
use crate::costs::CostsChoice;
use crate::kvm::cgroup_tree::CgroupFile;
use crate::kvm::cputune::CputuneFile;
use crate::kvm::layout::LayoutFile;
use crate::kvm::thread::{ThreadFile, ThreadsFile, VhostFile};
use crate::metric::TimeUnit;
use crate::network::traffic::NamesFile;
use crate::network::{EndFile, NetworkFile, TrafficFile};
use crate::row_file::RowFile;
use crate::scheduler::SchedulerFile;
use crate::topology::TopologyFile;
use crate::traffic::{FlowFile, NicFile};
use crate::value::{DurationText, LongDurationText};
use crate::workload::WorkloadFile;

/// A lowtail scenario: a host with VMs, cases that vary it, and published figures to
/// compare with.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lowtail scenario")]
pub struct ScenarioFile {
    /// Short name; that of the file if absent.
    pub name: Option<String>,
    /// One line about what this shows.
    pub title: String,
    /// Where the experiment was published.
    #[serde(default)]
    pub source: String,
    /// Assumptions, explanations, what is out of scope.
    #[serde(default)]
    pub notes: String,
    /// Seed of all random streams.
    #[serde(default = "one")]
    pub seed: u64,
    /// How many runs with seeds in a row each case is; figures are their means.
    #[serde(default = "one_u16")]
    #[schemars(range(min = 1, max = 100))]
    pub seeds: u16,
    /// A run ends after this much simulated time, measured or not.
    #[serde(default = "a_minute")]
    pub duration: LongDurationText,
    /// Unit of latencies in tables and reports.
    #[serde(default)]
    pub unit: TimeUnit,
    /// Metrics besides latency that tables and reports show, such as `switches_per_second`.
    #[serde(default)]
    pub show: Vec<String>,
    /// The host; with a network each host that has VMs is like this. Absent if no host is
    /// simulated.
    pub host: Option<HostFile>,
    /// The VMs by name, numbered in the order of the file.
    #[serde(default)]
    pub vm: BTreeMap<String, VmFile>,
    /// Control groups of the host, besides those of its `layout`.
    #[serde(default)]
    pub cgroup: Vec<CgroupFile>,
    /// NICs of the host, which the VM with the workload `driver-domain` has.
    #[serde(default)]
    pub nic: BTreeMap<String, NicFile>,
    /// Traffic of VMs with the workload `net-guest`.
    #[serde(default)]
    pub flow: BTreeMap<String, FlowFile>,
    /// A network, of hosts, links and switches.
    pub network: Option<NetworkFile>,
    /// Ends of the network whose processors are not simulated. A host without these and
    /// without VMs is one itself.
    #[serde(default)]
    pub end: BTreeMap<String, EndFile>,
    /// Who talks with whom over the network.
    #[serde(default)]
    pub traffic: BTreeMap<String, TrafficFile>,
    /// What to vary. Without cases the scenario is run once as it is.
    #[serde(default)]
    pub case: Vec<CaseFile>,
    /// What `--full` changes.
    pub full: Option<FullFile>,
    /// The row in which nothing is done: the trivial model of claims about numbers is that all rows have its figures.
    pub base: Option<String>,
    /// Published figures, row by row.
    #[serde(default)]
    pub published: Vec<PublishedFile>,
    /// Further claims.
    #[serde(default)]
    pub claim: Vec<ClaimFile>,
    /// A picture of latency against cost.
    pub frontier: Option<FrontierFile>,
}

/// A picture of what latency each scheduler has at which cost.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrontierFile {
    /// The metric of the cost, to the right.
    pub cost: String,
    /// The metrics of latency, upwards: a line of panels for each.
    pub metrics: Vec<String>,
    /// The variable with a panel for each of its values.
    pub panels: String,
    /// The variable with a curve for each of its values; cases follow each other along it as in the file.
    pub series: String,
}

impl ScenarioFile {
    /// Whether a table or a claim wants the metric `stem` of some VM.
    pub(crate) fn uses(&self, stem: &str) -> bool {
        let claimed = self.claim.iter().flat_map(ClaimFile::metrics);
        let mut metrics = self.show.iter().map(String::as_str).chain(claimed);
        metrics.any(|metric| metric.split_once('.').is_some_and(|(start, _)| start == stem))
    }
}

fn one() -> u64 {
    1
}

fn a_minute() -> LongDurationText {
    DurationText(lowtail_engine::Duration::from_s(60))
}

/// The host.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// Number of pCPUs; a topology says it, too.
    #[serde(default = "one_u16")]
    #[schemars(range(min = 1, max = 1024))]
    pub pcpus: u16,
    /// Number of sockets over which they are spread evenly.
    #[serde(default = "one_u16")]
    #[schemars(range(min = 1, max = 1024))]
    pub sockets: u16,
    /// Hardware threads of a core, each of them a pCPU. With 2, pCPUs 0 and 1 are a core, 2 and 3, and so on.
    #[serde(default = "one_u16")]
    #[schemars(range(min = 1, max = 2))]
    pub threads_per_core: u16,
    /// How fast a pCPU works while the other one of its core runs somebody, in percent of its speed alone.
    #[serde(default = "sibling_speed_percent")]
    #[schemars(range(min = 1, max = 100))]
    pub sibling_speed_percent: u16,
    /// Which pCPUs share what, in place of `sockets` and `threads_per_core`.
    pub topology: Option<TopologyFile>,
    /// What things cost: the name of a file in `costs/`, or a table with `file` and
    /// numbers that replace its own.
    #[serde(default)]
    #[schemars(with = "CostsSchema")]
    pub costs: CostsChoice,
    /// Who decides.
    pub scheduler: SchedulerFile,
    /// When a notification between VMs makes the scheduler look at the sender's own pCPU.
    #[serde(default)]
    pub tickle: Tickle,
    /// In which order kernels serve their event channels.
    #[serde(default)]
    pub events: Order,
    /// In which control groups the threads of VMs are; in none if absent.
    pub layout: Option<LayoutFile>,
    /// Version of the control groups: it says what libvirt's `shares` are.
    #[serde(default = "one_u8")]
    #[schemars(range(min = 1, max = 2))]
    pub cgroup_version: u8,
}

/// The name of a file in `costs/`, or a table.
// Only for the schema; reading turns the name into a table first.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a form, is never built")]
enum CostsSchema {
    Name(String),
    Table(Box<CostsChoice>),
}

fn one_u8() -> u8 {
    1
}

fn sibling_speed_percent() -> u16 {
    lowtail_host::SIBLING_SPEED_PERCENT
}

fn one_u16() -> u16 {
    1
}

/// vCPUs of one VM, or of several in turn.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of vCPUs, or a list of numbers")]
pub enum VcpusFile {
    /// All have as many.
    Same(#[schemars(range(min = 1, max = 1024))] u16),
    /// In turn.
    InTurn(#[schemars(length(min = 1))] Vec<u16>),
}

impl Default for VcpusFile {
    fn default() -> Self {
        VcpusFile::Same(1)
    }
}

impl VcpusFile {
    /// Of the VM number `i` of its kind; none if the list is empty.
    pub(crate) fn of(&self, i: u16) -> u16 {
        match self {
            VcpusFile::Same(vcpus) => *vcpus,
            VcpusFile::InTurn(list) if list.is_empty() => 0,
            VcpusFile::InTurn(list) => list[usize::from(i) % list.len()],
        }
    }
}

/// A VM, or several of a kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VmFile {
    /// How many VMs like this; the second is called NAME-2. With 0 there is none.
    #[serde(default = "one_u16")]
    #[schemars(range(max = 1024))]
    pub count: u16,
    /// Number of vCPUs; with a list, the first VM has the first number and so on, round and
    /// round.
    #[serde(default)]
    pub vcpus: VcpusFile,
    /// Share of the processors, relative to others.
    #[serde(default = "usual_weight")]
    #[schemars(range(min = 1, max = 65535))]
    pub weight: u16,
    /// Upper limit in percent of one pCPU, 0 for none.
    #[serde(default)]
    pub cap: u16,
    /// pCPUs on which it may run (hard affinity); all if absent.
    pub pin: Option<Vec<u16>>,
    /// pCPUs on which it would rather run (soft affinity); all if absent.
    pub soft: Option<Vec<u16>>,
    /// When it is paused (`xl pause`, `virsh suspend`), one after the other.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// In a network the host that it is on; with a list there is one on each.
    pub on: Option<NamesFile>,
    /// How its threads share the processors, in libvirt's words.
    #[serde(default)]
    pub cputune: CputuneFile,
    /// The control group that all its threads are in, out of `[[cgroup]]`.
    pub cgroup: Option<String>,
    /// QEMU's main loop.
    pub emulator: Option<ThreadFile>,
    /// I/O threads, each of its own.
    #[serde(default)]
    pub iothread: Vec<ThreadFile>,
    /// I/O threads that are all alike.
    pub iothreads: Option<ThreadsFile>,
    /// The kernel's workers for its virtual interfaces.
    pub vhost: Option<VhostFile>,
    /// What runs in it.
    pub workload: WorkloadFile,
}

impl VmFile {
    /// How many measurements each of its threads makes together; `None` if it measures nothing.
    pub(crate) fn measures(&self) -> Option<u64> {
        self.workloads()
            .filter_map(|(n, workload)| Some(n * workload.measures()?))
            .reduce(|a, b| a + b)
    }

    /// How many threads it has besides its vCPUs.
    pub(crate) fn others(&self) -> u16 {
        let n = self.workloads().skip(1).map(|(n, _)| n).sum::<u64>();
        u16::try_from(n).unwrap_or(u16::MAX)
    }

    /// What runs in it and on its threads, and on how many of each.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = (u64, &WorkloadFile)> {
        let alone = self.emulator.iter().chain(&self.iothread).map(|one| (1, &one.workload));
        let alike = self.iothreads.iter().map(|all| (u64::from(all.count), &all.workload));
        let vhost = self.vhost.iter().map(|all| (u64::from(all.count), &all.workload));
        std::iter::once((1, &self.workload)).chain(alone).chain(alike).chain(vhost)
    }
}

fn usual_weight() -> u16 {
    256
}

/// A case: the scenario with some values changed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// Its name; `{variable}` stands for a variable's value, here and in `set`.
    pub name: String,
    /// The VMs that take part; all if absent.
    pub vms: Option<Vec<String>>,
    /// Values to change, by dotted path: `"host.scheduler.ratelimit" = "100us"`. A text
    /// that is just `"{variable}"` becomes the variable's value with its type.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
    /// Variables and their values; the case is run for each combination.
    #[serde(default, rename = "for")]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub variables: BTreeMap<String, Vec<toml::Value>>,
    /// Whose figures the case's rows are; those of every VM that measures if absent.
    pub rows: Option<Vec<RowFile>>,
}

/// What `--full` changes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullFile {
    /// Values to change, as in a case, after the case's own.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

/// The part of a scenario that a case can change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PointFile {
    pub(crate) host: Option<HostFile>,
    #[serde(default)]
    pub(crate) vm: BTreeMap<String, VmFile>,
    #[serde(default)]
    pub(crate) cgroup: Vec<CgroupFile>,
    #[serde(default)]
    pub(crate) nic: BTreeMap<String, NicFile>,
    #[serde(default)]
    pub(crate) flow: BTreeMap<String, FlowFile>,
    pub(crate) network: Option<NetworkFile>,
    #[serde(default)]
    pub(crate) end: BTreeMap<String, EndFile>,
    #[serde(default)]
    pub(crate) traffic: BTreeMap<String, TrafficFile>,
    #[serde(default = "a_minute")]
    pub(crate) duration: LongDurationText,
}
