//! Blocks that say who filled the uplinks, written and read.

use std::collections::{BTreeMap, HashMap};

use crate::linux::bytes::{cut, u32_at, u64_at};
use crate::queues::{
    AheadInterval, QueueBlame, QueueInterval, Sender, UplinkBytes, UplinkQueues, rank,
};

/// Bytes of an entry of an interval.
const ENTRY_BYTES: usize = 32;
/// Entries of a block: of 64 uplinks all fit into one, and a block is as long as it may be.
const BLOCK_ENTRIES: usize = 32_000;
/// Names that a file may have, and how long they are at most.
const NAMES_MAX: usize = 65_536;
const NAME_BYTES_MAX: usize = 4096;
/// So many pairs of who waits and who sends may be in a file.
const PAIRS_MAX: usize = 1 << 20;
/// So many entries are remembered interval by interval.
const ENTRIES_MAX: usize = 1 << 20;

/// What stands in an entry.
mod what {
    /// Bytes that an uplink sent.
    pub(super) const SENT: u32 = 0;
    /// Bytes that left before a VM's packets.
    pub(super) const AHEAD: u32 = 1;
    /// Packets of a VM that were followed, and how long they waited.
    pub(super) const FOLLOWED: u32 = 2;
    /// The same two of packets to a VM, in its tap.
    pub(super) const AHEAD_AT_TAP: u32 = 3;
    pub(super) const FOLLOWED_AT_TAP: u32 = 4;
}

/// Whose a name is.
mod kind {
    pub(super) const VM: u32 = 0;
    pub(super) const GROUP: u32 = 1;
    pub(super) const INTERFACE: u32 = 2;
    pub(super) const HOST: u32 = 3;
    pub(super) const OTHERS: u32 = 4;
    pub(super) const UPLINK: u32 = 5;
}

/// A sender, or an uplink.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Named {
    Sender(Sender),
    Uplink(String),
}

/// Numbers that names were written under.
#[derive(Debug, Default)]
pub(super) struct Numbers(HashMap<Named, u32>);

impl Numbers {
    /// Blocks for an interval: names that are new, and the interval itself. What does not fit into one block is in others, whose
    /// intervals have no length.
    pub(super) fn blocks(&mut self, interval: &QueueInterval) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let mut names = Vec::new();
        let mut entries: Vec<[u8; ENTRY_BYTES]> = Vec::new();
        let mut entry = |what: u32, of: u32, sender: u32, amount: u64, delay_ns: u64| {
            let mut bytes = [0; ENTRY_BYTES];
            for (at, number) in [what, of, sender].into_iter().enumerate() {
                bytes[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
            }
            bytes[16..24].copy_from_slice(&amount.to_le_bytes());
            bytes[24..].copy_from_slice(&delay_ns.to_le_bytes());
            entries.push(bytes);
        };
        for (uplink, senders) in &interval.sent {
            let Some(of) = self.number(Named::Uplink(uplink.clone()), &mut names) else { continue };
            for (sender, bytes) in senders {
                let sender = self.number(Named::Sender(sender.clone()), &mut names);
                sender.into_iter().for_each(|sender| entry(what::SENT, of, sender, *bytes, 0));
            }
        }
        let at_uplinks = interval.ahead.iter().map(|ahead| (what::FOLLOWED, what::AHEAD, ahead));
        let at_taps = interval.ahead_at_taps.iter();
        let at_taps = at_taps.map(|ahead| (what::FOLLOWED_AT_TAP, what::AHEAD_AT_TAP, ahead));
        for (packets, bytes_ahead, ahead) in at_uplinks.chain(at_taps) {
            let vm = Named::Sender(Sender::Vm(ahead.vm.clone()));
            let Some(of) = self.number(vm, &mut names) else { continue };
            entry(packets, of, of, ahead.packets, ahead.delay_ns);
            for (sender, bytes) in &ahead.bytes {
                let sender = self.number(Named::Sender(sender.clone()), &mut names);
                sender.into_iter().for_each(|sender| entry(bytes_ahead, of, sender, *bytes, 0));
            }
        }
        // One of its own for the first, even if nothing has come: time passes all the same.
        let (first, rest) = entries.split_at(entries.len().min(BLOCK_ENTRIES));
        let block = |from_ns: u64, entries: &[[u8; ENTRY_BYTES]]| {
            let mut block = Vec::with_capacity(16 + ENTRY_BYTES * entries.len());
            block.extend(from_ns.to_le_bytes());
            block.extend(interval.to_ns.to_le_bytes());
            block.extend(entries.iter().flatten());
            block
        };
        let mut blocks = vec![block(interval.from_ns, first)];
        blocks.extend(rest.chunks(BLOCK_ENTRIES).map(|entries| block(interval.to_ns, entries)));
        (names, blocks)
    }

