//! A file that appears whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes beside the target and takes its place only when complete.
///
/// Dropped without [`ReplaceFile::commit`], it leaves the target as it was and nothing behind.
/// (A killed process leaves the temporary file, named `.NAME.PID.part`.)
#[derive(Debug)]
pub struct ReplaceFile {
    file: io::BufWriter<File>,
    part: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl ReplaceFile {
    /// Begins to write what is to become `target`.
    ///
    /// # Errors
    /// If `target` has no file name, or the temporary file beside it cannot be made.
    pub fn new(target: &Path) -> io::Result<Self> {
        let Some(name) = target.file_name() else {
            let text = format!("{} does not name a file", target.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let mut part = OsString::from(".");
        part.push(name);
        part.push(format!(".{}.part", std::process::id()));
        let part = target.with_file_name(part);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&part)?;
        let (file, target) = (io::BufWriter::new(file), target.to_owned());
        Ok(ReplaceFile { file, part, target, committed: false })
    }

    /// Puts the complete file in its place.
    ///
    /// # Errors
    /// If the data cannot be written out or the file not be renamed.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.part, &self.target)?;
        self.committed = true;
        Ok(())
    }
}

impl Write for ReplaceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for ReplaceFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing to be done if even that fails.
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_or_not_at_all() {
        let dir = std::env::temp_dir().join(format!("lowtail-replace-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let target = dir.join("a");
        let mut dropped = ReplaceFile::new(&target).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        let mut whole = ReplaceFile::new(&target).unwrap();
        whole.write_all(b"whole").unwrap();
        assert!(!target.exists());
        whole.commit().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        let mut again = ReplaceFile::new(&target).unwrap();
        again.write_all(b"two").unwrap();
        again.commit().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "two");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(ReplaceFile::new(&dir.join("missing/r.html")).is_err());
        fs::remove_dir_all(&dir).unwrap();
        assert!(ReplaceFile::new(Path::new("/")).is_err());
    }
}
