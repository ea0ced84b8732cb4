//! What is in force.

use std::path::Path;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::{Entry, Error, Ledger, host_lock};

/// What has become of one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "value")]
pub enum Now {
    /// It is there.
    InForce,
    /// It was never done, or not to its end: a kill came before. This is there.
    Unfinished(String),
    /// Somebody else has put this there.
    Foreign(String),
    /// The knob is gone.
    Gone,
    /// What the kernel says instead of a value.
    Unreadable(String),
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the ledger says of it.
    pub entry: Entry,
    /// What is there.
    pub now: Now,
}

/// For JSON: the ledger's file has shorter names.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row { entry, now } = self;
        let mut row = serializer.serialize_struct("Row", 6)?;
        row.serialize_field("setting", &entry.knob)?;
        row.serialize_field("original", &entry.was)?;
        row.serialize_field("applied", &entry.ours)?;
        row.serialize_field("reason", &entry.why)?;
        row.serialize_field("done", &entry.done)?;
        row.serialize_field("current", now)?;
        row.end()
    }
}

/// What is in force on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The process that changes the host now, such as `lowtail host apply --watch`.
    #[serde(rename = "holder_pid")]
    pub holder: Option<u32>,
    /// What was changed, in the order in which it was.
    pub rows: Vec<Row>,
    /// Places of an earlier boot.
    pub stale: usize,
    /// Lines of the ledger that cannot be read.
    pub damaged: usize,
}

/// Reads the ledger in `dir` and what is there. Takes no hold, changes nothing.
///
/// # Errors
/// If the ledger cannot be read.
pub fn status(dir: &Path) -> Result<Status, Error> {
    let Ledger { entries, damaged, stale } = Ledger::load(dir)?;
    let rows = entries.into_iter().map(|entry| Row { now: now(&entry), entry }).collect();
    Ok(Status { holder: host_lock::holder(dir), rows, stale, damaged })
}

fn now(entry: &Entry) -> Now {
    let holds =
        |value: Option<&String>, now: &str| value.is_some_and(|value| entry.knob.holds(value, now));
    match entry.knob.read() {
        Ok(None) => Now::Gone,
        Err(error) => Now::Unreadable(error.to_string()),
        Ok(Some(now)) if holds(entry.ours.last(), &now) => Now::InForce,
        Ok(Some(now)) if entry.is_ours(&now) || !entry.done && holds(Some(&entry.was), &now) => {
            Now::Unfinished(now)
        }
        Ok(Some(now)) => Now::Foreign(now),
    }
}
