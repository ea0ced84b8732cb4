//! Ranges of parameters.

use lowtail_config_text::KeyError;
use lowtail_engine::Duration;

/// Most requests or wake-ups of one run.
const COUNT_MAX: u64 = 100_000_000;

/// Refuses a number `n` of `key` beyond `least` to 100,000,000.
pub(super) fn count(key: &str, n: u64, least: u64) -> Result<(), KeyError> {
    if (least..=COUNT_MAX).contains(&n) {
        return Ok(());
    }
    Err(KeyError::new(key, format!("{n} {key}: {least} to {COUNT_MAX}")))
}

/// Refuses shorter loops, which would take the simulator hours for a second.
pub(super) fn at_least_1us(key: &str, span: Duration) -> Result<(), KeyError> {
    if span >= Duration::from_us(1) {
        return Ok(());
    }
    Err(KeyError::new(key, format!("{key} of {span} on average: at least 1us")))
}

/// Refuses a `span` shorter than `least`.
pub(super) fn at_least(key: &str, span: Duration, least: Duration) -> Result<(), KeyError> {
    if span >= least {
        return Ok(());
    }
    Err(KeyError::new(key, format!("{key} of {span}: at least {least}")))
}
