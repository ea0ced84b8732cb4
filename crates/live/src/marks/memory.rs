//! What was found, for who asks again soon: a ruleset of Kubernetes is large.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Survey, look};

/// For so long it is not looked at again.
const FRESH: Duration = Duration::from_secs(30);

/// By network namespace.
static SEEN: Mutex<BTreeMap<u64, (Instant, Survey)>> = Mutex::new(BTreeMap::new());

/// Who uses which bits in the network namespace of this thread, as of the last half minute.
pub fn survey() -> Survey {
    let Ok(namespace) = fs::metadata("/proc/thread-self/ns/net") else { return look() };
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((when, survey)) = seen().get(&namespace.ino())
        && when.elapsed() < FRESH
    {
        return survey.clone();
    }
    let survey = look();
    let mut seen = seen();
    seen.retain(|_, (when, _)| when.elapsed() < FRESH);
    seen.insert(namespace.ino(), (Instant::now(), survey.clone()));
    survey
}
