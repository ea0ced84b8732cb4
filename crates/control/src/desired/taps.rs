//! What taps shall have where VMs are routed behind a bridge: the tagger that notes whose a packet is.

use std::collections::BTreeSet;

use super::{HostCapabilities, Note, Settings, managed};
use crate::flow::TapTagger;
use crate::manage::{Part, Unknown};
use crate::policy::Policy;
use lowtail_discover::{Found, Tap, Vm};
use lowtail_kernel::Error;
use lowtail_kernel::marks;
use lowtail_kernel::tc::Link;
use lowtail_policy::FlowParams;

impl Settings {
    /// Whether the bits of marks that the policy gives to taggers are free. If not, nothing is to be done: packets would go
    /// another way.
    pub(super) fn marks(&mut self, policy: &Policy) {
        if !policy.taps || policy.uplinks.is_empty() {
            return;
        }
        let survey = marks::survey();
        if let Some(what) = survey.refusal(policy.mark_mask) {
            self.notes.push(Note { vm: None, what, fatal: true });
        }
        for why in survey.unread {
            self.note(format!(
                "lowtail cannot tell whether the bits of `mark_mask` are free: {why}"
            ));
        }
    }

    /// Entries at the taps of managed VMs, or, where the policy wants none, notes of whom they would be of use to.
    /// They have the tagger with the rule of `params`, which is at an uplink.
    pub(super) fn taps(
        &mut self,
        policy: &Policy,
        params: &FlowParams,
        found: &Found,
        capabilities: &HostCapabilities,
    ) {
        let done = match policy.taps {
            true => self.entries(policy, params, found, capabilities),
            false => self.routed(found),
        };
        done.unwrap_or_else(|error| {
            self.note(error.to_string());
            self.unknown.push(Unknown::Interfaces);
        });
    }

    fn entries(
        &mut self,
        policy: &Policy,
        params: &FlowParams,
        found: &Found,
        capabilities: &HostCapabilities,
    ) -> Result<(), Error> {
        let links = Link::all()?;
        let entry = TapTagger::new(params, policy.marks()).to_text();
        for (vm, _) in managed(policy, &found.vms, capabilities) {
            for tap in &vm.taps {
                if tap.netns.is_some() {
                    self.note(format!(
                        "tap {} of {} is in a network namespace of its own: packets that are routed from there \
                         are of whoever's interface they come in by",
                        tap.name, vm.name
                    ));
                    continue;
                }
                // It may have gone since.
                let Some(link) = links.iter().find(|link| is_of(link, tap)) else { continue };
                if policy.uplinks.iter().any(|uplink| uplink.name == link.name) {
                    self.note(format!(
                        "{link} is an uplink and a tap of {}: packets from there that are routed count as the host's",
                        vm.name
                    ));
                    continue;
                }
                self.part(link, Part::Ingress, "present".to_string(), "for the tagger".to_string());
                let why = format!("packets of {} are its own where they are routed, too", vm.name);
                self.part(link, Part::Entry, entry.clone(), why);
            }
        }
        Ok(())
    }

    /// Bridges whose ports are taps only: what their VMs send leaves them by the host's routes.
    fn routed(&mut self, found: &Found) -> Result<(), Error> {
        let taps = || found.vms.iter().flat_map(|vm: &Vm| &vm.taps);
        if taps().next().is_none() {
            return Ok(());
        }
        let ports = Link::ports()?;
        let is_tap = |link: &Link| taps().any(|tap| tap.netns.is_none() && is_of(link, tap));
        let of = |tap: bool| -> BTreeSet<&Link> {
            let ports = ports.iter().filter(move |(link, _)| is_tap(link) == tap);
            ports.filter_map(|(_, bridge)| bridge.as_ref()).collect()
        };
        for bridge in of(true).difference(&of(false)) {
            self.note(format!(
                "VMs behind {bridge} are routed: their packets count as the host's, unless the policy has \
                 `[network] taps = true`"
            ));
        }
        Ok(())
    }
}

/// Another one may have got the name or the number.
fn is_of(link: &Link, tap: &Tap) -> bool {
    link.ifindex == tap.ifindex && link.name == tap.name.as_given()
}
