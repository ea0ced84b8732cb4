//! Hooks for packets (clsact) and the filters at them.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::link::Link;
use super::netlink::{
    Answer, Attribute, Message, Session, attributes, find, name, nest, text, u32_at,
};
use super::tcmsg::{KIND, OPTIONS, TCMSG, tcmsg};
use super::{CLSACT, OWN_FILTER, OWN_PREFERENCE};
use crate::Error;

/// The number that clsact and `ingress` always have: `TC_H_MAKE(TC_H_CLSACT, 0)`.
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// `TCA_BPF_*` of `linux/pkt_cls.h`, and the flag that what a program returns is what happens.
const BPF_FD: u16 = 6;
const BPF_NAME: u16 = 7;
const BPF_FLAGS: u16 = 8;
const BPF_ID: u16 = 11;
const DIRECT: u32 = 1;
/// `ETH_P_ALL`, in network order as the kernel wants it.
const ALL_PROTOCOLS: u32 = 3u16.to_be() as u32;

/// Where packets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// What comes in.
    Ingress,
    /// What goes out, in front of the disciplines.
    Egress,
}

impl Hook {
    /// `TC_H_MIN_INGRESS`, `TC_H_MIN_EGRESS` of `linux/pkt_sched.h`.
    pub(super) fn parent(self) -> u32 {
        match self {
            Hook::Ingress => 0xffff_fff2,
            Hook::Egress => 0xffff_fff3,
        }
    }
}

/// A filter at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    parent: u32,
    pub(super) preference: u32,
    handle: u32,
    pub(super) kind: String,
    /// Of a BPF filter.
    pub(super) name: Option<String>,
    program: Option<u32>,
}

/// What holds an interface's filters, beside its disciplines. There is one of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// Nothing.
    Absent,
    /// `ingress`: filters for what comes in.
    Ingress,
    /// `clsact`: filters for both.
    Clsact,
}

impl Hooks {
    /// As text.
    pub fn name(self) -> &'static str {
        match self {
            Hooks::Absent => "absent",
            Hooks::Ingress => "ingress",
            Hooks::Clsact => "clsact",
        }
    }

    /// From that text.
    pub fn named(name: &str) -> Option<Self> {
        [Hooks::Absent, Hooks::Ingress, Hooks::Clsact].into_iter().find(|own| own.name() == name)
    }
}

/// What holds an interface's filters; `None` if it is gone.
///
/// # Errors
/// What the kernel says.
pub fn hooks(link: &Link) -> Result<Option<Hooks>, Error> {
    if link.facts()?.is_none() {
        return Ok(None);
    }
    let held = held(format!("cannot read the hooks of {link}"))?;
    let own = held.into_iter().find(|(ifindex, _)| *ifindex == link.ifindex);
    Ok(Some(own.map_or(Hooks::Absent, |(_, hooks)| hooks)))
}

/// All interfaces that have hooks, and which.
///
/// # Errors
/// What the kernel says.
pub fn hooked() -> Result<Vec<(Link, Hooks)>, Error> {
    let held = held("cannot read the hooks of all interfaces".to_string())?;
    let of = |link: &Link| held.iter().find(|(ifindex, _)| *ifindex == link.ifindex);
    let links = Link::all()?.into_iter();
    Ok(links.filter_map(|link| of(&link).map(|(_, hooks)| (link, *hooks))).collect())
}

/// Hooks, by the number of the interface. Asked for one interface the kernel would tell all who listen (`qdisc_get_notify`).
fn held(what: String) -> Result<Vec<(u32, Hooks)>, Error> {
    let fixed = tcmsg(0, 0, 0, 0);
    let question =
        Message { kind: libc::RTM_GETQDISC, flags: 0, fixed, attributes: Vec::new(), what };
    let answers = Session::open()?.dump(&question, TCMSG)?;
    Ok(answers.iter().filter_map(hook).collect())
}

