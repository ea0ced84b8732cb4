//! What becomes of a VM's packets: `bpf/path.bpf.c`, and what it has counted.

mod interface;
mod reason;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, OpenObject};

pub use interface::Interface;
use reason::Reasons;

use super::{Drop, Histogram, Network, QueueBlame};
use lowtail_kernel::Error;
use lowtail_kernel::bpf;
use lowtail_kernel::shared::{Layouts, Shared, Value};
use lowtail_kernel::shared_struct;

/// The program, compiled.
pub(crate) const COMPILED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/path.bpf.o"));

shared_struct! {
    /// `struct slot` of `bpf/figures.h`: a VM's figures.
    struct Slot = "slot" {
        epoch: u64,
        packets: u64,
        bytes: u64,
        received_packets: u64,
        sent: [u64; 3],
        received: [u64; 3],
        queue: [u8; Histogram::SIZE],
        beyond: [u8; Histogram::SIZE],
        ring: [u8; Histogram::SIZE],
    }
}

/// Senders that have numbers: `SENDERS` of `bpf/senders.h`.
pub(crate) const SENDERS: usize = 256;

shared_struct! {
    /// `struct ahead` of `bpf/ahead.h`: bytes that left before a VM's packets, of those that go one way.
    pub(crate) struct AheadBytes = "ahead" {
        link: [u8; 8],
        pub(crate) packets: u64,
        pub(crate) delay_ns: u64,
        pub(crate) bytes: [u64; SENDERS],
        before: [u64; SENDERS],
    }
}

shared_struct! {
    /// `struct lost` of `bpf/figures.h`.
    struct Losses = "lost" {
        packets: u64,
        odd: u64,
        drops: u64,
        flows: u64,
        blame: u64,
    }
}

shared_struct! {
    /// `struct config`: the program's constants.
    struct Config = "config" {
        seed: u64,
        packet_mask: u32,
        flow_mask: u32,
        named: u32,
        pad: u32,
    }
}

shared_struct! {
    /// `struct link`: of which kind an interface is, the slot of its VM, and whether packets wait there for the VM.
    struct LinkBytes = "link" {
        kind: u32,
        slot: u32,
        ring: u32,
        pad: u32,
    }
}

shared_struct! {
    /// `struct drop_key`.
    struct DropKey = "drop_key" {
        slot: u32,
        reason: u32,
    }
}

/// Compares what both sides have in maps.
fn check() -> Result<(), Error> {
    let layouts = Layouts::of(COMPILED)?.check::<Slot>()?.check::<Losses>()?.check::<Config>()?;
    layouts.check::<LinkBytes>()?.check::<DropKey>()?.check::<AheadBytes>().map(|_| ())
}

/// Packets that a VM gets, beside those that it sends: `AHEAD_RECEIVED` of `bpf/ahead.h`.
const AHEAD_RECEIVED: u32 = 1 << 31;

/// The way of a VM's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// Out, by an uplink.
    Sent,
    /// In, by its tap.
    Received,
}

impl Way {
    /// Both of them.
    pub(crate) const BOTH: [Way; 2] = [Way::Sent, Way::Received];

    /// The key of a slot's entry in `aheads`.
    pub(crate) fn key(self, slot: u32) -> [u8; 4] {
        let number = match self {
            Way::Sent => slot,
            Way::Received => slot | AHEAD_RECEIVED,
        };
        number.to_ne_bytes()
    }
}

/// Uplinks of which it is told whose bytes they send, beside all taps.
const UPLINKS_MAX: u32 = 64;

/// Kinds of links, `enum link_kind`.
const OTHER: u32 = 0;
const TAP: u32 = 1;
const UPLINK: u32 = 2;

/// How much is kept in the kernel.
#[derive(Clone, Debug)]
pub struct PathOptions {
    /// Slots for VMs, numbered from 0, 65,536 at most. 2.3 kB three times for each; 16 kB for each VM that has one, and 4 kB for
    /// each of its taps that gets packets.
    pub slots: u32,
    /// Packets that can be in queues at once. 32 bytes each, rounded up to a power of two.
    pub packets: u32,
    /// Connections that can be measured at once. 48 bytes each, rounded up to a power of two.
    pub flows: u32,
    /// The uplinks. With none named it is every interface with a queue that a VM's packets leave
    /// by and that is nobody's tap.
    pub uplinks: Vec<Interface>,
}

impl Default for PathOptions {
    fn default() -> Self {
        PathOptions { slots: 256, packets: 1 << 16, flows: 1 << 15, uplinks: Vec::new() }
    }
}

