//! Guests: what runs inside the domains.
//!
//! A guest is a small state machine. The host asks it for its next [`Step`] when one
//! of its vCPUs has a pCPU and nothing to do, and tells it of its own timers; everything
//! outside the host that belongs to a workload (a client on another host, say) is
//! played by the same file.

pub mod boost_saver;
pub mod bucket_surfer;
mod check;
pub mod client;
mod context;
pub mod cpu_loop;
pub mod driver;
pub mod duty_hog;
pub mod edge_burner;
pub mod kernel;
pub mod mix;
mod model;
pub mod net;
pub(crate) mod part;
pub mod replay;
pub mod request_server;
pub mod splitter;
pub mod tick_dodger;
pub mod timer_sleeper;
pub mod vhost;
pub mod wake_storm;
mod windows;
pub mod yielder;

pub use context::GuestContext;
pub use lowtail_engine::Distribution;
pub use model::{Guest, Outcome, Step};
