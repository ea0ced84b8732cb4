//! The tagger: `bpf/flow.bpf.c` at an uplink's egress gives each packet its band by `policy/flow.h`.
//!
//! What is attached stays when this process ends, and everything that it needs with it: whoever has the right finds it
//! again by the interface ([`Tagger::running`]). Uplinks whose taggers are told the same share one, so that a
//! VM has its bucket once. The same one is at the ingress of taps, where that is wanted, and notes there whose a
//! packet is that will be routed.

mod counts;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzz;
mod layout;
mod running;
mod tagger;
mod tagger_config;
mod tap_tagger;
mod uplink_tagger;

pub use counts::Counts;
pub use lowtail_kernel::marks::Mask;
pub use lowtail_kernel::marks::VMS_MAX;
pub use running::{Running, running};
pub use tagger::{INTERFACES_MAX, TaggedVm, Tagger};
pub use tagger_config::{KEEP, LOW_LATENCY, TaggerConfig};
pub use tap_tagger::{TapTagger, read_tap, write_tap};
pub use uplink_tagger::{read, write};
