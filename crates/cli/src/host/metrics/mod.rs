//! `lowtail host observe --prometheus`: what was observed since the start, in OpenMetrics.
//!
//! The observer adds intervals to its totals, which nobody else has, and publishes a copy. Whoever serves takes the
//! newest copy: neither waits for the other. How many series there are is bounded (`totals`, `blame`), whatever
//! tenants start and however they call it.

mod blame;
mod delays;
mod encode;
mod label;
#[cfg(test)]
mod openmetrics;
#[cfg(test)]
mod tests;
mod totals;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use lowtail_observe::{Finding, Snapshot};
use lowtail_serve::{Limits, Site, Source};

use self::totals::{Told, Totals};
use crate::out;

/// Collects intervals and serves their totals.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    totals: Totals,
    published: Published,
}

/// What was published last, and how often something was.
#[derive(Clone, Debug, Default)]
struct Published(Arc<Mutex<(u64, Arc<Told>)>>);

impl Metrics {
    /// With series for each thread, too, or only for each VM.
    pub(crate) fn new(per_thread: bool) -> Self {
        Metrics { totals: Totals::new(per_thread), published: Published::default() }
    }

    /// Serves `GET /metrics` on `address` for as long as the process lives.
    pub(crate) fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        let bound = listener.local_addr()?;
        let site = Site {
            path: "/metrics",
            content_type: encode::CONTENT_TYPE,
            source: Box::new(self.published.clone()),
        };
        lowtail_serve::serve(listener, site, Limits::default(), |text| {
            out::note(&format!("--prometheus: {text}"));
        })?;
        Ok(bound)
    }

    /// Adds an interval. A VM that has ended is told once more, and then no longer.
    pub(crate) fn add(&mut self, snapshot: &Snapshot, findings: &[Finding]) {
        self.totals.add(snapshot, findings);
        let told = Arc::new(self.totals.told());
        let mut published = self.published.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = published.0 + 1;
        let old = std::mem::replace(&mut *published, (next, told));
        // The last copy of the old one may end here: not while others wait.
        drop(published);
        drop(old);
    }
}

impl Published {
    fn newest(&self) -> (u64, Arc<Told>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Source for Published {
    fn version(&self) -> u64 {
        self.newest().0
    }

    fn text(&self) -> Result<String, String> {
        encode::text(self.newest().1).map_err(|error| format!("OpenMetrics: {error}"))
    }
}
