//! The tables `[end]` and `[traffic]`.

use lowtail_engine::Duration;
use lowtail_net::traffic::{Pattern, TrafficConfig};
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

/// Traffic of a kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficFile {
    /// Who sends, or asks: names of VMs, ends or hosts; `all` are all ends.
    pub from: NamesFile,
    /// Who receives, or is asked.
    pub to: NamesFile,
    /// Who of them with whom.
    #[serde(default)]
    pub pairs: PairsFile,
    /// How many conversations each pair has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024))]
    pub count: u32,
    /// What is sent, and when.
    pub pattern: PatternFile,
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

impl TrafficFile {
    /// The traffic called `name` between `pairs`, over links of this rate.
    pub(crate) fn build(
        &self,
        name: &str,
        pairs: Vec<(lowtail_net::End, lowtail_net::End)>,
        rate: RateText,
    ) -> Result<TrafficConfig, KeyError> {
        let pattern = self.pattern.build(rate).map_err(|bad| bad.under(&["pattern"]))?;
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
            count: self.measure.unwrap_or(0),
            bins: self.bins.iter().map(|bytes| bytes.0).collect(),
            reveal: self.reveal,
            ..TrafficConfig::new(name, pairs, pattern)
        })
    }
}
