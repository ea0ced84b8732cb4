//! How a trace is to be read.

use std::sync::Arc;

use crate::linux::Layout;

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ticks per second of the time stamp counter. `None`: measured in the trace, or with too
    /// little in it [`CPU_HZ_ASSUMED`](crate::CPU_HZ_ASSUMED); the result says which.
    pub cpu_hz: Option<u64>,
    /// What a wake-up that met a switch is counted as.
    pub races: Races,
    /// What stands behind the data in a file of perf's, see [`Layout::look_ahead`].
    pub perf_layout: Option<Arc<Layout>>,
}

/// What to call a wait of a vCPU that blocked itself and was woken while it was being switched
/// out.
///
/// Its run state went from *running* to *runnable*, which looks like a preemption, but no other vCPU
/// took the pCPU from it. In Xen 4.20 this is what a wake-up within some ten microseconds of
/// blocking looks like, and under a closed loop of requests it is the common case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Races {
    /// A wake-up, which it is. Needs the verbose scheduling records (`TRC_SCHED_BLOCK`).
    #[default]
    Wakes,
    /// A preemption, as tools have it that go by the run state alone.
    Preemptions,
}
