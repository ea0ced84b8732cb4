//! Disciplines, hooks and the tagger, on the real kernel, in network namespaces. Needs root, iproute2 and nsenter;
//! without root the tests say so and pass, unless `CI` is set.

mod guest;
mod kill;
mod many;
#[path = "../path/net.rs"]
#[allow(dead_code, reason = "the tests of the way of packets need all of it")]
mod net;
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

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: some measure time.
static KERNEL: Mutex<()> = Mutex::new(());

/// The kernel, if this user may load programs and make namespaces.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    if nix::unistd::geteuid().is_root() {
        return Some(KERNEL.lock().unwrap_or_else(PoisonError::into_inner));
    }
    assert!(std::env::var_os("CI").is_none(), "not root, but in CI nothing may be skipped");
    eprintln!("skipped: not root");
    None
}
