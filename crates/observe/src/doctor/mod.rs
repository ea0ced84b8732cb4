//! What this host offers to lowtail, what is missing, what follows from that, and what to do.
//!
//! Nothing on the host is changed. Two BPF programs that do nothing are loaded, to see whether they may be, and are
//! gone with the call.

mod check;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod host;
mod kernel;
mod machines;
mod marks;
mod network;
mod processors;
mod qdisc;
mod symbols;
mod xen;

use lowtail_xen::Presence;

pub use check::{Check, Command, Diagnosis, State};
pub use host::{Host, Program};
pub use qdisc::Qdisc;

/// Looks at everything. In a dom0 of Xen's, VMs are domains: what is asked of a host with KVM is left out there.
pub fn examine(host: &Host) -> Diagnosis {
    let presence = Presence::of(&host.roots);
    if presence == Presence::ControlDomain {
        let mut checks = vec![kernel::release(host)];
        checks.extend(xen::checks(host));
        checks.extend(network::uplink_checks(host));
        return Diagnosis { checks };
    }
    let mut checks = kernel::checks(host);
    checks.extend(processors::checks(host));
    checks.extend(network::checks(host));
    checks.push(marks::check(host));
    checks.extend(machines::checks(host));
    if presence == Presence::Guest {
        checks.push(xen::guest());
    }
    Diagnosis { checks }
}
