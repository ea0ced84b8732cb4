//! What a policy cannot have on this host, for `status`.

use std::fs;
use std::io;
use std::path::Path;

use crate::journal;
use crate::want::Note;

const FILE: &str = "host.notes";

/// Keeps in `dir` what the policy that is in force cannot have, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn save_notes(dir: &Path, notes: &[Note]) -> io::Result<()> {
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    journal::save(dir, FILE, &serde_json::to_vec(&notes)?)
}

/// What was kept there, in words; nothing if nothing was.
///
/// # Errors
/// If it cannot be read.
pub fn load_notes(dir: &Path) -> io::Result<Vec<String>> {
    match fs::read(dir.join(FILE)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Forgets it.
///
/// # Errors
/// If it cannot be removed.
pub fn forget_notes(dir: &Path) -> io::Result<()> {
    journal::forget(dir, FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::Name;

    #[test]
    fn what_is_kept_is_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(load_notes(dir.path()).expect("none"), [""; 0]);
        let note = |vm: Option<&str>| Note {
            vm: vm.map(Name::new),
            what: "no slices".to_string(),
            fatal: false,
        };
        save_notes(dir.path(), &[note(None), note(Some("a\x1b"))]).expect("kept");
        assert_eq!(load_notes(dir.path()).expect("kept"), ["no slices", "a\\u{1b}: no slices"]);
        forget_notes(dir.path()).expect("removed");
        forget_notes(dir.path()).expect("nothing to remove");
        assert_eq!(load_notes(dir.path()).expect("none"), [""; 0]);
    }
}
