//! Users whose word on their VMs counts.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use nix::unistd::{User, geteuid};

use super::owner::ROOT;

/// Users by number. Root of this host always is one of them, and so is whoever runs lowtail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    ranges: Vec<RangeInclusive<u32>>,
    own: u32,
}

impl Default for Users {
    /// Nobody else.
    fn default() -> Self {
        Users { ranges: Vec::new(), own: geteuid().as_raw() }
    }
}

impl Users {
    /// Those of these numbers, too.
    pub fn new(ranges: Vec<RangeInclusive<u32>>) -> Self {
        Users { ranges, ..Users::default() }
    }

    /// Whether this user is one of them.
    pub fn contains(&self, uid: u32) -> bool {
        uid == ROOT || uid == self.own || self.ranges.iter().any(|range| range.contains(&uid))
    }
}

/// The number of the user called so on this host; `None` if there is none.
pub fn uid_of(name: &str) -> Option<u32> {
    User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
}

/// The same users, each once and in order, for words to people.
pub(super) fn list(uids: &BTreeSet<u32>) -> String {
    uids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
