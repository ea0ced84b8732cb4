//! A capped domain's pool of run time.

use crate::ids::Vcpu;

/// The pool of one domain.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// ns per period; 0 without a cap.
    pub(super) total: i64,
    /// ns left.
    pub(super) left: i64,
    pub(super) next_ns: i64,
    pub(super) parked: Vec<Vcpu>,
}
