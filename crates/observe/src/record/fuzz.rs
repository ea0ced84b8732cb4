//! What holds of the maps of the programs that record.

use super::names::Named;
use super::programs::trigger;
use super::rings::at_ns;

/// Any bytes as what the kernel's side sends.
pub fn record_maps(bytes: &[u8]) {
    assert_eq!(Named::of(bytes).is_some(), bytes.len() >= 24);
    if let Some(trigger) = trigger(bytes) {
        assert_eq!(trigger.at_ns, at_ns(bytes));
        assert!(bytes.len() >= 24);
    }
}
