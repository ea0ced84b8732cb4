//! The name of a softirq.

/// A softirq: a device to poll or a tasklet; an index into the program's own tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoftId(pub u16);
