//! What each class of packets gets.

use lowtail_policy::FLOW_BANDS;
use schemars::JsonSchema;
use serde::Deserialize;

/// Something for each band of `policy/flow.h`, first to last: brief, small, large, long, bulk.
pub type ByClass<T> = [T; FLOW_BANDS as usize];

/// The same as a file has it: for some of them. `small` is for `brief`, too, where that is absent; `large` is for `long`
/// and `bulk`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByClassFile<T> {
    /// A small pair that has just begun.
    brief: Option<T>,
    /// A small pair.
    small: Option<T>,
    /// A large pair, since a short while.
    large: Option<T>,
    /// One that has sent more.
    long: Option<T>,
    /// The rest.
    bulk: Option<T>,
}

impl<T> Default for ByClassFile<T> {
    fn default() -> Self {
        ByClassFile { brief: None, small: None, large: None, long: None, bulk: None }
    }
}

impl<T: Copy> ByClassFile<T> {
    /// What it says of each class, if it does.
    pub(super) fn by_class(&self) -> ByClass<Option<T>> {
        [
            self.brief.or(self.small),
            self.small,
            self.large,
            self.long.or(self.large),
            self.bulk.or(self.long).or(self.large),
        ]
    }
}
