//! What would change, and what would not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Entry, Error, Knob, Ledger, Setting, Wanted};
use lowtail_kernel::Name;

/// Why something is restored that an earlier policy has changed.
const UNWANTED: &str = "no longer in the policy: restore the original";

/// One value that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Where.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// What is there.
    #[serde(rename = "current")]
    pub now: String,
    /// What would be there.
    #[serde(rename = "desired")]
    pub to: String,
    /// In words to people.
    #[serde(rename = "reason")]
    pub why: String,
    /// Whether it is what was there before the first change.
    pub restores: bool,
}

/// One value that we have set and somebody else has changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Foreign {
    /// Where.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// What was there before us.
    #[serde(rename = "original")]
    pub was: String,
    /// What we have put there.
    #[serde(rename = "applied")]
    pub ours: String,
    /// What is there.
    #[serde(rename = "current")]
    pub now: String,
}

/// A value that a knob is not given. All others are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refused {
    /// Where.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// What was wanted.
    #[serde(rename = "desired")]
    pub wanted: String,
    /// Why not, in words.
    #[serde(rename = "reason")]
    pub why: String,
}

/// A knob that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// Where.
    #[serde(rename = "setting")]
    pub knob: Knob,
    /// What the kernel says.
    #[serde(rename = "reason")]
    pub why: String,
}

/// What would be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// What would change, in the order of the settings; what is no longer wanted comes first.
    pub changes: Vec<Change>,
    /// What is as it shall be already.
    #[serde(rename = "unchanged")]
    pub right: Vec<Setting>,
    /// What somebody else has changed; it is left alone.
    pub foreign: Vec<Foreign>,
    /// What cannot be read, and is left alone.
    #[serde(rename = "unreadable")]
    pub unread: Vec<Unreadable>,
    /// What a knob cannot have, or two values for one knob. These knobs keep what they have.
    pub refused: Vec<Refused>,
    /// Settings and entries of the ledger whose knob is gone.
    pub gone: usize,
    /// Entries of the ledger that are of no use any more: gone, or as they were before us.
    #[serde(skip)]
    pub(super) to_forget: Vec<Knob>,
    /// Places that have what is wanted, though the ledger does not say so yet: a kill came between, or somebody else
    /// has put it there.
    #[serde(skip)]
    pub(super) settled: Vec<(Knob, String)>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.to_forget.is_empty() && self.settled.is_empty()
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
    let mut wanted: BTreeMap<&Knob, &Setting> = BTreeMap::new();
    let mut twice: BTreeMap<&Knob, BTreeSet<&str>> = BTreeMap::new();
    let known: BTreeMap<&Knob, &Entry> =
        ledger.entries.iter().map(|entry| (&entry.knob, entry)).collect();
    for setting in settings {
        if let Some(other) = wanted.insert(&setting.knob, setting)
            && other.to != setting.to
        {
            twice.entry(&setting.knob).or_default().extend([&*other.to, &*setting.to]);
        }
    }
    let unwanted = |entry: &&Entry| !wanted.contains_key(&entry.knob);
    for entry in ledger.entries.iter().rev().filter(unwanted) {
        if !all.is_unknown(&entry.knob) {
            plan.restore(entry, force);
        }
    }
    for setting in settings {
        // The last one of those that are the same.
        if wanted.remove(&setting.knob).is_none() {
            continue;
        }
        match twice.get(&setting.knob) {
            Some(values) => plan.refuse_twice(&setting.knob, values),
            None => plan.set(setting, known.get(&setting.knob).copied(), force),
        }
    }
    plan.keep_interfaces_whole();
    plan
}

impl Plan {
    /// Leaves out changes of which it is said that they are not to be tried.
    pub(crate) fn leave_out(&mut self, not: impl Fn(&Knob, &str) -> bool) {
        let out: Vec<Change> =
            self.changes.extract_if(.., |change| not(&change.knob, &change.to)).collect();
        self.changes.retain(|change| {
            change.restores || !out.iter().any(|out| out.knob.is_set_with(&change.knob))
        });
    }

