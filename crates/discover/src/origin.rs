//! How it is known that something is a virtual machine, and who has named it.

use std::fmt;

use serde::Serialize;

/// How it is known that this is a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// It is in a control group of libvirt's, which root has made.
    Libvirt,
    /// It holds a VM of KVM's (`anon_inode:kvm-vm`).
    Kvm,
    /// By its program's name, without KVM. Counts for users that may say so only.
    Program,
    /// The operator has declared it.
    Declared,
    /// Xen's toolstack says so.
    Xen,
}

/// Who has chosen a VM's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedBy {
    /// libvirt, by the name of the control group.
    Libvirt,
    /// The operator, who has declared it.
    Declared,
    /// Root of this host, who runs the process.
    Root,
    /// Root of this host, by the name of the control group that is the VM's own.
    Cgroup,
    /// The user of this number, who runs the process.
    User(u32),
    /// Nobody knows: the process has ended, or does not show whose it is.
    Unknown,
}

/// Where it is known from that this is a VM, what it is called, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// How it is known that this is a VM.
    #[serde(rename = "found_by")]
    pub known_by: KnownBy,
    /// Who has chosen its name.
    pub named_by: NamedBy,
    /// The user that runs its process, and so decides what the process does. `None` if that is not known.
    pub uid: Option<u32>,
    /// Whether root alone puts processes into its control group.
    pub root_cgroup: bool,
}

impl Origin {
    /// Of a VM that the operator has declared.
    pub fn declared() -> Self {
        let (known_by, named_by) = (KnownBy::Declared, NamedBy::Declared);
        Origin { known_by, named_by, uid: None, root_cgroup: true }
    }

    /// Of a VM of libvirt's.
    pub fn libvirt() -> Self {
        let (known_by, named_by) = (KnownBy::Libvirt, NamedBy::Libvirt);
        Origin { known_by, named_by, uid: None, root_cgroup: true }
    }

    /// Of a domain of Xen's, which root of dom0 has made and named, and which is in no control group.
    pub fn xen() -> Self {
        let (known_by, named_by) = (KnownBy::Xen, NamedBy::Root);
        Origin { known_by, named_by, uid: None, root_cgroup: false }
    }
}

impl fmt::Display for KnownBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KnownBy::Libvirt => "libvirt",
            KnownBy::Kvm => "KVM",
            KnownBy::Program => "program",
            KnownBy::Declared => "declared",
            KnownBy::Xen => "Xen",
        })
    }
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamedBy::Libvirt => f.write_str("libvirt"),
            NamedBy::Declared => f.write_str("declared"),
            NamedBy::Root => f.write_str("root"),
            NamedBy::Cgroup => f.write_str("control group"),
            NamedBy::User(uid) => write!(f, "user {uid}"),
            NamedBy::Unknown => f.write_str("unknown"),
        }
    }
}
