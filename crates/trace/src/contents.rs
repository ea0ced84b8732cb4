//! What is in a trace.

use lowtail_out::seconds;
use serde::Serialize;

use crate::clock::CpuHzSource;
use crate::linux::Recorded;

/// What [`crate::info()`] finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// From the first to the last time stamp, in microseconds.
    #[serde(rename = "span_seconds", serialize_with = "seconds::us")]
    pub span_us: f64,
    /// The earliest time stamp, in ticks.
    pub first_tsc: Option<u64>,
    /// The latest time stamp, in ticks.
    pub last_tsc: Option<u64>,
    /// Ticks per second of the time stamp counter.
    pub cpu_hz: u64,
    /// Where `cpu_hz` comes from.
    pub cpu_hz_source: CpuHzSource,
    /// Records, window headers left out.
    pub records: u64,
    /// Windows.
    pub windows: u64,
    /// The pCPUs, by number.
    pub pcpus: Vec<PcpuInfo>,
    /// The domains with their vCPUs, idle left out, as far as scheduling records name them.
    pub domains: Vec<DomainInfo>,
    /// Records by class, most first.
    pub classes: Vec<Count>,
    /// Records by event, most first; events without a name by number.
    pub events: Vec<Count>,
    /// Records of events that are not known; they are skipped.
    pub unknown_records: u64,
    /// Records whose time is before that of an earlier one of their pCPU.
    pub backward_records: u64,
    /// What Xen, or the recorder, says it dropped.
    pub lost: Lost,
    /// What a recording of a Linux host says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
}

/// One pCPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PcpuInfo {
    /// Its number.
    pub pcpu: u16,
    /// Its windows.
    pub windows: u64,
    /// Its records.
    pub records: u64,
    /// Records it lost.
    pub lost_records: u64,
}

/// One domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DomainInfo {
    /// Its number.
    pub domain: u16,
    /// Its vCPUs, as `d1v0`.
    pub vcpus: Vec<String>,
}

/// How many records of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Count {
    /// The kind.
    pub name: String,
    /// How many.
    pub records: u64,
}

/// What was lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lost {
    /// Records lost in all.
    pub records: u64,
    /// How often.
    pub times: u64,
    /// Each loss in the order of the file, at most the first 1000.
    pub losses: Vec<Loss>,
}

/// One loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// The pCPU.
    pub pcpu: u16,
    /// Where the file says so.
    pub offset: u64,
    /// Records lost.
    pub records: u64,
    /// Begin, relative to the first time stamp in the file, in microseconds. Negative before it.
    #[serde(rename = "from_seconds", serialize_with = "seconds::us")]
    pub from_us: f64,
    /// End, likewise.
    #[serde(rename = "to_seconds", serialize_with = "seconds::us")]
    pub to_us: f64,
    /// From begin to end, in microseconds.
    #[serde(rename = "span_seconds", serialize_with = "seconds::us")]
    pub span_us: f64,
}

pub(crate) fn counts(all: impl Iterator<Item = (String, u64)>) -> Vec<Count> {
    let mut counts: Vec<Count> = all.map(|(name, records)| Count { name, records }).collect();
    counts.sort_by(|a, b| b.records.cmp(&a.records).then_with(|| a.name.cmp(&b.name)));
    counts
}
