//! A virtual machine, as the host sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KnownBy, Name, Origin};

/// Who runs a VM.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// QEMU under libvirt, in libvirt's control groups.
    Libvirt,
    /// QEMU started by somebody else.
    Qemu,
    /// Firecracker.
    Firecracker,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// Another hypervisor, with KVM.
    Kvm,
    /// A control group or a process that the user has declared.
    Declared,
    /// A domain of Xen's, seen from its dom0.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    Xen,
}

/// What a thread does for its VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "role", content = "index")]
pub enum Role {
    /// Runs this vCPU. With QEMU's one thread for all (single-threaded TCG) it is vCPU 0.
    Vcpu(u16),
    /// Serves devices and the monitor.
    Emulator,
    /// Serves devices that were given this thread of their own.
    IoThread(u16),
    /// Serves a queue of a network interface in the kernel (vhost).
    Vhost(u16),
    /// Anything else of the process.
    Worker,
}

/// A thread of a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VmThread {
    /// Thread number in the host's first namespace.
    pub tid: u32,
    /// What it does.
    #[serde(flatten)]
    pub role: Role,
    /// The name that it has given itself.
    pub comm: Name,
    /// Its control group, where that is another than the VM's and not the topmost; below the mount point as well.
    pub cgroup: Option<PathBuf>,
}

/// A network interface of the host's that ends in a VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tap {
    /// The interface's number.
    pub ifindex: u32,
    /// The interface's name.
    pub name: Name,
    /// The network namespace that it is in, by its inode, where that is another than our own; numbers and names of
    /// interfaces are those of their namespace.
    pub netns: Option<u64>,
}

/// A control group that has a say in when a VM's threads run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Group {
    /// What it is to the VM: `all` is all of it, `vcpu0`, `emulator`, `iothread1` are parts; those above it, and
    /// those that it shares with others, have their path.
    pub label: Name,
    /// Where it is, below the mount point of the hierarchy.
    pub path: PathBuf,
    /// Whether others than this VM may be in it.
    pub shared: bool,
}

/// A VM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vm {
    /// What people call it; not unique.
    pub name: Name,
    /// Who runs it.
    pub kind: Kind,
    /// Where all that is known from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The process, or for a declared control group the first one in it.
    pub pid: u32,
    /// When that process started, in clock ticks since boot: with `pid` it is unique.
    pub started_ticks: u64,
    /// The control group that holds all of it, below the mount point of the hierarchy; `None` if it is in one with others.
    pub cgroup: Option<PathBuf>,
    /// What the host's people have written on its control group, by name: extended attributes `trusted.lowtail.NAME`.
    /// Nobody within a VM can set those.
    pub labels: BTreeMap<String, String>,
    /// Its threads, in order of their number.
    pub threads: Vec<VmThread>,
    /// Its network interfaces.
    pub taps: Vec<Tap>,
    /// The control groups that its threads are in, and those above, but for the topmost: each may have a quota.
    /// In order of path, so that each comes behind the one above it.
    pub groups: Vec<Group>,
}

impl Vm {
    /// How many of its vCPUs count on a host of so many CPUs. Whoever runs a hypervisor chooses how many it has, and more
    /// than there are CPUs never run at once; libvirt's number is the operator's.
    pub fn vcpus(&self, cpus: usize) -> u64 {
        let vcpus = self.threads.iter().filter(|thread| matches!(thread.role, Role::Vcpu(_)));
        let vcpus = vcpus.count();
        let counted = match self.origin.known_by {
            KnownBy::Libvirt | KnownBy::Xen => vcpus,
            KnownBy::Kvm | KnownBy::Program | KnownBy::Declared => vcpus.min(cpus),
        };
        counted as u64
    }
}
