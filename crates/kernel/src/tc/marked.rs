//! Who goes by packets' marks in the kernel: rules of routing, and filters.

use super::filter::{Filter, Hook, dump, filter, hooked};
use super::link::Link;
use super::netlink::{Answer, Message, Session, attributes, find, text, u32_at};
use super::tcmsg::OPTIONS;
use super::{OWN_NAME, OWN_PREFERENCE};
use crate::Error;

/// Bytes of `struct fib_rule_hdr`, and its attributes (`linux/fib_rules.h`).
const RULE: usize = 12;
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const MARK_MASK: u16 = 16;
/// Attributes of `linux/pkt_cls.h`: of filters by the mark, and the marks of `u32`.
const FW_MASK: u16 = 5;
const U32_MARK: u16 = 10;
/// Where each kind of filter has its actions.
const ACTIONS: [(&str, u16); 6] =
    [("u32", 7), ("fw", 4), ("bpf", 1), ("flower", 3), ("matchall", 2), ("basic", 3)];
const ACTION_KIND: u16 = 1;
const ACTION_OPTIONS: u16 = 2;
/// `linux/tc_act/tc_skbedit.h`.
const EDIT_MARK: u16 = 5;
const EDIT_MASK: u16 = 8;
/// Cilium's programs are named so, and go by marks.
const CILIUM: &str = "cil_";

/// A filter that goes by marks, or sets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The interface that it is at.
    pub link: Link,
    /// Its kind, such as `u32`.
    pub kind: String,
    /// Of a BPF filter.
    pub name: Option<String>,
    /// The bits that it looks at or sets.
    pub bits: u32,
}

/// The place of each rule of routing that goes by marks, and the bits.
pub fn marked_rules() -> Result<Vec<(u32, u32)>, Error> {
    let mut session = Session::open()?;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut fixed = vec![0; RULE];
        fixed[0] = family as u8;
        let what = "cannot read the rules of routing".to_string();
        let kind = libc::RTM_GETRULE;
        let question = Message { kind, flags: 0, fixed, attributes: Vec::new(), what };
        let rules = session.dump(&question, RULE)?;
        found.extend(rules.iter().filter_map(|(_, attributes)| {
            let number = |kind| find(attributes, kind).and_then(|value| u32_at(value, 0));
            // Without a mask all bits count, if there is a mark.
            let bits = number(MARK_MASK).or_else(|| number(MARK).map(|_| u32::MAX))?;
            (bits != 0).then(|| (number(PRIORITY).unwrap_or(0), bits))
        }));
    }
    Ok(found)
}

/// All filters of this network namespace that go by marks, but for ours.
pub fn marked_filters() -> Result<Vec<Marked>, Error> {
    let mut session = Session::open()?;
    let mut found = Vec::new();
    // The one that is the root, then the hooks. An interface may go meanwhile.
    for link in Link::all()? {
        found.extend(below(&mut session, &link, 0).unwrap_or_default());
    }
    for (link, _) in hooked()? {
        for hook in [Hook::Ingress, Hook::Egress] {
            found.extend(below(&mut session, &link, hook.parent()).unwrap_or_default());
        }
    }
    Ok(found)
}

fn below(session: &mut Session, link: &Link, parent: u32) -> Result<Vec<Marked>, Error> {
    let answers = dump(session, link, parent)?;
    Ok(answers.iter().filter_map(|answer| marked(link, answer)).collect())
}

fn marked(link: &Link, answer: &Answer) -> Option<Marked> {
    let Filter { preference, kind, name, .. } = filter(answer)?;
    if preference == OWN_PREFERENCE && name.as_deref() == Some(OWN_NAME) {
        return None;
    }
    let options = attributes(find(&answer.1, OPTIONS).unwrap_or_default());
    let mut bits = match kind.as_str() {
        // Its handle is the mark.
        "fw" => find(&options, FW_MASK).and_then(|mask| u32_at(mask, 0)).unwrap_or(u32::MAX),
        // struct tc_u32_mark: value, mask.
        "u32" => find(&options, U32_MARK).and_then(|mark| u32_at(mark, 4)).unwrap_or(0),
        // What its programs do with marks is known, but not from here.
        "bpf" if name.as_deref().is_some_and(|name| name.starts_with(CILIUM)) => 0x0f00,
        _ => 0,
    };
    if let Some((_, at)) = ACTIONS.iter().find(|(own, _)| *own == kind) {
        bits |= edited(find(&options, *at).unwrap_or_default());
    }
    (bits != 0).then(|| Marked { link: link.clone(), kind, name, bits })
}

/// The bits that a filter's actions set.
fn edited(actions: &[u8]) -> u32 {
    let each = attributes(actions).into_iter().map(|(_, action)| {
        let action = attributes(&action);
        if find(&action, ACTION_KIND).map(text).as_deref() != Some("skbedit") {
            return 0;
        }
        let options = attributes(find(&action, ACTION_OPTIONS).unwrap_or_default());
        let number = |kind| find(&options, kind).and_then(|value| u32_at(value, 0));
        number(EDIT_MARK).map_or(0, |_| number(EDIT_MASK).unwrap_or(u32::MAX))
    });
    each.fold(0, |a, b| a | b)
}
