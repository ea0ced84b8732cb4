//! What is wanted of a host, and what is not known of it.

use std::path::PathBuf;

use lowtail_xen::DomainKey;

use super::{Knob, Setting};

/// All that is wanted. What is not in it is restored, unless it is of something of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What knobs shall have.
    pub settings: Vec<Setting>,
    /// Of these it is not known what they shall have: what is there stays.
    pub unknown: Vec<Unknown>,
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A thread.
    Thread(u32),
    /// A control group, below the mount point of its hierarchy.
    Group(PathBuf),
    /// A network interface, by its name.
    Interface(String),
    /// All network interfaces.
    Interfaces,
    /// A domain of Xen's.
    Domain(DomainKey),
}

impl Wanted {
    /// Whether any of it is of a network interface, be it there or not.
    pub(crate) fn has_interfaces(&self) -> bool {
        let interface =
            |unknown: &Unknown| matches!(unknown, Unknown::Interface(_) | Unknown::Interfaces);
        self.settings.iter().any(|setting| matches!(setting.knob, Knob::Network(_)))
            || self.unknown.iter().any(interface)
    }

    /// Whether it is not known what this knob shall have.
    pub(super) fn is_unknown(&self, knob: &Knob) -> bool {
        self.unknown.iter().any(|unknown| unknown.covers(knob))
    }
}

impl From<Vec<Setting>> for Wanted {
    fn from(settings: Vec<Setting>) -> Self {
        Wanted { settings, unknown: Vec::new() }
    }
}

impl Unknown {
    fn covers(&self, knob: &Knob) -> bool {
        match (self, knob) {
            (Unknown::Thread(tid), Knob::Sched(sched)) => sched.thread.tid() == *tid,
            (Unknown::Thread(tid), Knob::Affinity(affinity)) => affinity.thread.tid() == *tid,
            (Unknown::Group(path), Knob::Group(group)) => group.path() == path,
            (Unknown::Interface(name), Knob::Network(network)) => network.link.name == *name,
            (Unknown::Interfaces, Knob::Network(_)) => true,
            (Unknown::Domain(key), Knob::Xen(xen)) => xen.domain() == Some(key),
            _ => false,
        }
    }
}
