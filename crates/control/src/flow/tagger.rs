//! The program in the kernel and its tables.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, Program};
use lowtail_policy::FlowParams;
use serde::Serialize;

use super::layout::{self, FlowVm, SEED, Told};
use super::{Counts, Mask, TaggerConfig, VMS_MAX};
use lowtail_kernel::Error;
use lowtail_kernel::bpf;
use lowtail_kernel::shared::Shared;
use lowtail_kernel::tc::{self, Hook, Link};

const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flow.bpf.o"));

/// Interfaces of VMs that are told.
pub const INTERFACES_MAX: u32 = 2 * VMS_MAX;
/// Sets of pairs, one line of the cache each: 1 MB is enough for 10 Gbit/s (docs/explanation/small-first.md).
const SETS: u32 = 1 << 14;

/// A tagger and its tables.
#[derive(Debug)]
pub struct Tagger {
    /// For uplinks and for taps.
    tag: OwnedFd,
    uplinks: MapHandle,
    owners: MapHandle,
    counts: MapHandle,
    shared: MapHandle,
    vms: MapHandle,
}

/// What was not small of a VM's packets, though its pairs had the tokens: `struct lt_flow_vm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TaggedVm {
    /// Packets that found no entry for their pair.
    pub unknown: u64,
    /// Packets that lacked the VM's own tokens.
    pub refused: u64,
}

fn failed(what: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| Error::Bpf { what, source }
}

