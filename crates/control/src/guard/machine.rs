//! A VM as the guard knows it.

use crate::policy::Goal;
use lowtail_kernel::Name;

/// A VM: its process and when that began, in clock ticks.
pub type Id = (u32, u64);

/// A VM as the guard knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Which.
    pub id: Id,
    /// What people call it.
    pub name: Name,
    /// What the policy says that it shall keep.
    pub goal: Option<Goal>,
    /// Whether the default goals are its: not of one that the policy gives less on purpose, or whose owner's word does not count.
    pub by_default: bool,
    /// Whether its name counts.
    pub trusted: bool,
}
