//! Network interfaces, wherever they are.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lowtail_kernel::Error;

/// A network interface. Its number is unique within its network namespace only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface {
    /// The namespace: the inode of `/proc/<pid>/ns/net` (namespaces(7)).
    pub netns: u32,
    /// The interface's number there.
    pub ifindex: u32,
}

impl Interface {
    /// An interface in the network namespace of a process, as a VM's taps are in its own.
    ///
    /// # Errors
    /// If the process is gone, or its namespace not to be read.
    pub fn of_process(pid: u32, ifindex: u32) -> Result<Self, Error> {
        Self::at(Path::new(&format!("/proc/{pid}/ns/net")), ifindex)
    }

    /// An interface in the namespace that a file stands for, such as `/run/netns/<name>`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn at(netns: &Path, ifindex: u32) -> Result<Self, Error> {
        let found =
            fs::metadata(netns).map_err(|error| Error::file("look at namespace", netns, error))?;
        // Inodes of namespaces have 32 bits (`struct ns_common`).
        Ok(Interface { netns: found.ino() as u32, ifindex })
    }

    /// The interface of this name, in the namespace of this process.
    ///
    /// # Errors
    /// If there is none.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let file = PathBuf::from("/sys/class/net").join(name).join("ifindex");
        let what = "find the network interface at";
        let no_name = name.is_empty() || name.starts_with('.') || name.contains('/');
        if no_name {
            return Err(Error::file(what, &file, io::ErrorKind::InvalidInput.into()));
        }
        let text = fs::read_to_string(&file).map_err(|error| Error::file(what, &file, error))?;
        let ifindex = text.trim().parse();
        let ifindex =
            ifindex.map_err(|_| Error::file(what, &file, io::ErrorKind::InvalidData.into()))?;
        Self::at(Path::new("/proc/self/ns/net"), ifindex)
    }

    /// `struct link_key` of `bpf/packets.h`.
    pub(crate) fn key(self) -> [u8; 8] {
        let mut key = [0; 8];
        key[..4].copy_from_slice(&self.netns.to_ne_bytes());
        key[4..].copy_from_slice(&self.ifindex.to_ne_bytes());
        key
    }

    /// The other way round.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        let (netns, ifindex) = key.split_at_checked(4)?;
        let word = |bytes: &[u8]| Some(u32::from_ne_bytes(bytes.try_into().ok()?));
        Some(Interface { netns: word(netns)?, ifindex: word(ifindex)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_and_a_path_is_no_name() {
        let lo = Interface::by_name("lo").expect("every namespace has it");
        assert_eq!(lo, Interface::of_process(std::process::id(), 1).unwrap());
        assert_eq!(Interface::from_key(&lo.key()), Some(lo));
        for name in ["", "..", "../net/lo", "no-such-name"] {
            assert!(Interface::by_name(name).is_err(), "{name:?}");
        }
    }
}
