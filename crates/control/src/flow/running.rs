//! Where taggers run in this network namespace.

use std::collections::BTreeMap;

use lowtail_policy::FlowParams;
use serde::Serialize;

use super::layout::Told;
use super::tagger_config::PROGRAM;
use super::{Counts, Mask, Tagger};
use lowtail_kernel::Error;
use lowtail_kernel::tc::{self, Hook, Hooks, Link};

/// A tagger that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Running {
    /// Uplinks whose packets it tags.
    pub uplinks: Vec<Link>,
    /// Taps at which it notes whose packets are.
    pub taps: Vec<Link>,
    /// What has passed its uplinks.
    pub counts: Counts,
}

/// All that run, but for those in whose place another filter is.
///
/// # Errors
/// What the kernel says.
pub fn running() -> Result<Vec<Running>, Error> {
    let mut found: BTreeMap<u32, Running> = BTreeMap::new();
    for (link, hooks) in tc::hooked()? {
        for &hook in sides(hooks) {
            let Ok(Some(id)) = tc::own(&link, hook) else { continue };
            let running = found.entry(id).or_default();
            match hook {
                Hook::Egress => running.uplinks.push(link.clone()),
                Hook::Ingress => running.taps.push(link.clone()),
            }
        }
    }
    for (id, running) in &mut found {
        if let Some(tagger) = Tagger::numbered(*id)? {
            running.counts = tagger.counts()?;
        }
    }
    Ok(found.into_values().collect())
}

/// One that runs somewhere and has this rule, else a new one. So uplinks and taps of a policy have the same where rates are, and a
/// VM has its bucket once; at uplinks of other rates it has others, since a bucket counts in time at a rate. Its number is the same.
pub(super) fn tagger(params: &FlowParams, marks: Mask) -> Result<Tagger, Error> {
    let wanted = Told { params: *params, marks, program: PROGRAM };
    for (link, hooks) in tc::hooked()? {
        for &hook in sides(hooks) {
            if let Ok(Some(running)) = Tagger::running_at(&link, hook)
                && running.told().is_ok_and(|told| told == wanted)
            {
                return Ok(running);
            }
        }
    }
    Tagger::load(params, marks)
}

/// Where filters can be.
fn sides(hooks: Hooks) -> &'static [Hook] {
    match hooks {
        Hooks::Clsact => &[Hook::Egress, Hook::Ingress],
        Hooks::Ingress => &[Hook::Ingress],
        Hooks::Absent => &[],
    }
}
