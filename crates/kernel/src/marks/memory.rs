//! What was found, for who asks again soon: a ruleset of Kubernetes is large.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::scan::look;
use super::survey::Survey;

/// For so long it is not looked at again.
const FRESH: Duration = Duration::from_secs(30);

/// Of the network namespace that this process is in. Of others nothing is remembered: the number of one that has gone is
/// given to the next.
static SEEN: Mutex<Option<(Instant, Survey)>> = Mutex::new(None);

/// Who uses which bits in the network namespace of this thread; where that is the process's, as of the last half minute.
pub fn survey() -> Survey {
    let namespace = |of: &str| fs::metadata(format!("/proc/{of}/ns/net")).map(|ns| ns.ino()).ok();
    let own = namespace("self");
    if own.is_none() || own != namespace("thread-self") {
        return look();
    }
    let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((when, survey)) = &*seen()
        && when.elapsed() < FRESH
    {
        return survey.clone();
    }
    let survey = look();
    *seen() = Some((Instant::now(), survey.clone()));
    survey
}