/// What was not followed. With all at 0 the figures are complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathLost {
    /// Packets that were forgotten for want of room, or that were not seen leaving their queue.
    pub packets: u64,
    /// TCP segments whose headers are not whole, or not where they belong.
    pub odd: u64,
    /// Packets dropped for reasons that did not fit.
    pub drops: u64,
    /// Connections that were forgotten before an answer came.
    pub flows: u64,
    /// Packets at uplinks and taps that are in no blame: there are too many of these.
    pub blame: u64,
}

/// The observer of packets. When it is dropped, or the process ends, the kernel's side is gone.
#[derive(Debug)]
pub struct Path {
    object: Object,
    /// Detached when dropped.
    _attached: Vec<Link>,
    reasons: Option<Reasons>,
    slots: u32,
    /// Who has which interfaces.
    tracked: BTreeMap<u32, BTreeSet<Interface>>,
    /// How often each slot was given away.
    epochs: BTreeMap<u32, u64>,
}

impl Path {
    /// Loads and attaches the program. Nothing is counted before [`Path::track`].
    ///
    /// # Errors
    /// If the kernel has no BTF, or does not let this user load programs.
    pub fn start(options: &PathOptions) -> Result<Self, Error> {
        let failed = |what| move |source| Error::Bpf { what, source };
        check()?;
        let reasons = Reasons::of_kernel().map_err(failed("read the kernel's BTF"))?;
        let need = || "packets and connections, some 15 MB".to_string();
        let object =
            bpf::load(COMPILED, need, |object| prepare(object, options, reasons.is_some()))?;
        let path = Path {
            _attached: Vec::new(),
            object,
            reasons,
            slots: options.slots.clamp(1, 1 << 16),
            tracked: BTreeMap::new(),
            epochs: BTreeMap::new(),
        };
        for uplink in &options.uplinks {
            path.set_link(*uplink, UPLINK, 0)?;
        }
        let programs = path.object.progs_mut().filter(|program| program.autoload());
        let attached = programs.map(|program| program.attach()).collect::<Result<_, _>>();
        let attached = attached.map_err(failed("attach to the network's tracepoints"))?;
        Ok(Path { _attached: attached, ..path })
    }

