//! Who uses which packet mark bits on this host: rules of routing, filters of tc, nftables, iptables. A mark is one
//! number of 32 bits for all of them; who takes bits that another one goes by sends packets another way, or nowhere.
//!
//! What only a process or a BPF program knows of marks is not seen here; what is known of Cilium's is added.

mod iptables;
mod kernel;
mod mask;
mod memory;
mod nft;
mod scan;
mod survey;

pub use mask::{MARK_STEPS, Mask, VMS_MAX};
pub use memory::survey;
pub use survey::{Survey, Use};
