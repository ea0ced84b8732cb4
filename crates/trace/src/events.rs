//! A host's events, one after the other in order of time, for others than this crate's analyses. Those of Xen are told as a Linux host's.

use std::io::Read;

use crate::error::Error;
use crate::linux::Feed;
pub use crate::linux::event::{Context, Event, IDLE, Left, UNKNOWN, What};
use crate::options::Options;
pub use crate::recorded_host::{Names, RecordedHost};
use crate::source::{self, Format};
use crate::xen_events;
pub use crate::xen_settings::{RateLimit, XenScheduler, XenSettings, XenShare};

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
        each(&event, Names::new(feed.file().threads()))?;
    }
    host.span_ns = feed.span().unwrap_or_default();
    host.lost = feed.problems().lost;
    let file = feed.file();
    host.places = file.places().to_vec();
    host.facts = file.facts().cloned().unwrap_or_default();
    host.vms = file.threads().vms().into_iter().map(|(name, _)| name).collect();
    host.kernel = file.kernel().map(str::to_owned);
    Ok(host.with_threads(file.threads().clone()))
}
