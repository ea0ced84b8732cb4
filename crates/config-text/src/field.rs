//! Readers of fields whose type knows nothing of text, for `#[serde(deserialize_with = "…")]`.

use lowtail_engine::{Distribution, Duration};
use serde::{Deserialize, Deserializer};

use crate::distribution::{DistributionText, MaybeDistributionText};
use crate::duration::DurationText;

/// A duration of at most 1000 s, as [`DurationText`].
///
/// # Errors
/// If it is none.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    DurationText::<1000>::deserialize(deserializer).map(|text| text.0)
}

/// The same, of a key that may be absent: with `#[serde(default)]`.
///
/// # Errors
/// If it is none.
pub fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

/// A duration that may vary, as [`DistributionText`].
///
/// # Errors
/// If it is none.
pub fn distribution<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Distribution, D::Error> {
    DistributionText::deserialize(deserializer).map(|text| text.0)
}

/// A duration that may vary, or `"never"`, as [`MaybeDistributionText`].
///
/// # Errors
/// If it is neither.
pub fn maybe_distribution<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Distribution>, D::Error> {
    MaybeDistributionText::deserialize(deserializer).map(|text| text.0)
}
