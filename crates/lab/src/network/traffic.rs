//! The tables `[end]` and `[traffic]`.

use lowtail_engine::Duration;
use lowtail_net::traffic::{Connection, ListedFlow, Pattern, TrafficConfig};
use schemars::JsonSchema;
use serde::Deserialize;

use super::pattern::PatternFile;
use super::tcp::TcpFile;
use crate::error::KeyError;
use crate::limits::BINS_MAX;
use crate::value::{BytesText, DurationText, RateText};

/// An end of the network whose processors are not simulated: a host, or a VM on one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndFile {
    /// The host.
    pub on: String,
}

/// One name or several.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a name, or a list of names")]
pub enum NamesFile {
    /// One.
    One(String),
    /// Several.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

impl NamesFile {
    pub(crate) fn list(&self) -> &[String] {
        match self {
            NamesFile::One(name) => std::slice::from_ref(name),
            NamesFile::Several(names) => names,
        }
    }
}

/// Who talks with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PairsFile {
    /// Each of `from` with the one at the same place of `to`, round and round.
    #[default]
    InTurn,
    /// Each of `from` with each of `to`, but not with itself.
    All,
    /// Each of `from` with another one of them, at random: who receives, receives from one.
    Permutation,
}

/// How long a TCP connection lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionFile {
    /// It has been open since before the run.
    Open,
    /// A handshake opens it when it is first written to.
    New,
    /// A handshake opens it for a message, or a request, and it is closed after that.
    PerMessage,
}

/// Traffic of a kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficFile {
    /// Who sends, or asks: names of VMs, ends or hosts; `all` are all ends.
    pub from: Option<NamesFile>,
    /// Who receives, or is asked.
    pub to: Option<NamesFile>,
    /// In place of `from`, `to` and `pattern`: a file of transfers, as CSV with the columns `start_us`, `source`,
    /// `destination`, `bytes` and perhaps `ecmp_hash`. Each goes over a TCP connection of its own.
    pub flows: Option<String>,
    /// Who of them with whom.
    #[serde(default)]
    pub pairs: PairsFile,
    /// How many conversations each pair has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub count: u32,
    /// What is sent, and when.
    pub pattern: Option<PatternFile>,
    /// How long its TCP connections live: if absent `new` for `bulk` and `transfer`, `open` for messages and requests.
    pub connection: Option<ConnectionFile>,
    /// How its TCP goes about things.
    #[serde(default)]
    pub tcp: TcpFile,
    /// When it begins.
    #[serde(default)]
    pub start: Option<DurationText>,
    /// After this nothing is begun any more.
    pub until: Option<DurationText>,
    /// What comes before this is not measured.
    #[serde(default)]
    pub warmup: Option<DurationText>,
    /// So many are measured; until the time is over if absent.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub measure: Option<u64>,
    /// Messages are measured by size, too: those up to each of these, and the rest.
    #[serde(default)]
    pub bins: Vec<BytesText>,
    /// Queues that know all (`oracle`) may look at how much of a message is left.
    #[serde(default)]
    pub reveal: bool,
}

fn one() -> u32 {
    1
}

/// Who sends, as the table says.
pub(super) enum Senders<'f> {
    /// These, to those.
    Named { from: &'f NamesFile, to: &'f NamesFile },
    /// Those in this file.
    Listed(&'f str),
}

impl TrafficFile {
    /// Who sends.
    ///
    /// # Errors
    /// If something is missing, or too much.
    pub(super) fn senders(&self) -> Result<Senders<'_>, KeyError> {
        if let Some(file) = &self.flows {
            let others = [
                ("from", self.from.is_some()),
                ("to", self.to.is_some()),
                ("pattern", self.pattern.is_some()),
                ("connection", self.connection.is_some()),
                ("count", self.count != 1),
            ];
            return match others.into_iter().find(|(_, there)| *there) {
                Some((key, _)) => Err(KeyError::new(key, "`flows` says who sends what")),
                None => Ok(Senders::Listed(file)),
            };
        }
        let missing = match (&self.from, &self.to, &self.pattern) {
            (Some(from), Some(to), Some(_)) => return Ok(Senders::Named { from, to }),
            (None, ..) => "from",
            (_, None, _) => "to",
            _ => "pattern",
        };
        let message =
            format!("`{missing}` is missing: give `from`, `to` and `pattern`, or `flows`");
        Err(KeyError::new(missing, message))
    }

    /// The traffic called `name` between `pairs`, over links of this rate, or the transfers of `flows`.
    pub(crate) fn build(
        &self,
        name: &str,
        pairs: Vec<(lowtail_net::End, lowtail_net::End)>,
        flows: Vec<ListedFlow>,
        rate: RateText,
    ) -> Result<TrafficConfig, KeyError> {
        let pattern = match &self.pattern {
            Some(pattern) => pattern.build(rate).map_err(|bad| bad.under(&["pattern"]))?,
            None => Pattern::Listed,
        };
        let connection = match (self.connection, pattern) {
            (Some(ConnectionFile::Open), _) => Connection::Open,
            (Some(ConnectionFile::New), _) | (None, Pattern::Bulk | Pattern::Transfer { .. }) => {
                Connection::New
            }
            (Some(ConnectionFile::PerMessage), _) => Connection::PerMessage,
            (None, _) => Connection::Open,
        };
        if connection == Connection::PerMessage
            && !matches!(pattern, Pattern::Messages { .. } | Pattern::Requests { .. })
        {
            let message = "`per-message` is for messages and requests";
            return Err(KeyError::new("connection", message));
        }
        let gap = match pattern {
            Pattern::Messages { gap, .. } | Pattern::Datagrams { gap, .. } => Some(gap),
            Pattern::Requests { gap, closed: false, .. }
            | Pattern::Ping { gap, closed: false, .. } => Some(gap),
            _ => None,
        };
        if gap.is_some_and(|gap| gap.mean() < Duration::from_ns(100)) {
            let message = "no gap between one and the next: at least 100ns on average";
            return Err(KeyError::new("gap", message).under(&["pattern"]));
        }
        if self.bins.len() > BINS_MAX {
            return Err(KeyError::new(
                "bins",
                format!("{} sizes: at most {BINS_MAX}", self.bins.len()),
            ));
        }
        if !self.bins.is_sorted_by(|a, b| a < b) {
            return Err(KeyError::new("bins", "sizes in ascending order"));
        }
        let span =
            |span: Option<DurationText>, default| span.map_or(default, |span: DurationText| span.0);
        Ok(TrafficConfig {
            tcp: self.tcp.build(),
            start: span(self.start, Duration::ZERO),
            until: span(self.until, Duration::MAX),
            warmup: span(self.warmup, Duration::ZERO),
            // A list is over when all of it is.
            count: self.measure.unwrap_or(flows.len() as u64),
            flows,
            connection,
            bins: self.bins.iter().map(|bytes| bytes.0).collect(),
            reveal: self.reveal,
            ..TrafficConfig::new(name, pairs, pattern)
        })
    }
}
