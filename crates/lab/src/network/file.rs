//! The table `[network]`: links, NICs and what waits for them.

use lowtail_engine::Duration;
use lowtail_net::Rate as NetRate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::queue::QueueFile;
use super::topology::TopologyFile;
use crate::error::KeyError;
use crate::value::{BytesText, DurationText, RateText};

/// A network: hosts, the links to their switches, the switches.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkFile {
    /// What it looks like.
    pub topology: TopologyFile,
    /// Links between hosts and switches.
    pub link: LinkFile,
    /// Links between switches; as those of hosts if absent.
    pub fabric: Option<LinkFile>,
    /// What waits for the NIC of a host; first come, first served without limit if absent.
    pub queue: Option<QueueFile>,
    /// The NIC of a host behind that.
    #[serde(default)]
    pub nic: TransmitFile,
    /// What waits at the ports of switches; first come, first served in the link's `buffer` if
    /// absent.
    pub switch: Option<QueueFile>,
    /// A buffer that the ports of each switch share; each has its own if absent.
    pub shared: Option<SharedFile>,
    /// From an end to another one in the same host, if no host is simulated.
    #[serde(default = "ten_us")]
    pub local_delay: DurationText,
}

fn ten_us() -> DurationText {
    DurationText(Duration::from_us(10))
}

/// Links of a kind.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkFile {
    /// Bits per second, each way.
    pub rate: RateText,
    /// From the last bit sent to the next queue: the wire, and forwarding there.
    #[serde(default = "one_us")]
    pub delay: DurationText,
    /// What may wait at a switch for this link, in bytes on the wire.
    #[serde(default = "buffer")]
    pub buffer: BytesText,
    /// Packets that find more than this before them at a switch are marked (ECN).
    pub mark: Option<BytesText>,
    /// Probability with which each packet is lost on the way.
    #[serde(default)]
    #[schemars(range(min = 0, max = 0.5))]
    pub loss: f64,
}

fn one_us() -> DurationText {
    DurationText(Duration::from_us(1))
}

/// 512 KB a port: of the order of what top-of-rack switches have (4 MB for 48 ports, shared).
fn buffer() -> BytesText {
    BytesText(512_000)
}

impl LinkFile {
    pub(crate) fn build(&self) -> Result<lowtail_net::LinkConfig, KeyError> {
        if !(0.0..=0.5).contains(&self.loss) {
            return Err(KeyError::new(
                "loss",
                format!("{}: a probability from 0 to 0.5", self.loss),
            ));
        }
        Ok(lowtail_net::LinkConfig {
            rate: NetRate::from_bits_per_s(self.rate.0),
            delay: self.delay.0,
            buffer_bytes: self.buffer.0,
            mark_bytes: self.mark.map(|mark| mark.0),
            loss_per_billion: (self.loss * 1e9).round() as u32,
        })
    }
}

/// A buffer that the ports of a switch share, beside what each may hold by itself.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedFile {
    /// Bytes of each switch.
    pub bytes: BytesText,
    /// A port may hold so many times what is free: 0.25 to 16, in steps of a quarter.
    #[serde(default = "once")]
    #[schemars(range(min = 0.25, max = 16))]
    pub times: f64,
}

fn once() -> f64 {
    1.0
}

impl SharedFile {
    pub(crate) fn build(&self) -> Result<lowtail_net::net::SharedConfig, KeyError> {
        let quarters = self.times * 4.0;
        if self.bytes.0 == 0 || !(1.0..=64.0).contains(&quarters) || quarters.fract() != 0.0 {
            let message = "some bytes, and 0.25 to 16 times what is free, in steps of a quarter";
            return Err(KeyError::new("shared", message));
        }
        Ok(lowtail_net::net::SharedConfig { bytes: self.bytes.0, quarters: quarters as u32 })
    }
}

/// The NIC of a host.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransmitFile {
    /// Descriptors of the transmit ring; a segment takes one for each page, and one more.
    #[schemars(range(min = 8, max = 65536))]
    pub ring: u32,
    /// The bytes in the ring are limited (BQL).
    pub bql: bool,
    /// Long segments leave whole, as over a virtual link.
    pub whole: bool,
    /// Shortest time between two interrupts for what comes in, where hosts are simulated.
    pub moderation: DurationText,
    /// Packets that the receive ring holds, where hosts are simulated.
    #[schemars(range(min = 16, max = 4096))]
    pub receive_ring: u16,
}

impl Default for TransmitFile {
    fn default() -> Self {
        TransmitFile {
            ring: 256,
            bql: true,
            whole: false,
            moderation: DurationText(Duration::ZERO),
            receive_ring: 256,
        }
    }
}
