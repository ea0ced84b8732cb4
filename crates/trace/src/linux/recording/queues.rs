//! Blocks that say who filled the uplinks, written and read.

use std::collections::HashMap;

use crate::linux::bytes::{cut, u32_at, u64_at};
use crate::queues::{AheadInterval, QueueInterval, Sender};

/// Bytes of an entry of an interval.
const ENTRY_BYTES: usize = 32;
/// Names that a file may have.
const NAMES_MAX: usize = 65_536;

/// What stands in an entry.
mod what {
    /// Bytes that an uplink sent.
    pub(super) const SENT: u32 = 0;
    /// Bytes that left before a VM's packets.
    pub(super) const AHEAD: u32 = 1;
    /// Packets of a VM that were followed, and how long they waited.
    pub(super) const FOLLOWED: u32 = 2;
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
    /// Blocks for an interval: names that are new, and the interval itself, if there is anything in it.
    pub(super) fn blocks(&mut self, interval: &QueueInterval) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let mut names = Vec::new();
        let mut entries = Vec::new();
        let mut entry = |what: u32, of: u32, sender: u32, amount: u64, delay_ns: u64| {
            for number in [what, of, sender, 0] {
                entries.extend(number.to_le_bytes());
            }
            entries.extend(amount.to_le_bytes());
            entries.extend(delay_ns.to_le_bytes());
        };
        for (uplink, senders) in &interval.sent {
            let Some(of) = self.number(Named::Uplink(uplink.clone()), &mut names) else { continue };
            for (sender, bytes) in senders {
                let sender = self.number(Named::Sender(sender.clone()), &mut names);
                sender.into_iter().for_each(|sender| entry(what::SENT, of, sender, *bytes, 0));
            }
        }
        for ahead in &interval.ahead {
            let vm = Named::Sender(Sender::Vm(ahead.vm.clone()));
            let Some(of) = self.number(vm, &mut names) else { continue };
            entry(what::FOLLOWED, of, of, ahead.packets, ahead.delay_ns);
            for (sender, bytes) in &ahead.bytes {
                let sender = self.number(Named::Sender(sender.clone()), &mut names);
                sender.into_iter().for_each(|sender| entry(what::AHEAD, of, sender, *bytes, 0));
            }
        }
        if entries.is_empty() {
            return (names, None);
        }
        let mut block = Vec::with_capacity(16 + entries.len());
        block.extend(interval.from_ns.to_le_bytes());
        block.extend(interval.to_ns.to_le_bytes());
        block.extend(entries);
        (names, Some(block))
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
        let name = cut(name, 4096);
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

/// Names in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Named>);

impl Names {
    /// A block with a name. What is wrong with it is said.
    pub(super) fn name(&mut self, payload: &[u8]) -> Result<(), String> {
        let length = u32_at(payload, 4) as usize;
        let name = payload.get(8..).and_then(|rest| rest.get(..length)).ok_or_else(|| {
            "the name of a sender is longer than its block; the file is damaged".to_owned()
        })?;
        if self.0.len() >= NAMES_MAX {
            return Err("too many senders; the file is damaged".to_owned());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.0.push(match u32_at(payload, 0) {
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
    pub(super) fn interval(&self, payload: &[u8]) -> Result<QueueInterval, String> {
        let (from_ns, to_ns) = (u64_at(payload, 0), u64_at(payload, 8));
        let mut interval = QueueInterval { from_ns, to_ns, ..QueueInterval::default() };
        let entries = payload[16..].chunks_exact(ENTRY_BYTES);
        if !entries.remainder().is_empty() || to_ns < from_ns {
            return Err(
                "an interval of queues is cut, or ends before it begins; the file is damaged"
                    .to_owned(),
            );
        }
        for entry in entries {
            let named = |at: usize| {
                let number = u32_at(entry, at);
                let found = self.0.get(number as usize);
                found.ok_or_else(|| format!("sender {number} is not named; the file is damaged"))
            };
            let (of, sender) = (named(4)?, named(8)?);
            let (amount, delay_ns) = (u64_at(entry, 16), u64_at(entry, 24));
            match (u32_at(entry, 0), of, sender) {
                (what::SENT, Named::Uplink(uplink), Named::Sender(sender)) => {
                    match interval.sent.last_mut().filter(|(last, _)| last == uplink) {
                        Some((_, senders)) => senders.push((sender.clone(), amount)),
                        None => {
                            interval.sent.push((uplink.clone(), vec![(sender.clone(), amount)]));
                        }
                    }
                }
                (what::FOLLOWED, Named::Sender(Sender::Vm(vm)), _) => {
                    let of = ahead(&mut interval.ahead, vm);
                    of.packets = of.packets.saturating_add(amount);
                    of.delay_ns = of.delay_ns.saturating_add(delay_ns);
                }
                (what::AHEAD, Named::Sender(Sender::Vm(vm)), Named::Sender(sender)) => {
                    ahead(&mut interval.ahead, vm).bytes.push((sender.clone(), amount));
                }
                // An entry that a later version knows.
                (3.., _, _) => {}
                (kind, _, _) => {
                    return Err(format!(
                        "an entry of kind {kind} in an interval of queues names the wrong thing; the file \
                         is damaged"
                    ));
                }
            }
        }
        Ok(interval)
    }
}

/// The entry of a VM, which stands last if there is one: its entries follow each other.
fn ahead<'a>(all: &'a mut Vec<AheadInterval>, vm: &str) -> &'a mut AheadInterval {
    if all.last().is_none_or(|last| last.vm != vm) {
        all.push(AheadInterval { vm: vm.to_owned(), ..AheadInterval::default() });
    }
    let last = all.len() - 1;
    &mut all[last]
}
