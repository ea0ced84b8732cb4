//! Disciplines, hooks and the tagger, on the real kernel, in network namespaces. Needs root, iproute2 and nsenter;
//! without root the tests say so and pass, unless `CI` is set.

mod away;
mod guest;
mod hostile;
mod kill;
mod kinds;
mod many;
mod marks;
mod moves;
mod owners;
mod packets;
mod policy;
mod program;
mod queues;
mod restore;
mod taps;
mod traffic;
mod uplink;
mod vlans;
mod whole;

#[path = "../common/killed.rs"]
mod killed;

use lowtail_testkit::{needs, net};
use std::sync::MutexGuard;

/// The kernel, if this user may load programs and make namespaces. One test at a time has it, as some measure time.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    needs::root()
}
