//! Parameters of the rule for flows.

use lowtail_config_text::{BytesText, KeyError, RateText};
use lowtail_policy::{FlowParams, RATE_MAX, part_of_line, vm_burst_ns};
use schemars::JsonSchema;
use serde::Deserialize;

use super::uplink::Uplink;

/// Line time of a byte, of which bursts of the rule are made: `LT_BYTE_SHIFT` of `policy/line.h`.
const BYTE_NS: u64 = 8;

/// 1 Mbit/s as part of the line: lower rates of the rule are no longer exact.
const RATE_MIN: u32 = 65;
/// Bytes of a pair are counted up to here: `LT_FLOW_ATTAINED_MAX`, less the one that is none.
const ATTAINED_MOST: u64 = (1 << 23) - 2;

/// Parameters of the rule for flows; `policy/flow.h` says what each means. Rates and bursts that are absent follow from the rate of each
/// uplink. A pair is what a VM sends from one address and port to another.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FlowFile {
    /// What a pair may send and stay small. A twentieth of the uplink's rate if absent, 1 to 10 Mbit/s. Without a rate, the speed of the line counts.
    rate: Option<RateText>,
    /// Bytes that a pair can save up.
    burst: Option<BytesText>,
    /// What all small pairs of a VM together may send. A tenth of the uplink's rate if absent, 1 to 100 Mbit/s, and no less than `rate`. Without a rate, the
    /// speed of the line counts.
    vm_rate: Option<RateText>,
    /// Bytes that a VM can save up. What `vm_rate` gives in 24 ms if absent, and no less than `burst`.
    vm_burst: Option<BytesText>,
    /// Up to so many bytes a small pair has just begun.
    brief: Option<BytesText>,
    /// Up to so many bytes a large pair is not long yet.
    large: Option<BytesText>,
    /// Up to so many bytes a large pair is no bulk yet.
    long: Option<BytesText>,
}

/// What a policy says of the rule for flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    rate: Option<u32>,
    burst_ns: Option<u32>,
    vm_rate: Option<u32>,
    vm_burst_ns: Option<u32>,
    brief_bytes: Option<u32>,
    large_bytes: Option<u32>,
    long_bytes: Option<u32>,
}

impl Flow {
    /// The rule's parameters at an uplink of this rate, if it is known: what the policy says, else what follows from the
    /// rate.
    pub fn params(&self, bits_per_s: Option<u64>) -> FlowParams {
        let usual = bits_per_s.map_or_else(FlowParams::default, FlowParams::of_uplink);
        let rate = self.rate.unwrap_or(usual.rate);
        let burst_ns = self.burst_ns.unwrap_or(usual.burst_ns);
        // A VM may send what one of its pairs may.
        let vm_rate = self.vm_rate.unwrap_or_else(|| usual.vm_rate.max(rate));
        let vm_burst_ns = self.vm_burst_ns.unwrap_or_else(|| vm_burst_ns(vm_rate, burst_ns));
        FlowParams {
            rate,
            burst_ns,
            vm_rate,
            vm_burst_ns,
            brief_bytes: self.brief_bytes.unwrap_or(usual.brief_bytes),
            large_bytes: self.large_bytes.unwrap_or(usual.large_bytes),
            long_bytes: self.long_bytes.unwrap_or(usual.long_bytes),
            ..usual
        }
    }

    /// The same at an uplink whose policy has no rate, and whose line has this speed. What the policy says of bursts may not suit so
    /// slow a line; then the rule is as if nobody knew the speed.
    pub fn params_at_speed(&self, bits_per_s: Option<u64>) -> FlowParams {
        let params = self.params(bits_per_s);
        if check(&params).is_ok() { params } else { self.params(None) }
    }
}

impl FlowFile {
    /// What the file says, which suits uplinks of these rates.
    pub(super) fn build(&self, uplinks: &[Uplink]) -> Result<Flow, KeyError> {
        let part = |RateText(bits_per_s): RateText| part_of_line(bits_per_s);
        let line = |BytesText(bytes): BytesText| {
            u32::try_from(bytes.saturating_mul(BYTE_NS)).unwrap_or(u32::MAX)
        };
        let whole = |BytesText(bytes): BytesText| u32::try_from(bytes).unwrap_or(u32::MAX);
        let flow = Flow {
            rate: self.rate.map(part),
            burst_ns: self.burst.map(line),
            vm_rate: self.vm_rate.map(part),
            vm_burst_ns: self.vm_burst.map(line),
            brief_bytes: self.brief.map(whole),
            large_bytes: self.large.map(whole),
            long_bytes: self.long.map(whole),
        };
        check(&flow.params(None))?;
        for uplink in uplinks {
            check(&flow.params(uplink.rate_bits_per_s)).map_err(|bad| KeyError {
                message: format!("{} (at uplink `{}`)", bad.message, uplink.name),
                ..bad
            })?;
        }
        Ok(flow)
    }
}

fn check(params: &FlowParams) -> Result<(), KeyError> {
    let rates = [("rate", params.rate), ("vm_rate", params.vm_rate)];
    if let Some((key, _)) = rates.iter().find(|(_, rate)| !(RATE_MIN..=RATE_MAX).contains(rate)) {
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
    params.check().map_err(|message| KeyError { path: Vec::new(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_rate_the_lines_speed_counts_unless_the_policys_bursts_do_not_suit_it() {
        let usual = Flow::default();
        assert_eq!(usual.params_at_speed(None), FlowParams::default());
        assert_eq!(usual.params_at_speed(Some(10_000_000_000)), FlowParams::default());
        // A VM may send a tenth of 100 Mbit/s as small, a pair a twentieth.
        let slow = usual.params_at_speed(Some(100_000_000));
        assert!(slow.rate >= part_of_line(5_000_000) && slow.rate < part_of_line(6_000_000));
        assert!(slow.vm_rate >= part_of_line(10_000_000));
        // Longer than 2^14 times the rate of a pair at 10 Mbit/s: it would never be full again.
        let long = Flow { burst_ns: Some(1 << 21), ..usual };
        assert!(check(&long.params(Some(10_000_000))).is_err());
        assert_eq!(long.params_at_speed(Some(10_000_000)), long.params(None));
        assert!(check(&long.params(None)).is_ok());
    }
}
