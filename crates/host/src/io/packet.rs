//! Packets, as far as a host's queues care.

use crate::ids::Dom;

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// Out, through this NIC.
    Nic(u16),
    /// To this guest.
    Dom(Dom),
}

/// The way of a packet through the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// From a NIC to a guest.
    In {
        /// The guest.
        to: Dom,
    },
    /// From a guest to a NIC.
    Out {
        /// The guest.
        from: Dom,
        /// The NIC.
        nic: u16,
    },
    /// From a guest to another one.
    Between {
        /// The one that sends.
        from: Dom,
        /// The one that receives.
        to: Dom,
    },
}

/// A packet, or an aggregate of up to 64 KB that is cut up only at the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Length of the IP packet.
    pub(crate) bytes: u32,
    /// Its name on the other side of the [port](super::port).
    pub(crate) token: u32,
    /// Chooses the queue where an interface has several.
    pub(crate) hash: u16,
    pub(crate) course: Course,
}

/// Longest IP packet on an Ethernet wire.
pub const MTU_BYTES: u32 = 1500;
/// Bytes of a page, and so at most of a slot.
const PAGE_BYTES: u32 = 4096;

impl Packet {
    /// Slots of a shared ring that it takes: one for each page, and one more for what says
    /// how an aggregate is to be cut up (`XEN_NETIF_EXTRA_TYPE_GSO`); 64 KB take 17.
    pub fn slots(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES).max(1) + u32::from(self.bytes > MTU_BYTES)
    }

    /// Where it goes.
    pub fn to(&self) -> Destination {
        match self.course {
            Course::In { to } | Course::Between { to, .. } => Destination::Dom(to),
            Course::Out { nic, .. } => Destination::Nic(nic),
        }
    }

    /// The guest that sends it; `None`: it came from a NIC.
    pub fn from(&self) -> Option<Dom> {
        match self.course {
            Course::In { .. } => None,
            Course::Out { from, .. } | Course::Between { from, .. } => Some(from),
        }
    }

    /// The guest that it belongs to: the sender, or if it came from a NIC, the receiver.
    pub fn guest(&self) -> Dom {
        match self.course {
            Course::In { to } => to,
            Course::Out { from, .. } | Course::Between { from, .. } => from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_on_the_ring() {
        let slots = |bytes| {
            let course = Course::In { to: Dom(1) };
            Packet { bytes, token: 0, hash: 0, course }.slots()
        };
        assert_eq!([1, 1500, 1501, 65_536].map(slots), [1, 1, 2, 17]);
        assert!(size_of::<Packet>() <= 20);
    }
}