    /// What cannot be seen on this host, and why.
    pub fn coverage_gaps(&self) -> Option<&'static str> {
        let word =
            "dropped packets: this kernel gives no reasons for drops, Linux 5.17 and newer do";
        self.reasons.is_none().then_some(word)
    }

    /// Says which VMs there are: the slot of each, and its interfaces. Slots that are no longer
    /// named are no longer counted; one that is named anew begins at 0.
    ///
    /// # Errors
    /// If a slot is not there ([`PathOptions::slots`]), or the kernel refuses.
    pub fn track(&mut self, vms: &[(u32, Vec<Interface>)]) -> Result<(), Error> {
        let wanted: BTreeMap<u32, BTreeSet<Interface>> =
            vms.iter().map(|(slot, taps)| (*slot, taps.iter().copied().collect())).collect();
        if let Some(slot) = wanted.keys().find(|slot| **slot >= self.slots) {
            let word = format!("slot {slot} of {} for VMs' traffic", self.slots);
            return Err(Error::Scenario(word));
        }
        let taps: BTreeSet<Interface> = wanted.values().flatten().copied().collect();
        for gone in self.tracked.values().flatten().filter(|tap| !taps.contains(tap)) {
            self.forget_link(*gone)?;
            delete(&self.map("served"), &gone.key())?;
        }
        for slot in wanted.keys().filter(|slot| !self.tracked.contains_key(slot)) {
            let epoch = self.epochs.entry(*slot).or_insert(0);
            *epoch += 1;
            let epoch = *epoch;
            self.clear(*slot, epoch)?;
        }
        for slot in self.tracked.keys().filter(|slot| !wanted.contains_key(slot)) {
            Way::BOTH.iter().try_for_each(|way| delete(&self.map("aheads"), &way.key(*slot)))?;
        }
        for (slot, taps) in &wanted {
            let before = self.tracked.get(slot);
            let is_new = |tap: &&Interface| before.is_none_or(|before| !before.contains(tap));
            for tap in taps.iter().filter(is_new) {
                self.set_link(*tap, TAP, *slot)?;
            }
        }
        self.tracked = wanted;
        self.look_again()
    }

    /// What was counted of each VM, since its slot was given to it. Its interfaces are not filled in.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read(&self) -> Result<BTreeMap<u32, Network>, Error> {
        let mut all = BTreeMap::new();
        for slot in self.tracked.keys() {
            let bytes = self.lookup("slots", &slot.to_ne_bytes())?;
            all.insert(*slot, network(&bytes).unwrap_or_default());
        }
        let drops = self.map("drops");
        for key in drops.keys() {
            let Some((slot, reason)) = drop_key(&key) else { continue };
            let name = self.reasons.as_ref().and_then(|reasons| reasons.name(reason));
            let (Some(network), Some(reason)) = (all.get_mut(&slot), name) else { continue };
            let packets = self.lookup("drops", &key)?;
            let packets = packets.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            network.drops.push(Drop { reason, packets });
        }
        for network in all.values_mut() {
            network.drops.sort_by(|a, b| a.reason.cmp(&b.reason));
        }
        Ok(all)
    }

    /// What was not followed, of all VMs.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn lost(&self) -> Result<PathLost, Error> {
        let bytes = self.lookup("losses", &0u32.to_ne_bytes())?;
        let lost = Losses::from_bytes(&bytes).unwrap_or_else(|| Losses::get(&[0; Losses::BYTES]));
        let Losses { packets, odd, drops, flows, blame } = lost;
        Ok(PathLost { packets, odd, drops, flows, blame })
    }

    /// The uplinks that were named, or found so far.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn uplinks(&self) -> Result<Vec<Interface>, Error> {
        let all = self.links()?;
        let uplinks = all.into_iter().filter(|(_, kind)| *kind == UPLINK);
        Ok(uplinks.map(|(interface, _)| interface).collect())
    }

    /// The VMs' interfaces, and the slot of each.
    pub(crate) fn taps(&self) -> BTreeMap<Interface, u32> {
        let of = |(slot, taps): (&u32, &BTreeSet<Interface>)| -> Vec<(Interface, u32)> {
            taps.iter().map(|tap| (*tap, *slot)).collect()
        };
        self.tracked.iter().flat_map(of).collect()
    }

    /// All interfaces that the kernel's side knows, and of which kind they are.
    fn links(&self) -> Result<Vec<(Interface, u32)>, Error> {
        let map = self.map("links");
        let mut all = Vec::new();
        for key in map.keys() {
            let link = self.lookup("links", &key)?;
            let link = LinkBytes::from_bytes(&link);
            if let (Some(interface), Some(link)) = (Interface::from_key(&key), link) {
                all.push((interface, link.kind));
            }
        }
        Ok(all)
    }

    /// Has the kernel's side look again at interfaces that were no uplinks: they may have got a queue.
    /// What is an uplink stays one, or answers that come in between would be missed.
    fn look_again(&self) -> Result<(), Error> {
        for (interface, _) in self.links()?.into_iter().filter(|(_, kind)| *kind == OTHER) {
            self.forget_link(interface)?;
        }
        Ok(())
    }

    fn set_link(&self, interface: Interface, kind: u32, slot: u32) -> Result<(), Error> {
        let link = LinkBytes { kind, slot, ring: 0, pad: 0 }.to_bytes();
        let done = self.map("links").update(&interface.key(), &link, MapFlags::ANY);
        done.map_err(|source| Error::Bpf { what: "note a network interface", source })
    }

    fn forget_link(&self, interface: Interface) -> Result<(), Error> {
        delete(&self.map("links"), &interface.key())
    }

    /// Empties a slot for its next owner.
    fn clear(&self, slot: u32, epoch: u64) -> Result<(), Error> {
        let empty = Slot { epoch, ..Slot::get(&[0; Slot::BYTES]) }.to_bytes();
        let done = self.map("slots").update(&slot.to_ne_bytes(), &empty, MapFlags::ANY);
        done.map_err(|source| Error::Bpf { what: "clear a VM's figures", source })?;
        let empty = [0; AheadBytes::BYTES];
        for way in Way::BOTH {
            let done = self.map("aheads").update(&way.key(slot), &empty, MapFlags::ANY);
            done.map_err(|source| Error::Bpf { what: "clear a VM's figures", source })?;
        }
        let drops = self.map("drops");
        let old: Vec<_> =
            drops.keys().filter(|key| drop_key(key).is_some_and(|key| key.0 == slot)).collect();
        old.iter().try_for_each(|key| delete(&drops, key))
    }

    /// A value; all zeros if there is none.
    pub(crate) fn lookup(&self, map: &str, key: &[u8]) -> Result<Vec<u8>, Error> {
        let found = self.map(map).lookup(key, MapFlags::ANY);
        let found =
            found.map_err(|source| Error::Bpf { what: "read the network's figures", source });
        Ok(found?.unwrap_or_default())
    }

    pub(crate) fn map(&self, name: &str) -> Map<'_> {
        let all = self.object.maps();
        all.into_iter().find(|map| map.name() == name).expect("the program has this map")
    }
}

