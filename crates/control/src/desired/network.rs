//! What uplinks shall have: disciplines, length of segments, tagger.

use super::Settings;
use crate::flow::{KEEP, TaggerConfig};
use crate::manage::{Knob, Network, Part, Setting, Unknown};
use crate::policy::{Policy, Split, Uplink};
use lowtail_kernel::tc::{self, Bands, Choice, Link, Outer, Place, Queue, Shape, Tree, Wanted};
use lowtail_kernel::{Error, Roots};
use lowtail_policy::FlowParams;

/// CAKE; what makes bands and what is in them is its own.
const CAKE: Shape = Shape { outer: Outer::Cake, bands: Bands::Prio, queue: Queue::FqCodel };

impl Settings {
    /// What the policy's uplinks shall have. Reads what there is; what suits is tried out in a network namespace of its
    /// own, once in the life of the process. What is wrong with one of them is a note. Gives the rule of the first of them that
    /// has a tagger then, if any does.
    pub(super) fn network(&mut self, policy: &Policy) -> Option<FlowParams> {
        let mut rule = None;
        for uplink in &policy.uplinks {
            match self.uplink(policy, uplink) {
                Ok(Some(params)) => rule = rule.or(Some(params)),
                // Nothing is wanted of it, so that what was set there once goes.
                Ok(None) => {}
                Err(error) => {
                    self.note(error.to_string());
                    self.unknown.push(Unknown::Interface(uplink.name.clone()));
                }
            }
        }
        rule
    }

    fn uplink(&mut self, policy: &Policy, uplink: &Uplink) -> Result<Option<FlowParams>, Error> {
        let link = Link::find(&uplink.name)?;
        if !self.has_queue(&link, uplink)? {
            return Ok(None);
        }
        let choice = self.choose(&link, uplink)?;
        let params = match uplink.rate_bits_per_s {
            None => policy.flow.params_at_speed(tc::line_speed(
                &Roots::default().sys,
                &link.name,
                link.ifindex,
            )),
            rate => policy.flow.params(rate),
        };
        let (mut config, tags) = match self.replaceable(&link) {
            Ok(()) => {
                self.disciplines(&choice);
                if !uplink.has_usual_priorities() {
                    self.note(format!(
                        "`priority` of {link} is not used: its disciplines know classes by numbers of their own"
                    ));
                }
                let tags = "small packets first, by the disciplines' numbers";
                (TaggerConfig::of(&params, &choice), tags)
            }
            Err(error) => {
                self.note(format!("{error}; until then its packets get the policy's priorities"));
                let tags = "the policy's priorities, for the disciplines that are there";
                (TaggerConfig::new(&params, uplink.priority), tags)
            }
        };
        config.dscp = uplink.dscp.map(|dscp| dscp.unwrap_or(KEEP));
        config.marks = policy.marks();
        let marked = if config.dscp == [KEEP; 5] { "" } else { "; the policy's DSCPs" };
        self.part(&link, Part::Hooks, "present".to_string(), "for the tagger".to_string());
        self.part(&link, Part::Tagger, config.to_text(), format!("{tags}{marked}"));
        Ok(Some(params))
    }

    /// Whether packets of VMs pass it; if not, or if packets wait elsewhere, a note says so.
    fn has_queue(&mut self, link: &Link, uplink: &Uplink) -> Result<bool, Error> {
        let names = |links: &[Link]| match links {
            [] => "there is none now".to_string(),
            links => links.iter().map(Link::to_string).collect::<Vec<_>>().join(", "),
        };
        match link.place()? {
            Place::Own => {}
            Place::Bridge(ports) => {
                self.note(format!(
                    "uplink {link}: it is a bridge, and what VMs send does not pass its own queue; name the port by which it leaves the \
                     host ({})",
                    names(&ports)
                ));
                return Ok(false);
            }
            Place::OpenVswitch => {
                self.note(format!(
                    "uplink {link}: it is a switch of Open vSwitch, and what VMs send does not pass its own queue; name the port by which \
                     it leaves the host (`ovs-vsctl show`)"
                ));
                return Ok(false);
            }
            Place::Below { kind, below } if uplink.rate_bits_per_s.is_none() => self.note(format!(
                "packets do not wait at {link}, a {kind}, but below it ({}): name that, or give {link} a `rate`",
                names(&below)
            )),
            Place::Below { .. } => {}
        }
        let functions = tc::virtual_functions(&Roots::default().sys, &link.name);
        if functions > 0 {
            self.note(format!(
                "{functions} virtual functions of {link} (SR-IOV): what is sent by them does not pass this host's queue"
            ));
        }
        Ok(true)
    }

    /// What suits an uplink.
    fn choose(&mut self, link: &Link, uplink: &Uplink) -> Result<Choice, Error> {
        let rate = uplink.rate_bits_per_s;
        let (shape, split) = match uplink.split {
            Split::Auto => (None, tc::Split::Auto),
            Split::Cake => (Some(CAKE), tc::Split::Discipline),
            Split::Gso => (None, tc::Split::Segments),
            Split::None => (None, tc::Split::Nobody),
        };
        if uplink.split == Split::Gso && rate.is_none() {
            self.note(format!(
                "`split = \"gso\"` of {link} needs a `rate`: how long a segment may be depends on it"
            ));
        }
        match (tc::choose(link, &Wanted { rate, shape, split }), shape) {
            (Err(error), Some(_)) => {
                let choice = tc::choose(link, &Wanted { rate, ..Wanted::default() })?;
                self.note(format!("`split = \"cake\"` of {link} cannot be set here: {error}"));
                Ok(choice)
            }
            (choice, _) => choice,
        }
    }

    /// Whether what is there could be put back.
    fn replaceable(&self, link: &Link) -> Result<(), Error> {
        match Tree::read(link)? {
            // Ours has been put there in place of something that could.
            Some(there) if !there.is_ours() => there.restorable(link),
            _ => Ok(()),
        }
    }

    fn disciplines(&mut self, choice: &Choice) {
        let link = &choice.link;
        if let Some(segments) = &choice.segments {
            let to = serde_json::to_string(segments).expect("numbers");
            self.part(link, Part::Segments, to, choice.splitting.to_string());
        }
        self.part(link, Part::Disciplines, choice.tree.to_text(), choice.to_string());
        if choice.rate.is_none() && !choice.limited {
            self.note(format!(
                "nothing limits the ring of {link} (BQL): packets wait in it in no order, unless the policy gives \
                 a `rate` that keeps them before it"
            ));
        }
    }

    pub(super) fn part(&mut self, link: &Link, part: Part, to: String, why: String) {
        let knob = Knob::Network(Network { link: link.clone(), part });
        self.settings.push(Setting { knob, to, why });
    }
}
