//! The queueing disciplines of an interface, from its root on: read as they are, and put there as they were.
//!
//! Options are bytes that nobody here understands, but for one counter among them. Whether they can be put back is
//! tried out ([`Tree::dry_run`]), not known by heart.

use serde::{Deserialize, Serialize};

use super::filter;
use super::link::Link;
use super::netlink::{Answer, Message, Session, attributes, find, name, nest, text, u32_at};
use super::tcmsg::{KIND, OPTIONS, TCMSG, tcmsg};
use super::{CLSACT, ROOT};
use crate::Error;
use crate::Name;

/// Kinds whose classes somebody has made one by one, unlike those of `prio` or `mq`.
const CLASSFUL: [&str; 4] = ["htb", "hfsc", "drr", "qfq"];
/// `TCA_HTB_INIT`: `struct tc_htb_glob`, of 20 bytes. Its `direct_pkts`, the last four, counts packets. Its version,
/// the first four, is told as 0x30011, but taken as 3 only (`htb_dump`, `htb_init`).
const HTB_INIT: u16 = 2;
const HTB_VERSION: u32 = 3;

/// A discipline, or a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its number: major above, minor in the lower 16 bits.
    pub handle: u32,
    /// What it is below: a class or a discipline, or [`ROOT`].
    pub parent: u32,
    /// Its kind, such as `htb`.
    pub kind: String,
    /// Its options as rtnetlink has them, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub options: String,
}

/// All of an interface's disciplines that somebody has put there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// What the kernel has put there by itself, for want of anything else. It does so again when the rest is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Disciplines, each after what it is below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disciplines: Vec<Node>,
    /// Classes that were made one by one, each after what it is below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Node>,
    /// Filters between them. A tree that has some cannot be put back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filters: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Node {
    /// One with options as bytes.
    pub(super) fn new(handle: u32, parent: u32, kind: &str, options: &[u8]) -> Self {
        let options = options.iter().map(|byte| format!("{byte:02x}")).collect();
        Node { handle, parent, kind: kind.to_string(), options }
    }

    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        let digits = self.options.as_bytes().chunks(2);
        digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
    }

    fn order(&self, link: &Link, kind: u16, flags: i32) -> Result<Message, Error> {
        let what = format!("{} {:x} of {link}", Name::new(&self.kind), self.handle);
        let options = self.bytes().ok_or_else(|| {
            Error::network(&what, "its options are no pairs of hexadecimal digits")
        })?;
        let mut attributes = vec![(KIND, name(&self.kind))];
        if !options.is_empty() {
            attributes.push((OPTIONS, undo_rounding(&self.kind, options)));
        }
        let what = format!("cannot make {what}");
        let fixed = tcmsg(link.ifindex, self.handle, self.parent, 0);
        Ok(Message { kind, flags: flags as u16, fixed, attributes, what })
    }
}

