//! Where taggers run in this network namespace.

use std::collections::BTreeMap;

use serde::Serialize;

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

/// One that runs somewhere and has these marks, else a new one. So all uplinks and taps of a policy have the same, and a
/// VM has its bucket and its number once.
pub(super) fn tagger(marks: Mask) -> Result<Tagger, Error> {
    for (link, hooks) in tc::hooked()? {
        for &hook in sides(hooks) {
            if let Ok(Some(running)) = Tagger::running_at(&link, hook)
                && running.marks().is_ok_and(|running| running == (marks, None))
            {
                return Ok(running);
            }
        }
    }
    Tagger::load(marks)
}

/// Where filters can be.
fn sides(hooks: Hooks) -> &'static [Hook] {
    match hooks {
        Hooks::Clsact => &[Hook::Egress, Hook::Ingress],
        Hooks::Ingress => &[Hook::Ingress],
        Hooks::Absent => &[],
    }
}
