//! A host's events, one after the other in order of time, for others than this crate's analyses. Those of Xen are told as a Linux host's.

use std::io::Read;

use crate::cores::CpuPlace;
use crate::error::Error;
pub use crate::linux::event::{Context, Event, IDLE, Left, UNKNOWN, What};
use crate::linux::recording::Facts;
use crate::linux::{Feed, ThreadInfo, Threads};
use crate::options::Options;
use crate::source::{self, Format};
use crate::xen_events;

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
    /// It is a host of Xen, under this scheduler.
    pub xen: Option<XenScheduler>,
    threads: Threads,
}

/// Which of Xen's schedulers decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XenScheduler {
    /// credit.
    Credit,
    /// credit2.
    Credit2,
    /// The trace has no record of a scheduler's own, or of another one.
    Unknown,
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

/// Calls `each` with each event of a recording, in order of time. Of one of Xen, each domain is a VM, called `d1` and so on, and each vCPU a
/// thread of it.
///
/// # Errors
/// If the input cannot be read or is not a whole, well-formed recording, and what `each` returns.
pub fn events<R: Read>(
    input: R,
    options: &Options,
    mut each: impl FnMut(&Event, Names<'_>) -> Result<(), Error>,
) -> Result<RecordedHost, Error> {
    let (format, input) = source::open(input, options)?;
    let Format::Linux(format) = format else { return xen_events::events(input, options, each) };
    let mut feed = Feed::new(format, input, options)?;
    let mut host = RecordedHost::default();
    while let Some(event) = feed.next_event()? {
        host.cpus = host.cpus.max(event.cpu.saturating_add(1));
        each(&event, Names(feed.file().threads()))?;
    }
    host.span_ns = feed.span().unwrap_or_default();
    host.lost = feed.problems().lost;
    let file = feed.file();
    host.places = file.places().to_vec();
    host.facts = file.facts().cloned().unwrap_or_default();
    host.vms = file.threads().vms().into_iter().map(|(name, _)| name).collect();
    host.threads = file.threads().clone();
    host.kernel = file.kernel().map(str::to_owned);
    Ok(host)
}
