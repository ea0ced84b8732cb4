//! What a tap's tagger is told, as text that can be put there and read back. It is the tagger of the uplinks: the tap's only
//! notes whose a packet is, by the same tables.

use std::fmt;

use lowtail_policy::FlowParams;
use serde::{Deserialize, Serialize};

use super::layout::Told;
use super::tagger_config::{NONE, PROGRAM, is_one, numbers, one, params};
use super::{Mask, Tagger, running};
use lowtail_kernel::Error;
use lowtail_kernel::tc::{self, Hook, Hooks, Link};

/// Which tagger is at a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapTagger {
    /// That of this rule, with marks: as [`TaggerConfig::rule`](super::TaggerConfig::rule).
    pub rule: [u32; 7],
    /// The bits of marks in which it notes VMs.
    #[serde(default = "upper")]
    pub marks: Mask,
    /// As [`TaggerConfig::program`](super::TaggerConfig::program).
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub program: u32,
}

/// Of ledgers that do not say.
fn upper() -> Mask {
    Mask::UPPER
}

impl TapTagger {
    /// The tagger of this rule.
    pub fn new(params: &FlowParams, marks: Mask) -> Self {
        TapTagger { rule: numbers(params), marks, program: PROGRAM }
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
        let what = "a tap's tagger that was written down";
        let entry: TapTagger =
            serde_json::from_str(text).map_err(|error| Error::network(what, error))?;
        params(entry.rule).check().map_err(|why| Error::network(what, why))?;
        Ok(Some(entry))
    }
}

/// In the keys of the policy.
impl fmt::Display for TapTagger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mark_mask {}", self.marks)
    }
}

/// Which tagger is at a tap, as text; `none` without one. `None` if the interface is gone.
///
/// # Errors
/// What the kernel says, or that somebody else's filter is in our place.
pub fn read_tap(link: &Link) -> Result<Option<String>, Error> {
    let running = match tc::hooks(link)? {
        None => return Ok(None),
        Some(Hooks::Absent) => None,
        Some(Hooks::Ingress | Hooks::Clsact) => Tagger::running_at(link, Hook::Ingress)?,
    };
    let told = running.map(|tagger| tagger.told()).transpose()?;
    Ok(Some(told.map_or_else(
        || NONE.to_string(),
        |Told { params, marks, program }| {
            TapTagger { program, ..TapTagger::new(&params, marks) }.to_text()
        },
    )))
}

/// Puts at a tap the tagger that the uplinks of this network namespace have, or removes it.
///
/// # Errors
/// If the text is none, there are no hooks, or the kernel refuses.
pub fn write_tap(link: &Link, text: &str) -> Result<(), Error> {
    match TapTagger::parse(text)? {
        Some(entry) => running::tagger(&params(entry.rule), entry.marks)?.attach_tap(link),
        None => tc::detach(link, Hook::Ingress),
    }
}
