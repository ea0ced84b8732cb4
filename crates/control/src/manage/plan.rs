//! What would change, and what would not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Entry, Error, Ledger, Place, Setting, Wanted};
use lowtail_kernel::Name;

/// Why something is restored that an earlier policy has changed.
const UNWANTED: &str = "no longer wanted: as it was before";

/// One value that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where.
    pub place: Place,
    /// What is there.
    pub now: String,
    /// What would be there.
    pub to: String,
    /// In words to people.
    pub why: String,
    /// Whether it is what was there before the first change.
    pub restores: bool,
}

/// One value that we have set and somebody else has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Foreign {
    /// Where.
    pub place: Place,
    /// What was there before us.
    pub was: String,
    /// What we have put there.
    pub ours: String,
    /// What is there.
    pub now: String,
}

/// A value that a place is not given. All others are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refused {
    /// Where.
    pub place: Place,
    /// What was wanted.
    pub wanted: String,
    /// Why not, in words.
    pub why: String,
}

/// A place that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// Where.
    pub place: Place,
    /// What the kernel says.
    pub why: String,
}

/// What would be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What would change, in the order of the settings; what is no longer wanted comes first.
    pub changes: Vec<Change>,
    /// What is as it shall be already.
    pub right: Vec<Setting>,
    /// What somebody else has changed; it is left alone.
    pub foreign: Vec<Foreign>,
    /// What cannot be read, and is left alone.
    pub unread: Vec<Unread>,
    /// What a place cannot have, or two values for one place. These places keep what they have.
    pub refused: Vec<Refused>,
    /// Settings and entries of the ledger whose place is gone.
    pub gone: usize,
    /// Entries of the ledger that are of no use any more: gone, or left to whom has changed them.
    #[serde(skip)]
    pub(super) done_with: Vec<Place>,
    /// Places that have what is wanted, though the ledger does not say so yet: a kill came between, or somebody else
    /// has put it there.
    #[serde(skip)]
    pub(super) settled: Vec<(Place, String)>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.done_with.is_empty() && self.settled.is_empty()
    }
}

/// Reads what is there, and says what would change so that these settings are in force and no others. Changes nothing.
/// `dir` is where the [ledger](Ledger) is. With `force` what somebody else has changed would be changed, too.
///
/// # Errors
/// If the ledger cannot be read. A setting that its place cannot have is none: it is in [`Plan::refused`].
pub fn plan(dir: &Path, settings: &[Setting], force: bool) -> Result<Plan, Error> {
    plan_wanted(dir, &settings.to_vec().into(), force)
}

/// The same, where not all is known.
///
/// # Errors
/// As [`plan()`].
pub fn plan_wanted(dir: &Path, wanted: &Wanted, force: bool) -> Result<Plan, Error> {
    Ok(with(&Ledger::load(dir)?, wanted, force))
}

pub(super) fn with(ledger: &Ledger, all: &Wanted, force: bool) -> Plan {
    let settings = &all.settings;
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<&Place, &Setting> = BTreeMap::new();
    let mut twice: BTreeMap<&Place, BTreeSet<&str>> = BTreeMap::new();
    let known: BTreeMap<&Place, &Entry> =
        ledger.entries.iter().map(|entry| (&entry.place, entry)).collect();
    for setting in settings {
        if let Some(other) = wanted.insert(&setting.place, setting)
            && other.to != setting.to
        {
            twice.entry(&setting.place).or_default().extend([&*other.to, &*setting.to]);
        }
    }
    let unwanted = |entry: &&Entry| !wanted.contains_key(&entry.place);
    for entry in ledger.entries.iter().rev().filter(unwanted) {
        if !all.is_unknown(&entry.place) {
            plan.restore(entry, force);
        }
    }
    for setting in settings {
        // The last one of those that are the same.
        if wanted.remove(&setting.place).is_none() {
            continue;
        }
        match twice.get(&setting.place) {
            Some(values) => plan.refuse_twice(&setting.place, values),
            None => plan.set(setting, known.get(&setting.place).copied(), force),
        }
    }
    plan
}

