//! Where values live on a host, one kind a file.
//!
//! A value is text, in one form only: what [`Knob::read`] gives is what [`Knob::write`] takes, and two values are
//! the same if their texts are. A knob has an identity beside its name (a thread its beginning, a control group its
//! inode), so that what has taken the name of something gone is never touched.
//!
//! A new kind is a file here, a variant of [`Knob`], and its line in `kind`.

mod affinity;
pub(crate) mod cpus;
mod group;
mod kind;
mod libvirt;
mod network;
mod sched;
mod thread;
mod xen;

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use kind::Kind;
use lowtail_kernel::Name;

pub use affinity::Affinity;
pub(super) use group::Size;
pub use group::{Group, Key};
pub use libvirt::Libvirt;
pub use network::{Network, Part};
pub use sched::Sched;
pub use thread::Thread;
pub use xen::{OfDomain, OfPool, OfVcpu, Xen};

/// Where one value lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// A file of a control group.
    Group(Group),
    /// The CPUs of a thread.
    Affinity(Affinity),
    /// Policy, nice value and slice of a thread.
    Sched(Sched),
    /// A value of a VM of libvirt's.
    Libvirt(Libvirt),
    /// A part of a network interface.
    Network(Network),
    /// A value of a Xen host.
    Xen(Xen),
}

impl Knob {
    fn kind(&self) -> &dyn Kind {
        match self {
            Knob::Group(group) => group,
            Knob::Affinity(affinity) => affinity,
            Knob::Sched(sched) => sched,
            Knob::Libvirt(libvirt) => libvirt,
            Knob::Network(network) => network,
            Knob::Xen(xen) => xen,
        }
    }

    /// The value there now; `None` if the knob is gone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self) -> io::Result<Option<String>> {
        self.kind().read()
    }

    /// Puts a value there, one that was [read](Knob::read) or that is [in its one form](Knob::normalize). False if the knob is
    /// gone. Nothing is written down here: that is for [`HostLock::apply`](super::HostLock::apply).
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn write(&self, value: &str) -> io::Result<bool> {
        self.kind().write(value)
    }

    /// Whether `now` is what one reads where `value` was put: the same, but for CPUs that are off.
    pub fn holds(&self, value: &str, now: &str) -> bool {
        self.kind().holds(value, now)
    }

    /// Whether `now` may be what the kernel has made by itself of `value`, since that was put there.
    pub(super) fn may_become(&self, value: &str, now: &str) -> bool {
        self.kind().may_become(value, now)
    }

    /// Whether a write that has failed has changed nothing. One that takes several calls may have.
    pub(super) fn is_whole(&self) -> bool {
        self.kind().is_whole()
    }

    /// A value of this knob in words for people; safe for a terminal.
    pub fn in_words(&self, value: &str) -> String {
        Name::new(self.kind().in_words(value)).to_string()
    }

    /// Whether both are set together or not at all: parts of an interface as an uplink, or as a tap.
    pub(super) fn is_set_with(&self, other: &Knob) -> bool {
        match (self, other) {
            (Knob::Network(one), Knob::Network(other)) => one.whole() == other.whole(),
            _ => false,
        }
    }

    /// What is wanted, in the one form that values of this knob have, with what `to` leaves open as it `was`.
    ///
    /// # Errors
    /// Why it is no value of this knob, in words.
    pub fn normalize(&self, to: &str, was: &str) -> Result<String, String> {
        self.kind().normalize(to, was)
    }
}

/// What people call it; safe for a terminal.
impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind().label())
    }
}
