//! The table `pattern` of traffic: what is sent, and when.

use lowtail_engine::Duration;
use lowtail_net::traffic::{Pattern, Size};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::KeyError;
use crate::value::{BytesText, DistributionText, DurationText, RateText};

/// What is sent, and when.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PatternFile {
    /// A TCP stream without an end.
    Bulk {},
    /// So many bytes over TCP, once.
    Transfer {
        /// Bytes.
        bytes: BytesText,
    },
    /// Messages on open TCP connections, measured from the write to the last byte's arrival.
    Messages {
        /// Their size.
        bytes: SizeFile,
        /// From one to the next.
        gap: Option<DistributionText>,
        /// In place of `gap`: the share of its link that each sender fills, at random moments.
        #[schemars(range(min = 0.001, max = 2.0))]
        load: Option<f64>,
        /// Each message of a sender goes to another receiver, at random; else each pair has
        /// messages of its own.
        #[serde(default)]
        anywhere: bool,
    },
    /// Requests and replies on open TCP connections, measured where they begin.
    Requests {
        /// Bytes of a request.
        #[serde(default = "hundred")]
        request: BytesText,
        /// Bytes of a reply.
        reply: SizeFile,
        /// From one request to the next; with `closed`, from a reply to the next request.
        gap: DistributionText,
        /// The next request waits for the reply.
        #[serde(default)]
        closed: bool,
        /// Work of a process for each request.
        service: Option<DurationText>,
    },
    /// Echo requests, answered by the kernel.
    Ping {
        /// Payload.
        #[serde(default = "ping_bytes")]
        #[schemars(range(min = 1, max = 1472))]
        bytes: u32,
        /// From one to the next; with `closed`, from an answer to the next.
        gap: DistributionText,
        /// The next one waits for the answer.
        #[serde(default)]
        closed: bool,
    },
    /// Datagrams, whatever becomes of them, measured from end to end.
    Datagrams {
        /// Payload.
        #[schemars(range(min = 1, max = 1472))]
        bytes: u32,
        /// From one to the next.
        gap: DistributionText,
    },
}

fn hundred() -> BytesText {
    BytesText(100)
}

fn ping_bytes() -> u32 {
    56
}

/// How long a message is: `"2KB"`, `{ exponential = "30KB" }` (the mean), or
/// `{ pareto = { shape = 1.2, least = "1KB", most = "10MB" } }`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "bytes, { exponential = … } or { pareto = … }")]
pub enum SizeFile {
    /// So many bytes.
    Fixed(BytesText),
    /// Varying.
    Varying(VaryingSize),
}

/// A size that varies.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VaryingSize {
    /// Exponential with this mean.
    Exponential(BytesText),
    /// Pareto, truncated.
    Pareto {
        /// The exponent.
        shape: f64,
        /// Least bytes.
        least: BytesText,
        /// Most bytes.
        most: BytesText,
    },
}

impl SizeFile {
    fn build(&self) -> Result<Size, String> {
        match *self {
            SizeFile::Fixed(bytes) => Ok(Size::Fixed(bytes.0)),
            SizeFile::Varying(VaryingSize::Exponential(mean)) => Ok(Size::Exponential(mean.0)),
            SizeFile::Varying(VaryingSize::Pareto { shape, least, most }) => {
                if !(0.1..=10.0).contains(&shape) {
                    return Err(format!("shape {shape}: 0.1 to 10"));
                }
                if least.0 == 0 || least.0 >= most.0 {
                    return Err(format!(
                        "from {} to {} bytes: the first is more than none and less",
                        least.0, most.0
                    ));
                }
                Ok(Size::Pareto { shape, least: least.0, most: most.0 })
            }
        }
    }
}

impl PatternFile {
    /// On links of this rate.
    pub(super) fn build(&self, rate: RateText) -> Result<Pattern, KeyError> {
        let size = |key: &str, size: &SizeFile| size.build().map_err(|m| KeyError::new(key, m));
        Ok(match self {
            PatternFile::Bulk {} => Pattern::Bulk,
            PatternFile::Transfer { bytes } => Pattern::Transfer { bytes: bytes.0.max(1) },
            PatternFile::Messages { bytes, gap, load, anywhere } => {
                let bytes = size("bytes", bytes)?;
                let gap = match (gap, load) {
                    (Some(gap), None) => gap.0,
                    (None, Some(load)) if (0.001..=2.0).contains(load) => {
                        let us = bytes.mean() * 8e6 / (load * rate.0 as f64);
                        lowtail_engine::Distribution::Exponential(Duration::from_us_f64(us))
                    }
                    (None, Some(load)) => {
                        return Err(KeyError::new(
                            "load",
                            format!("{load}: a share from 0.001 to 2"),
                        ));
                    }
                    _ => return Err(KeyError::new("gap", "give one of `gap` and `load`")),
                };
                Pattern::Messages { bytes, gap, anywhere: *anywhere }
            }
            PatternFile::Requests { request, reply, gap, closed, service } => Pattern::Requests {
                request: request.0.max(1),
                reply: size("reply", reply)?,
                gap: gap.0,
                closed: *closed,
                service: service.map_or(Duration::ZERO, |span| span.0),
            },
            PatternFile::Ping { bytes, gap, closed } => {
                Pattern::Ping { bytes: (*bytes).clamp(1, 1472), gap: gap.0, closed: *closed }
            }
            PatternFile::Datagrams { bytes, gap } => {
                let bytes = Size::Fixed(u64::from((*bytes).clamp(1, 1472)));
                Pattern::Datagrams { bytes, gap: gap.0 }
            }
        })
    }
}
