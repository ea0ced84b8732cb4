//! Queueing disciplines as scenario files write them.

use lowtail_net::queue::Queue;
use lowtail_net::queue::by_rule::{Bands, ByRule};
use lowtail_net::queue::cake::{Cake, CakeConfig};
use lowtail_net::queue::codel::{Codel, CodelConfig, LIMIT_PACKETS};
use lowtail_net::queue::drr::{Drr, DrrConfig, DrrKey};
use lowtail_net::queue::fifo::{Fifo, FifoLimit};
use lowtail_net::queue::fq_codel::{FqCodel, FqCodelConfig};
use lowtail_net::queue::htb::Htb;
use lowtail_net::queue::oracle::Oracle;
use lowtail_net::queue::prio::Prio;
use lowtail_net::queue::small_first::{SmallFirstQueue, SmallFirstQueueConfig};
use lowtail_net::queue::split::Split;
use lowtail_net::queue::tag::Tag;
use lowtail_net::queue::tbf::Tbf;
use lowtail_policy::{FlowParams, FlowSet, FlowVm, part_of_line};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::KeyError;
use crate::value::{BytesText, DurationText, RateText};

/// A queueing discipline; some hold others.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueFile {
    /// First in, first out.
    Fifo {
        /// So many packets, however long; 1000 (Linux' `txqueuelen`) if nothing is given.
        packets: Option<u32>,
        /// So many bytes.
        bytes: Option<BytesText>,
        /// Packets that find more than this before them are marked (ECN).
        mark: Option<BytesText>,
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
        into: Option<BytesText>,
        /// Where the pieces wait.
        queue: Box<QueueFile>,
    },
    /// Says how urgent each packet is, by what its flow has sent lately, with `paper` its pair of
    /// ends; switches read that.
    Tag {
        /// By which rule.
        #[serde(default)]
        by: RuleFile,
        /// Rate up to which a flow is small. If absent, a twentieth of the rate of a shaper within,
        /// 1 to 10 Mbit/s; 10 Mbit/s without one.
        rate: Option<RateText>,
        /// And how much at once; 30 KB if absent.
        burst: Option<BytesText>,
        /// How much more than a flow may all of a VM's be, together; 10 times if absent, without
        /// end with `paper`. A tenth of the rate of a shaper within if `rate` and `burst` are absent,
        /// too.
        #[schemars(range(min = 1, max = 1000))]
        pairs: Option<u32>,
        /// Where tagged packets wait.
        queue: Box<QueueFile>,
    },
    /// Small packets first. Small ones share by source, then by flow; so do large ones.
    SmallFirst {
        /// Payload of all that may wait.
        limit: Option<BytesText>,
        /// Classes that are small; 2 if absent.
        #[schemars(range(min = 1, max = 16))]
        classes: Option<u8>,
        /// CoDel for each flow; what is absent is as in Linux.
        codel: Option<CodelFile>,
        /// Rate of the narrowest link behind, 1 Mbit/s at least: all leaves at 99 % of it, as `lowtail host apply`
        /// sets up an uplink with this rate. Below 524 Mbit/s long segments are cut into frames. Above, those of VMs stay
        /// whole; TCP of the host itself has none longer than 250 us, which `segment` of its `tcp` says here. A kernel that
        /// plays it has lowtail's own disciplines; then nothing else of this can be given.
        rate: Option<RateText>,
    },
    /// Deficit round robin.
    Drr {
        /// Among what.
        by: KeyFile,
        /// Bytes of all that may wait.
        limit: Option<BytesText>,
    },
    /// A token bucket: no more than a rate, after a burst.
    Tbf {
        /// The rate.
        rate: RateText,
        /// The burst.
        burst: BytesText,
        /// Where packets wait.
        queue: Box<QueueFile>,
    },
    /// CAKE, one tin.
    Cake {
        /// Shapes to this rate.
        rate: Option<RateText>,
        /// Cuts long segments up; true if absent.
        split: Option<bool>,
    },
    /// Knows how much of each message is left: least first. A bound, not a remedy.
    Oracle {
        /// Bytes of all that may wait.
        limit: BytesText,
    },
}

/// By which rule packets are tagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleFile {
    /// Small and large, by the bucket of the pair alone ("Small is Better").
    Paper,
    /// Five bands, with a bucket for each VM on top.
    #[default]
    SmallFirst,
}

/// Among what a discipline shares.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyFile {
    /// Flows.
    Flow,
    /// Pairs of ends.
    Pair,
    /// Senders.
    Source,
}

/// Parameters of CoDel; what is absent is as in Linux.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodelFile {
    /// Sojourn time that is acceptable; 5 ms if absent.
    pub target: Option<DurationText>,
    /// How long it may be exceeded; 100 ms if absent.
    pub interval: Option<DurationText>,
    /// Packets are marked rather than dropped, if they are capable.
    pub ecn: Option<bool>,
}

