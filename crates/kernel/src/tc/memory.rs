//! Choices that were made, so that who asks again and again does not try them out each time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use super::choice::{Choice, Wanted};
use super::link::Link;
use crate::Error;

/// What a choice depends on, but for what kinds of disciplines the kernel has: network namespace, interface, its MTU,
/// its queues, and what was wanted.
type Key = (u64, Link, (u32, u32, u32), Wanted);

static MADE: Mutex<BTreeMap<Key, Choice>> = Mutex::new(BTreeMap::new());

/// As [`Choice::find`], which is remembered as long as the process lives: a module for a better form that is loaded
/// later is not seen. What has failed is tried
/// again.
///
/// # Errors
/// As there.
pub fn choose(link: &Link, wanted: &Wanted) -> Result<Choice, Error> {
    let facts = link.present()?;
    let namespace = fs::metadata("/proc/thread-self/ns/net")
        .map_err(|error| Error::network("cannot tell the network namespace", error))?;
    let sizes = (facts.mtu, facts.queue, facts.tx_queues);
    let key = (namespace.ino(), link.clone(), sizes, *wanted);
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(choice) = made().get(&key) {
        return Ok(choice.clone());
    }
    let choice = Choice::find(link, wanted)?;
    made().insert(key, choice.clone());
    Ok(choice)
}
