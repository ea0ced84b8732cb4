//! What kind of host this is: KVM's, or Xen's control domain.

use lowtail_kernel::Roots;
use lowtail_xen::Presence;

/// Whether this is the control domain of a Xen host.
pub(super) fn is_dom0() -> bool {
    Presence::of(&Roots::default()) == Presence::ControlDomain
}
