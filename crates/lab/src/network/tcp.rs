//! The table `tcp` of traffic.

use lowtail_net::tcp;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{BytesText, DurationText};

/// How a TCP goes about things; what is absent is as in Linux today.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TcpFile {
    /// Congestion control: `cubic` if absent.
    pub control: Option<ControlFile>,
    /// Packets are capable of marks; always with `dctcp`.
    pub ecn: Option<bool>,
    /// Most payload that is handed down in one piece (GSO, TSO); one frame's if absent.
    pub segment: Option<BytesText>,
    /// A millisecond's worth at most is handed down in one piece, two frames at least.
    pub autosize: Option<bool>,
    /// Little waits in the own host (TCP small queues), and what its queue refuses is not lost.
    pub small_queues: Option<bool>,
    /// Bytes that a receiver has room for.
    pub window: Option<BytesText>,
    /// Segments of the first window.
    #[schemars(range(min = 1, max = 1000))]
    pub initial_window: Option<u32>,
    /// Least time-out beyond the round trip.
    pub rto_min: Option<DurationText>,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Option<DurationText>,
    /// A probe before the time-out.
    pub tail_probe: Option<bool>,
    /// An idle connection starts slowly again.
    pub idle_restart: Option<bool>,
}

/// A congestion control.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlFile {
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257.
    Dctcp,
}

impl TcpFile {
    pub(super) fn build(&self) -> tcp::TcpConfig {
        let mut config = tcp::TcpConfig::default();
        let TcpFile { segment, autosize, small_queues, window, initial_window, .. } = *self;
        if let Some(control) = self.control {
            config.control = match control {
                ControlFile::Reno => tcp::Control::Reno,
                ControlFile::Cubic => tcp::Control::Cubic,
                ControlFile::Dctcp => tcp::Control::Dctcp,
            };
        }
        config.ecn = self.ecn.unwrap_or(config.control == tcp::Control::Dctcp);
        // What fits into an IP packet.
        config.segment_bytes =
            segment.map_or(config.segment_bytes, |bytes| bytes.0.min(65_483) as u32);
        config.autosize = autosize.unwrap_or(config.autosize);
        config.small_queues = small_queues.unwrap_or(config.small_queues);
        config.receive_window = window.map_or(config.receive_window, |bytes| bytes.0.max(2 * 1448));
        config.initial_window = initial_window.unwrap_or(config.initial_window).clamp(1, 1000);
        config.rto_min = self.rto_min.map_or(config.rto_min, |span| span.0);
        config.delayed_ack = self.delayed_ack.map_or(config.delayed_ack, |span| span.0);
        config.tail_probe = self.tail_probe.unwrap_or(config.tail_probe);
        config.idle_restart = self.idle_restart.unwrap_or(config.idle_restart);
        config
    }
}