impl CodelFile {
    pub(super) fn build(&self) -> CodelConfig {
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
pub(crate) const KINDS: &str =
    "fifo, codel, fq-codel, prio, split, tag, small-first, drr, tbf, cake or oracle";

/// Sets of five pairs that a tagger has room for.
const TABLE_SETS: u32 = 1 << 13;
/// Disciplines within one another.
const DEPTH_MAX: u32 = 8;

impl QueueFile {
    /// Makes one, in a network of `ends` ends.
    pub(crate) fn build(&self, ends: u32, seed: u64) -> Box<dyn Queue> {
        match self {
            QueueFile::Fifo { packets, bytes, mark } => {
                let limit = match bytes {
                    Some(bytes) => FifoLimit::Bytes(bytes.0),
                    None => FifoLimit::Packets(packets.unwrap_or(1000) as usize),
                };
                Box::new(Fifo::new(limit, mark.map(|mark| mark.0)))
            }
            QueueFile::Codel(codel) => Box::new(Codel::new(codel.build(), LIMIT_PACKETS)),
            QueueFile::FqCodel(codel) => {
                let config =
                    FqCodelConfig { codel: codel.build(), seed, ..FqCodelConfig::default() };
                Box::new(FqCodel::new(config))
            }
            QueueFile::Prio { bands, queue } => {
                Box::new(Prio::new((0..*bands).map(|_| queue.build(ends, seed)).collect()))
            }
            QueueFile::Split { into, queue } => {
                let into = into.map_or(0, |bytes| bytes.0.min(65_536) as u32);
                Box::new(Split::new(into, queue.build(ends, seed)))
            }
            QueueFile::Tag { queue, .. } => {
                let (params, bands) = self.rule();
                let rule = ByRule::new(params, bands, TABLE_SETS, ends, seed);
                Box::new(Tag::new(rule.expect("checked when it was read"), queue.build(ends, seed)))
            }
            QueueFile::SmallFirst { limit, classes, codel, rate } => {
                let mut config = SmallFirstQueueConfig::default();
                config.codel = Some(codel.unwrap_or_default().build());
                config.limit_bytes = limit.map_or(config.limit_bytes, |limit| limit.0);
                config.small_classes = classes.unwrap_or(config.small_classes);
                let queue = Box::new(SmallFirstQueue::new(config));
                let Some(Uplink { rate, burst_bytes, cuts }) = rate.map(Uplink::of) else {
                    return queue;
                };
                let rate = lowtail_net::Rate::from_bits_per_s(rate);
                let shaped = Box::new(Htb::new(rate, burst_bytes, queue));
                if cuts { Box::new(Split::new(0, shaped)) } else { shaped }
            }
            QueueFile::Drr { by, limit } => {
                let mut config = DrrConfig::new(match by {
                    KeyFile::Flow => DrrKey::Flow,
                    KeyFile::Pair => DrrKey::Pair,
                    KeyFile::Source => DrrKey::Source,
                });
                config.limit_bytes = limit.map_or(config.limit_bytes, |limit| limit.0);
                Box::new(Drr::new(config))
            }
            QueueFile::Tbf { rate, burst, queue } => {
                let rate = lowtail_net::Rate::from_bits_per_s(rate.0);
                Box::new(Tbf::new(rate, burst.0.min(1 << 30) as u32, queue.build(ends, seed)))
            }
            QueueFile::Cake { rate, split } => {
                let rate = rate.map(|rate| lowtail_net::Rate::from_bits_per_s(rate.0));
                let split_gso = split.unwrap_or(true);
                Box::new(Cake::new(CakeConfig { rate, split_gso, seed, ..CakeConfig::default() }))
            }
            QueueFile::Oracle { limit } => Box::new(Oracle::new(limit.0)),
        }
    }

    /// The rate of an uplink whose disciplines are lowtail's, if it is nothing but that.
    pub(super) fn uplink_rate(&self) -> Option<u64> {
        match self {
            QueueFile::SmallFirst { limit: None, classes: None, codel: None, rate } => {
                rate.map(|rate| rate.0)
            }
            _ => None,
        }
    }

    /// The rate of the first shaper in it, bit/s.
    fn shaped(&self) -> Option<u64> {
        match self {
            QueueFile::Tbf { rate, .. } => Some(rate.0),
            QueueFile::Cake { rate, .. } | QueueFile::SmallFirst { rate, .. } => {
                rate.map(|rate| rate.0)
            }
            _ => self.inner().and_then(QueueFile::shaped),
        }
    }

    /// The rule of a tagger.
    pub(super) fn rule(&self) -> (FlowParams, Bands) {
        let QueueFile::Tag { by, rate, burst, pairs, .. } = self else {
            return (FlowParams::default(), Bands::Two);
        };
        let paper = *by == RuleFile::Paper;
        let mut params = match self.shaped() {
            Some(rate) if !paper => FlowParams::of_uplink(rate),
            _ => FlowParams::default(),
        };
        if let Some(rate) = rate {
            params.rate = part_of_line(rate.0);
        }
        if let Some(burst) = burst {
            params.burst_ns = (burst.0.min(1 << 26) * 8) as u32;
        }
        let bands = if paper { Bands::Two } else { Bands::All };
        let given = rate.is_some() || burst.is_some() || pairs.is_some();
        if paper || given {
            let times = pairs.unwrap_or(if paper { u32::MAX } else { 10 });
            params.vm_rate = params.rate.saturating_mul(times).min(lowtail_policy::RATE_MAX);
            params.vm_burst_ns = params.burst_ns.saturating_mul(times).min(1 << 30);
        }
        (params, bands)
    }

    /// About how many bytes one takes before the first packet, in a network of `ends` ends.
    pub(crate) fn bytes(&self, ends: u64) -> u64 {
        let own = match self {
            // Tables of 1024 flows or pairs, and lists of them.
            QueueFile::FqCodel(_) | QueueFile::Cake { .. } => 96 << 10,
            QueueFile::Drr { .. } => 160 << 10,
            QueueFile::SmallFirst { .. } => 288 << 10,
            QueueFile::Tag { .. } => {
                let (set, end) = (size_of::<FlowSet>() as u64, size_of::<FlowVm>() as u64);
                u64::from(TABLE_SETS) * set + ends * end
            }
            _ => 512,
        };
        let times = if let QueueFile::Prio { bands, .. } = self { u64::from(*bands) } else { 1 };
        let inner = self.inner().map_or(0, |queue| queue.bytes(ends));
        inner.saturating_mul(times).saturating_add(own)
    }

    /// Refuses what makes no sense.
    pub(crate) fn check(&self, depth: u32) -> Result<(), KeyError> {
        if depth > DEPTH_MAX {
            return Err(KeyError::new("queue", format!("at most {DEPTH_MAX} within one another")));
        }
        match self {
            QueueFile::Fifo { packets: Some(_), bytes: Some(_), .. } => {
                Err(KeyError::new("bytes", "a limit of packets or of bytes, not both"))
            }
            QueueFile::SmallFirst { rate: Some(rate), .. }
                if !(1_000_000..=400_000_000_000).contains(&rate.0) =>
            {
                Err(KeyError::new("rate", "1 Mbit/s to 400 Gbit/s"))
            }
            QueueFile::Fifo { packets: Some(0), .. } => {
                Err(KeyError::new("packets", "no room: at least 1"))
            }
            QueueFile::Prio { bands, .. } if !(1..=16).contains(bands) => {
                Err(KeyError::new("bands", format!("{bands}: 1 to 16")))
            }
            QueueFile::Tag { .. } => {
                let (params, _) = self.rule();
                params.check().map_err(|message| KeyError::new("rate", message))?;
                self.check_inner(depth)
            }
            _ => self.check_inner(depth),
        }
    }

    fn check_inner(&self, depth: u32) -> Result<(), KeyError> {
        self.inner()
            .map_or(Ok(()), |queue| queue.check(depth + 1).map_err(|bad| bad.under(&["queue"])))
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
            QueueFile::Tag { by: RuleFile::Paper, .. } => "small and large tagged",
            QueueFile::Tag { .. } => "five bands tagged",
            QueueFile::SmallFirst { .. } => "small-first",
            QueueFile::Drr { .. } => "drr",
            QueueFile::Tbf { .. } => "tbf",
            QueueFile::Cake { .. } => "cake",
            QueueFile::Oracle { .. } => "oracle",
        };
        match self.inner() {
            Some(inner) => format!("{own}, {}", inner.describe()),
            None => own.to_string(),
        }
    }

    /// The discipline that this one holds.
    pub(crate) fn inner(&self) -> Option<&QueueFile> {
        match self {
            QueueFile::Prio { queue, .. }
            | QueueFile::Split { queue, .. }
            | QueueFile::Tag { queue, .. }
            | QueueFile::Tbf { queue, .. } => Some(queue),
            _ => None,
        }
    }

    /// The payload of the pieces into which segments are cut up, if they are.
    pub(crate) fn pieces(&self) -> Option<u16> {
        match self {
            QueueFile::Split { into, .. } => {
                Some(into.map_or(1448, |bytes| bytes.0.clamp(1448, 65_483) as u16))
            }
            QueueFile::SmallFirst { rate: Some(rate), .. } => {
                Uplink::of(*rate).cuts.then_some(1448)
            }
            _ => self.inner().and_then(QueueFile::pieces),
        }
    }
}

/// What `lowtail host apply` sets up for an uplink with a rate (`tc::Choice` of crates/kernel, which has the reasons).
struct Uplink {
    /// Bits per second that leave.
    rate: u64,
    /// What may leave at once: 1 ms, and two frames at least.
    burst_bytes: u32,
    /// Long segments are cut into frames: where one takes longer than a burst.
    cuts: bool,
}

impl Uplink {
    fn of(rate: RateText) -> Self {
        let rate = rate.0 / 100 * 99;
        let burst = (u128::from(rate) / 8_000) as u64;
        Uplink { rate, burst_bytes: burst.clamp(2 * 1514, 1 << 30) as u32, cuts: burst < 65_536 }
    }
}
