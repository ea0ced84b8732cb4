//! What a recording says of its host, and of its threads.

use crate::cores::CpuPlace;
use crate::linux::recording::Facts;
use crate::linux::{ThreadInfo, Threads};
use crate::xen_settings::XenSettings;

/// What threads are called, as far as the file has said up to now.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(&'a Threads);

impl<'a> Names<'a> {
    pub(crate) fn new(threads: &'a Threads) -> Self {
        Names(threads)
    }

    /// All that is known of a thread.
    pub fn thread(&self, tid: u32) -> ThreadInfo {
        self.0.thread(tid)
    }

    /// Its name in tables, such as `web vcpu0` or `make[123]`. It holds nothing that a terminal would obey.
    pub fn name(&self, tid: u32) -> String {
        self.0.label(tid).name
    }
}

/// What a recording says of its host.
#[derive(Clone, Debug, Default)]
pub struct RecordedHost {
    /// The kernel's release, if the file has it.
    pub kernel: Option<String>,
    /// When the recording begins and ends, in nanoseconds of its clock.
    pub span_ns: (u64, u64),
    /// CPUs that have events: one more than the highest number.
    pub cpus: u16,
    /// Where the CPUs are, if the file says.
    pub places: Vec<CpuPlace>,
    /// How the host schedules, if the file says.
    pub facts: Facts,
    /// Names of its VMs, in the order of the file.
    pub vms: Vec<String>,
    /// Events that the recorder has lost.
    pub lost: u64,
    /// It is a host of Xen, whose scheduler was set so.
    pub xen: Option<XenSettings>,
    threads: Threads,
}

impl RecordedHost {
    pub(crate) fn with_threads(self, threads: Threads) -> Self {
        RecordedHost { threads, ..self }
    }

    /// What threads are called at the end.
    pub fn names(&self) -> Names<'_> {
        Names(&self.threads)
    }
}
