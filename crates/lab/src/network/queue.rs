//! Queueing disciplines as scenario files write them.

use lowtail_net::queue::Queue;
use lowtail_net::queue::codel::{Codel, CodelConfig};
use lowtail_net::queue::fifo::{Fifo, Limit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::split::Split;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::Bad;
use crate::value::{Bytes, Span};

/// A queueing discipline; some hold others.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueFile {
    /// First in, first out.
    Fifo {
        /// So many packets, however long; 1000 (Linux' `txqueuelen`) if nothing is given.
        packets: Option<u32>,
        /// So many bytes.
        bytes: Option<Bytes>,
        /// Packets that find more than this before them are marked (ECN).
        mark: Option<Bytes>,
    },
    /// CoDel.
    Codel(CodelFile),
    /// A queue with CoDel for each flow.
    FqCodel(CodelFile),
    /// Bands by class, the first one first.
    Prio {
        /// How many.
        #[schemars(range(min = 1, max = 16))]
        bands: u8,
        /// What each of them is.
        queue: Box<QueueFile>,
    },
    /// Cuts long segments up before they wait.
    Split {
        /// Payload of a piece; single frames if absent.
        into: Option<Bytes>,
        /// Where the pieces wait.
        queue: Box<QueueFile>,
    },
}

/// Parameters of CoDel; what is absent is as in Linux.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelFile {
    /// Sojourn time that is acceptable; 5 ms if absent.
    pub target: Option<Span>,
    /// How long it may be exceeded; 100 ms if absent.
    pub interval: Option<Span>,
    /// Packets are marked rather than dropped, if they are capable.
    pub ecn: Option<bool>,
}

impl CodelFile {
    fn build(&self) -> CodelConfig {
        let default = CodelConfig::default();
        CodelConfig {
            target: self.target.map_or(default.target, |span| span.0),
            interval: self.interval.map_or(default.interval, |span| span.0),
            ecn: self.ecn.unwrap_or(default.ecn),
            ..default
        }
    }
}

/// What there is, for errors.
pub(crate) const KINDS: &str = "fifo, codel, fq-codel, prio or split";

/// Disciplines within one another.
const DEPTH_MAX: u32 = 8;

impl QueueFile {
    /// Makes one.
    pub(crate) fn build(&self, seed: u64) -> Box<dyn Queue> {
        match self {
            QueueFile::Fifo { packets, bytes, mark } => {
                let limit = match bytes {
                    Some(bytes) => Limit::Bytes(bytes.0),
                    None => Limit::Packets(packets.unwrap_or(1000) as usize),
                };
                Box::new(Fifo::new(limit, mark.map(|mark| mark.0)))
            }
            QueueFile::Codel(codel) => Box::new(Codel::new(codel.build(), 1000)),
            QueueFile::FqCodel(codel) => {
                let config =
                    FqCodelConfig { codel: codel.build(), seed, ..FqCodelConfig::default() };
                Box::new(FqCodel::new(config))
            }
            QueueFile::Prio { bands, queue } => {
                Box::new(Prio::new((0..*bands).map(|_| queue.build(seed)).collect()))
            }
            QueueFile::Split { into, queue } => Box::new(Split::new(
                into.map_or(0, |bytes| bytes.0.min(65_536) as u32),
                queue.build(seed),
            )),
        }
    }

    /// Refuses what makes no sense.
    pub(crate) fn check(&self, depth: u32) -> Result<(), Bad> {
        if depth > DEPTH_MAX {
            return Err(Bad::new("queue", format!("at most {DEPTH_MAX} within one another")));
        }
        match self {
            QueueFile::Fifo { packets: Some(_), bytes: Some(_), .. } => {
                Err(Bad::new("bytes", "a limit of packets or of bytes, not both"))
            }
            QueueFile::Fifo { packets: Some(0), .. } => {
                Err(Bad::new("packets", "no room: at least 1"))
            }
            QueueFile::Prio { bands, .. } if !(1..=16).contains(bands) => {
                Err(Bad::new("bands", format!("{bands}: 1 to 16")))
            }
            QueueFile::Prio { queue, .. } | QueueFile::Split { queue, .. } => {
                queue.check(depth + 1).map_err(|bad| bad.under(&["queue"]))
            }
            _ => Ok(()),
        }
    }

    /// In a word or two, the outermost first.
    pub(crate) fn describe(&self) -> String {
        let own = match self {
            QueueFile::Fifo { .. } => "fifo",
            QueueFile::Codel(_) => "codel",
            QueueFile::FqCodel(_) => "fq-codel",
            QueueFile::Prio { bands, .. } => {
                return format!(
                    "{bands} bands of {}",
                    self.inner().map_or(String::new(), QueueFile::describe)
                );
            }
            QueueFile::Split { .. } => "split",
        };
        match self.inner() {
            Some(inner) => format!("{own}, {}", inner.describe()),
            None => own.to_string(),
        }
    }

    /// The discipline that this one holds.
    pub(crate) fn inner(&self) -> Option<&QueueFile> {
        match self {
            QueueFile::Prio { queue, .. } | QueueFile::Split { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// The payload of the pieces into which segments are cut up, if they are.
    pub(crate) fn pieces(&self) -> Option<u16> {
        match self {
            QueueFile::Split { into, .. } => {
                Some(into.map_or(1448, |bytes| bytes.0.clamp(1448, 65_483) as u16))
            }
            _ => self.inner().and_then(QueueFile::pieces),
        }
    }
}