/// The hooks that an answer tells of, and the number of their interface.
pub(super) fn hook((fixed, attributes): &Answer) -> Option<(u32, Hooks)> {
    let kind = Hooks::named(&text(find(attributes, KIND)?))?;
    Some((u32_at(fixed, 4)?, kind))
}

/// Whether an interface has clsact; `None` if it is gone.
///
/// # Errors
/// What the kernel says.
pub fn has_hooks(link: &Link) -> Result<Option<bool>, Error> {
    Ok(hooks(link)?.map(|hooks| hooks == Hooks::Clsact))
}

/// Makes the hooks of both directions (clsact), or removes them. They are shared by all that have filters there, so that
/// they stay if there are any.
///
/// # Errors
/// If there are filters, an `ingress` discipline is in the way, or the interface is gone.
pub fn set_hooks(link: &Link, wanted: bool) -> Result<(), Error> {
    match (wanted, hooks(link)?) {
        (true, _) => put_hooks(link, Hooks::Clsact),
        // An `ingress` is somebody else's.
        (false, Some(Hooks::Absent | Hooks::Ingress)) => Ok(()),
        (false, _) => put_hooks(link, Hooks::Absent),
    }
}

/// Makes the hooks of an interface what is `wanted`, or removes those that are there.
///
/// # Errors
/// If there are filters, hooks of another kind are in the way, or the interface is gone.
pub fn put_hooks(link: &Link, wanted: Hooks) -> Result<(), Error> {
    let now = hooks(link)?;
    let now = now.ok_or_else(|| Error::network(format!("hooks of {link}"), "it is gone"))?;
    if now == wanted {
        return Ok(());
    }
    let mut session = Session::open()?;
    if wanted == Hooks::Absent {
        let mut filters = all(&mut session, link, Hook::Ingress)?.len();
        // Asked for its other side, `ingress` tells the same ones again.
        if now == Hooks::Clsact {
            filters += all(&mut session, link, Hook::Egress)?.len();
        }
        if filters > 0 {
            let why = format!("{filters} filters are at them; whoever put them there needs them");
            return Err(Error::network(format!("cannot remove the hooks of {link}"), why));
        }
    }
    let (kind, flags, verb, which) = match wanted {
        Hooks::Absent => (libc::RTM_DELQDISC, 0, "remove", now.name()),
        // The kernel refuses it where others are.
        _ => (libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL, "make", wanted.name()),
    };
    let order = Message {
        kind,
        flags: flags as u16,
        fixed: tcmsg(link.ifindex, CLSACT_HANDLE, CLSACT, 0),
        attributes: vec![(KIND, name(which))],
        what: format!("cannot {verb} the hooks ({which}) of {link}"),
    };
    Ok(session.execute(&[order])?)
}

/// The number of the program of our filter at a hook: `None` if there is no such filter.
///
/// # Errors
/// If the filter at our place is not ours.
pub fn own(link: &Link, hook: Hook) -> Result<Option<u32>, Error> {
    let filters = all(&mut Session::open()?, link, hook)?;
    own_of(&filters, link).map(|own| own.and_then(|filter| filter.program))
}

fn own_of<'f>(filters: &'f [Filter], link: &Link) -> Result<Option<&'f Filter>, Error> {
    let Some(filter) = filters.iter().find(|filter| filter.preference == OWN_PREFERENCE) else {
        return Ok(None);
    };
    if filter.handle == OWN_FILTER && filter.name.as_deref() == Some(super::OWN_NAME) {
        return Ok(Some(filter));
    }
    let what = format!("filter {} of {link}", OWN_PREFERENCE);
    Err(Error::network(what, format!("it is not ours, but of kind {}", filter.kind)))
}

