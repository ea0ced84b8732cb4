//! What uplinks have sent and VMs have got, by whose it was: `bpf/senders.h` and `bpf/ahead.h`.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};

use super::network::{AheadBytes, COMPILED, Interface, Path, SENDERS, Way, delete};
use lowtail_kernel::Error;
use lowtail_kernel::shared::{Layouts, Shared, Value};
use lowtail_kernel::shared_struct;

/// From here on numbers are given as senders are seen: `enum sender`.
const NAMED: u32 = 195;
const OTHER_VMS: u32 = 192;
const HOST: u32 = 193;

/// `enum sender_kind`.
const GROUP: u64 = 1;
const INTERFACE: u64 = 2;

shared_struct! {
    /// `struct sender_key`.
    struct SenderKey = "sender_key" {
        id: u64,
        kind: u64,
    }
}

shared_struct! {
    /// `struct served`: bytes of each sender.
    struct Served = "served" {
        bytes: [u64; SENDERS],
    }
}

/// Compares what both sides have in maps.
pub(crate) fn check() -> Result<(), Error> {
    Layouts::of(COMPILED)?.check::<SenderKey>()?.check::<Served>().map(|_| ())
}

/// Whose a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Numbered {
    /// A VM's: its slot.
    Slot(u32),
    /// VMs whose slots are beyond.
    OtherVms,
    /// The host's kernel, or a socket that nobody has.
    Host,
    /// Who has found no number.
    Others,
    /// A control group: its number.
    Group(u64),
    /// Others, by the interface by which their packets come in.
    Interface(Interface),
}

/// What left before those packets of a VM's that were followed, since its slot was given to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Packets that were followed.
    pub(crate) packets: u64,
    /// How long they waited, together.
    pub(crate) delay_ns: u64,
    /// Bytes by the number of their sender.
    pub(crate) bytes: Vec<u64>,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead { packets: 0, delay_ns: 0, bytes: vec![0; SENDERS] }
    }
}

impl Path {
    /// Whose the numbers are that somebody has now.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn senders(&self) -> Result<BTreeMap<u32, Numbered>, Error> {
        let mut all: BTreeMap<u32, Numbered> =
            (0..OTHER_VMS).map(|slot| (slot, Numbered::Slot(slot))).collect();
        let others = [(OTHER_VMS, Numbered::OtherVms), (HOST, Numbered::Host)];
        all.extend(others);
        all.insert(HOST + 1, Numbered::Others);
        let map = self.map("senders");
        for bytes in map.keys() {
            let Some(key) = SenderKey::from_bytes(&bytes) else { continue };
            let number = u32::get(&self.lookup("senders", &bytes)?);
            if number < NAMED {
                continue;
            }
            let whose = match key.kind {
                GROUP => Numbered::Group(key.id),
                INTERFACE => {
                    let (netns, ifindex) = ((key.id >> 32) as u32, key.id as u32);
                    Numbered::Interface(Interface { netns, ifindex })
                }
                _ => continue,
            };
            all.insert(number, whose);
        }
        Ok(all)
    }

    /// Gives a number back, of a group or an interface that is not seen any more. Whoever is seen next may get it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn forget_sender(&self, number: u32, whose: Numbered) -> Result<(), Error> {
        let key = match whose {
            Numbered::Group(id) => SenderKey { id, kind: GROUP },
            Numbered::Interface(Interface { netns, ifindex }) => {
                SenderKey { id: u64::from(netns) << 32 | u64::from(ifindex), kind: INTERFACE }
            }
            _ => return Ok(()),
        };
        delete(&self.map("senders"), &key.to_bytes())?;
        // The kernel's side takes a number before it enters it, so that an entry that is gone has its number for itself.
        let at = number.saturating_sub(NAMED).to_ne_bytes();
        let zero = 0u64.to_ne_bytes();
        let done = self.map("taken").update(&at, &zero, MapFlags::ANY);
        let done =
            done.and_then(|()| self.map("full").update(&0u32.to_ne_bytes(), &zero, MapFlags::ANY));
        done.map_err(|source| Error::Bpf { what: "forget a sender", source })
    }

    /// Whether somebody has found no number since some were given back.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn is_full(&self) -> Result<bool, Error> {
        Ok(u64::get(&self.lookup("full", &0u32.to_ne_bytes())?) != 0)
    }

    /// Forgets an uplink that is no more.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn forget_uplink(&self, uplink: Interface) -> Result<(), Error> {
        delete(&self.map("links"), &uplink.key())?;
        delete(&self.map("served"), &uplink.key())
    }

    /// Bytes by the number of their sender, that each uplink has sent, and that were taken from each tap.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn served(&self) -> Result<BTreeMap<Interface, Vec<u64>>, Error> {
        let map = self.map("served");
        let mut all = BTreeMap::new();
        for key in map.keys() {
            let bytes = self.lookup("served", &key)?;
            if let (Some(uplink), Some(served)) =
                (Interface::from_key(&key), Served::from_bytes(&bytes))
            {
                all.insert(uplink, served.bytes.to_vec());
            }
        }
        Ok(all)
    }

    /// What left before the packets of a slot's VM.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn ahead(&self, way: Way, slot: u32) -> Result<Ahead, Error> {
        let bytes = self.lookup("aheads", &way.key(slot))?;
        let ahead = AheadBytes::from_bytes(&bytes);
        Ok(ahead.map_or_else(Ahead::default, |ahead| Ahead {
            packets: ahead.packets,
            delay_ns: ahead.delay_ns,
            bytes: ahead.bytes.to_vec(),
        }))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_sides_have_the_same_structures() {
        super::check().expect("the program that is compiled in");
    }
}