/// Sets sizes and constants.
fn prepare(object: &mut OpenObject, options: &PathOptions, reasons: bool) -> libbpf_rs::Result<()> {
    // `PACKET_WAYS` and `FLOW_WAYS` to a set.
    let packet_sets = options.packets.clamp(64, 1 << 22).div_ceil(4).next_power_of_two();
    let flow_sets = options.flows.clamp(64, 1 << 22).div_ceil(8).next_power_of_two();
    let slots = options.slots.clamp(1, 1 << 16);
    for mut map in object.maps_mut() {
        match map.name().to_str() {
            Some("slots") => map.set_max_entries(slots)?,
            Some("aheads") => map.set_max_entries(2 * slots)?,
            // A VM may have several taps.
            Some("served") => map.set_max_entries(UPLINKS_MAX + 4 * slots)?,
            Some("packets") => map.set_max_entries(packet_sets)?,
            Some("flows") => map.set_max_entries(flow_sets)?,
            Some(name) if name.ends_with("rodata.config") => {
                let named = u32::from(!options.uplinks.is_empty());
                let config = Config {
                    seed: RandomState::new().hash_one(packet_sets),
                    packet_mask: packet_sets - 1,
                    flow_mask: flow_sets - 1,
                    named,
                    pad: 0,
                };
                map.set_initial_value(&config.to_bytes())?;
            }
            _ => {}
        }
    }
    for mut program in object.progs_mut() {
        if program.name() == "dropped" {
            program.set_autoload(reasons);
        }
    }
    Ok(())
}

/// `struct slot`; `None` if it is not as long as one.
pub(super) fn network(bytes: &[u8]) -> Option<Network> {
    let slot = Slot::from_bytes(bytes)?;
    Some(Network {
        taps: Vec::new(),
        transmitted_packets: slot.packets,
        transmitted_bytes: slot.bytes,
        queueing_delay: Histogram::from_bytes(&slot.queue)?,
        drops: Vec::new(),
        round_trip: Histogram::from_bytes(&slot.beyond)?,
        queue_blame: QueueBlame::default(),
        received_packets: slot.received_packets,
        received_bytes: 0,
        received_senders: Vec::new(),
        receive_queueing_delay: Histogram::from_bytes(&slot.ring)?,
        receive_queue_blame: QueueBlame::default(),
    })
}

/// `struct drop_key`: slot and reason.
pub(super) fn drop_key(key: &[u8]) -> Option<(u32, u32)> {
    DropKey::from_bytes(key).map(|key| (key.slot, key.reason))
}

/// Removes an entry that may be gone already.
pub(crate) fn delete(map: &Map<'_>, key: &[u8]) -> Result<(), Error> {
    match map.delete(key) {
        Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
        done => done.map_err(|source| Error::Bpf { what: "forget a network interface", source }),
    }
}

impl Network {
    /// What has come since `earlier`, of the same VM.
    #[must_use]
    pub fn since(&self, earlier: &Network) -> Network {
        let before = |reason: &str| {
            let same = earlier.drops.iter().find(|drop| drop.reason == reason);
            same.map_or(0, |drop| drop.packets)
        };
        let drops = self.drops.iter().map(|drop| Drop {
            reason: drop.reason.clone(),
            packets: drop.packets.saturating_sub(before(&drop.reason)),
        });
        Network {
            taps: self.taps.clone(),
            transmitted_packets: self
                .transmitted_packets
                .saturating_sub(earlier.transmitted_packets),
            transmitted_bytes: self.transmitted_bytes.saturating_sub(earlier.transmitted_bytes),
            queueing_delay: self.queueing_delay.since(&earlier.queueing_delay),
            drops: drops.filter(|drop| drop.packets > 0).collect(),
            round_trip: self.round_trip.since(&earlier.round_trip),
            queue_blame: QueueBlame::default(),
            received_packets: self.received_packets.saturating_sub(earlier.received_packets),
            received_bytes: 0,
            received_senders: Vec::new(),
            receive_queueing_delay: self
                .receive_queueing_delay
                .since(&earlier.receive_queueing_delay),
            receive_queue_blame: QueueBlame::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_structures() {
        check().expect("the program that is compiled in");
    }
}
