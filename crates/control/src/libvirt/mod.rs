//! Settings that libvirt owns, set through libvirt.
//!
//! libvirt writes down what it has set for a VM, shows it, and writes it again when vCPUs come or libvirtd is
//! told so. A value that is put into the control group behind its back is not in what it shows. So shares, quotas and
//! CPUs of its VMs go through it, for the running VM only (`VIR_DOMAIN_AFFECT_LIVE`): what is on its disk
//! stays, and with the VM's end all is gone.
//!
//! A [`Key`] is one value of a [`Domain`]; `Connection` reads and writes it as a text that is the same whenever
//! the value is. The calls are those of <https://libvirt.org/html/libvirt-libvirt-domain.html>. All but keys and names
//! needs the feature `libvirt`; the library itself is loaded when the first connection is made. More in
//! docs/reference/libvirt.md.

#[cfg(feature = "libvirt")]
mod connection;
mod domain;
#[cfg(feature = "libvirt")]
mod error;
mod key;
#[cfg(feature = "libvirt")]
#[allow(
    unsafe_code,
    reason = "libvirt has a C interface; there is no binding that fits, see docs/reference/libvirt.md"
)]
mod library;
#[cfg(feature = "libvirt")]
mod session;
#[cfg(feature = "libvirt")]
mod shared;
#[cfg(feature = "libvirt")]
mod uri;

#[cfg(feature = "libvirt")]
pub use connection::{Connection, Options};
pub use domain::{Domain, Running};
#[cfg(feature = "libvirt")]
pub use error::Error;
pub use key::{Key, Part, Thread};
#[cfg(feature = "libvirt")]
pub use shared::with;

/// What one should know about VMs of libvirt's where lowtail was built without the feature `libvirt`.
pub const WITHOUT: &str = "this lowtail is built without the feature `libvirt`: values of libvirt's VMs are \
    written to their control groups directly; virsh schedinfo shows them, virsh dumpxml does not, and what libvirt \
    sets later replaces them";