    /// The number of a name; a new one is added to `names`. `None` if there are too many.
    fn number(&mut self, named: Named, names: &mut Vec<Vec<u8>>) -> Option<u32> {
        if let Some(&number) = self.0.get(&named) {
            return Some(number);
        }
        if self.0.len() >= NAMES_MAX {
            return None;
        }
        let (kind, name) = match &named {
            Named::Uplink(name) => (kind::UPLINK, name.as_str()),
            Named::Sender(Sender::Vm(name)) => (kind::VM, name.as_str()),
            Named::Sender(Sender::Group(name)) => (kind::GROUP, name.as_str()),
            Named::Sender(Sender::Interface(name)) => (kind::INTERFACE, name.as_str()),
            Named::Sender(Sender::Host) => (kind::HOST, ""),
            Named::Sender(Sender::Others) => (kind::OTHERS, ""),
        };
        let name = cut(name, NAME_BYTES_MAX);
        let mut block = Vec::with_capacity(8 + name.len());
        block.extend(kind.to_le_bytes());
        block.extend((name.len() as u32).to_le_bytes());
        block.extend(name.as_bytes());
        names.push(block);
        let number = self.0.len() as u32;
        self.0.insert(named, number);
        Some(number)
    }
}

/// An entry of an interval: names are their numbers.
#[derive(Clone, Copy, Debug)]
struct Entry {
    what: u32,
    of: u32,
    sender: u32,
    amount: u64,
    delay_ns: u64,
}

/// What was read: names in their order, sums, and intervals as far as there is room. Names stay numbers, or a small file would
/// take much memory.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    names: Vec<Named>,
    span_ns: u64,
    /// Bytes by what, of whom and whose.
    sums: BTreeMap<(u32, u32, u32), u64>,
    /// By what, and of which VM: packets, and how long they waited.
    followed: BTreeMap<(u32, u32), (u64, u64)>,
    intervals: Vec<(u64, u64, Vec<Entry>)>,
    entries: usize,
}

