//! Fidelity: what reports of checks say of the simulator, beside what is wanted of it.

pub mod causes;
pub mod goal;
pub mod judged;
pub mod system;

pub use causes::{Cause, Causes};
pub use goal::Goal;
pub use judged::{Judged, JudgedKind};
pub use system::{System, SystemKind};
