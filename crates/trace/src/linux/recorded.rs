//! What a recording of a Linux host says of itself.

use lowtail_out::seconds;
use serde::Serialize;

use super::recording::Facts;
use super::thread::ThreadInfo;

/// What a recording of a Linux host says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// The program that wrote the file.
    pub by: &'static str,
    /// The kernel's release, if the file has it.
    pub kernel: Option<String>,
    /// When it began by the host's clock of day, in milliseconds since 1970 (UTC), if the file has it.
    #[serde(rename = "begin_timestamp_seconds", serialize_with = "seconds::some_ms")]
    pub begin_unix_ms: Option<u64>,
    /// The VMs, as far as they were known.
    pub vms: Vec<VmInfo>,
    /// How many threads have a name.
    pub threads: usize,
    /// Waits for whose sake the recording was kept.
    pub triggers: Vec<Trigger>,
    /// Names of threads that were lost.
    pub lost_names: u64,
    /// How the host schedules: what its kernel, control groups and threads are set to.
    #[serde(rename = "scheduling")]
    pub facts: Facts,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmInfo {
    /// Its name, as its owner has chosen it: not to be trusted.
    pub name: String,
    /// The software that runs it, such as `libvirt`.
    #[serde(rename = "kind")]
    pub runs: Option<String>,
    /// Its threads.
    pub threads: Vec<ThreadInfo>,
}

/// A wait for whose sake a recording was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Trigger {
    /// When it ended.
    #[serde(rename = "at_seconds", serialize_with = "seconds::ns")]
    pub at_ns: u64,
    /// How long it was.
    #[serde(rename = "delay_seconds", serialize_with = "seconds::ns")]
    pub delay_ns: u64,
    /// The thread that waited.
    pub tid: u32,
    /// On which CPU it then ran.
    pub cpu: u32,
}
