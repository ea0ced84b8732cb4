//! A host of Xen's, from its dom0: what Xen's schedulers do, by `xentrace`.

mod observer;
mod record;
mod window;

pub use observer::{XenObserver, XenOptions};
pub use record::{XenSummary, record};
