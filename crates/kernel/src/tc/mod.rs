//! Queueing disciplines, hooks and segments of a live host's interfaces: what is there, read exactly; what suits;
//! and back to what was there.
//!
//! [`Tree`] is the tree of disciplines of an interface, [`Choice`] what is put there instead, [`set_hooks`] and [`attach`] are for
//! programs. Everything is of the network namespace of the thread that asks.
//!
//! What is ours is known by its numbers and its name, which are here.

mod bql;
mod choice;
mod filter;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod link;
mod marked;
mod memory;
mod netlink;
mod options;
mod speed;
mod sriov;
mod tcmsg;
mod test_netns;
mod tree;
mod words;

pub use bql::is_limited;
pub use choice::{Bands, Choice, Outer, Queue, Shape, Split, Splitting, Wanted};
pub use filter::{
    Hook, Hooks, attach, detach, has_hooks, hooked, hooks, own, put_hooks, set_hooks,
};
pub use link::{Link, Place, Segments, Size};
pub use marked::{Marked, marked_filters, marked_rules};
pub use memory::choose;
pub use speed::line_speed;
pub use sriov::virtual_functions;
pub use tree::{Node, Tree};

/// `TC_H_ROOT` of `linux/pkt_sched.h`: below nothing but the interface.
pub const ROOT: u32 = u32::MAX;
/// `TC_H_CLSACT`, which is `TC_H_INGRESS`, too.
const CLSACT: u32 = 0xffff_fff1;

/// Our root discipline, 7a11:, as `tc` shows it. Numbers from 8000: on are the kernel's to give.
pub const OWN_ROOT: u32 = 0x7a11_0000;
/// Our bands below a root that limits the rate.
pub const OWN_BANDS: u32 = 0x7a12_0000;
/// The discipline of our first band; the others' follow.
pub const OWN_QUEUES: u32 = 0x7a20_0000;
/// Our bands of an interface's first queue; those of others follow, each with its queues' behind it.
pub const OWN_PER_QUEUE: u32 = 0x7b00_0000;
/// The place of our filter in the row of an interface's: before most, since what others decide ends the row.
/// Ours decides nothing.
pub const OWN_PREFERENCE: u32 = 2;
/// Our filter's number at that place.
pub const OWN_FILTER: u32 = 0x7a11;
/// Our filter's name.
pub const OWN_NAME: &str = "lowtail";
