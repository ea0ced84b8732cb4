//! Hooks for packets (clsact) and the filters at them.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::link::Link;
use super::netlink::{Attribute, Message, Session, attributes, find, name, nest, text, u32_at};
use super::tree::{KIND, OPTIONS, TCMSG, tcmsg};
use super::{CLSACT, OWN_FILTER, OWN_PREFERENCE};
use crate::Error;

/// The number that clsact always has: `TC_H_MAKE(TC_H_CLSACT, 0)`.
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
    fn parent(self) -> u32 {
        match self {
            Hook::Ingress => 0xffff_fff2,
            Hook::Egress => 0xffff_fff3,
        }
    }
}

/// A filter at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    preference: u32,
    handle: u32,
    kind: String,
    /// Of a BPF filter.
    name: Option<String>,
    program: Option<u32>,
}

/// Whether an interface has clsact; `None` if it is gone.
///
/// # Errors
/// What the kernel says.
pub fn has_hooks(link: &Link) -> Result<Option<bool>, Error> {
    if link.facts()?.is_none() {
        return Ok(None);
    }
    let question = Message {
        kind: libc::RTM_GETQDISC,
        flags: 0,
        fixed: tcmsg(link.ifindex, 0, 0, 0),
        attributes: Vec::new(),
        what: format!("cannot read the hooks of {link}"),
    };
    let answers = Session::open()?.ask(&question, TCMSG)?;
    let clsact = answers.iter().any(|(fixed, attributes)| {
        u32_at(fixed, 4) == Some(link.ifindex)
            && find(attributes, KIND).is_some_and(|kind| text(kind) == "clsact")
    });
    Ok(Some(clsact))
}

/// Makes the hooks, or removes them. They are shared by all that have filters there, so that they stay if there
/// are any.
///
/// # Errors
/// If there are filters, an `ingress` discipline is in the way, or the interface is gone.
pub fn set_hooks(link: &Link, wanted: bool) -> Result<(), Error> {
    let present = has_hooks(link)?;
    let present =
        present.ok_or_else(|| Error::network(format!("hooks of {link}"), "it is gone"))?;
    if present == wanted {
        return Ok(());
    }
    let mut session = Session::open()?;
    if !wanted {
        let filters = all(&mut session, link, Hook::Ingress)?.len()
            + all(&mut session, link, Hook::Egress)?.len();
        if filters > 0 {
            let why = format!("{filters} filters are at them; whoever put them there needs them");
            return Err(Error::network(format!("cannot remove the hooks of {link}"), why));
        }
    }
    let (kind, flags, verb) = match wanted {
        true => (libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_EXCL, "make"),
        false => (libc::RTM_DELQDISC, 0, "remove"),
    };
    let order = Message {
        kind,
        flags: flags as u16,
        fixed: tcmsg(link.ifindex, CLSACT_HANDLE, CLSACT, 0),
        attributes: vec![(KIND, name("clsact"))],
        what: format!("cannot {verb} the hooks (clsact) of {link}"),
    };
    Ok(session.order(&[order])?)
}

/// The number of the program of our filter at a hook: `None` if there is no such filter.
///
/// # Errors
/// If the filter at our place is not ours.
pub fn own(link: &Link, hook: Hook) -> Result<Option<u32>, Error> {
    let mut session = Session::open()?;
    let filters = all(&mut session, link, hook)?;
    let Some(filter) = filters.into_iter().find(|filter| filter.preference == OWN_PREFERENCE)
    else {
        return Ok(None);
    };
    if filter.handle == OWN_FILTER && filter.name.as_deref() == Some(super::OWN_NAME) {
        return Ok(filter.program);
    }
    let what = format!("filter {} of {link}", OWN_PREFERENCE);
    Err(Error::network(what, format!("it is not ours, but of kind {}", filter.kind)))
}

/// Puts a program there as our filter, in place of an earlier one of ours.
///
/// # Errors
/// If somebody else's is at our place, there are no hooks, or the kernel refuses.
pub fn attach(link: &Link, hook: Hook, program: BorrowedFd<'_>) -> Result<(), Error> {
    own(link, hook)?;
    let options: [Attribute; 3] = [
        (BPF_FD, (program.as_raw_fd() as u32).to_ne_bytes().to_vec()),
        (BPF_NAME, name(super::OWN_NAME)),
        (BPF_FLAGS, DIRECT.to_ne_bytes().to_vec()),
    ];
    let order = Message {
        kind: libc::RTM_NEWTFILTER,
        flags: (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16,
        fixed: place(link, hook),
        attributes: vec![(KIND, name("bpf")), (OPTIONS, nest(&options))],
        what: format!("cannot attach to {link}"),
    };
    Ok(Session::open()?.order(&[order])?)
}

/// Removes our filter, if there is one.
///
/// # Errors
/// If the filter at our place is not ours, or the kernel refuses.
pub fn detach(link: &Link, hook: Hook) -> Result<(), Error> {
    if own(link, hook)?.is_none() {
        return Ok(());
    }
    let order = Message {
        kind: libc::RTM_DELTFILTER,
        flags: 0,
        fixed: place(link, hook),
        attributes: vec![(KIND, name("bpf"))],
        what: format!("cannot remove our filter from {link}"),
    };
    Ok(Session::open()?.order(&[order])?)
}

/// How many filters are at a discipline or class.
pub(super) fn count(session: &mut Session, link: &Link, parent: u32) -> Result<usize, Error> {
    Ok(below(session, link, parent)?.len())
}

fn all(session: &mut Session, link: &Link, hook: Hook) -> Result<Vec<Filter>, Error> {
    below(session, link, hook.parent())
}

fn below(session: &mut Session, link: &Link, parent: u32) -> Result<Vec<Filter>, Error> {
    let question = Message {
        kind: libc::RTM_GETTFILTER,
        flags: 0,
        fixed: tcmsg(link.ifindex, 0, parent, 0),
        attributes: Vec::new(),
        what: format!("cannot read the filters of {link}"),
    };
    let answers = session.ask(&question, TCMSG)?;
    let filters = answers.iter().filter_map(|(fixed, found)| {
        // The kernel tells of each preference also without a handle.
        let handle = u32_at(fixed, 8).filter(|handle| *handle != 0)?;
        let kind = text(find(found, KIND)?);
        let options = attributes(find(found, OPTIONS).unwrap_or_default());
        let bpf = |kind| find(&options, kind);
        let is_bpf = kind == "bpf";
        Some(Filter {
            preference: u32_at(fixed, 16)? >> 16,
            handle,
            name: bpf(BPF_NAME).filter(|_| is_bpf).map(text),
            program: bpf(BPF_ID).filter(|_| is_bpf).and_then(|id| u32_at(id, 0)),
            kind,
        })
    });
    Ok(filters.collect())
}

fn place(link: &Link, hook: Hook) -> Vec<u8> {
    tcmsg(link.ifindex, OWN_FILTER, hook.parent(), OWN_PREFERENCE << 16 | ALL_PROTOCOLS)
}