impl Plan {
    /// Leaves out changes of which it is said that they are not to be tried.
    pub(crate) fn leave_out(&mut self, not: impl Fn(&Place, &str) -> bool) {
        self.changes.retain(|change| !not(&change.place, &change.to));
    }

    /// What an earlier policy has changed and this one does not.
    fn restore(&mut self, entry: &Entry, force: bool) {
        let place = &entry.place;
        let Some(now) = self.look(place) else {
            // What cannot be read is tried again another time.
            if !self.unread.iter().any(|unread| unread.place == *place) {
                self.done_with.push(place.clone());
            }
            return;
        };
        let ours = entry.gives_way(&now);
        if now == entry.was || !ours && place.holds(&entry.was, &now) {
            self.done_with.push(place.clone());
        } else if ours || force {
            let (to, why) = (entry.was.clone(), UNWANTED.to_string());
            self.changes.push(Change { place: place.clone(), now, to, why, restores: true });
        } else {
            self.foreign.push(entry.foreign(now));
            self.done_with.push(place.clone());
        }
    }

    /// Nobody knows which one is right: the place keeps what it has.
    fn refuse_twice(&mut self, place: &Place, values: &BTreeSet<&str>) {
        let shown: Vec<String> =
            values.iter().map(|value| format!("`{}`", Name::new(*value))).collect();
        self.refused.push(Refused {
            place: place.clone(),
            wanted: values.iter().copied().collect::<Vec<_>>().join(" or "),
            why: format!("it is to be {} at the same time", shown.join(" and ")),
        });
    }

    fn set(&mut self, setting: &Setting, entry: Option<&Entry>, force: bool) {
        let place = &setting.place;
        let Some(now) = self.look(place) else {
            let unread = self.unread.iter().any(|unread| unread.place == *place);
            if entry.is_some() && !unread {
                self.done_with.push(place.clone());
            }
            return;
        };
        let was = entry.map_or(now.as_str(), |entry| entry.was.as_str());
        let to = match place.full(&setting.to, was) {
            Ok(to) => to,
            Err(why) => {
                let (place, wanted) = (place.clone(), setting.to.clone());
                self.refused.push(Refused { place, wanted, why });
                return;
            }
        };
        // What lacks CPUs that are off is right if it is what we have put there; else it is another value.
        let set_by_us = entry.is_some_and(|entry| entry.ours.last() == Some(&to));
        if now == to || set_by_us && place.holds(&to, &now) {
            if entry.is_some_and(|entry| !entry.done || entry.ours != [to.as_str()]) {
                self.settled.push((place.clone(), to));
            }
            self.right.push(setting.clone());
            return;
        }
        match entry {
            // Where not all steps were done, what was there before may be there still.
            Some(entry)
                if !force
                    && !entry.is_ours(&now)
                    && (entry.done || !place.holds(&entry.was, &now)) =>
            {
                self.foreign.push(entry.foreign(now));
            }
            _ => {
                let (restores, why) = (to == was && entry.is_some(), setting.why.clone());
                self.changes.push(Change { place: place.clone(), now, to, why, restores });
            }
        }
    }

    /// What is there; if nothing is, or it cannot be read, that is noted.
    fn look(&mut self, place: &Place) -> Option<String> {
        match place.read() {
            Ok(Some(now)) => return Some(now),
            Ok(None) => self.gone += 1,
            Err(error) => {
                self.unread.push(Unread { place: place.clone(), why: error.to_string() });
            }
        }
        None
    }
}

impl Entry {
    pub(super) fn foreign(&self, now: String) -> Foreign {
        let ours = self.ours.last().cloned().unwrap_or_default();
        Foreign { place: self.place.clone(), was: self.was.clone(), ours, now }
    }
}
