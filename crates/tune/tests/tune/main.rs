//! The search on a problem whose front is known, on recordings of simulated hosts, and on a network.

mod analytic;
mod hosts;
mod network;
mod recorded;
mod speed;
mod xen;
#[path = "../../../predict/tests/common/xentrace.rs"]
mod xentrace;
