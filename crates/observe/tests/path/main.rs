//! The way of packets, on the real kernel, in network namespaces. Needs root, iproute2 and nsenter;
//! without root the tests say so and pass, unless `CI` is set.

mod cost;
mod drops;
mod hostile;
mod tap;
mod waits;

use lowtail_testkit::{needs, net, traffic, tries};
use std::ops::RangeInclusive;
use std::sync::MutexGuard;

use lowtail_observe::{Interface, Network, Path, PathOptions};
use net::Net;

/// The kernel, if this user may load programs. One test at a time has it, as they measure time.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    needs::root()
}

/// Slots of the two VMs. Neither is 0, which is what is not set.
const SLOT_A: u32 = 3;
const SLOT_B: u32 = 7;

/// An observer of both VMs.
fn observe(net: &Net) -> Path {
    let mut path = Path::start(&PathOptions::default()).expect("root may");
    path.track(&taps(net)).expect("there are slots");
    path
}

/// The interface of this name on the host.
fn interface(net: &Net, name: &str) -> Interface {
    let host = &net.host;
    Interface::at(host.path().as_ref(), host.ifindex(name)).expect("a file")
}

fn taps(net: &Net) -> Vec<(u32, Vec<Interface>)> {
    let tap = |name| vec![interface(net, name)];
    vec![(SLOT_A, tap("tap-a")), (SLOT_B, tap("tap-b"))]
}

/// What was counted of both.
fn read(path: &Path) -> (Network, Network) {
    let mut all = path.read().expect("it can be read");
    (all.remove(&SLOT_A).expect("tracked"), all.remove(&SLOT_B).expect("tracked"))
}

/// Whether it is one of these within 5 %, or within what waking a thread costs on a busy host.
fn agree(observed_us: Option<f64>, wanted_us: &RangeInclusive<f64>) -> bool {
    let observed_us = observed_us.expect("something was observed");
    let nearest_us = observed_us.clamp(*wanted_us.start(), *wanted_us.end());
    (observed_us - nearest_us).abs() <= (0.05 * nearest_us).max(300.0)
}

/// Whether no more was observed than was there, and hardly less: kernels leave out a run of a program now
/// and then.
fn nearly(observed: u64, there: u64) -> bool {
    observed <= there && there - observed <= 1 + there / 16
}
