//! Parameters of the rule for flows.

use lowtail_config_text::{BytesText, KeyError, RateText};
use lowtail_policy::{FlowParams, RATE_MAX};
use schemars::JsonSchema;
use serde::Deserialize;

/// Line time of a byte, of which rates and bursts of the rule are made: `LT_BYTE_SHIFT` of `policy/line.h`.
const BYTE_NS: u64 = 8;
/// What a rate is a part of: a byte in its line time.
const LINE_BITS_PER_S: u128 = 8 * 1_000_000_000 / BYTE_NS as u128;

/// 1 Mbit/s of that: lower rates of the rule are no longer exact.
const RATE_MIN: u32 = 65;
/// Bytes of a pair are counted up to here: `LT_FLOW_ATTAINED_MAX`, less the one that is none.
const ATTAINED_MOST: u64 = (1 << 23) - 2;

/// Parameters of the rule for flows; `policy/flow.h` says what each means and why its default is what it is. A pair is
/// all that a VM sends to one address.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FlowFile {
    /// What a pair may send and stay small.
    rate: Option<RateText>,
    /// Bytes that a pair can save up.
    burst: Option<BytesText>,
    /// What all small pairs of a VM together may send.
    vm_rate: Option<RateText>,
    /// Bytes that a VM can save up.
    vm_burst: Option<BytesText>,
    /// Up to so many bytes a small pair has just begun.
    brief: Option<BytesText>,
    /// Up to so many bytes a large pair is not long yet.
    large: Option<BytesText>,
    /// Up to so many bytes a large pair is no bulk yet.
    long: Option<BytesText>,
}

impl FlowFile {
    /// The parameters; those that are absent have their defaults.
    pub(super) fn build(&self) -> Result<FlowParams, KeyError> {
        let mut params = FlowParams::default();
        let part = |RateText(bits_per_s): RateText| {
            let part = u128::from(bits_per_s) * 65_536 / LINE_BITS_PER_S;
            u32::try_from(part).unwrap_or(u32::MAX)
        };
        let line = |BytesText(bytes): BytesText| {
            u32::try_from(bytes.saturating_mul(BYTE_NS)).unwrap_or(u32::MAX)
        };
        let whole = |BytesText(bytes): BytesText| u32::try_from(bytes).unwrap_or(u32::MAX);
        params.rate = self.rate.map_or(params.rate, part);
        params.vm_rate = self.vm_rate.map_or(params.vm_rate, part);
        params.burst_ns = self.burst.map_or(params.burst_ns, line);
        params.vm_burst_ns = self.vm_burst.map_or(params.vm_burst_ns, line);
        params.brief_bytes = self.brief.map_or(params.brief_bytes, whole);
        params.large_bytes = self.large.map_or(params.large_bytes, whole);
        params.long_bytes = self.long.map_or(params.long_bytes, whole);
        let rates = [("rate", params.rate), ("vm_rate", params.vm_rate)];
        if let Some((key, _)) = rates.iter().find(|(_, rate)| !(RATE_MIN..=RATE_MAX).contains(rate))
        {
            return Err(KeyError::new(key, format!("{key}: 1Mbit/s to {}Gbit/s", RATE_MAX >> 16)));
        }
        // A pair that is idle for 2^30 ns has to be full by then.
        let burst_ns = (u64::from(params.rate) << 14).min(1 << 30);
        for (key, value, most, bytes_most) in [
            ("burst", params.burst_ns, burst_ns, burst_ns / BYTE_NS),
            ("vm_burst", params.vm_burst_ns, 1 << 30, (1 << 30) / BYTE_NS),
            ("brief", params.brief_bytes, ATTAINED_MOST, ATTAINED_MOST),
            ("large", params.large_bytes, ATTAINED_MOST, ATTAINED_MOST),
            ("long", params.long_bytes, ATTAINED_MOST, ATTAINED_MOST),
        ] {
            if u64::from(value) > most {
                let rate = if key == "burst" { " with this rate" } else { "" };
                return Err(KeyError::new(key, format!("{key}: at most {bytes_most} bytes{rate}")));
            }
        }
        if params.large_bytes > params.long_bytes {
            return Err(KeyError::new("long", "long: at least `large`, or nothing is in between"));
        }
        params.check().map_err(|message| KeyError { path: Vec::new(), message })?;
        Ok(params)
    }
}
