//! vCPU schedulers: one trait, one file each.
//!
//! A scheduler is told of wake-ups, blocks and timers, may ask that a pCPU enter its
//! scheduler ("tickle"), and there decides who runs next and until when. It sees and
//! changes the host only through its [`SchedContext`]. What a hypervisor does around its
//! scheduler (run states, delivering the tickle, the slice timer, switching context)
//! belongs to the [`Host`](crate::host::Host).

mod context;
pub mod credit;
pub mod credit2;
pub mod fair;
pub mod null;
mod parameters;
mod ratelimit;
mod scheduler;
pub mod small_first;

pub use crate::event::SchedTimer;
pub use crate::host_state::HostState;
pub(crate) use context::Slice;
pub use context::{Pass, SchedContext};
pub use scheduler::{Decision, Scheduler};