/// Puts a program there as our filter, in place of an earlier one of ours.
///
/// # Errors
/// If somebody else's is at our place, there are no hooks, or the kernel refuses.
pub fn attach(link: &Link, hook: Hook, program: BorrowedFd<'_>) -> Result<(), Error> {
    let mut session = Session::open()?;
    let filters = all(&mut session, link, hook)?;
    own_of(&filters, link)?;
    let options: [Attribute; 3] = [
        (BPF_FD, (program.as_raw_fd() as u32).to_ne_bytes().to_vec()),
        (BPF_NAME, name(super::OWN_NAME)),
        (BPF_FLAGS, DIRECT.to_ne_bytes().to_vec()),
    ];
    let order = Message {
        kind: libc::RTM_NEWTFILTER,
        flags: (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16,
        fixed: place(link, hook, &filters),
        attributes: vec![(KIND, name("bpf")), (OPTIONS, nest(&options))],
        what: format!("cannot attach to {link}"),
    };
    Ok(session.execute(&[order])?)
}

/// Removes our filter, if there is one.
///
/// # Errors
/// If the filter at our place is not ours, or the kernel refuses.
pub fn detach(link: &Link, hook: Hook) -> Result<(), Error> {
    let mut session = Session::open()?;
    let filters = all(&mut session, link, hook)?;
    if own_of(&filters, link)?.is_none() {
        return Ok(());
    }
    let order = Message {
        kind: libc::RTM_DELTFILTER,
        flags: 0,
        fixed: place(link, hook, &filters),
        attributes: vec![(KIND, name("bpf"))],
        what: format!("cannot remove our filter from {link}"),
    };
    Ok(session.execute(&[order])?)
}

/// How many filters are at a discipline or class.
pub(super) fn count(session: &mut Session, link: &Link, parent: u32) -> Result<usize, Error> {
    Ok(below(session, link, parent)?.len())
}

fn all(session: &mut Session, link: &Link, hook: Hook) -> Result<Vec<Filter>, Error> {
    below(session, link, hook.parent())
}

fn below(session: &mut Session, link: &Link, parent: u32) -> Result<Vec<Filter>, Error> {
    Ok(dump(session, link, parent)?.iter().filter_map(filter).collect())
}

/// What the kernel tells of filters at a discipline or class.
pub(super) fn dump(session: &mut Session, link: &Link, parent: u32) -> Result<Vec<Answer>, Error> {
    let question = Message {
        kind: libc::RTM_GETTFILTER,
        flags: 0,
        fixed: tcmsg(link.ifindex, 0, parent, 0),
        attributes: Vec::new(),
        what: format!("cannot read the filters of {link}"),
    };
    Ok(session.dump(&question, TCMSG)?)
}

/// The filter that an answer tells of.
pub(super) fn filter((fixed, found): &Answer) -> Option<Filter> {
    // The kernel tells of each preference also without a handle.
    let handle = u32_at(fixed, 8).filter(|handle| *handle != 0)?;
    let kind = text(find(found, KIND)?);
    let options = attributes(find(found, OPTIONS).unwrap_or_default());
    let bpf = |kind| find(&options, kind);
    let is_bpf = kind == "bpf";
    Some(Filter {
        parent: u32_at(fixed, 12)?,
        preference: u32_at(fixed, 16)? >> 16,
        handle,
        name: bpf(BPF_NAME).filter(|_| is_bpf).map(text),
        program: bpf(BPF_ID).filter(|_| is_bpf).and_then(|id| u32_at(id, 0)),
        kind,
    })
}

/// The place of ours, beside `others`. `ingress` knows its place by several numbers, and tells of all filters with the one
/// that the last order had (`__tcf_block_find`): it stays the one that it was.
fn place(link: &Link, hook: Hook, others: &[Filter]) -> Vec<u8> {
    let parent = others.first().map_or_else(|| hook.parent(), |other| other.parent);
    tcmsg(link.ifindex, OWN_FILTER, parent, OWN_PREFERENCE << 16 | ALL_PROTOCOLS)
}
