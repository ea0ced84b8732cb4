//! Where in time a recording is begun with.

/// The time of a recording, which may begin at another moment than it did: what comes before that is appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    pub(crate) begin_ns: u64,
    pub(crate) span_ns: u64,
    /// How long after its beginning it is begun with.
    pub(crate) phase_ns: u64,
    /// How long after the beginning of the simulation it begins, so that the simulator's ticks come when the host's did.
    pub(crate) lead_ns: u64,
}

impl Timeline {
    /// When what happened at `at_ns` happens.
    pub(crate) fn at(&self, at_ns: u64) -> u64 {
        let since = at_ns.saturating_sub(self.begin_ns);
        let appended = if since >= self.phase_ns { 0 } else { self.span_ns };
        self.lead_ns + (since + appended).saturating_sub(self.phase_ns)
    }

    /// Whether it is appended.
    pub(crate) fn is_appended(&self, at_ns: u64) -> bool {
        at_ns.saturating_sub(self.begin_ns) < self.phase_ns
    }
}
