//! Disciplines, hooks and the tagger, on the real kernel, in network namespaces. Needs root, iproute2 and nsenter;
//! without root the tests say so and pass, unless `CI` is set.

mod away;
mod guest;
mod kill;
mod many;
mod marks;
#[path = "../common/needs.rs"]
#[allow(dead_code, reason = "another test wants more of it")]
mod needs;
#[path = "../path/net.rs"]
#[allow(dead_code, reason = "the tests of the way of packets need all of it")]
mod net;
mod owners;
mod packets;
mod policy;
mod program;
mod queues;
mod restore;
#[path = "../common/steps.rs"]
mod steps;
mod taps;
mod traffic;
mod uplink;
mod vlans;

use std::sync::MutexGuard;

/// The kernel, if this user may load programs and make namespaces. One test at a time has it, as some measure time.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    needs::root()
}