impl Queues {
    /// A block with a name. What is wrong with it is said.
    pub(super) fn name(&mut self, payload: &[u8]) -> Result<(), String> {
        let length = u32_at(payload, 4) as usize;
        let name = payload.get(8..).and_then(|rest| rest.get(..length));
        let name = name.filter(|name| name.len() <= NAME_BYTES_MAX).ok_or_else(|| {
            format!(
                "the name of a sender is longer than its block, or than {NAME_BYTES_MAX} bytes; the file is \
                 damaged"
            )
        })?;
        if self.names.len() >= NAMES_MAX {
            return Err("too many senders; the file is damaged".to_owned());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.names.push(match u32_at(payload, 0) {
            kind::VM => Named::Sender(Sender::Vm(name)),
            kind::GROUP => Named::Sender(Sender::Group(name)),
            kind::INTERFACE => Named::Sender(Sender::Interface(name)),
            kind::HOST => Named::Sender(Sender::Host),
            kind::UPLINK => Named::Uplink(name),
            // A kind that a later version knows is still somebody.
            _ => Named::Sender(Sender::Others),
        });
        Ok(())
    }

    /// A block with an interval. What is wrong with it is said.
    pub(super) fn interval(&mut self, payload: &[u8]) -> Result<(), String> {
        let (from_ns, to_ns) = (u64_at(payload, 0), u64_at(payload, 8));
        let entries = payload[16..].chunks_exact(ENTRY_BYTES);
        if !entries.remainder().is_empty() || to_ns < from_ns {
            return Err(
                "an interval of queues is cut, or ends before it begins; the file is damaged"
                    .to_owned(),
            );
        }
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries {
            let entry = Entry {
                what: u32_at(entry, 0),
                of: u32_at(entry, 4),
                sender: u32_at(entry, 8),
                amount: u64_at(entry, 16),
                delay_ns: u64_at(entry, 24),
            };
            let named = |number: u32| {
                let found = self.names.get(number as usize);
                found.ok_or_else(|| format!("sender {number} is not named; the file is damaged"))
            };
            match (entry.what, named(entry.of)?, named(entry.sender)?) {
                (what::SENT, Named::Uplink(_), Named::Sender(_))
                | (
                    what::AHEAD | what::AHEAD_AT_TAP,
                    Named::Sender(Sender::Vm(_)),
                    Named::Sender(_),
                ) => {
                    let sum = self.sums.entry((entry.what, entry.of, entry.sender)).or_default();
                    *sum = sum.saturating_add(entry.amount);
                }
                (what::FOLLOWED | what::FOLLOWED_AT_TAP, Named::Sender(Sender::Vm(_)), _) => {
                    let sum = self.followed.entry((entry.what, entry.of)).or_default();
                    let (packets, delay_ns) = sum;
                    *packets = packets.saturating_add(entry.amount);
                    *delay_ns = delay_ns.saturating_add(entry.delay_ns);
                }
                // An entry that a later version knows.
                (5.., _, _) => continue,
                (kind, _, _) => {
                    return Err(format!(
                        "an entry of kind {kind} in an interval of queues names the wrong thing; the file \
                         is damaged"
                    ));
                }
            }
            read.push(entry);
        }
        if self.sums.len() > PAIRS_MAX {
            return Err(format!("more than {PAIRS_MAX} pairs of who waits and who sends"));
        }
        self.span_ns = self.span_ns.saturating_add(to_ns - from_ns);
        self.entries += 1 + read.len();
        if self.entries > ENTRIES_MAX {
            return Ok(());
        }
        match self.intervals.last_mut() {
            // What did not fit into the block before.
            Some((_, to, all)) if from_ns == to_ns && *to == to_ns => all.extend(read),
            _ => self.intervals.push((from_ns, to_ns, read)),
        }
        Ok(())
    }

    /// All of it; `None` if nothing was counted.
    pub(crate) fn all(&self) -> Option<UplinkQueues> {
        if self.span_ns == 0 {
            return None;
        }
        let mut sent: BTreeMap<&str, BTreeMap<Sender, u64>> = BTreeMap::new();
        for (of, sender, bytes) in self.bytes(what::SENT) {
            let Named::Uplink(name) = of else { continue };
            add(sent.entry(name).or_default(), sender, bytes);
        }
        let uplinks = sent.into_iter().map(|(name, senders)| {
            let (transmitted_bytes, senders) = rank(senders);
            let bits_per_second = 8e9 * transmitted_bytes as f64 / self.span_ns as f64;
            UplinkBytes { name: name.to_owned(), transmitted_bytes, bits_per_second, senders }
        });
        Some(UplinkQueues {
            span_us: self.span_ns as f64 / 1e3,
            uplinks: uplinks.collect(),
            vms: self.blames(what::FOLLOWED, what::AHEAD),
            receivers: self.blames(what::FOLLOWED_AT_TAP, what::AHEAD_AT_TAP),
        })
    }

    /// Sums of one kind: of whom, whose, and how many bytes.
    fn bytes(&self, what: u32) -> impl Iterator<Item = (&Named, &Sender, u64)> {
        let range = self.sums.range((what, 0, 0)..(what + 1, 0, 0));
        range.filter_map(|(&(_, of, sender), &bytes)| {
            let (of, sender) = (&self.names[of as usize], &self.names[sender as usize]);
            let Named::Sender(sender) = sender else { return None };
            Some((of, sender, bytes))
        })
    }

    /// What was ahead of packets, of each VM: by what says how many there were, and what was ahead of them.
    fn blames(&self, packets: u32, bytes_ahead: u32) -> Vec<QueueBlame> {
        let mut ahead: BTreeMap<&str, BTreeMap<Sender, u64>> = BTreeMap::new();
        for (of, sender, bytes) in self.bytes(bytes_ahead) {
            let Named::Sender(Sender::Vm(vm)) = of else { continue };
            add(ahead.entry(vm).or_default(), sender, bytes);
        }
        let mut followed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (&(_, of), &(packets, delay_ns)) in self.followed.range((packets, 0)..(packets + 1, 0))
        {
            let Named::Sender(Sender::Vm(vm)) = &self.names[of as usize] else { continue };
            let all = followed.entry(vm).or_default();
            *all = (all.0.saturating_add(packets), all.1.saturating_add(delay_ns));
        }
        let blame = |(vm, (packets, delay_ns)): (&str, (u64, u64))| {
            let (bytes_ahead, senders) = rank(ahead.remove(vm).unwrap_or_default());
            QueueBlame {
                vm: vm.to_owned(),
                sampled_packets: packets,
                sampled_delay_us: delay_ns as f64 / 1e3,
                bytes_ahead,
                senders,
            }
        };
        followed.into_iter().map(blame).collect()
    }

    /// Interval after interval, as far as there was room.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = QueueInterval> + '_ {
        let resolve = |(from_ns, to_ns, entries): &(u64, u64, Vec<Entry>)| {
            let mut interval =
                QueueInterval { from_ns: *from_ns, to_ns: *to_ns, ..QueueInterval::default() };
            for entry in entries {
                let (of, sender) =
                    (&self.names[entry.of as usize], &self.names[entry.sender as usize]);
                match (entry.what, of, sender) {
                    (what::SENT, Named::Uplink(uplink), Named::Sender(sender)) => {
                        if interval.sent.last().is_none_or(|(last, _)| last != uplink) {
                            interval.sent.push((uplink.clone(), Vec::new()));
                        }
                        let last = interval.sent.last_mut();
                        last.into_iter()
                            .for_each(|(_, all)| all.push((sender.clone(), entry.amount)));
                    }
                    (kind, Named::Sender(Sender::Vm(vm)), Named::Sender(sender)) => {
                        let at_tap = matches!(kind, what::FOLLOWED_AT_TAP | what::AHEAD_AT_TAP);
                        let all =
                            if at_tap { &mut interval.ahead_at_taps } else { &mut interval.ahead };
                        let of = ahead(all, vm);
                        if matches!(kind, what::AHEAD | what::AHEAD_AT_TAP) {
                            of.bytes.push((sender.clone(), entry.amount));
                        } else {
                            of.packets = of.packets.saturating_add(entry.amount);
                            of.delay_ns = of.delay_ns.saturating_add(entry.delay_ns);
                        }
                    }
                    _ => {}
                }
            }
            interval
        };
        self.intervals.iter().map(resolve)
    }
}

/// Adds to what a sender has sent.
fn add(all: &mut BTreeMap<Sender, u64>, sender: &Sender, bytes: u64) {
    let sum = all.entry(sender.clone()).or_default();
    *sum = sum.saturating_add(bytes);
}

/// The entry of a VM, which stands last if there is one: its entries follow each other.
fn ahead<'a>(all: &'a mut Vec<AheadInterval>, vm: &str) -> &'a mut AheadInterval {
    if all.last().is_none_or(|last| last.vm != vm) {
        all.push(AheadInterval { vm: vm.to_owned(), ..AheadInterval::default() });
    }
    let last = all.len() - 1;
    &mut all[last]
}
