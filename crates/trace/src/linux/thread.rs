//! A thread of a Linux host.

use serde::Serialize;

/// What a thread does for its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "role", content = "index")]
pub enum Role {
    /// Runs this vCPU.
    Vcpu(u16),
    /// Serves a queue of a network interface in the kernel (vhost).
    Vhost(u16),
    /// Serves devices that were given this thread of their own.
    IoThread(u16),
    /// Serves devices and the monitor.
    Emulator,
    /// Anything else of the machine's process.
    Worker,
}

impl Role {
    /// The two numbers of the format.
    pub(crate) fn packed(self) -> (u16, u16) {
        match self {
            Role::Vcpu(index) => (0, index),
            Role::Vhost(index) => (1, index),
            Role::IoThread(index) => (2, index),
            Role::Emulator => (3, 0),
            Role::Worker => (4, 0),
        }
    }

    /// Of those numbers.
    pub(crate) fn of(role: u16, index: u16) -> Option<Self> {
        Some(match role {
            0 => Role::Vcpu(index),
            1 => Role::Vhost(index),
            2 => Role::IoThread(index),
            3 => Role::Emulator,
            4 => Role::Worker,
            _ => return None,
        })
    }
}

/// A thread of a Linux host. Names are chosen by users of the host, guests among them: not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadInfo {
    /// Its number.
    pub tid: u32,
    /// Its process, if the recording names it.
    pub tgid: Option<u32>,
    /// Its name for itself, if the recording has it.
    pub comm: Option<String>,
    /// The VM that it works for.
    pub vm: Option<String>,
    /// What it does for that.
    #[serde(flatten)]
    pub role: Option<Role>,
}
