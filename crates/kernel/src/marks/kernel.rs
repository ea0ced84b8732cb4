//! Marks in rules of routing and in filters of tc, as the kernel itself tells of them.

use super::survey::{Survey, known};
use crate::Name;
use crate::tc;

/// The mask that Tailscale's rules have, and their places (`util/linuxfw` and `wgengine/router` of it).
const TAILSCALE: (u32, std::ops::RangeInclusive<u32>) = (0x00ff_0000, 5_200..=5_299);
/// The mask of Cilium's rules.
const CILIUM_RULE: u32 = 0x0f00;

/// `ip rule` and `ip -6 rule`.
pub(super) fn rules(survey: &mut Survey) {
    match tc::marked_rules() {
        Ok(rules) => {
            for (preference, bits) in rules {
                let place = format!("ip rule {preference}");
                let who = match bits {
                    CILIUM_RULE => Some("Cilium"),
                    _ if bits == TAILSCALE.0 && TAILSCALE.1.contains(&preference) => {
                        Some("Tailscale")
                    }
                    _ => None,
                };
                survey.add(
                    &who.map_or_else(|| place.clone(), |who| format!("{who} ({place})")),
                    bits,
                );
            }
        }
        Err(error) => survey.unread.push(error.to_string()),
    }
}

/// `tc filter`, of all interfaces.
pub(super) fn filters(survey: &mut Survey) {
    match tc::marked_filters() {
        Ok(filters) => {
            for tc::Marked { link, kind, name, bits } in filters {
                let place = format!("tc filter {} of {link}", Name::new(&kind));
                let who = name.as_deref().and_then(|name| match name.starts_with("cil_") {
                    true => Some("Cilium"),
                    false => known(name),
                });
                survey.add(
                    &who.map_or_else(|| place.clone(), |who| format!("{who} ({place})")),
                    bits,
                );
            }
        }
        Err(error) => survey.unread.push(error.to_string()),
    }
}
