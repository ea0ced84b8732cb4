//! What is wanted of a host, and what is not known of it.

use std::path::PathBuf;

use super::{Place, Setting};

/// All that is wanted. What is not in it is restored, unless it is of something of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What places shall have.
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
}

impl Wanted {
    /// Whether it is not known what this place shall have.
    pub(super) fn is_unknown(&self, place: &Place) -> bool {
        self.unknown.iter().any(|unknown| unknown.covers(place))
    }
}

impl From<Vec<Setting>> for Wanted {
    fn from(settings: Vec<Setting>) -> Self {
        Wanted { settings, unknown: Vec::new() }
    }
}

impl Unknown {
    fn covers(&self, place: &Place) -> bool {
        match (self, place) {
            (Unknown::Thread(tid), Place::Sched(sched)) => sched.thread.tid() == *tid,
            (Unknown::Thread(tid), Place::Affinity(affinity)) => affinity.thread.tid() == *tid,
            (Unknown::Group(path), Place::Group(group)) => group.path() == path,
            (Unknown::Interface(name), Place::Network(network)) => network.link.name == *name,
            (Unknown::Interfaces, Place::Network(_)) => true,
            _ => false,
        }
    }
}
