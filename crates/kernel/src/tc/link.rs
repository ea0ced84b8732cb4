//! Interfaces of this network namespace, and how long the segments are that they take from TCP.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::netlink::{Answer, Message, Session, find, name, nest, text, u32_at};
use crate::{Error, Name, Roots};

/// Bytes of `struct ifinfomsg`.
pub(super) const IFINFOMSG: usize = 16;
/// `IFLA_*` of `linux/if_link.h`.
const NAME: u16 = 3;
const MTU: u16 = 4;
const LOWER: u16 = 5;
const MASTER: u16 = 10;
const QUEUE: u16 = 13;
const LINKINFO: u16 = 18;
const TX_QUEUES: u16 = 31;
const LOWER_NETNS: u16 = 37;
const GSO_SEGS: u16 = 40;
const GSO_SIZE: u16 = 41;
const GSO_IPV4_SIZE: u16 = 63;
const INFO_KIND: u16 = 1;
/// `ARPHRD_ETHER` of `linux/if_arp.h`.
const ETHERNET: u16 = 1;

/// An interface. It is the same as long as it has its number, which the kernel does not give again by itself in a network namespace:
/// one that is renamed is still itself, and another one of its name is not.
#[derive(Clone, Debug, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The name that it had when it was found.
    pub name: String,
    /// Its number.
    pub ifindex: u32,
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        self.ifindex == other.ifindex
    }
}

impl PartialOrd for Link {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Link {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ifindex.cmp(&other.ifindex)
    }
}

impl Hash for Link {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ifindex.hash(state);
    }
}

/// What of an interface disciplines depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    name: String,
    ifindex: u32,
    mtu: u32,
    tx_queues: u32,
    speed: Option<u64>,
}

/// Where packets wait that leave by an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the interface itself.
    Own,
    /// At what is below it, which has the queue: a VLAN, a bond, a tunnel.
    Below {
        /// Its kind, as `ip -d link` prints it.
        kind: String,
        /// Its ports, or the interface that it is on top of.
        below: Vec<Link>,
    },
    /// What passes a bridge, which is all that VMs send, does not pass its own interface. Its ports.
    Bridge(Vec<Link>),
    /// The same of a switch of Open vSwitch.
    OpenVswitch,
}

/// How long the segments are that TCP of this host gives to an interface. Bytes; those that a VM gives are as
/// long as its own system makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// `gso_max_size`.
    pub gso_max_size: u32,
    /// `gso_max_segs`.
    pub gso_max_segs: u32,
    /// `gso_ipv4_max_size`, since Linux 6.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gso_ipv4_max_size: Option<u32>,
}

impl Segments {
    /// These, but none longer than `others`.
    pub fn at_most(self, others: &Segments) -> Segments {
        let ipv4 = self.gso_ipv4_max_size.zip(others.gso_ipv4_max_size);
        Segments {
            gso_max_size: self.gso_max_size.min(others.gso_max_size),
            gso_max_segs: self.gso_max_segs.min(others.gso_max_segs),
            gso_ipv4_max_size: ipv4.map(|(own, other)| own.min(other)),
        }
    }
}

/// As `ip -d link` prints them.
impl std::fmt::Display for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "gso_max_size {} gso_max_segs {}", self.gso_max_size, self.gso_max_segs)?;
        self.gso_ipv4_max_size.map_or(Ok(()), |size| write!(f, " gso_ipv4_max_size {size}"))
    }
}

/// What else is to be known of an interface.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) link: Link,
    pub(super) ethernet: bool,
    pub(super) mtu: u32,
    pub(super) queue: u32,
    pub(super) tx_queues: u32,
    /// The number of the bridge or bond that it is a port of.
    pub(super) master: Option<u32>,
    /// Its kind, if it is of one that `ip link add` makes.
    kind: Option<String>,
    /// The number of the interface that it is on top of, if that is in the same network namespace.
    lower: Option<u32>,
    pub(super) segments: Option<Segments>,
}

impl std::fmt::Display for Link {
    /// The name is data: whoever made the interface has chosen it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", Name::new(&self.name))
    }
}

