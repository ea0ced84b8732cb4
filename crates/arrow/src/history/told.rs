//! What there is to say to people.

use std::sync::{Arc, Mutex, PoisonError};

/// Lines that one thread says and another one takes.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub(super) fn say(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    /// All since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