impl Tagger {
    /// Loads one, with empty tables and a seed that nobody knows. It is gone with this value if it is not attached.
    ///
    /// # Errors
    /// If a parameter is out of range, or the kernel does not take it.
    pub fn load(params: &FlowParams, marks: Mask) -> Result<Self, Error> {
        layout::check(PROGRAM)?;
        let mut seed = [0; 8 * SEED];
        let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
        random.map_err(|error| Error::network("cannot draw random numbers", error))?;
        let (words, _) = seed.as_chunks::<8>();
        let mut numbers = [0; SEED];
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = u64::from_ne_bytes(*word);
        }
        let shared = layout::shared(params, numbers, SETS - 1, marks)
            .map_err(|why| Error::network("a tagger", why))?;
        let need = || "a tagger of packets, some 3 MB".to_string();
        let object = bpf::load(PROGRAM, need, |object| {
            let sizes = [("sets", SETS), ("vms", VMS_MAX), ("owners", INTERFACES_MAX)];
            for mut map in object.maps_mut() {
                let name = map.name().to_string_lossy().into_owned();
                if let Some((_, size)) = sizes.iter().find(|(of, _)| *of == name) {
                    map.set_max_entries(*size)?;
                }
            }
            Ok(())
        })?;
        let tagger = Self::of(&object)?;
        let key = 0u32.to_ne_bytes();
        let config = tagger.shared.update(&key, &shared, MapFlags::ANY);
        config.map_err(failed("tell a tagger its rule"))?;
        Ok(tagger)
    }

    fn of(object: &Object) -> Result<Self, Error> {
        let what = "find the tagger's parts";
        let missing = || failed(what)(libbpf_rs::Error::from_raw_os_error(libc::ENOENT));
        let map = |end: &str| {
            let found = object.maps().find(|map| map.name().to_string_lossy().ends_with(end));
            MapHandle::try_from(&found.ok_or_else(missing)?).map_err(failed(what))
        };
        let program = |name: &str| {
            let found = object.progs().find(|program| program.name() == name);
            let own = found.ok_or_else(missing)?.as_fd().try_clone_to_owned();
            own.map_err(|error| failed(what)(error.into()))
        };
        Ok(Tagger {
            tag: program("tag")?,
            uplinks: map("uplinks")?,
            owners: map("owners")?,
            counts: map("counts")?,
            shared: map(".bss")?,
            vms: map("vms")?,
        })
    }

    /// The one that runs at an uplink; `None` if there is none.
    ///
    /// # Errors
    /// What the kernel says, or that somebody else's filter is in our place.
    pub fn running(link: &Link) -> Result<Option<Self>, Error> {
        Self::running_at(link, Hook::Egress)
    }

    /// The one that runs at an interface, which has hooks: as an uplink's at egress, as a tap's at ingress. `None` if there
    /// is none.
    ///
    /// # Errors
    /// As [`running`](Tagger::running).
    pub fn running_at(link: &Link, hook: Hook) -> Result<Option<Self>, Error> {
        tc::own(link, hook)?.map_or(Ok(None), Self::numbered)
    }

    /// The one whose program has this number; `None` if it is gone.
    pub(super) fn numbered(id: u32) -> Result<Option<Self>, Error> {
        let what = "find a running tagger";
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let Some(info) = ProgInfoIter::with_query_opts(options).find(|info| info.id == id) else {
            return Ok(None);
        };
        let maps: Result<Vec<MapHandle>, libbpf_rs::Error> =
            info.map_ids.iter().map(|id| MapHandle::from_map_id(*id)).collect();
        let maps = maps.map_err(failed(what))?;
        let map = |end: &str| {
            let found = maps.iter().find(|map| map.name().to_string_lossy().ends_with(end));
            let missing = || failed(what)(libbpf_rs::Error::from_raw_os_error(libc::ENOENT));
            MapHandle::try_from(found.ok_or_else(missing)?).map_err(failed(what))
        };
        Ok(Some(Tagger {
            tag: Program::fd_from_id(id).map_err(failed(what))?,
            uplinks: map("uplinks")?,
            owners: map("owners")?,
            counts: map("counts")?,
            shared: map(".bss")?,
            vms: map("vms")?,
        }))
    }

    /// Attaches it to the egress of an uplink, which has hooks; an earlier one of ours goes.
    ///
    /// # Errors
    /// What is out of range in `config`, or what the kernel says.
    pub fn attach(&self, link: &Link, config: &TaggerConfig) -> Result<(), Error> {
        config.check()?;
        let value = layout::uplink(config);
        let put = self.uplinks.update(&link.ifindex.to_ne_bytes(), &value, MapFlags::ANY);
        put.map_err(failed("tell a tagger of an uplink"))?;
        tc::attach(link, Hook::Egress, self.tag.as_fd())
    }

    /// Attaches it to the ingress of a VM's tap, which has hooks and is no uplink: there it notes the VM in each
    /// packet's mark, for VMs whose packets are routed. Needs marks. An earlier one of ours goes.
    ///
    /// # Errors
    /// What the kernel says, or that somebody else's filter is in our place.
    pub fn attach_tap(&self, link: &Link) -> Result<(), Error> {
        tc::attach(link, Hook::Ingress, self.tag.as_fd())
    }

    /// Removes it from the egress of an uplink.
    ///
    /// # Errors
    /// What the kernel says, or that somebody else's filter is in our place.
    pub(super) fn detach(&self, link: &Link) -> Result<(), Error> {
        tc::detach(link, Hook::Egress)?;
        // It may go on at other uplinks, and this one may be a tap of somebody's.
        match self.uplinks.delete(&link.ifindex.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(failed("tell a tagger that an uplink is none")(error))
            }
            _ => Ok(()),
        }
    }

    /// Tells whose each interface is: number of the interface, number of the VM from 1 on. Others than these are
    /// the host's.
    ///
    /// # Errors
    /// If a number is too large, or there are too many interfaces: nothing is told then. What the kernel says.
    pub fn set_owners(&self, vms: &[(u32, u32)]) -> Result<(), Error> {
        let what = "tell a tagger of VMs";
        let marks = self.told()?.marks;
        let most = if marks == Mask::NONE { VMS_MAX - 1 } else { marks.vms() };
        if let Some((_, number)) = vms.iter().find(|(_, number)| *number > most) {
            let why = format!("VM {number}: there is room for {most}");
            return Err(Error::network(what, why));
        }
        // The kernel would take the first ones only.
        if vms.len() > INTERFACES_MAX as usize {
            let n = vms.len();
            let why =
                format!("{n} interfaces: there is room for {INTERFACES_MAX}; all stays as it was");
            return Err(Error::network(what, why));
        }
        // First those that have gone, so that there is room. Packets of an interface that is not known are the host's.
        for key in self.owners.keys().collect::<Vec<_>>() {
            let known = vms.iter().any(|(ifindex, _)| ifindex.to_ne_bytes()[..] == key[..]);
            if !known {
                self.owners.delete(&key).map_err(failed(what))?;
            }
        }
        for (ifindex, number) in vms {
            let (key, value) = (ifindex.to_ne_bytes(), number.to_ne_bytes());
            self.owners.update(&key, &value, MapFlags::ANY).map_err(failed(what))?;
        }
        Ok(())
    }

    /// What it [is given](Tagger::set_owners): number of the interface, number of the VM, in this order.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn owners(&self) -> Result<Vec<(u32, u32)>, Error> {
        let number = |bytes: &[u8]| Some(u32::from_ne_bytes(bytes.try_into().ok()?));
        let mut known = Vec::new();
        for key in self.owners.keys() {
            let value = self.owners.lookup(&key, MapFlags::ANY);
            let value = value.map_err(failed("read what a tagger knows"))?;
            known.extend(value.and_then(|value| Some((number(&key)?, number(&value)?))));
        }
        known.sort_unstable();
        Ok(known)
    }

    /// What has passed all uplinks of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self) -> Result<Counts, Error> {
        let what = "read what a tagger has counted";
        let found = self.counts.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let mut sum = Counts::default();
        for cpu in found.map_err(failed(what))?.unwrap_or_default() {
            sum.add(&cpu);
        }
        Ok(sum)
    }

    /// What was refused to a VM; number 0 is the host and who is not known.
    ///
    /// # Errors
    /// What the kernel says, or that there is no such number.
    pub fn vm(&self, number: u32) -> Result<TaggedVm, Error> {
        let what = "read what a tagger knows of a VM";
        let missing = || failed(what)(libbpf_rs::Error::from_raw_os_error(libc::ENOENT));
        let found = self.vms.lookup(&number.to_ne_bytes(), MapFlags::ANY).map_err(failed(what))?;
        let found = found.ok_or_else(missing)?;
        let found = FlowVm::from_bytes(&found).ok_or_else(missing)?;
        Ok(TaggedVm { unknown: found.unknown, refused: found.refused })
    }

    /// What it was told.
    pub(super) fn told(&self) -> Result<Told, Error> {
        let what = "read a tagger's rule";
        let odd = || failed(what)(libbpf_rs::Error::from_raw_os_error(libc::EINVAL));
        let shared =
            self.shared.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(failed(what))?;
        shared.and_then(|shared| layout::told(&shared)).ok_or_else(odd)
    }

    /// What it is told of an uplink.
    pub(super) fn config(&self, link: &Link) -> Result<TaggerConfig, Error> {
        let what = "read what a tagger is told";
        let odd = || failed(what)(libbpf_rs::Error::from_raw_os_error(libc::EINVAL));
        let told = self.told()?;
        let uplink = self.uplinks.lookup(&link.ifindex.to_ne_bytes(), MapFlags::ANY);
        let uplink = uplink.map_err(failed(what))?;
        uplink.and_then(|bytes| layout::parse_uplink(&bytes, &told)).ok_or_else(odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_structures() {
        layout::check(PROGRAM).expect("the program that is compiled in");
    }
}
