//! A part of a domain's vCPUs that has a workload of its own, see [`Mix`](super::mix::Mix).

/// Bits of a token that a part has for itself.
pub(super) const TOKEN_BITS: u32 = 24;

/// Which of a domain's vCPUs a workload has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MixPart {
    /// The first of them.
    pub(crate) first: usize,
    /// How many; [`usize::MAX`] is all there are.
    pub(crate) count: usize,
    /// Its number among the parts.
    pub(crate) number: u32,
}

impl MixPart {
    /// A domain with one workload.
    pub(crate) const WHOLE: MixPart = MixPart { first: 0, count: usize::MAX, number: 0 };

    /// What the domain calls the part's `token`.
    pub(crate) fn token(self, token: u32) -> u32 {
        debug_assert!(token >> TOKEN_BITS == 0 || self.number == 0, "a token of many bits");
        token | self.number << TOKEN_BITS
    }
}
