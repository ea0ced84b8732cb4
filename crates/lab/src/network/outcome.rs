//! What is seen of a network in a run: its outline, frames of links, and what waits in queues.

use lowtail_engine::{Duration, Time};
use lowtail_net::Shape;

/// The frames of some links of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// In pcapng.
    pub file: Vec<u8>,
    /// Names of the links.
    pub links: Vec<String>,
    /// How many frames are in it.
    pub frames: u64,
    /// How many later ones there was no room for.
    pub more: u64,
}

/// What has waited at a port of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTrack {
    /// The name of its link, and which of its queues, if it has two.
    pub name: String,
    /// From when on how many bytes, in order of time.
    pub samples: Vec<(Time, u64)>,
    /// Earlier samples that had to make room.
    pub cut: u64,
}

/// A transfer of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The traffic whose list it is.
    pub traffic: String,
    /// When it began.
    pub start: Duration,
    /// Who sent.
    pub source: String,
    /// Who received.
    pub destination: String,
    /// How much.
    pub bytes: u64,
    /// How long it took; it was not complete at the end of the run if that is missing.
    pub took: Option<Duration>,
}

/// What a network looks like, and who has sent to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkOutcome {
    /// Its shape.
    pub shape: Shape,
    /// Names of the hosts; none if there are many.
    pub machines: Vec<String>,
    /// The rate of links to hosts, in words; and of those between switches.
    pub link: String,
    /// See `link`.
    pub fabric: String,
    /// Payload delivered.
    pub matrix: Matrix,
}

impl NetworkOutcome {
    /// Whether it has the same hosts, switches and rates.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        let own = (self.shape, &self.machines, &self.link, &self.fabric);
        own == (other.shape, &other.machines, &other.link, &other.fabric)
    }
}

/// Payload delivered from host to host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Matrix {
    /// Rows, and columns.
    pub side: u32,
    /// Hosts that one of them stands for.
    pub per: u32,
    /// From, to, and Mbit/s, of those between which anything was.
    pub cells: Vec<(u32, u32, f64)>,
}
