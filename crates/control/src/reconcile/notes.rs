//! What a policy does not get on this host, for `status`: what cannot be had, and what places were not given.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kept::KeptFile;
use crate::desired::Note;
use crate::manage::Refused;

const FILE: KeptFile = KeptFile("host.notes");

/// What the policy that is in force does not get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// What cannot be had, in words.
    pub notes: Vec<String>,
    /// What places were not given.
    pub refused: Vec<Refused>,
}

/// What is in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    Notes(Notes),
    /// As an earlier lowtail has written it.
    Words(Vec<String>),
}

impl Notes {
    /// These.
    pub fn new(notes: &[Note], refused: &[Refused]) -> Self {
        let notes = notes.iter().map(ToString::to_string).collect();
        Notes { notes, refused: refused.to_vec() }
    }

    /// Keeps them in `dir`, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, dir: &Path) -> io::Result<()> {
        FILE.save(dir, self)
    }

    /// What was kept there; nothing if nothing was.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(dir: &Path) -> io::Result<Self> {
        Ok(match FILE.load(dir)? {
            None => Self::default(),
            Some(Kept::Notes(notes)) => notes,
            Some(Kept::Words(notes)) => Notes { notes, refused: Vec::new() },
        })
    }

    /// Forgets it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(dir: &Path) -> io::Result<()> {
        FILE.forget(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manage::{Knob, Sched, Thread};
    use lowtail_kernel::Name;

    #[test]
    fn what_is_kept_is_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Notes::load(dir.path()).expect("none"), Notes::default());
        let note = |vm: Option<&str>| Note {
            vm: vm.map(Name::new),
            what: "no slices".to_string(),
            fatal: false,
        };
        let tid = nix::unistd::gettid().as_raw() as u32;
        let thread = Thread::of(tid).expect("a /proc").expect("it lives");
        let knob = Knob::Sched(Sched { thread });
        let refused = Refused { knob, wanted: "policy=ext".into(), why: "real-time".into() };
        let notes = Notes::new(&[note(None), note(Some("a\x1b"))], &[refused]);
        assert_eq!(notes.notes, ["no slices", "a\\u{1b}: no slices"]);
        notes.save(dir.path()).expect("kept");
        assert_eq!(Notes::load(dir.path()).expect("kept"), notes);
        std::fs::write(dir.path().join(FILE.0), r#"["as it was"]"#).expect("a file");
        let earlier = Notes::load(dir.path()).expect("an earlier form");
        assert_eq!((earlier.notes, earlier.refused.len()), (vec!["as it was".into()], 0));
        Notes::forget(dir.path()).expect("removed");
        Notes::forget(dir.path()).expect("nothing to remove");
        assert_eq!(Notes::load(dir.path()).expect("none"), Notes::default());
    }
}
