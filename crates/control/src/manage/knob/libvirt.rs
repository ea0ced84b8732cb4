//! A value of a VM of libvirt's, read and written through libvirt.

use std::io;

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use crate::libvirt::{Domain, Key};
use lowtail_kernel::Name;

/// One value of a VM while it runs: as [`Key`] has them.
///
/// A build without the feature `libvirt` knows of it, so that it can tell what another one has left in the ledger, and
/// fails to read it.
///
/// The kernel refuses a vCPU's limit above that of the whole VM with cgroup v1: limits that change together are put
/// into an order that it takes, whatever the order in which they are given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Libvirt {
    /// Where libvirt is, such as `qemu:///system`.
    pub uri: String,
    /// Which VM.
    pub domain: Domain,
    /// Which value.
    pub key: Key,
}

impl Kind for Libvirt {
    fn label(&self) -> String {
        format!("{} of libvirt's {} at {}", self.key, self.domain, Name::new(self.uri.as_str()))
    }

    #[cfg(feature = "libvirt")]
    fn read(&self) -> io::Result<Option<String>> {
        let read = crate::libvirt::with(&self.uri, |to| to.read(&self.domain, self.key));
        read.map_err(io::Error::other)
    }

    #[cfg(feature = "libvirt")]
    fn write(&self, value: &str) -> io::Result<bool> {
        let written = crate::libvirt::with(&self.uri, |to| to.write(&self.domain, self.key, value));
        written.map_err(io::Error::other)
    }

    #[cfg(not(feature = "libvirt"))]
    fn read(&self) -> io::Result<Option<String>> {
        Err(io::Error::other(NEEDED))
    }

    #[cfg(not(feature = "libvirt"))]
    fn write(&self, _value: &str) -> io::Result<bool> {
        Err(io::Error::other(NEEDED))
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn normalize(&self, to: &str, _was: &str) -> Result<String, String> {
        self.key.canonical(to)
    }
}

#[cfg(not(feature = "libvirt"))]
const NEEDED: &str =
    "this lowtail is built without the feature `libvirt`; use the one that has set this";