impl Tree {
    /// What there is; `None` if the interface is gone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(link: &Link) -> Result<Option<Self>, Error> {
        if link.facts()?.is_none() {
            return Ok(None);
        }
        let mut session = Session::open()?;
        let what = format!("cannot read the disciplines of {link}");
        let all = list(&mut session, link, libc::RTM_GETQDISC, &what)?;
        let hook = |node: &Node| node.parent == CLSACT;
        let (own, made): (Vec<Node>, Vec<Node>) =
            all.into_iter().filter(|node| !hook(node)).partition(|node| node.handle != 0);
        let mut tree = Tree { disciplines: own, ..Tree::default() };
        if tree.disciplines.is_empty() {
            let root = made.into_iter().find(|node| node.parent == ROOT);
            tree.default = Some(root.map_or_else(|| "none".to_string(), |root| root.kind));
            return Ok(Some(tree));
        }
        let classes = list(&mut session, link, libc::RTM_GETTCLASS, &what)?;
        let made = |node: &Node| CLASSFUL.contains(&node.kind.as_str());
        tree.classes = classes.into_iter().filter(made).collect();
        // In an order that does not depend on the kernel's tables, each after its parent.
        tree.disciplines.sort_by_key(|node| (node.parent != ROOT, node.handle));
        tree.classes.sort_by_key(|node| (node.parent != ROOT, node.handle));
        for node in tree.disciplines.iter().chain(&tree.classes) {
            tree.filters += filter::count(&mut session, link, node.handle)?;
        }
        Ok(Some(tree))
    }

    /// Puts it there, in place of whatever is there. Packets that wait are lost.
    ///
    /// # Errors
    /// If it has filters, or the kernel refuses.
    pub fn put(&self, link: &Link) -> Result<(), Error> {
        let what = format!("disciplines of {link}");
        if self.filters > 0 {
            let why = format!("{} filters in it cannot be put back", self.filters);
            return Err(Error::network(what, why));
        }
        let present = Tree::read(link)?;
        let present = present.ok_or_else(|| Error::network(&what, "the interface is gone"))?;
        let mut orders = Vec::new();
        if present.default.is_none() {
            orders.push(Message {
                kind: libc::RTM_DELQDISC,
                flags: 0,
                fixed: tcmsg(link.ifindex, 0, ROOT, 0),
                attributes: Vec::new(),
                what: format!("cannot remove the disciplines of {link}"),
            });
        }
        for (node, kind) in self.in_order(link)? {
            orders.push(node.order(link, kind, libc::NLM_F_CREATE | libc::NLM_F_EXCL)?);
        }
        Ok(Session::open()?.execute(&orders)?)
    }

    /// Disciplines and classes, each after what it is below.
    pub(super) fn in_order(&self, link: &Link) -> Result<Vec<(&Node, u16)>, Error> {
        let disciplines = self.disciplines.iter().map(|node| (node, libc::RTM_NEWQDISC));
        let classes = self.classes.iter().map(|node| (node, libc::RTM_NEWTCLASS));
        let mut left: Vec<(&Node, u16)> = disciplines.chain(classes).collect();
        let mut placed: Vec<(&Node, u16)> = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let waits = |node: &Node, kind: u16| {
                let explicit = |handle| self.classes.iter().any(|class| class.handle == handle);
                let below = |handle: u32| left.iter().any(|(other, _)| other.handle == handle);
                // A class is of the discipline that has its major number.
                let own = if kind == libc::RTM_NEWTCLASS { node.handle } else { node.parent };
                let parent = node.parent != ROOT && explicit(node.parent) && below(node.parent);
                parent || (own != ROOT && own & 0xffff != 0 && below(own & 0xffff_0000))
            };
            let ready = left.iter().position(|(node, kind)| !waits(node, *kind));
            let Some(ready) = ready else {
                let why = "each of them is below another, in a ring";
                return Err(Error::network(format!("disciplines of {link}"), why));
            };
            placed.push(left.remove(ready));
        }
        Ok(placed)
    }

    /// Whether its root is one that was put there by lowtail, perhaps not all of it.
    pub fn is_ours(&self) -> bool {
        self.disciplines.iter().any(|node| node.parent == ROOT && node.handle == super::OWN_ROOT)
    }

    /// As text: JSON in one line, always the same for the same tree.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("numbers and text")
    }

    /// From that text.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let what = "disciplines that were written down";
        let read: Tree = serde_json::from_str::<serde_json::Map<_, _>>(text)
            .and_then(|map| serde_json::from_value(map.into()))
            .map_err(|error| Error::network(what, error))?;
        match read.default.is_some() == read.disciplines.is_empty() {
            true => Ok(read),
            false => Err(Error::network(what, "either some, or the kernel's own: `default`")),
        }
    }
}

/// The disciplines or classes of an interface.
fn list(session: &mut Session, link: &Link, kind: u16, what: &str) -> Result<Vec<Node>, Error> {
    let question = Message {
        kind,
        flags: 0,
        fixed: tcmsg(link.ifindex, 0, 0, 0),
        attributes: Vec::new(),
        what: what.to_string(),
    };
    let answers = session.dump(&question, TCMSG)?;
    Ok(answers.iter().filter_map(|answer| node(link, answer)).collect())
}

/// What an answer tells of a discipline or class of `link`.
pub(super) fn node(link: &Link, (fixed, attributes): &Answer) -> Option<Node> {
    let kind = text(find(attributes, KIND)?);
    let options = canonical(&kind, find(attributes, OPTIONS).unwrap_or_default());
    let own = u32_at(fixed, 4)? == link.ifindex;
    let (handle, parent) = (u32_at(fixed, 8)?, u32_at(fixed, 12)?);
    own.then(|| Node::new(handle, parent, &kind, &options))
}

/// Options as the kernel takes them, without what counts packets in them.
pub(super) fn canonical(kind: &str, options: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    if kind == "htb" {
        let mut at = 0;
        while let Some(head) = options.get(at..at + 4) {
            let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            let attribute = u16::from_ne_bytes([head[2], head[3]]);
            if attribute == HTB_INIT && length >= 4 + 20 && at + length <= options.len() {
                options[at + 4..at + 8].copy_from_slice(&HTB_VERSION.to_ne_bytes());
                options[at + 20..at + 24].fill(0);
            }
            at += length.next_multiple_of(4).max(4);
        }
    }
    options
}

/// Options as they have to be written so that they read like these: CoDel's times. The kernel keeps them in units of
/// 1,024 ns, and rounds down what it takes and what it tells, microseconds both times (`CODEL_SHIFT`,
/// `codel_time_to_us`). What is told is less than 1 us below what is kept: 1 us more is the same unit again.
pub(super) fn undo_rounding(kind: &str, options: Vec<u8>) -> Vec<u8> {
    // `TCA_FQ_CODEL_TARGET`, `_INTERVAL`, `_CE_THRESHOLD`; the last is another number with codel alone.
    let times: [u16; 3] = match kind {
        "fq_codel" => [1, 3, 7],
        "codel" => [1, 3, 5],
        _ => return options,
    };
    let mut all = attributes(&options);
    for (_, value) in all.iter_mut().filter(|(attribute, _)| times.contains(attribute)) {
        if let Some(us) = u32_at(value, 0) {
            *value = us.saturating_add(1).to_ne_bytes().to_vec();
        }
    }
    nest(&all)
}
