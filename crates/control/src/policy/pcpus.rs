//! pCPUs of a Xen host.

use std::collections::BTreeSet;

use lowtail_libvirt::cpus;

/// pCPUs that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pcpus {
    /// All that there are.
    All,
    /// These.
    These(BTreeSet<usize>),
}

impl Pcpus {
    /// A list as libvirt writes them, or `all`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Pcpus::All),
            list => {
                let list = cpus::Cpus::parse(list)?;
                Ok(Pcpus::These(list.iter().map(usize::from).collect()))
            }
        }
    }
}