    /// What an earlier policy has changed and this one does not.
    fn restore(&mut self, entry: &Entry, force: bool) {
        let knob = &entry.knob;
        let Some(now) = self.look(knob) else {
            // What cannot be read is tried again another time.
            if !self.unread.iter().any(|unread| unread.knob == *knob) {
                self.to_forget.push(knob.clone());
            }
            return;
        };
        let ours = entry.can_restore(&now);
        if now == entry.was || !ours && knob.holds(&entry.was, &now) {
            self.to_forget.push(knob.clone());
        } else if ours || force {
            let (to, why) = (entry.was.clone(), UNWANTED.to_string());
            self.changes.push(Change { knob: knob.clone(), now, to, why, restores: true });
        } else {
            self.foreign.push(entry.foreign(now));
        }
    }

    /// An interface of which a part cannot be set keeps all that it has.
    fn keep_interfaces_whole(&mut self) {
        let others = "somebody else has changed it".to_string();
        let refused = self.refused.iter().map(|refused| (&refused.knob, &refused.why));
        let unread = self.unread.iter().map(|unread| (&unread.knob, &unread.why));
        let foreign = self.foreign.iter().map(|foreign| (&foreign.knob, &others));
        let bad: Vec<_> = refused.chain(unread).chain(foreign).collect();
        let hindered = |change: &Change| {
            let (part, why) = bad.iter().find(|(knob, _)| knob.is_set_with(&change.knob))?;
            let (knob, wanted) = (change.knob.clone(), change.to.clone());
            let why = format!("not without {part}: {why}");
            (!change.restores).then_some(Refused { knob, wanted, why })
        };
        let refused: Vec<Refused> = self.changes.iter().filter_map(hindered).collect();
        self.changes.retain(|change| !refused.iter().any(|other| other.knob == change.knob));
        self.refused.extend(refused);
    }

    /// Nobody knows which one is right: the knob keeps what it has.
    fn refuse_twice(&mut self, knob: &Knob, values: &BTreeSet<&str>) {
        let shown: Vec<String> =
            values.iter().map(|value| format!("`{}`", Name::new(*value))).collect();
        self.refused.push(Refused {
            knob: knob.clone(),
            wanted: values.iter().copied().collect::<Vec<_>>().join(" or "),
            why: format!("it is to be {} at the same time", shown.join(" and ")),
        });
    }

    fn set(&mut self, setting: &Setting, entry: Option<&Entry>, force: bool) {
        let knob = &setting.knob;
        let Some(now) = self.look(knob) else {
            let unread = self.unread.iter().any(|unread| unread.knob == *knob);
            if entry.is_some() && !unread {
                self.to_forget.push(knob.clone());
            }
            return;
        };
        let entry = entry.filter(|entry| !entry.left || now != entry.was);
        let was = entry.map_or(now.as_str(), |entry| entry.was.as_str());
        let to = match knob.normalize(&setting.to, was) {
            Ok(to) => to,
            Err(why) => {
                let (knob, wanted) = (knob.clone(), setting.to.clone());
                self.refused.push(Refused { knob, wanted, why });
                return;
            }
        };
        // What lacks CPUs that are off is right if it is what we have put there; else it is another value.
        let set_by_us = entry.is_some_and(|entry| entry.ours.last() == Some(&to));
        if now == to || set_by_us && knob.holds(&to, &now) {
            if entry.is_some_and(|entry| !entry.done || entry.ours != [to.as_str()]) {
                self.settled.push((knob.clone(), to));
            }
            self.right.push(setting.clone());
            return;
        }
        match entry {
            // Where not all steps were done, what was there before may be there still.
            Some(entry)
                if !force
                    && !entry.is_ours(&now)
                    && (entry.done || !knob.holds(&entry.was, &now)) =>
            {
                self.foreign.push(entry.foreign(now));
            }
            _ => {
                let (restores, why) = (to == was && entry.is_some(), setting.why.clone());
                self.changes.push(Change { knob: knob.clone(), now, to, why, restores });
            }
        }
    }

    /// What is there; if nothing is, or it cannot be read, that is noted.
    fn look(&mut self, knob: &Knob) -> Option<String> {
        match knob.read() {
            Ok(Some(now)) => return Some(now),
            Ok(None) => self.gone += 1,
            Err(error) => {
                self.unread.push(Unreadable { knob: knob.clone(), why: error.to_string() });
            }
        }
        None
    }
}

impl Entry {
    pub(super) fn foreign(&self, now: String) -> Foreign {
        let ours = self.ours.last().cloned().unwrap_or_default();
        Foreign { knob: self.knob.clone(), was: self.was.clone(), ours, now }
    }
}