impl Link {
    /// The interface of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, Error> {
        let found = all()?.into_iter().find(|facts| facts.link.name == name);
        let what = format!("interface {}", Name::new(name));
        found.map(|facts| facts.link).ok_or_else(|| {
            Error::network(what, "there is none in this network namespace (`ip link` lists them)")
        })
    }

    /// All interfaces.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn all() -> Result<Vec<Self>, Error> {
        Ok(all()?.into_iter().map(|facts| facts.link).collect())
    }

    /// All interfaces, each with the bridge or bond that it is a port of, if it is one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn ports() -> Result<Vec<(Self, Option<Self>)>, Error> {
        let all = all()?;
        let link = |ifindex| all.iter().find(|facts| facts.link.ifindex == ifindex);
        let master =
            |facts: &Facts| facts.master.and_then(link).map(|facts: &Facts| facts.link.clone());
        Ok(all.iter().map(|facts| (facts.link.clone(), master(facts))).collect())
    }

    /// Where packets wait that leave by it. Its kind says so: those that are on top of others have no queue (`IFF_NO_QUEUE`).
    ///
    /// # Errors
    /// If it is gone, or what the kernel says.
    pub fn place(&self) -> Result<Place, Error> {
        let own = self.present()?;
        let Some(kind) = own.kind else { return Ok(Place::Own) };
        let below = || -> Result<Vec<Self>, Error> {
            let is_below = |facts: &Facts| {
                facts.master == Some(self.ifindex) || own.lower == Some(facts.link.ifindex)
            };
            let all = all()?.into_iter().filter(|facts| facts.link != *self);
            Ok(all.filter(is_below).map(|facts| facts.link).collect())
        };
        Ok(match &*kind {
            "bridge" => Place::Bridge(below()?),
            "openvswitch" => Place::OpenVswitch,
            "bond" | "team" | "vlan" | "macvlan" | "macvtap" | "ipvlan" | "vxlan" | "geneve"
            | "gretap" | "ip6gretap" | "erspan" | "macsec" | "hsr" | "bareudp" => {
                Place::Below { below: below()?, kind }
            }
            _ => Place::Own,
        })
    }

    /// All interfaces with what disciplines depend on: if it is as before, so is what suits.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sizes() -> Result<Vec<Size>, Error> {
        let sys = Roots::default().sys;
        let size = |Facts { link, mtu, tx_queues, .. }| {
            let speed = super::line_speed(&sys, &link.name, link.ifindex);
            let Link { name, ifindex } = link;
            Size { name, ifindex, mtu, tx_queues, speed }
        };
        Ok(all()?.into_iter().map(size).collect())
    }

    /// `None` if it is gone.
    pub(super) fn facts(&self) -> Result<Option<Facts>, Error> {
        let question = question(self.ifindex, format!("cannot look at {self}"));
        let answer = Session::open()?.get(&question, IFINFOMSG)?;
        Ok(answer.as_ref().and_then(facts))
    }

    /// Its facts; that it is gone is an error.
    pub(super) fn present(&self) -> Result<Facts, Error> {
        let gone = || Error::network(format!("interface {self}"), "it is gone");
        self.facts()?.ok_or_else(gone)
    }

    /// How long its segments are; `None` if it is gone, or the kernel does not tell.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn segments(&self) -> Result<Option<Segments>, Error> {
        Ok(self.facts()?.and_then(|facts| facts.segments))
    }

    /// Sets that.
    ///
    /// # Errors
    /// If it is gone, or the kernel refuses.
    pub fn set_segments(&self, segments: &Segments) -> Result<(), Error> {
        self.present()?;
        let set = |kind: u16, value: u32| Message {
            kind: libc::RTM_NEWLINK,
            flags: 0,
            fixed: ifinfomsg(self.ifindex),
            attributes: vec![(kind, value.to_ne_bytes().to_vec())],
            what: format!("cannot limit segments of {self} to {value}"),
        };
        // A short size sets that of IPv4 as well, so IPv4 comes last (`netif_set_gso_max_size`).
        let mut orders =
            vec![set(GSO_SIZE, segments.gso_max_size), set(GSO_SEGS, segments.gso_max_segs)];
        orders.extend(segments.gso_ipv4_max_size.map(|size| set(GSO_IPV4_SIZE, size)));
        Ok(Session::open()?.execute(&orders)?)
    }
}

/// All interfaces and their facts.
pub(super) fn all() -> Result<Vec<Facts>, Error> {
    let question = question(0, "cannot list interfaces".to_string());
    let answers = Session::open()?.dump(&question, IFINFOMSG)?;
    Ok(answers.iter().filter_map(facts).collect())
}

/// About the interface of this number, or about all.
fn question(ifindex: u32, what: String) -> Message {
    let (kind, fixed) = (libc::RTM_GETLINK, ifinfomsg(ifindex));
    Message { kind, flags: 0, fixed, attributes: Vec::new(), what }
}

pub(super) fn facts((fixed, attributes): &Answer) -> Option<Facts> {
    let number = |kind| find(attributes, kind).and_then(|bytes| u32_at(bytes, 0));
    let segments = number(GSO_SIZE).zip(number(GSO_SEGS)).map(|(size, segs)| Segments {
        gso_max_size: size,
        gso_max_segs: segs,
        gso_ipv4_max_size: number(GSO_IPV4_SIZE),
    });
    Some(Facts {
        link: Link { name: text(find(attributes, NAME)?), ifindex: u32_at(fixed, 4)? },
        ethernet: fixed[2..4] == ETHERNET.to_ne_bytes(),
        mtu: number(MTU)?,
        queue: number(QUEUE).unwrap_or_default(),
        tx_queues: number(TX_QUEUES).unwrap_or(1),
        master: number(MASTER),
        kind: find(attributes, LINKINFO).and_then(kind_of),
        // A veth names its other end so, which is beside it.
        lower: number(LOWER).filter(|_| number(LOWER_NETNS).is_none()),
        segments,
    })
}

/// The kind in `IFLA_LINKINFO`.
fn kind_of(info: &[u8]) -> Option<String> {
    find(&super::netlink::attributes(info), INFO_KIND).map(text)
}

/// The order to make one of a kind, like another one.
pub(super) fn make(kind: &str, called: &str, like: &Facts) -> Message {
    let number = |value: u32| value.to_ne_bytes().to_vec();
    Message {
        kind: libc::RTM_NEWLINK,
        flags: (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16,
        fixed: ifinfomsg(0),
        attributes: vec![
            (NAME, name(called)),
            (MTU, number(like.mtu)),
            (QUEUE, number(like.queue)),
            (TX_QUEUES, number(like.tx_queues)),
            (LINKINFO, nest(&[(INFO_KIND, kind.as_bytes().to_vec())])),
        ],
        what: format!("cannot make an interface of the kind {kind} to try things out"),
    }
}

/// `struct ifinfomsg`, which changes no flags.
fn ifinfomsg(ifindex: u32) -> Vec<u8> {
    let mut fixed = vec![0; IFINFOMSG];
    fixed[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    fixed
}
