//! Schedules recorded on real hosts: which vCPU waited for which, and why.
//!
//! Reads what Xen's `xentrace` writes (the record format since 2013, little-endian), what
//! `lowtail host record` does ([`recording`]), and perf's `perf.data` with scheduling tracepoints,
//! told by their first bytes, from any [`Read`], however long, in bounded memory:
//!
//! * [`info()`]: what is in the trace;
//! * [`latency()`]: per vCPU, how long it waited and ran, and which vCPUs ran while it waited;
//! * [`export_perfetto`]: the schedule for the Perfetto UI.
//!
//! The input is untrusted: whatever it is, the answer is a result or an [`Error`] with the byte
//! offset, never a panic. Input need not be buffered. For a progress bar, wrap the reader.
//!
//! The way through: [`reader`] (framing) → `merge` (one order in time) → `xen` → `schedule` (run
//! states) and `credit2` (decisions) → `latency`, with `blame` and `stats`, or `export`, with
//! [`perfetto`]. For Linux: `linux::recording` or `linux::perf` → `linux::feed` → `schedule`. What has
//! one order in time is `order`'s for both; `source` tells the formats apart.
//!
//! ```
//! let capture = std::fs::File::open("data/credit2-4.20-ratelimit1000.bin").unwrap();
//! let latency = lowtail_trace::latency(capture, &Default::default()).unwrap();
//! let server = latency.vcpus.iter().find(|vcpu| vcpu.vcpu == "d1v0").unwrap();
//! // The small server waits ten milliseconds for a rate limit of one, behind the CPU loop.
//! assert!(server.wakeup_latency.p50.unwrap() > 9_900.0);
//! assert_eq!(server.blame[0].vcpu, "d2v0");
//! ```
#![warn(missing_docs)]

mod blame;
mod clock;
mod contents;
mod cores;
mod credit;
mod credit2;
mod error;
pub mod events;
mod export;
mod info;
mod latency;
mod linux;
mod merge;
pub mod names;
mod options;
mod order;
pub mod perfetto;
mod problems;
mod queues;
pub mod reader;
pub mod record;
mod recorded_host;
mod schedule;
mod source;
mod stats;
mod stretches;
mod table;
mod tables;
mod vcpu;
mod xen;
mod xen_events;
mod xen_settings;

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use lowtail_out::{Access, Output};

pub use blame::{LOG_STRETCHES_MAX, Reason};
pub use clock::{CPU_HZ_ASSUMED, CpuHz, CpuHzSource};
pub use contents::{Count, DomainInfo, Info, Loss, Lost, PcpuInfo};
pub use cores::CpuPlace;
pub use error::Error;
pub use export::Exported;
pub use latency::{Blame, Excluded, Latency, Paused, PcpuUse, SmtSibling, VcpuLatency};
pub use linux::{
    Context, Layout, Recorded, Role, THREADS_MAX, ThreadInfo, Trigger, VmInfo, recording,
};
pub use merge::QUEUE_RECORDS_MAX;
pub use options::{Options, Races};
pub use problems::RecordProblems;
pub use queues::{
    AheadInterval, QueueBlame, QueueInterval, Sender, SenderBytes, UplinkBytes, UplinkQueues,
};
pub use stats::{Distribution, SAMPLES_FAIR, SAMPLES_MAX, SAMPLES_TOTAL_MAX};
pub use stretches::{Ahead, Stretch, Stretched};
pub use vcpu::VCPUS_MAX;

/// Tells what is in a trace.
///
/// # Errors
/// If the input cannot be read or is not a whole, well-formed trace; see [`Error`].
pub fn info<R: Read>(input: R, options: &Options) -> Result<Info, Error> {
    info::info(input, options)
}

/// Tells how long each vCPU waited and ran, and which vCPUs ran while it waited.
///
/// Memory is bounded whatever the input, see [`QUEUE_RECORDS_MAX`], [`SAMPLES_TOTAL_MAX`],
/// [`VCPUS_MAX`] and [`LOG_STRETCHES_MAX`].
///
/// # Errors
/// As [`info()`].
pub fn latency<R: Read>(input: R, options: &Options) -> Result<Latency, Error> {
    latency::latency(input, options)
}

/// Tells of each wait and each run of a vCPU when it has ended, in ticks of the time stamp counter. Of a Xen's records; what is of a Linux host is
/// told by [`events`].
///
/// # Errors
/// As [`info()`].
pub fn stretches<R: Read>(
    input: R,
    options: &Options,
    each: impl FnMut(Stretch),
) -> Result<Stretched, Error> {
    stretches::stretches(input, options, each)
}

/// Finds out how fast the trace's counter ran, reading all of it.
///
/// # Errors
/// As [`info()`].
pub fn measure_cpu_hz<R: Read>(input: R) -> Result<CpuHz, Error> {
    info::measure_cpu_hz(input)
}

/// Writes the schedule as a Perfetto trace and gives `output` back.
///
/// It reads once, so that it cannot measure the clock: without [`Options::cpu_hz`] it assumes.
/// See [`export_perfetto_file`], which reads twice.
///
/// # Errors
/// As [`info()`], and if writing fails.
pub fn export_perfetto<R: Read, W: Write>(
    input: R,
    output: W,
    title: &str,
    options: &Options,
) -> Result<(Exported, W), Error> {
    export::export_perfetto(input, output, title, options)
}

/// Writes the schedule in one file as a Perfetto trace into another, an [`Output`]: it appears only when it
/// is complete. Without [`Options::cpu_hz`] the input is read once more, to measure the clock.
///
/// # Errors
/// As [`export_perfetto`].
pub fn export_perfetto_file(
    input: &Path,
    output: &Path,
    title: &str,
    options: &Options,
) -> Result<Exported, Error> {
    let open = || File::open(input).map_err(|source| Error::Read { offset: 0, source });
    let measured = match options.cpu_hz {
        Some(hz) => CpuHz { hz, source: CpuHzSource::Given },
        None => measure_cpu_hz(open()?)?,
    };
    let cpu_hz = Some(measured.hz).filter(|_| measured.source != CpuHzSource::Nanoseconds);
    let options = Options { cpu_hz, ..options.clone() };
    let part = Output::create(output, Access::Usual)?;
    let (mut exported, part) = export_perfetto(open()?, part, title, &options)?;
    exported.cpu_hz_source = measured.source;
    part.commit()?;
    Ok(exported)
}
