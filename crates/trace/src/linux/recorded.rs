//! What a recording of a Linux host says of itself.

use std::fmt::Write;

use lowtail_out::seconds;
use serde::Serialize;

use super::recording::Facts;
use super::thread::ThreadInfo;
use super::threads::harmless;

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

impl Facts {
    /// In a few lines.
    pub(crate) fn describe(&self, out: &mut String) {
        if let Some(kernel) = &self.kernel {
            let mut told = Vec::new();
            told.extend(kernel.hz.map(|hz| format!("{hz} ticks/s")));
            for (what, ns) in [
                ("base slice", kernel.base_slice_ns),
                ("minimal granularity", kernel.min_granularity_ns),
                ("wake-up granularity", kernel.wakeup_granularity_ns),
                ("latency", kernel.latency_ns),
            ] {
                told.extend(ns.map(|ns| format!("{what} {:.3} ms", ns as f64 / 1e6)));
            }
            if !kernel.preemption.is_empty() {
                told.push(format!("preemption {}", harmless(&kernel.preemption)));
            }
            told.extend(
                kernel.sched_ext.as_ref().map(|ops| format!("sched_ext {}", harmless(ops))),
            );
            let _ = writeln!(out, "sched    {}", told.join(", "));
            let _ = writeln!(out, "online   CPUs {}", kernel.online);
        }
        if !self.threads.is_empty() {
            let (threads, groups) = (self.threads.len(), self.groups.len());
            let _ = writeln!(out, "settings of {threads} threads and {groups} control groups");
        }
    }
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
