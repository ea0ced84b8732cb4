//! What an uplink's tagger goes by, as text that can be written down and read back.

use std::fmt;

use lowtail_policy::{FLOW_BANDS, FlowParams};
use serde::{Deserialize, Serialize};

use super::Mask;
use lowtail_kernel::Error;
use lowtail_kernel::tc::Choice;

const BANDS: usize = FLOW_BANDS as usize;
/// A DSCP that stays as it is.
pub const KEEP: u8 = 0xff;
/// DSCPs that switches know: AF21 and AF22 for what is small, low-latency data, AF11, AF12 and AF13 for the rest,
/// high-throughput data (RFC 4594, 4.7 and 4.8).
pub const LOW_LATENCY: [u8; BANDS] = [18, 20, 10, 12, 14];
/// Which of our programs it is, in what is written down: one that runs and is of before is replaced.
pub(super) const PROGRAM: u32 = 2;
pub(super) const BEFORE: u32 = 1;
/// Numbers of classes are 16 bits.
const VM_CLASSES_MAX: u32 = 1 << 16;
/// What an uplink without a tagger has.
pub(super) const NONE: &str = "none";

/// What an uplink's tagger goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaggerConfig {
    /// `rate`, `burst_ns`, `vm_rate`, `vm_burst_ns`, `brief_bytes`, `large_bytes`, `long_bytes` of
    /// [`FlowParams`].
    pub rule: [u32; 7],
    /// The priority of each band, as [`Choice`](lowtail_kernel::tc::Choice) has them.
    pub priorities: [u32; BANDS],
    /// As [`Choice`](lowtail_kernel::tc::Choice) has it: classes of each band, 2^n up to 65,536, one of which is a VM's.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub vm_classes: u32,
    /// As [`Choice`](lowtail_kernel::tc::Choice) has it: from the class of one VM to that of the next.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vm_step: u32,
    /// The DSCP of each band, 0 to 63 or [`KEEP`].
    pub dscp: [u8; BANDS],
    /// Marks tell VMs, too: these bits of them are ours.
    pub marks: Mask,
    /// Which of our programs it is: that of now, or one that has run since before.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub program: u32,
}

pub(super) fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
pub(super) fn is_one(number: &u32) -> bool {
    *number == 1
}

impl TaggerConfig {
    /// With the rule's parameters, all VMs in one class of each band, and all DSCPs as they are.
    pub fn new(params: &FlowParams, priorities: [u32; BANDS]) -> Self {
        TaggerConfig {
            rule: numbers(params),
            priorities,
            vm_classes: 1,
            vm_step: 0,
            dscp: [KEEP; BANDS],
            marks: Mask::NONE,
            program: PROGRAM,
        }
    }

    /// With the rule's parameters and the classes of these disciplines, and all DSCPs as they are.
    pub fn of(params: &FlowParams, choice: &Choice) -> Self {
        let Choice { priorities, vm_classes, vm_step, .. } = *choice;
        TaggerConfig { vm_classes, vm_step, ..Self::new(params, priorities) }
    }

    /// The rule's parameters.
    pub fn params(&self) -> FlowParams {
        params(self.rule)
    }

    /// Refuses what no tagger can do.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn check(&self) -> Result<(), Error> {
        let what = "a tagger";
        self.params().check().map_err(|why| Error::network(what, why))?;
        if !self.vm_classes.is_power_of_two() || self.vm_classes > VM_CLASSES_MAX {
            let n = self.vm_classes;
            let why = format!("{n} classes of a band: 1, 2, 4 and so on up to {VM_CLASSES_MAX}");
            return Err(Error::network(what, why));
        }
        match self.dscp.iter().find(|dscp| **dscp != KEEP && **dscp > 63) {
            Some(dscp) => Err(Error::network(what, format!("a DSCP of {dscp}: 0 to 63"))),
            None => Ok(()),
        }
    }

    /// As text: JSON in one line, always the same for the same.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("numbers")
    }

    /// From that text; `None` for no tagger.
    ///
    /// # Errors
    /// Where it is none, or what is out of range.
    pub fn parse(text: &str) -> Result<Option<Self>, Error> {
        if text == NONE {
            return Ok(None);
        }
        let config: TaggerConfig = serde_json::from_str(text)
            .map_err(|error| Error::network("a tagger that was written down", error))?;
        config.check()?;
        Ok(Some(config))
    }
}

/// In the keys of the policy.
impl fmt::Display for TaggerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(&self.params()))?;
        if self.vm_classes > 1 {
            write!(f, ", {} classes for VMs", self.vm_classes)?;
        }
        if self.dscp != [KEEP; BANDS] {
            let dscp = self.dscp.map(|dscp| match dscp {
                KEEP => "kept".to_string(),
                dscp => dscp.to_string(),
            });
            write!(f, ", dscp {}", dscp.join(" "))?;
        }
        match self.marks {
            Mask::NONE => Ok(()),
            marks => write!(f, ", mark_mask {marks}"),
        }
    }
}

/// Parameters of a rule in the keys of the policy.
pub(super) fn in_words(params: &FlowParams) -> String {
    // Both in line time: a byte takes 8 ns, so that all of the time is 1 Gbit/s (policy/line.h).
    let rate =
        |part: u32| format!("{} Mbit/s", (f64::from(part) * 10_000.0 / 65_536.0).round() / 10.0);
    let bytes = |ns: u32| format!("{} kB", f64::from(ns / 8) / 1e3);
    format!(
        "rate {}, burst {}, vm_rate {}, vm_burst {}, brief {} kB",
        rate(params.rate),
        bytes(params.burst_ns),
        rate(params.vm_rate),
        bytes(params.vm_burst_ns),
        f64::from(params.brief_bytes) / 1e3,
    )
}

/// A rule's parameters as a text has them: [`TaggerConfig::rule`].
pub(super) fn numbers(params: &FlowParams) -> [u32; 7] {
    let [numbers @ .., _pad] = params.words();
    numbers
}

/// The parameters of that.
pub(super) fn params(numbers: [u32; 7]) -> FlowParams {
    let mut words = [0; 8];
    words[..7].copy_from_slice(&numbers);
    FlowParams::of_words(words)
}
